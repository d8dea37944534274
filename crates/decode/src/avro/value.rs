//! Values into columns.

use crate::column::{Column, Data, Map, Struct, end_of, last};
use crate::error::{BadKind, Fail, Refused};
use crate::key::Target;
use crate::row::has_twins;

use super::datum::{Datum, NO_BRANCH};
use super::plan::{FieldPlan, Plan, To, unknown};
use super::schema::{AvroSchema, NodeId};
use super::{json, scalar};

/// What the walk needs beside columns and message.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    pub(crate) schema: &'a AvroSchema,
}

impl Walk<'_> {
    /// Reads a record as one more row of `parts`.
    #[inline]
    pub(crate) fn record(self, datum: &mut Datum, fields: &[FieldPlan], parts: &mut Struct) -> Result<(), Refused> {
        let row = parts.len;
        parts.open_row();
        self.fields(datum, fields, parts)?;
        parts.len += 1;
        if parts.filled_late { Ok(()) } else { parts.fill(row) }
    }

    /// Reads a record's fields into the open row of `parts`.
    #[inline]
    pub(crate) fn fields(self, datum: &mut Datum, fields: &[FieldPlan], parts: &mut Struct) -> Result<(), Refused> {
        let row = parts.len;
        for field in fields {
            match &field.to {
                To::Column(index, plan) => {
                    parts.mark(*index, row);
                    self.value(datum, plan, &mut parts.fields[*index])
                }
                To::Unknown(target, node) => {
                    parts.keys.drop_one(*target);
                    datum.skip(self.schema, *node, 0)
                }
                To::Nowhere(node) => datum.skip(self.schema, *node, 0),
            }
            .map_err(|refused| refused.within(&field.name))?;
        }
        Ok(())
    }

    /// Reads a value into `column`.
    pub(crate) fn value(self, datum: &mut Datum, plan: &Plan, column: &mut Column) -> Result<(), Refused> {
        match plan {
            Plan::Scalar(node) => scalar::read(datum, self.schema.node(*node), column),
            Plan::Nullable { null, other } => match datum.index(2, NO_BRANCH)? {
                branch if branch == *null => column.push_null_checked("it is null, and the column is NOT NULL"),
                _ => self.value(datum, other, column),
            },
            Plan::Union(branches) => {
                let branch = datum.index(branches.len(), NO_BRANCH)?;
                self.value(datum, &branches[branch], column)
            }
            Plan::Text(node) => self.text(datum, *node, column),
            Plan::Wrong(found) => Err(column.wrong(found)),
            nested => self.nested(datum, nested, column),
        }
    }

    fn nested(self, datum: &mut Datum, plan: &Plan, column: &mut Column) -> Result<(), Refused> {
        match (plan, &mut column.data) {
            (Plan::Record(fields), Data::Struct(parts)) => self.record(datum, fields, parts),
            (Plan::Array(items), Data::List(list)) => {
                let element = &mut list.element;
                datum.elements(|datum| {
                    self.value(datum, items, element).map_err(|refused| refused.within(&element.name))
                })?;
                list.ends.push(end_of(list.element.len())?);
                Ok(())
            }
            (Plan::Map(values), Data::Map(map)) => self.entries(map, |map| {
                datum.elements(|datum| {
                    let name = datum.string()?;
                    self.entry(datum, name, values, map)
                })
            }),
            (Plan::RecordEntries(fields), Data::Map(map)) => {
                self.entries(map, |map| fields.iter().try_for_each(|(name, value)| self.entry(datum, name, value, map)))
            }
            (Plan::MapFields { values, fields }, Data::Struct(parts)) => self.map_fields(datum, *values, fields, parts),
            (plan, _) => unreachable!("{plan:?} was made for this column"),
        }
    }

    fn entry(self, datum: &mut Datum, name: &str, value: &Plan, map: &mut Map) -> Result<(), Refused> {
        map.key.put_string(name).map_err(|refused| refused.within("key"))?;
        self.value(datum, value, &mut map.value).map_err(|refused| refused.within(&map.value.name))
    }

    fn entries(self, map: &mut Map, fill: impl FnOnce(&mut Map) -> Result<(), Refused>) -> Result<(), Refused> {
        let start = last(&map.ends);
        fill(map)?;
        if has_twins(&map.key, start) {
            return Err(Fail::bad(BadKind::WrongType, "two keys of a map are the same"));
        }
        map.ends.push(end_of(map.key.len())?);
        Ok(())
    }

    /// A map's entries as the fields of the same names.
    fn map_fields(self, datum: &mut Datum, values: NodeId, fields: &[Plan], parts: &mut Struct) -> Result<(), Refused> {
        let row = parts.len;
        parts.open_row();
        datum.elements(|datum| {
            let name = datum.string()?;
            match parts.keys.field(name) {
                Some(index) if parts.mark(index, row) => {
                    return Err(Fail::bad(BadKind::WrongType, "two keys of a map are the same").within(name));
                }
                Some(index) => self.value(datum, &fields[index], &mut parts.fields[index]),
                None => {
                    let target = unknown(parts, name);
                    if !matches!(target, Target::Ghost(_)) {
                        parts.keys.drop_one(target);
                    }
                    datum.skip(self.schema, values, 0)
                }
            }
            .map_err(|refused| refused.within(name))
        })?;
        parts.len += 1;
        if parts.filled_late { Ok(()) } else { parts.fill(row) }
    }

    fn text(self, datum: &mut Datum, node: NodeId, column: &mut Column) -> Result<(), Refused> {
        let mut text = String::new();
        json::write(datum, self.schema, node, &mut text, 0)?;
        column.put_string(&text)
    }
}
