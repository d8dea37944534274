//! What a source's messages are written in, as the decoder takes it: a pipeline's options through the room of `ingest`.

use std::path::Path;
use std::sync::Arc;

use lakeward_circuit::pipeline::{Compression, Encoding as Written, Language, Source, Text};
use lakeward_decode::avro::Form;
use lakeward_decode::{Debezium, Encoding, Format, Schemas, protobuf};
use lakeward_protocol::ports::Exit;

use crate::cli::format::{avro_schema, protobuf_message};
use crate::failure::Failure;
use crate::pipeline::Loaded;
use crate::registry::{Registry, RegistryConfig};

/// Of each source, in the pipeline's order. Files are read, registries are not asked yet.
///
/// # Errors
/// A file that can't be read or holds no schema, a registry's settings that make no sense: with the source's name.
pub fn all(loaded: &Loaded) -> Result<Vec<Format>, Failure> {
    loaded.pipeline.sources.iter().map(of).collect()
}

/// Of one source.
///
/// # Errors
/// As [`all`].
pub fn of(source: &Source) -> Result<Format, Failure> {
    let written = &source.written;
    let compression = written.compression.map(|compression| match compression {
        Compression::Gzip => lakeward_decode::Compression::Gzip,
        Compression::Zstd => lakeward_decode::Compression::Zstd,
    });
    let option = format!("source {}: schema", source.name.text);
    let encoding = match &written.encoding {
        Written::Json => Encoding::Json,
        Written::Raw => Encoding::Raw,
        Written::AvroContainers => Encoding::Avro(Form::Container),
        Written::AvroFile(file) => {
            Encoding::Avro(Form::ContainerOrBare(avro_schema(&option, Path::new(file.reveal()))?))
        }
        Written::ProtobufFile { file, message } => Encoding::Protobuf(protobuf::Form::Bare(protobuf_message(
            &option,
            Path::new(file.reveal()),
            message.reveal(),
        )?)),
        Written::Registered(language, at) => {
            let schemas: Arc<dyn Schemas> = registry(source, at)?;
            match language {
                Language::Json => Encoding::JsonSchema(schemas),
                Language::Avro => Encoding::Avro(Form::Framed(schemas)),
                Language::Protobuf => Encoding::Protobuf(protobuf::Form::Framed(schemas)),
            }
        }
    };
    let debezium = if written.debezium { Debezium::Rows } else { Debezium::No };
    Ok(Format { encoding, compression, debezium })
}

/// Where a source's schemas are, if they are in a registry.
///
/// # Errors
/// Settings that make no sense.
pub fn registry(source: &Source, at: &Text) -> Result<Arc<Registry>, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let registry = RegistryConfig::new("registry =", at.reveal(), variable).and_then(Registry::new);
    let told = |error| Failure::new(Exit::Config, format_args!("source {}: {error}", source.name.text));
    registry.map(Arc::new).map_err(told)
}
