//! Chooses each column's encoding by looking at a file's first rows.
//!
//! A dictionary where values repeat; where they do not: deltas for whole numbers that lie close to
//! their neighbours, front coding for text that begins as its neighbour does, lengths apart from
//! bytes for all other text (identifiers). A wrong guess costs bytes, never correctness.

use std::collections::HashSet;
use std::hash::BuildHasher;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::schema::types::SchemaDescriptor;

use super::plan::{Plan, each_leaf};

/// Values of a column that are looked at.
const SAMPLE: usize = 4096;

/// Values of one block of `DELTA_BINARY_PACKED`, as far as its width goes.
const MINIBLOCK: usize = 32;

/// How one leaf column is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) dictionary: bool,
    /// Without a dictionary, or after one that grew too large; `None` is plain.
    pub(crate) encoding: Option<Encoding>,
}

/// The encoding of every leaf column by the rows that the file begins with. `plain`: only what the
/// oldest readers know.
pub(crate) fn choose(schema: &SchemaDescriptor, first: &[RecordBatch], plain: bool) -> Vec<Choice> {
    let mut seen: Vec<Seen> = schema.columns().iter().map(|_| Seen::default()).collect();
    for batch in first {
        let mut leaves = seen.iter_mut();
        for column in batch.columns() {
            each_leaf(column, &mut |leaf| {
                if let Some(seen) = leaves.next() {
                    seen.look(leaf);
                }
            });
        }
    }
    let choice = |seen: Seen| Choice { dictionary: seen.repeats(), encoding: seen.encoding().filter(|_| !plain) };
    seen.into_iter().map(choice).collect()
}

/// The same choices for Parquet's own writer, which makes a writer for every column where it takes
/// any: those of ours must cost no tables.
pub(crate) fn apply(
    mut properties: WriterPropertiesBuilder,
    plan: &Plan,
    choices: &[Choice],
) -> WriterPropertiesBuilder {
    for ((column, (_, flat)), choice) in plan.parquet.columns().iter().zip(&plan.leaves).zip(choices) {
        let path = column.path().clone();
        properties = properties.set_column_dictionary_enabled(path.clone(), choice.dictionary && flat.is_none());
        if flat.is_some() {
            properties = properties.set_column_compression(path, Compression::UNCOMPRESSED);
        } else if let Some(encoding) = choice.encoding {
            properties = properties.set_column_encoding(path, encoding);
        }
    }
    properties
}

/// What the first values of one leaf column looked like.
#[derive(Default)]
struct Seen {
    values: usize,
    hasher: std::hash::RandomState,
    distinct: HashSet<u64>,
    kind: Kind,
}

#[derive(Default)]
enum Kind {
    /// Encoded plainly if not by a dictionary.
    #[default]
    Other,
    /// Sum of the widths in bits of the deltas' blocks, and of their number times the type's width.
    Whole { packed_bits: u64, plain_bits: u64 },
    /// Bytes in all, and bytes that each value shares with the one before it.
    Text { bytes: usize, shared: usize },
}

impl Seen {
    /// Do values repeat? An empty sample says yes: a dictionary costs nothing then.
    fn repeats(&self) -> bool {
        self.distinct.len() * 2 <= self.values + 1
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.kind {
            Kind::Other => None,
            Kind::Whole { packed_bits, plain_bits } => {
                (plain_bits > 0 && packed_bits * 4 <= plain_bits * 3).then_some(Encoding::DELTA_BINARY_PACKED)
            }
            Kind::Text { bytes, shared } if shared * 5 >= bytes && shared >= self.values * 4 => {
                Some(Encoding::DELTA_BYTE_ARRAY)
            }
            Kind::Text { .. } => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        }
    }

    fn look(&mut self, leaf: &ArrayRef) {
        let left = SAMPLE.saturating_sub(self.values);
        match leaf.data_type() {
            DataType::Utf8 => self.text(leaf.as_string::<i32>().iter().flatten().map(str::as_bytes).take(left)),
            DataType::Binary => self.text(leaf.as_binary::<i32>().iter().flatten().take(left)),
            DataType::Int8 => self.whole::<Int8Type>(leaf, left, 32),
            DataType::Int16 => self.whole::<Int16Type>(leaf, left, 32),
            DataType::Int32 => self.whole::<Int32Type>(leaf, left, 32),
            DataType::Date32 => self.whole::<Date32Type>(leaf, left, 32),
            DataType::Int64 => self.whole::<Int64Type>(leaf, left, 64),
            DataType::Timestamp(TimeUnit::Microsecond, _) => self.whole::<TimestampMicrosecondType>(leaf, left, 64),
            DataType::Decimal128(..9 | 9, _) => self.decimal(leaf, left, 32),
            DataType::Decimal128(..18 | 18, _) => self.decimal(leaf, left, 64),
            DataType::Float32 => {
                let values = leaf.as_primitive::<Float32Type>().iter().flatten().take(left);
                values.for_each(|value| self.count(u64::from(value.to_bits())));
            }
            DataType::Float64 => {
                let values = leaf.as_primitive::<Float64Type>().iter().flatten().take(left);
                values.for_each(|value| self.count(value.to_bits()));
            }
            _ => {}
        }
    }

    fn count(&mut self, hash: u64) {
        self.values += 1;
        self.distinct.insert(hash);
    }

    fn text<'a>(&mut self, values: impl Iterator<Item = &'a [u8]>) {
        let (mut bytes, mut shared) = match self.kind {
            Kind::Text { bytes, shared } => (bytes, shared),
            _ => (0, 0),
        };
        let mut last: &[u8] = &[];
        for value in values {
            bytes += value.len();
            shared += value.iter().zip(last).take_while(|(a, b)| a == b).count();
            last = value;
            let hash = self.hasher.hash_one(value);
            self.count(hash);
        }
        self.kind = Kind::Text { bytes, shared };
    }

    fn whole<T: ArrowPrimitiveType>(&mut self, leaf: &ArrayRef, left: usize, width: u64)
    where
        T::Native: Into<i64>,
    {
        self.deltas(leaf.as_primitive::<T>().iter().flatten().map(Into::into).take(left), width);
    }

    fn decimal(&mut self, leaf: &ArrayRef, left: usize, width: u64) {
        let values = leaf.as_primitive::<Decimal128Type>().iter().flatten();
        self.deltas(values.map(|value| i64::try_from(value).unwrap_or(i64::MAX)).take(left), width);
    }

    fn deltas(&mut self, values: impl Iterator<Item = i64>, width: u64) {
        let values: Vec<i64> = values.collect();
        let (mut packed_bits, mut plain_bits) = match self.kind {
            Kind::Whole { packed_bits, plain_bits } => (packed_bits, plain_bits),
            _ => (0, 0),
        };
        let deltas: Vec<i64> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        for block in deltas.chunks(MINIBLOCK) {
            let least = block.iter().min().copied().unwrap_or_default();
            let most = block.iter().max().copied().unwrap_or_default();
            packed_bits += u64::from(64 - (most.wrapping_sub(least) as u64).leading_zeros()) * block.len() as u64;
            plain_bits += width * block.len() as u64;
        }
        self.kind = Kind::Whole { packed_bits, plain_bits };
        values.iter().for_each(|&value| self.count(value as u64));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn check(leaf: ArrayRef, dictionary: bool, encoding: Option<Encoding>) {
        let mut seen = Seen::default();
        seen.look(&leaf);
        assert_eq!((seen.repeats(), seen.encoding()), (dictionary, encoding), "{leaf:?}");
    }

    #[test]
    fn encodings_follow_the_values() {
        let mix = |i: i64| i.wrapping_mul(0x1234_5678_9abc_def1).rotate_left(17).wrapping_mul(0x2545_f491_4f6c_dd1d);
        let text = |f: &dyn Fn(i64) -> String| Arc::new(StringArray::from_iter_values((0..5000).map(f))) as ArrayRef;
        let long = |f: &dyn Fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..5000).map(f))) as ArrayRef;
        let packed = Some(Encoding::DELTA_BINARY_PACKED);
        check(text(&|i| ["GET", "PUT"][i as usize % 2].to_owned()), true, Some(Encoding::DELTA_LENGTH_BYTE_ARRAY));
        check(text(&|i| format!("{:016x}", mix(i))), false, Some(Encoding::DELTA_LENGTH_BYTE_ARRAY));
        check(text(&|i| format!("2024-01-01T00:00:{i:09}Z")), false, Some(Encoding::DELTA_BYTE_ARRAY));
        check(long(&|i| i + 1_000_000), false, packed);
        check(long(&mix), false, None);
        check(long(&|i| mix(i % 7)), true, None);
        check(Arc::new(Float64Array::from_iter_values((0..5000).map(f64::from))), false, None);
        check(Arc::new(Int64Array::from(vec![None::<i64>; 9])), true, None);
    }
}
