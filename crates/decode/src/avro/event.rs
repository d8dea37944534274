//! Debezium's change events in Avro: the row of each into the columns (`crate::debezium` says which and why).
//!
//! An event is gone over once, which finds out where its fields lie; then those that are wanted are read.

use crate::column::Struct;
use crate::debezium::{Debezium, Extras, Op, Part, Place, place};
use crate::error::{BadKind, Fail, Refused};

use super::datum::{Datum, NO_BRANCH};
use super::json;
use super::plan::{self, FieldPlan, Plan, Without};
use super::schema::{AvroSchema, Node, NodeId};
use super::value::Walk;

/// A field of the event: its place among them, and its type.
type Field = (usize, NodeId);

/// The way of an event's parts into the columns.
#[derive(Debug)]
pub(crate) struct Event {
    /// Types of the event's fields.
    fields: Box<[NodeId]>,
    op: Field,
    before: Option<Row>,
    after: Row,
    wanted: Extras,
    extras: Vec<Extra>,
}

/// A row before or after.
#[derive(Debug)]
struct Row {
    field: Field,
    record: NodeId,
    plan: Box<[FieldPlan]>,
}

/// What is wanted beside the row.
#[derive(Debug)]
struct Extra {
    name: String,
    from: From,
    /// A column of that name, if it is not for transforms alone.
    column: Option<(usize, Plan)>,
}

#[derive(Debug)]
enum From {
    Deleted,
    Field(Field),
    /// Of a record that lies in a field.
    Part(Field, Box<str>, NodeId),
}

impl Event {
    /// For events of that record; `None` where it is none.
    pub(crate) fn new(
        schema: &AvroSchema,
        record: &[(Box<str>, NodeId)],
        root: &mut Struct,
        wanted: &Extras,
        without: Without,
    ) -> Option<Self> {
        let field = |name: &str| {
            let at = record.iter().position(|(field, _)| **field == *name)?;
            Some((at, record[at].1))
        };
        let row = |field: Field, root: &mut Struct| {
            let record = record_in(schema, field.1)?;
            let Node::Record(fields) = schema.node(record) else { return None };
            Some(Row { field, record, plan: plan::fields(schema, fields, root, without, &mut Vec::new()) })
        };
        let after = row(field("after")?, root)?;
        let before = field("before").and_then(|before| row(before, root));
        let mut extras = Vec::new();
        for name in &wanted.names {
            let part = |of: &str, name: &str| {
                let of = field(of)?;
                let node = part_of(schema, record_in(schema, of.1)?, name)?;
                Some(From::Part(of, name.into(), node))
            };
            let from = match place(name) {
                Place::Deleted => Some(From::Deleted),
                Place::Event(name) => field(name).map(From::Field).or_else(|| part("source", name)),
                Place::Source(name) => part("source", name),
                Place::Transaction(name) => part("transaction", name),
            };
            if let Some(from) = from {
                let column = root.keys.field(name).filter(|column| !without.contains(&vec![*column]));
                let column = column.map(|column| (column, from.plan(schema, root, column, without)));
                extras.push(Extra { name: name.clone(), from, column });
            }
        }
        let fields = record.iter().map(|(_, node)| *node).collect();
        Some(Self { fields, op: field("op")?, before, after, wanted: wanted.clone(), extras })
    }

    /// Reads an event; whether there is a row of it.
    pub(crate) fn read(&self, walk: Walk, datum: &mut Datum, root: &mut Struct) -> Result<bool, Refused> {
        let places = self.places(walk.schema, datum)?;
        let op = self.op(walk.schema, &places)?;
        let Some(part) = self.wanted.row_of(op)? else { return Ok(false) };
        let found = self.row(walk.schema, op, part, &places)?;
        if found.is_none() && self.wanted.wanted == Debezium::Before {
            return Ok(false);
        }
        let row = root.len;
        root.open_row();
        if let Some((found, mut datum)) = found {
            walk.fields(&mut datum, &found.plan, root)?;
        }
        for extra in &self.extras {
            let Some((column, plan)) = &extra.column else { continue };
            if let Some(mut datum) = extra.from.find(walk.schema, &places)? {
                root.mark(*column, row);
                walk.value(&mut datum, plan, &mut root.fields[*column])
            } else if matches!(extra.from, From::Deleted) {
                root.mark(*column, row);
                root.fields[*column].put_boolean(op == Op::Delete)
            } else {
                Ok(())
            }
            .map_err(|refused| refused.within(&extra.name))?;
        }
        root.len += 1;
        if !root.filled_late {
            root.fill(row)?;
        }
        Ok(true)
    }

    /// Appends the row and what is wanted beside it as one JSON object, for transforms.
    pub(crate) fn text(&self, schema: &AvroSchema, datum: &mut Datum, out: &mut String) -> Result<(), Refused> {
        let places = self.places(schema, datum)?;
        let op = self.op(schema, &places)?;
        out.push('{');
        let part = self.wanted.row_of(op)?;
        let row = part.map(|part| self.row(schema, op, part, &places)).transpose()?.flatten();
        if let Some((row, mut datum)) = row {
            out.clear();
            json::write(&mut datum, schema, row.record, out, 0)?;
            out.pop();
        }
        for extra in &self.extras {
            let (start, empty) = (out.len(), out.len() == 1);
            out.push_str(if empty { "" } else { "," });
            crate::scan::quote(&extra.name, out);
            out.push(':');
            match (&extra.from, extra.from.find(schema, &places)?) {
                (From::Deleted, _) => out.push_str(if op == Op::Delete { "true" } else { "false" }),
                (From::Field((_, node)) | From::Part(_, _, node), Some(mut datum)) => {
                    json::write(&mut datum, schema, *node, out, 0)?;
                }
                (_, None) => out.truncate(start),
            }
        }
        out.push('}');
        Ok(())
    }

    /// Where each field begins. Goes over the whole event.
    fn places<'a>(&self, schema: &AvroSchema, datum: &mut Datum<'a>) -> Result<Vec<Datum<'a>>, Refused> {
        let place = |node: &NodeId| {
            let place = datum.clone();
            datum.skip(schema, *node, 0)?;
            Ok(place)
        };
        self.fields.iter().map(place).collect()
    }

    fn op(&self, schema: &AvroSchema, places: &[Datum]) -> Result<Op, Refused> {
        let mut text = String::new();
        json::write(&mut places[self.op.0].clone(), schema, self.op.1, &mut text, 0)?;
        let wrong = "the message is no Debezium event: its 'op' is none of c, r, u, d, t and m";
        Op::of(text.trim_matches('"')).ok_or_else(|| Fail::bad(BadKind::NotAnObject, wrong))
    }

    /// The row that the event is about, if it has one.
    fn row<'a>(
        &self,
        schema: &AvroSchema,
        op: Op,
        part: Part,
        places: &[Datum<'a>],
    ) -> Result<Option<(&Row, Datum<'a>)>, Refused> {
        let row = match part {
            Part::After => Some(&self.after),
            Part::Before => self.before.as_ref(),
            Part::Neither => None,
        };
        if let Some(row) = row {
            let mut datum = places[row.field.0].clone();
            if enter(schema, row.field.1, &mut datum)? == Some(row.record) {
                return Ok(Some((row, datum)));
            }
        }
        self.wanted.lacks(op, part)?;
        Ok(None)
    }
}

impl From {
    fn plan(&self, schema: &AvroSchema, root: &mut Struct, column: usize, without: Without) -> Plan {
        match self {
            Self::Deleted => Plan::Wrong("true or false"),
            Self::Field((_, node)) | Self::Part(_, _, node) => {
                plan::value(schema, *node, &mut root.fields[column], without, &mut vec![column])
            }
        }
    }

    /// Where the value lies, if it is one of the event's.
    fn find<'a>(&self, schema: &AvroSchema, places: &[Datum<'a>]) -> Result<Option<Datum<'a>>, Refused> {
        match self {
            Self::Deleted => Ok(None),
            Self::Field((at, _)) => Ok(Some(places[*at].clone())),
            Self::Part((at, node), name, _) => {
                let mut datum = places[*at].clone();
                let Some(record) = enter(schema, *node, &mut datum)? else { return Ok(None) };
                let Node::Record(fields) = schema.node(record) else { return Ok(None) };
                for (field, node) in fields {
                    if field == name {
                        return Ok(Some(datum));
                    }
                    datum.skip(schema, *node, 0)?;
                }
                Ok(None)
            }
        }
    }
}

/// The record that a value of a type is, as far as it is one.
fn record_in(schema: &AvroSchema, node: NodeId) -> Option<NodeId> {
    match schema.node(node) {
        Node::Record(_) => Some(node),
        Node::Union(branches) => branches.iter().copied().find(|one| matches!(schema.node(*one), Node::Record(_))),
        _ => None,
    }
}

fn part_of(schema: &AvroSchema, record: NodeId, name: &str) -> Option<NodeId> {
    let Node::Record(fields) = schema.node(record) else { return None };
    fields.iter().find(|(field, _)| **field == *name).map(|(_, node)| *node)
}

/// Goes into a value that is a record, or a union with one; `None` where another branch is there.
fn enter(schema: &AvroSchema, node: NodeId, datum: &mut Datum) -> Result<Option<NodeId>, Refused> {
    match schema.node(node) {
        Node::Record(_) => Ok(Some(node)),
        Node::Union(branches) => {
            let branch = branches[datum.index(branches.len(), NO_BRANCH)?];
            Ok(matches!(schema.node(branch), Node::Record(_)).then_some(branch))
        }
        _ => Ok(None),
    }
}
