//! Columns to Arrow arrays, and an array's memory back into its column once nobody reads it any more.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::column::{Bytes, Column, Data, Struct, Text};
use crate::simd;

impl Struct {
    /// Takes the rows out as arrays, one for each field.
    pub(crate) fn finish(&mut self, fields: &Fields) -> Vec<ArrayRef> {
        let rows = std::mem::take(&mut self.len);
        self.fields.iter_mut().zip(fields).map(|(column, field)| column.finish(field, rows)).collect()
    }
}

impl Column {
    fn finish(&mut self, field: &Field, rows: usize) -> ArrayRef {
        assert_eq!(self.len(), rows, "column {} is as long as its batch", self.name);
        let nulls = null_buffer(&mut self.nulls, rows);
        match &mut self.data {
            Data::Boolean(values) => {
                let bits = BooleanBuffer::from_iter(values.drain(..));
                Arc::new(BooleanArray::new(bits, nulls))
            }
            Data::Byte(values) => primitive::<Int8Type>(values, nulls, field),
            Data::Short(values) => primitive::<Int16Type>(values, nulls, field),
            Data::Int(values) => primitive::<Int32Type>(values, nulls, field),
            Data::Long(values) => primitive::<Int64Type>(values, nulls, field),
            Data::Float(values) => primitive::<Float32Type>(values, nulls, field),
            Data::Double(values) => primitive::<Float64Type>(values, nulls, field),
            Data::Date(values) => primitive::<Date32Type>(values, nulls, field),
            Data::Timestamp(values) => primitive::<TimestampMicrosecondType>(values, nulls, field),
            Data::Decimal { values, .. } => primitive::<Decimal128Type>(values, nulls, field),
            Data::String(text) => {
                let (text, ends) = text.take();
                Arc::new(simd::string_array(text, ends, nulls))
            }
            Data::Binary(column) => {
                let Bytes { bytes, ends } = std::mem::replace(column, Bytes::new());
                Arc::new(BinaryArray::new(offsets(ends), Buffer::from_vec(bytes), nulls))
            }
            Data::Struct(parts) => {
                let DataType::Struct(fields) = field.data_type() else { unreachable!("planned from this schema") };
                let arrays = parts.finish(fields);
                let array = StructArray::try_new_with_length(fields.clone(), arrays, nulls, rows);
                Arc::new(array.expect("parts of the planned types"))
            }
            Data::List(list) => {
                let DataType::List(element) = field.data_type() else { unreachable!("planned from this schema") };
                let elements = list.element.len();
                let values = list.element.finish(element, elements);
                let ends = std::mem::replace(&mut list.ends, vec![0]);
                Arc::new(ListArray::new(element.clone(), offsets(ends), values, nulls))
            }
            Data::Map(map) => {
                let DataType::Map(entries, sorted) = field.data_type() else {
                    unreachable!("planned from this schema")
                };
                let DataType::Struct(parts) = entries.data_type() else { unreachable!("planned from this schema") };
                let count = map.key.len();
                let arrays = vec![map.key.finish(&parts[0], count), map.value.finish(&parts[1], count)];
                let pairs = StructArray::new(parts.clone(), arrays, None);
                let ends = std::mem::replace(&mut map.ends, vec![0]);
                Arc::new(MapArray::new(entries.clone(), offsets(ends), pairs, nulls, *sorted))
            }
        }
    }

    /// Takes an array's memory for the next batch, if we are the only ones to hold it.
    ///
    /// Only memory changes hands: an array of another type or one still read elsewhere is dropped, no more.
    pub(crate) fn recycle(&mut self, array: ArrayRef) {
        match &mut self.data {
            Data::Byte(values) => recycle::<Int8Type>(values, array),
            Data::Short(values) => recycle::<Int16Type>(values, array),
            Data::Int(values) => recycle::<Int32Type>(values, array),
            Data::Long(values) => recycle::<Int64Type>(values, array),
            Data::Float(values) => recycle::<Float32Type>(values, array),
            Data::Double(values) => recycle::<Float64Type>(values, array),
            Data::Date(values) => recycle::<Date32Type>(values, array),
            Data::Timestamp(values) => recycle::<TimestampMicrosecondType>(values, array),
            Data::Decimal { values, .. } => recycle::<Decimal128Type>(values, array),
            Data::String(text) if text.rows() == 0 => {
                if let Some((bytes, ends)) = parts_of(array) {
                    *text = Text::from_parts(bytes, ends);
                }
            }
            Data::Struct(parts) => {
                let Some(array) = unshared::<StructArray>(array) else { return };
                let (_, arrays, _) = array.into_parts();
                for (column, array) in parts.fields.iter_mut().zip(arrays) {
                    column.recycle(array);
                }
            }
            _ => {}
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>, nulls: Option<NullBuffer>, field: &Field) -> ArrayRef {
    let values = ScalarBuffer::from(std::mem::take(values));
    // The type carries the decimal's precision and the timestamp's zone.
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(field.data_type().clone()))
}

fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

fn null_buffer(nulls: &mut Vec<u32>, rows: usize) -> Option<NullBuffer> {
    if nulls.is_empty() {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(rows);
    valid.append_n(rows, true);
    for row in nulls.drain(..) {
        valid.set_bit(row as usize, false);
    }
    Some(NullBuffer::new(valid.finish()))
}

fn recycle<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>, array: ArrayRef) {
    let Some(array) = unshared::<PrimitiveArray<T>>(array) else { return };
    let (_, buffer, _) = array.into_parts();
    if let Ok(mut memory) = buffer.into_inner().into_vec::<T::Native>()
        && values.is_empty()
    {
        memory.clear();
        *values = memory;
    }
}

/// The memory of a string array: its text and offsets, emptied.
fn parts_of(array: ArrayRef) -> Option<(String, Vec<i32>)> {
    let (ends, text, _) = unshared::<StringArray>(array)?.into_parts();
    let mut bytes = text.into_vec::<u8>().ok()?;
    let ends = ends.into_inner().into_inner().into_vec::<i32>().ok()?;
    bytes.clear();
    Some((String::from_utf8(bytes).ok()?, ends))
}

/// The array itself, its reference dropped.
fn unshared<A: Array + Clone + 'static>(array: ArrayRef) -> Option<A> {
    array.as_any().downcast_ref::<A>().cloned()
}
