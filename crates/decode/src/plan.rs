//! From an Arrow schema to empty columns.

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use crate::column::{Bytes, Column, Data, List, Map, Struct, Text};
use crate::error::PlanError;

/// Empty columns for the fields of a table or struct.
pub(crate) fn root(fields: &Fields) -> Result<Struct, PlanError> {
    structure(fields, "")
}

fn structure(fields: &Fields, path: &str) -> Result<Struct, PlanError> {
    for (at, field) in fields.iter().enumerate() {
        if fields[..at].iter().any(|other| other.name() == field.name()) {
            return Err(PlanError::Duplicate { path: join(path, field.name()) });
        }
    }
    let columns = fields.iter().map(|field| column(field, path)).collect::<Result<_, _>>()?;
    Ok(Struct::new(columns))
}

fn column(field: &Field, path: &str) -> Result<Column, PlanError> {
    let path = join(path, field.name());
    let unknown = || PlanError::Type { path: path.clone(), data_type: field.data_type().to_string() };
    let data = match field.data_type() {
        DataType::Boolean => Data::Boolean(Vec::new()),
        DataType::Int8 => Data::Byte(Vec::new()),
        DataType::Int16 => Data::Short(Vec::new()),
        DataType::Int32 => Data::Int(Vec::new()),
        DataType::Int64 => Data::Long(Vec::new()),
        DataType::Float32 => Data::Float(Vec::new()),
        DataType::Float64 => Data::Double(Vec::new()),
        DataType::Date32 => Data::Date(Vec::new()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) if zone.as_deref().is_none_or(|zone| zone == "UTC") => {
            Data::Timestamp(Vec::new())
        }
        &DataType::Decimal128(precision, scale) if (1..=38).contains(&precision) => match u8::try_from(scale) {
            Ok(scale) if scale <= precision => Data::Decimal { values: Vec::new(), precision, scale },
            _ => return Err(unknown()),
        },
        DataType::Utf8 => Data::String(Text::new()),
        DataType::Binary => Data::Binary(Bytes::new()),
        DataType::Struct(fields) => Data::Struct(Box::new(structure(fields, &path)?)),
        DataType::List(element) => Data::List(Box::new(List { element: column(element, &path)?, ends: vec![0] })),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) if parts.len() == 2 => Data::Map(Box::new(Map {
                key: column(&parts[0], &path)?,
                value: column(&parts[1], &path)?,
                ends: vec![0],
            })),
            _ => return Err(unknown()),
        },
        _ => return Err(unknown()),
    };
    Ok(Column::new(field.name(), field.is_nullable(), data))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
