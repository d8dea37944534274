//! Types of the columns that transforms fill, for tables that are inferred.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

/// The column of a transform that no message field has given a type: text, but for names that say
/// they hold one of Kafka's numbers.
#[must_use]
pub fn of_transform(property: &str) -> FieldRef {
    let data_type = match property.rsplit(['.', '_']).next() {
        Some("offset") => DataType::Int64,
        Some("partition") => DataType::Int32,
        _ => DataType::Utf8,
    };
    Arc::new(Field::new(property, data_type, true))
}
