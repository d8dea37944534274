//! Deletion vectors: which rows of a file are dead.
//!
//! A commit's vectors lie in few files in the table's folder, written before the commit that names
//! them; nothing but that commit ever names them. The bytes and the checksum are the Delta library's.

use delta_kernel::Engine;
use delta_kernel::KernelResult;
use delta_kernel::actions::deletion_vector::{DeletionVectorDescriptor, DeletionVectorStorageType};
use delta_kernel::actions::deletion_vector_writer::{
    DeletionVector, DeletionVectorWriteResult, StreamingDeletionVectorWriter,
};
use object_store::ObjectStoreExt;
use roaring::RoaringTreemap;
use serde_json::{Value, json};

use crate::error::DeltaError;
use crate::kernel::Kernel;

/// A file of vectors is ended past this: readers fetch a whole file for each vector in it.
const PACK_BYTES: usize = 2 << 20;

/// Which rows are dead, shown to the library's writer.
struct Shown<'a>(&'a RoaringTreemap);

impl DeletionVector for Shown<'_> {
    type IndexIterator = roaring::treemap::IntoIter;

    fn into_iter(self) -> Self::IndexIterator {
        self.0.clone().into_iter()
    }

    fn cardinality(&self) -> u64 {
        self.0.len()
    }

    fn serialize(self) -> KernelResult<bytes::Bytes> {
        let mut bytes = Vec::with_capacity(self.0.serialized_size());
        self.0.serialize_into(&mut bytes).map_err(delta_kernel::KernelError::generic_err)?;
        Ok(bytes.into())
    }
}

/// Writes vectors, durable once it returns, and says how an `add` names each.
///
/// # Errors
/// Some may be there and some not; nobody names them.
pub(crate) async fn write(
    kernel: &Kernel,
    vectors: &[&RoaringTreemap],
) -> Result<Vec<DeletionVectorDescriptor>, DeltaError> {
    let mut descriptors = Vec::with_capacity(vectors.len());
    let mut rest = vectors;
    while !rest.is_empty() {
        let (bytes, written) = pack(kernel, rest)?;
        rest = &rest[written.len()..];
        let id = new_name();
        let file = kernel.place.root.clone().join(format!("deletion_vector_{id}.bin"));
        kernel.place.store.put(&file, bytes.into()).await.map_err(|error| {
            DeltaError::store(format!("put deletion vectors {file} of table {}", kernel.place.name), error)
        })?;
        for written in written {
            let DeletionVectorWriteResult { offset, size_in_bytes, cardinality } = written;
            let described = DeletionVectorDescriptor::try_new(
                DeletionVectorStorageType::PersistedRelative,
                z85::encode(id.as_bytes()),
                Some(offset),
                size_in_bytes,
                cardinality,
            );
            descriptors.push(described.map_err(|error| failed(kernel, error))?);
        }
    }
    Ok(descriptors)
}

/// One file's bytes, with as many of the vectors as go into it.
fn pack(kernel: &Kernel, vectors: &[&RoaringTreemap]) -> Result<(Vec<u8>, Vec<DeletionVectorWriteResult>), DeltaError> {
    let (mut bytes, mut written, mut size) = (Vec::new(), Vec::new(), 0);
    let mut writer = StreamingDeletionVectorWriter::new(&mut bytes);
    for vector in vectors {
        written.push(writer.write_deletion_vector(Shown(vector)).map_err(|error| failed(kernel, error))?);
        size += vector.serialized_size();
        if size >= PACK_BYTES {
            break;
        }
    }
    writer.finalize().map_err(|error| failed(kernel, error))?;
    Ok((bytes, written))
}

/// Reads a vector, from whoever it is.
///
/// # Errors
/// It is not there, or broken.
pub(crate) fn read(kernel: &Kernel, descriptor: &DeletionVectorDescriptor) -> Result<RoaringTreemap, DeltaError> {
    let storage = kernel.engine().storage_handler();
    descriptor.read(storage, &kernel.place.url).map_err(|error| failed(kernel, error))
}

/// As it stands in `add` and `remove`.
pub(crate) fn to_json(descriptor: &DeletionVectorDescriptor) -> Value {
    let mut json = json!({
        "storageType": descriptor.storage_type.to_string(),
        "pathOrInlineDv": descriptor.path_or_inline_dv,
        "sizeInBytes": descriptor.size_in_bytes,
        "cardinality": descriptor.cardinality,
    });
    if let Some(offset) = descriptor.offset {
        json["offset"] = json!(offset);
    }
    json
}

fn failed(kernel: &Kernel, error: delta_kernel::KernelError) -> DeltaError {
    DeltaError::kernel(&kernel.place.name, "use a deletion vector of", error)
}

/// A name that no file of any process has.
#[expect(clippy::disallowed_methods, reason = "an edge: nothing but the name depends on it")]
fn new_name() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}
