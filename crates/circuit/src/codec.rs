//! Columns to rows of bytes and back.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, SortOptions};

use crate::refused::Refused;
use crate::row::Row;

/// Turns columns of fixed types into rows and back.
///
/// Equal values have equal bytes: `-0.0` becomes `0.0`, every NaN the same one, which is above all numbers. NULL is
/// below all values and equals itself. A row is its columns' bytes behind each other, and none is the start of another.
#[derive(Debug)]
pub struct Codec {
    converter: RowConverter,
    columns: usize,
}

impl Codec {
    /// For columns of these types.
    ///
    /// # Errors
    /// When rows of a type can't be compared, as of a map.
    pub fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Result<Self, Refused> {
        Self::sorted(types.into_iter().map(|kind| (kind.clone(), SortOptions { descending: false, nulls_first: true })))
    }

    /// For columns of these types, each in its own order.
    ///
    /// # Errors
    /// As [`Codec::new`].
    pub fn sorted(columns: impl IntoIterator<Item = (DataType, SortOptions)>) -> Result<Self, Refused> {
        let columns: Vec<_> = columns.into_iter().collect();
        for (kind, _) in &columns {
            if !RowConverter::supports_fields(&[SortField::new(kind.clone())]) {
                return Err(Refused::new(format!("values of type {kind} can't be compared"))
                    .hint("leave the column out, or take fields of it"));
            }
        }
        let fields = columns.iter().map(|(kind, options)| SortField::new_with_options(kind.clone(), *options));
        let converter = RowConverter::new(fields.collect()).map_err(|error| Refused::new(error.to_string()))?;
        Ok(Self { converter, columns: columns.len() })
    }

    /// The rows of `columns`, behind each other.
    ///
    /// # Panics
    /// When the columns are not of the codec's types.
    pub(crate) fn encoded(&self, columns: &[ArrayRef]) -> Encoded {
        assert_eq!(columns.len(), self.columns, "a column for each type");
        let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        let rows = || self.converter.convert_columns(&columns).expect("columns of the codec's types");
        Encoded((!columns.is_empty()).then(rows))
    }

    /// The rows of `columns`, each of `rows` values.
    ///
    /// # Panics
    /// When the columns are not of the codec's types.
    #[must_use]
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Vec<Row> {
        let encoded = self.encoded(columns);
        (0..rows).map(|row| Row::new(encoded.row(row))).collect()
    }

    /// The columns of `rows`, which are of this codec.
    ///
    /// # Panics
    /// When the bytes are of another codec.
    #[must_use]
    pub fn decode<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> Vec<ArrayRef> {
        if self.columns == 0 {
            return Vec::new();
        }
        let parser = self.converter.parser();
        // `convert_rows` wants rows that live as long as their parser.
        let rows: Vec<_> = rows.into_iter().map(|bytes| parser.parse(bytes)).collect();
        self.converter.convert_rows(rows).expect("rows of this codec")
    }
}

/// Rows of one codec, not yet apart.
#[derive(Debug)]
pub(crate) struct Encoded(Option<Rows>);

impl Encoded {
    /// The bytes of row `at`.
    pub(crate) fn row(&self, at: usize) -> &[u8] {
        self.0.as_ref().map_or(&[][..], |rows| rows.row(at).data())
    }
}

/// The same values, equal ones with equal bytes.
pub(crate) fn normalised(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => Arc::new(
            column
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        ),
        DataType::Float32 => Arc::new(
            column
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        ),
        DataType::Struct(fields) => {
            let parts = column.as_struct();
            let columns = parts.columns().iter().map(normalised).collect();
            Arc::new(StructArray::new(fields.clone(), columns, parts.nulls().cloned()))
        }
        DataType::List(field) => {
            let list = column.as_list::<i32>();
            Arc::new(arrow_array::ListArray::new(
                Arc::clone(field),
                list.offsets().clone(),
                normalised(list.values()),
                list.nulls().cloned(),
            ))
        }
        _ => Arc::clone(column),
    }
}
