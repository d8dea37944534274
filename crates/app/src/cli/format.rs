//! Options that say what messages are written in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use lakeward_decode::avro::{AvroSchema, Form};
use lakeward_decode::protobuf::{self, ProtobufMessage, ProtobufSchema};
use lakeward_decode::{Compression, Debezium, Encoding, Format, Schemas};
use lakeward_protocol::ports::Exit;

use crate::failure::Failure;
use crate::registry::{Registry, RegistryConfig};

/// What messages are written in; JSON unless one of these is given.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Message format (JSON by default)")]
pub struct FormatArgs {
    /// JSON, one object a message. A schema registry's address: in Confluent's framing, whose schema must be there.
    ///
    /// Messages are not held against their schema; they must fit the table. "" is plain JSON.
    #[arg(long, env = "JSON_REGISTRY", value_name = "URL,..", group = "encoding")]
    pub json: Option<String>,

    /// Avro. A schema registry's address: in Confluent's framing. A schema file (Avro's JSON): values of that schema, or
    /// container files. "": container files.
    ///
    /// Every value of a message's container file becomes a row; all codecs are read.
    #[arg(long, env = "AVRO_REGISTRY", value_name = "URL,..|FILE", group = "encoding", num_args = 0..=1,
          default_missing_value = "")]
    pub avro: Option<String>,

    /// Avro in single-object encoding: the schema file, or a folder of such files alone, found by fingerprint.
    #[arg(long, value_name = "PATH", group = "encoding")]
    pub soe_avro: Option<PathBuf>,

    /// Protobuf. A schema registry's address: in Confluent's framing. A .proto file, or a set of descriptors, made by
    /// protoc --descriptor_set_out=FILE --include_imports: messages of type --message.
    #[arg(long, env = "PROTOBUF_REGISTRY", value_name = "URL,..|FILE", group = "encoding")]
    pub protobuf: Option<String>,

    /// With --protobuf FILE: the messages' type, as package.Name or Name.
    #[arg(long, value_name = "NAME", requires = "protobuf")]
    pub message: Option<String>,

    /// Bytes as they are: each record into columns value, key, headers, topic, partition, offset, timestamp and
    /// timestampType, as far as the table has them.
    #[arg(long, group = "encoding")]
    pub raw: bool,

    /// With --avro FILE: what messages are. `auto` takes what begins as a container file does for one.
    #[arg(long, default_value = "auto", value_name = "FORM", requires = "avro")]
    pub avro_form: AvroForm,

    /// Messages are Debezium change events (JSON or Avro): the row that each has becomes a row of the table.
    ///
    /// Columns named __op, __deleted, __ts_ms, __source_lsn and the like are filled from the event. Deleted rows are
    /// written (with __deleted true) only if the table has a column __op or __deleted. Without this option the event
    /// is kept as it is: columns before, after, source, op and so on.
    #[arg(long)]
    pub debezium: bool,

    /// Each message is gzip (plain JSON only); any number of members.
    #[arg(long, env = "DECOMPRESS_GZIP", conflicts_with = "decompress")]
    pub decompress_gzip: bool,

    /// How each message is compressed as a whole, in any format: gzip or zstd.
    #[arg(long, value_name = "CODEC")]
    pub decompress: Option<Compression>,
}

/// What Avro messages with a schema file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AvroForm {
    /// Container files where they begin as such, else values alone.
    #[default]
    Auto,
    /// Container files, by their own schemas.
    Container,
    /// Values alone.
    Bare,
}

impl FormatArgs {
    /// The registry that one of the options names.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn registry(&self) -> Result<Option<Arc<Registry>>, Failure> {
        let options = [("--json", &self.json), ("--avro", &self.avro), ("--protobuf", &self.protobuf)];
        let named = options.into_iter().find_map(|(option, value)| {
            value.as_deref().filter(|value| RegistryConfig::is_url(value)).map(|value| (option, value))
        });
        let Some((option, urls)) = named else { return Ok(None) };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let registry = RegistryConfig::new(option, urls, variable).and_then(Registry::new);
        registry.map(|registry| Some(Arc::new(registry))).map_err(|error| Failure::new(Exit::Config, error))
    }

    /// Which option says what messages have, for people.
    #[must_use]
    pub fn place_of_schema(&self) -> String {
        match (&self.avro, &self.soe_avro, &self.protobuf) {
            (Some(file), _, _) => format!("--avro {file}"),
            (_, Some(path), _) => format!("--soe-avro {}", path.display()),
            (_, _, Some(file)) => format!("--protobuf {file}"),
            _ => "--raw".to_owned(),
        }
    }

    /// Reads what the options name; `registry` is [theirs](Self::registry).
    ///
    /// # Errors
    /// A file that can't be read or holds no schema; options that don't fit together.
    pub fn format(&self, registry: Option<&Arc<Registry>>) -> Result<Format, Failure> {
        let encoding = self.encoding(registry)?;
        let compression = if self.decompress_gzip { Some(Compression::Gzip) } else { self.decompress };
        if self.decompress_gzip && !matches!(encoding, Encoding::Json) {
            return Err(Failure::usage("--decompress_gzip is for JSON; write --decompress gzip for another format"));
        }
        if self.debezium && matches!(encoding, Encoding::Raw) {
            return Err(Failure::usage(
                "--debezium looks into messages, and --raw keeps them as they are: give one of them",
            ));
        }
        if self.debezium && matches!(encoding, Encoding::Protobuf(_)) {
            return Err(Failure::usage("--debezium is for JSON and Avro, and not for --protobuf"));
        }
        let debezium = if self.debezium { Debezium::Rows } else { Debezium::No };
        Ok(Format { encoding, compression, debezium })
    }

    fn encoding(&self, registry: Option<&Arc<Registry>>) -> Result<Encoding, Failure> {
        if let Some(registry) = registry {
            let schemas: Arc<dyn Schemas> = registry.clone();
            return Ok(match (&self.avro, &self.protobuf) {
                (Some(_), _) => Encoding::Avro(Form::Framed(schemas)),
                (None, Some(_)) if self.message.is_some() => {
                    return Err(Failure::usage(
                        "--message is for --protobuf FILE: with a registry, messages say their type",
                    ));
                }
                (None, Some(_)) => Encoding::Protobuf(protobuf::Form::Framed(schemas)),
                (None, None) => Encoding::JsonSchema(schemas),
            });
        }
        if let Some(file) = &self.protobuf {
            let Some(name) = &self.message else {
                return Err(Failure::usage(format_args!("--protobuf {file}: say the messages' type with --message")));
            };
            let message = protobuf_message("--protobuf", Path::new(file), name)?;
            return Ok(Encoding::Protobuf(protobuf::Form::Bare(message)));
        }
        if self.raw {
            return Ok(Encoding::Raw);
        }
        if let Some(path) = &self.soe_avro {
            return Ok(Encoding::Avro(Form::SingleObject(schemas(path)?)));
        }
        match (&self.avro, self.json.as_deref().unwrap_or_default()) {
            (Some(path), _) if path.is_empty() => Ok(Encoding::Avro(Form::Container)),
            (Some(path), _) => {
                let schema = avro_schema("--avro", Path::new(path))?;
                Ok(Encoding::Avro(match self.avro_form {
                    AvroForm::Auto => Form::ContainerOrBare(schema),
                    AvroForm::Container => Form::Container,
                    AvroForm::Bare => Form::Bare(schema),
                }))
            }
            (None, "") => Ok(Encoding::Json),
            (None, other) if other.contains(':') => Err(Failure::usage(format_args!(
                "--json {other}: this is no address of a schema registry; write http://HOST:PORT, or --json \"\" for plain \
                 JSON"
            ))),
            // The peer takes any other word for plain JSON, so start commands have some.
            (None, other) => {
                tracing::warn!(
                    "--json {other}: this is no address of a schema registry, and is not looked at: messages are plain JSON"
                );
                Ok(Encoding::Json)
            }
        }
    }
}

/// A type of a file that `option` names: a `.proto` file, with what it imports, or a set of descriptors.
///
/// # Errors
/// A file that can't be read, or has no such type.
pub fn protobuf_message(option: &str, file: &Path, name: &str) -> Result<ProtobufMessage, Failure> {
    let wrong = |what: String| Failure::new(Exit::Config, format_args!("{option} {}: {what}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    if file.extension().is_none_or(|extension| extension != "proto") {
        return ProtobufMessage::named(&bytes, name).map_err(|error| wrong(error.to_string()));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    let imports = imported(file, &text).map_err(wrong)?;
    let schema = ProtobufSchema::compile(&text, &imports).map_err(|error| wrong(error.to_string()))?;
    schema.named(name).map_err(|error| wrong(error.to_string()))
}

/// The texts that a `.proto` file imports, directly or not, by the names that they are imported by. They are looked for
/// from the file's folder, and from each folder above it, which is where such names begin as a rule.
fn imported(file: &Path, text: &str) -> Result<BTreeMap<String, String>, String> {
    let file = std::path::absolute(file).map_err(|error| error.to_string())?;
    let mut found = BTreeMap::new();
    let mut left = protobuf::imports(text).map_err(|error| error.to_string())?;
    while let Some(name) = left.pop() {
        let place = file.ancestors().skip(1).map(|folder| folder.join(&name)).find(|place| place.is_file());
        // What is nowhere the compiler knows, or says that it is missing.
        let Some(place) = place.filter(|_| !found.contains_key(&name)) else { continue };
        let read = std::fs::read_to_string(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        left.extend(protobuf::imports(&read).map_err(|error| format!("{}: {error}", place.display()))?);
        found.insert(name, read);
    }
    Ok(found)
}

/// The schema of a file, which `option` names.
///
/// # Errors
/// A file that can't be read, or holds none.
pub fn avro_schema(option: &str, path: &Path) -> Result<AvroSchema, Failure> {
    let wrong = |what: String| Failure::new(Exit::Config, format_args!("{option} {}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    AvroSchema::parse(&text, &[]).map_err(|error| wrong(error.to_string()))
}

/// The schema of a file, or those of a folder, by name. Hidden files are others' (Kubernetes has some in its volumes).
fn schemas(path: &Path) -> Result<Vec<AvroSchema>, Failure> {
    let option = "--soe-avro";
    if !path.is_dir() {
        return Ok(vec![avro_schema(option, path)?]);
    }
    let wrong = |what: String| Failure::new(Exit::Config, format_args!("{option} {}: {what}", path.display()));
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| wrong(error.to_string()))?;
    let shown = entries.iter().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut files: Vec<PathBuf> = shown.map(std::fs::DirEntry::path).filter(|file| file.is_file()).collect();
    files.sort();
    if files.is_empty() {
        return Err(wrong("no file is there".to_owned()));
    }
    files.iter().map(|file| avro_schema(option, file)).collect()
}
