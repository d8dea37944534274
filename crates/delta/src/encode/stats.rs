//! A file's statistics, as `add.stats` says them.
//!
//! Readers skip files by them, so one rule stands above all: `min` <= every value <= `max`, in every
//! reader's order, or no bound at all. The bounds come from the Parquet writer, which finds them
//! anyway; this module only adds what that does not know (NaNs; NULL lists and maps) and writes
//! the text. Where a bound can't be told soundly it is left out:
//!
//! - strings: at most 32 characters; a cut minimum is a prefix, a cut maximum a prefix and one
//!   character that sorts after what was cut;
//! - timestamps: milliseconds, the minimum rounded down, the maximum up;
//! - floats: none where a NaN is among them (its order differs between readers), none at infinity;
//!   single precision is written with all digits of its value, right for readers of either width;
//! - dates and timestamps: only the years 1 to 9999;
//! - booleans and binary: none; lists and maps: none, nor for anything inside them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use super::partition::{date, put_decimal, time};
use crate::layout::StatsColumns;

/// Characters that a string's bound has at most, a cut maximum's last one not counted.
const PREFIX_CHARS: usize = 32;

/// How far the cut of a maximum may move right to find a character that something sorts after.
const STRETCHED_CHARS: usize = 2 * PREFIX_CHARS;

/// The Parquet writer cuts bounds to so many bytes: above [`STRETCHED_CHARS`] of any character.
pub(crate) const PARQUET_BOUND_BYTES: usize = 4 * STRETCHED_CHARS + 4;

/// Which columns of a file have statistics, and of what kind.
#[derive(Debug)]
pub(crate) struct StatsPlan {
    roots: Vec<(usize, Node)>,
    watched: usize,
}

/// A column with statistics.
#[derive(Debug)]
struct Node {
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A struct: its fields by their index.
    Struct(Vec<(usize, Node)>),
    /// A list or map: only its NULLs are counted, by us.
    Counted { slot: usize },
    /// A leaf: Parquet's column `leaf`. `nan_slot`: where its NaNs are watched for.
    Leaf { leaf: usize, nan_slot: Option<usize>, bounds: Bounds },
}

/// How a leaf's bounds are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    Not,
    Integer,
    Float,
    Decimal { scale: i8 },
    Date,
    Timestamp { utc: bool },
    Text,
}

/// What is seen of one file's rows and not in Parquet's own statistics: a slot is a list's NULLs, or
/// a float column's NaNs.
#[derive(Clone, Debug)]
pub(crate) struct Watched(Vec<u64>);

/// Which columns have statistics.
pub(crate) struct Wanted<'a> {
    /// As the table's properties say.
    pub columns: &'a StatsColumns,
    /// Whatever those say: paths of the names that files have.
    pub clustering: &'a [Vec<String>],
}

impl StatsPlan {
    /// `fields`: those of the files, by the schema's names. `in_files`: the same by their names in the
    /// files, which statistics go by. `skipped`: top-level columns that never have statistics (partition
    /// columns that stand in the files as well).
    pub(crate) fn new(fields: &Fields, in_files: &Fields, skipped: &[String], wanted: &Wanted<'_>) -> Self {
        let mut planner = Planner { wanted, seen: 0, leaf: 0, slot: 0 };
        let mut roots = Vec::new();
        for (index, (field, in_file)) in fields.iter().zip(in_files).enumerate() {
            if skipped.contains(field.name()) {
                planner.leaf += leaves(field.data_type());
            } else if let Some(node) = planner.node(field, in_file, &mut Paths::default()) {
                roots.push((index, node));
            }
        }
        Self { roots, watched: planner.slot }
    }

    /// A new file's.
    pub(crate) fn watch(&self) -> Watched {
        Watched(vec![0; self.watched])
    }

    /// Looks at rows that go into the file.
    pub(crate) fn see(&self, batch: &RecordBatch, watched: &mut Watched) {
        if self.watched > 0 {
            for (index, node) in &self.roots {
                see(node, batch.column(*index), None, watched);
            }
        }
    }

    /// The text of `add.stats`.
    pub(crate) fn json(&self, rows: u64, groups: &[RowGroupMetaData], watched: &Watched) -> String {
        let file = File { groups, watched };
        let mut text = format!("{{\"numRecords\":{rows}");
        for (name, what) in [("minValues", What::Min), ("maxValues", What::Max), ("nullCount", What::Nulls)] {
            let mut object = String::new();
            write_object(&self.roots, &file, what, &mut object);
            text.push_str(",\"");
            text.push_str(name);
            text.push_str("\":");
            text.push_str(if object.is_empty() { "{}" } else { &object });
        }
        text.push_str(",\"tightBounds\":true}");
        text
    }
}

/// Walks the schema, numbering leaves as Parquet does and counting columns as Delta does.
struct Planner<'a> {
    wanted: &'a Wanted<'a>,
    /// Columns counted so far, for [`StatsColumns::First`]: lists and maps are one each.
    seen: u64,
    leaf: usize,
    slot: usize,
}

/// The way to a field, by the schema's names and by those of the files.
#[derive(Default)]
struct Paths {
    known: Vec<String>,
    in_files: Vec<String>,
}

impl Planner<'_> {
    fn node(&mut self, field: &Field, in_file: &Field, paths: &mut Paths) -> Option<Node> {
        paths.known.push(field.name().clone());
        paths.in_files.push(in_file.name().clone());
        let kind = match (field.data_type(), in_file.data_type()) {
            (DataType::Struct(fields), DataType::Struct(in_files)) => {
                let fields: Vec<_> = fields
                    .iter()
                    .zip(in_files)
                    .enumerate()
                    .filter_map(|(index, (field, in_file))| Some((index, self.node(field, in_file, paths)?)))
                    .collect();
                (!fields.is_empty()).then_some(Kind::Struct(fields))
            }
            (other, _) => self.column(other, paths),
        };
        paths.known.pop();
        paths.in_files.pop();
        Some(Node { name: in_file.name().clone(), kind: kind? })
    }

    fn column(&mut self, data_type: &DataType, paths: &Paths) -> Option<Kind> {
        let leaf = self.leaf;
        self.leaf += leaves(data_type);
        self.seen += 1;
        let by_property = match self.wanted.columns {
            StatsColumns::All => true,
            StatsColumns::First(most) => self.seen <= *most,
            StatsColumns::Only(columns) => columns.iter().any(|column| paths.known.starts_with(column)),
        };
        let wanted = by_property || self.wanted.clustering.contains(&paths.in_files);
        wanted.then(|| match data_type {
            DataType::List(_) | DataType::Map(..) => Kind::Counted { slot: self.take_slot() },
            other => {
                let bounds = bounds(other);
                let nan_slot = (bounds == Bounds::Float).then(|| self.take_slot());
                Kind::Leaf { leaf, nan_slot, bounds }
            }
        })
    }

    fn take_slot(&mut self) -> usize {
        self.slot += 1;
        self.slot - 1
    }
}

fn bounds(data_type: &DataType) -> Bounds {
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Bounds::Integer,
        DataType::Float32 | DataType::Float64 => Bounds::Float,
        DataType::Decimal128(_, scale) => Bounds::Decimal { scale: *scale },
        DataType::Date32 => Bounds::Date,
        DataType::Timestamp(TimeUnit::Microsecond, zone) => Bounds::Timestamp { utc: zone.is_some() },
        DataType::Utf8 => Bounds::Text,
        _ => Bounds::Not,
    }
}

/// Leaf columns that Parquet makes of a type.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(field) | DataType::Map(field, _) => leaves(field.data_type()),
        _ => 1,
    }
}

fn see(node: &Node, array: &ArrayRef, outer: Option<&NullBuffer>, watched: &mut Watched) {
    match &node.kind {
        Kind::Struct(fields) => {
            let nulls = NullBuffer::union(outer, array.nulls());
            let columns = array.as_struct();
            for (index, field) in fields {
                see(field, columns.column(*index), nulls.as_ref(), watched);
            }
        }
        Kind::Counted { slot } => {
            let nulls = NullBuffer::union(outer, array.nulls());
            watched.0[*slot] += nulls.map_or(0, |nulls| nulls.null_count() as u64);
        }
        // What lies under a NULL may count as well: it only costs a bound.
        Kind::Leaf { nan_slot: Some(slot), .. } => {
            let nans = match array.data_type() {
                DataType::Float32 => array.as_primitive::<Float32Type>().values().iter().filter(|v| v.is_nan()).count(),
                _ => array.as_primitive::<Float64Type>().values().iter().filter(|v| v.is_nan()).count(),
            };
            watched.0[*slot] += nans as u64;
        }
        Kind::Leaf { .. } => {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Min,
    Max,
    Nulls,
}

struct File<'a> {
    groups: &'a [RowGroupMetaData],
    watched: &'a Watched,
}

/// `{...}` with what there is to say; nothing where there is nothing.
fn write_object(nodes: &[(usize, Node)], file: &File<'_>, what: What, text: &mut String) {
    let mut separator = '{';
    for (_, node) in nodes {
        let mut value = String::new();
        match &node.kind {
            Kind::Struct(fields) => write_object(fields, file, what, &mut value),
            Kind::Counted { slot } if what == What::Nulls => value = file.watched.0[*slot].to_string(),
            Kind::Counted { .. } => {}
            Kind::Leaf { leaf, .. } if what == What::Nulls => {
                value = null_count(file.groups, *leaf).map(|count| count.to_string()).unwrap_or_default();
            }
            Kind::Leaf { nan_slot: Some(slot), .. } if file.watched.0[*slot] > 0 => {}
            Kind::Leaf { leaf, bounds, .. } => {
                value = bound(file.groups, *leaf, *bounds, what == What::Max).unwrap_or_default();
            }
        }
        if !value.is_empty() {
            text.push(separator);
            text.push_str(&quoted(&node.name));
            text.push(':');
            text.push_str(&value);
            separator = ',';
        }
    }
    if separator == ',' {
        text.push('}');
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("strings are JSON")
}

/// NULLs of a leaf, those of a NULL parent included, as Delta counts them.
fn null_count(groups: &[RowGroupMetaData], leaf: usize) -> Option<u64> {
    groups.iter().map(|group| group.column(leaf).statistics()?.null_count_opt()).sum()
}

/// A bound over all row groups, as JSON; `None` where one of them has none, or it can't be told.
fn bound(groups: &[RowGroupMetaData], leaf: usize, bounds: Bounds, max: bool) -> Option<String> {
    if bounds == Bounds::Not {
        return None;
    }
    let mut best: Option<Value> = None;
    for group in groups {
        let column = group.column(leaf);
        let statistics = column.statistics()?;
        if statistics.null_count_opt()? == u64::try_from(column.num_values()).ok()? {
            continue;
        }
        let value = Value::of(statistics, bounds, max)?;
        let better = match &best {
            None => true,
            Some(best) if max => value.is_above(best),
            Some(best) => best.is_above(&value),
        };
        if better {
            best = Some(value);
        }
    }
    best?.json(bounds, max)
}

/// A bound of one row group.
enum Value {
    Whole(i128),
    Float(f64),
    Text(String),
}

impl Value {
    fn of(statistics: &Statistics, bounds: Bounds, max: bool) -> Option<Self> {
        fn pick<T: Clone>(min: Option<&T>, max: Option<&T>, is_max: bool) -> Option<T> {
            if is_max { max.cloned() } else { min.cloned() }
        }
        Some(match statistics {
            Statistics::Int32(s) => Self::Whole(pick(s.min_opt(), s.max_opt(), max)?.into()),
            Statistics::Int64(s) => Self::Whole(pick(s.min_opt(), s.max_opt(), max)?.into()),
            Statistics::Float(s) => Self::Float(pick(s.min_opt(), s.max_opt(), max)?.into()),
            Statistics::Double(s) => Self::Float(pick(s.min_opt(), s.max_opt(), max)?),
            Statistics::ByteArray(s) if bounds == Bounds::Text => {
                Self::Text(pick(s.min_opt(), s.max_opt(), max)?.as_utf8().ok()?.to_owned())
            }
            Statistics::FixedLenByteArray(s) => Self::Whole(big_endian(pick(s.min_opt(), s.max_opt(), max)?.data())?),
            _ => return None,
        })
    }

    fn is_above(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a > b,
            (Self::Float(a), Self::Float(b)) => a > b,
            (Self::Text(a), Self::Text(b)) => a > b,
            _ => false,
        }
    }

    fn json(self, bounds: Bounds, max: bool) -> Option<String> {
        match (self, bounds) {
            (Self::Whole(value), Bounds::Integer) => Some(value.to_string()),
            (Self::Whole(value), Bounds::Decimal { scale }) => {
                let mut text = String::new();
                put_decimal(&mut text, value, scale);
                Some(text)
            }
            (Self::Whole(days), Bounds::Date) => Some(format!("\"{}\"", date(days.try_into().ok()?)?)),
            (Self::Whole(micros), Bounds::Timestamp { utc }) => timestamp(micros.try_into().ok()?, utc, max),
            (Self::Float(value), Bounds::Float) => value.is_finite().then(|| serde_json::json!(value).to_string()),
            (Self::Text(text), Bounds::Text) if max => cut_max(&text).map(|text| quoted(&text)),
            (Self::Text(text), Bounds::Text) => Some(quoted(cut_min(&text))),
            _ => None,
        }
    }
}

/// Two's complement, at most 16 bytes.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [sign; 16];
    wide.get_mut(16usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

fn timestamp(micros: i64, utc: bool, max: bool) -> Option<String> {
    let rest = micros.rem_euclid(1000);
    let floor = micros.checked_sub(rest)?;
    let rounded = if max && rest > 0 { floor.checked_add(1000)? } else { floor };
    let zone = if utc { "Z" } else { "" };
    Some(format!("\"{}{zone}\"", time(rounded)?.format("%Y-%m-%dT%H:%M:%S%.3f")))
}

/// A prefix sorts before what it is a prefix of.
fn cut_min(text: &str) -> &str {
    text.char_indices().nth(PREFIX_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Something that sorts at or after `text`, and after all that sorts before it: `None` where only the
/// text itself would do and it is too long.
fn cut_max(text: &str) -> Option<String> {
    let mut tail = text.char_indices().skip(PREFIX_CHARS);
    let Some(mut cut) = tail.next() else { return Some(text.to_owned()) };
    let mut chars = PREFIX_CHARS;
    // The greatest character has nothing after it: keep it, and cut one further.
    while cut.1 == char::MAX {
        chars += 1;
        match tail.next() {
            None => return Some(text.to_owned()),
            Some(_) if chars > STRETCHED_CHARS => return None,
            Some(next) => cut = next,
        }
    }
    let after = if cut.1 < '\u{7f}' { '\u{7f}' } else { char::MAX };
    Some(format!("{}{after}", &text[..cut.0]))
}
