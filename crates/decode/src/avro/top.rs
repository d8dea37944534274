//! A whole message into a row: a record's fields into the columns of their names, any other value into `value`.

use crate::column::Struct;
use crate::debezium::Extras;
use crate::error::{BadKind, Fail, Refused};
use crate::reader::Rows;

use super::datum::{Datum, NO_BRANCH};
use super::event::Event;
use super::json;
use super::plan::{self, FieldPlan, Plan, Without};
use super::schema::{AvroSchema, Node, NodeId};
use super::value::Walk;

/// The column that takes messages which are no records.
pub(crate) const VALUE: &str = "value";

/// A schema, with the way of its values into the table.
#[derive(Debug)]
pub(crate) struct Known {
    schema: AvroSchema,
    /// Messages are Debezium's events, of which this is wanted.
    wanted: Option<Extras>,
    top: Top,
}

#[derive(Debug)]
enum Top {
    Record(Box<[FieldPlan]>),
    Union(Box<[Top]>),
    Event(Event),
    Value(usize, Plan),
    Refused(&'static str),
}

impl Known {
    pub(crate) fn new(schema: AvroSchema, wanted: Option<Extras>, root: &mut Struct) -> Self {
        let top = top(&schema, schema.top(), wanted.as_ref(), root, &[]);
        Self { schema, wanted, top }
    }

    /// Reads one value as one more row, if it has one, and closes it. `text` is kept for the next one.
    pub(crate) fn row(&self, datum: &mut Datum, rows: &mut Rows, text: &mut String) -> Result<(), Refused> {
        let (start, row) = (datum.clone(), rows.root.len);
        text.clear();
        if rows.looked_into {
            self.top.text(&self.schema, self.schema.top(), &mut datum.clone(), text)?;
        }
        let walk = Walk { schema: &self.schema };
        let made = self.top.read(walk, datum, rows.root).or_else(|refused| {
            rows.root.truncate(row);
            if !rows.may_replace(&refused) {
                return Err(refused);
            }
            // What transforms set need not fit as it is.
            let without = rows.replaced(text)?;
            *datum = start;
            let top = top(&self.schema, self.schema.top(), self.wanted.as_ref(), rows.root, &without);
            top.read(walk, datum, rows.root)
        })?;
        if made { rows.close(text) } else { Ok(()) }
    }
}

fn top(schema: &AvroSchema, node: NodeId, wanted: Option<&Extras>, root: &mut Struct, without: Without) -> Top {
    match (schema.node(node), wanted) {
        (Node::Record(record), None) => Top::Record(plan::fields(schema, record, root, without, &mut Vec::new())),
        (Node::Record(record), Some(wanted)) => match Event::new(schema, record, root, wanted, without) {
            Some(event) => Top::Event(event),
            None => Top::Refused("the message is no Debezium event: its schema has no record 'after', or no 'op'"),
        },
        (Node::Union(branches), _) => {
            Top::Union(branches.iter().map(|branch| top(schema, *branch, wanted, root, without)).collect())
        }
        (Node::Null, _) => Top::Refused("the message is null"),
        _ => match root.keys.field(VALUE) {
            Some(index) => {
                let plan = plan::value(schema, node, &mut root.fields[index], without, &mut vec![index]);
                Top::Value(index, plan)
            }
            None => Top::Refused("the message is not an Avro record, and the table has no column 'value' to take it"),
        },
    }
}

impl Top {
    /// Reads a value; whether there is a row of it.
    fn read(&self, walk: Walk, datum: &mut Datum, root: &mut Struct) -> Result<bool, Refused> {
        match self {
            Self::Record(fields) => walk.record(datum, fields, root).map(|()| true),
            Self::Event(event) => event.read(walk, datum, root),
            Self::Union(branches) => branches[datum.index(branches.len(), NO_BRANCH)?].read(walk, datum, root),
            Self::Value(index, plan) => {
                let row = root.len;
                root.open_row();
                root.mark(*index, row);
                walk.value(datum, plan, &mut root.fields[*index]).map_err(|refused| refused.within(VALUE))?;
                root.len += 1;
                if root.filled_late { Ok(true) } else { root.fill(row).map(|()| true) }
            }
            Self::Refused(what) => Err(Fail::bad(BadKind::NotAnObject, what)),
        }
    }

    /// Appends what transforms look into.
    fn text(&self, schema: &AvroSchema, node: NodeId, datum: &mut Datum, out: &mut String) -> Result<(), Refused> {
        match (self, schema.node(node)) {
            (Self::Event(event), _) => event.text(schema, datum, out),
            (Self::Union(tops), Node::Union(branches)) => {
                let at = datum.index(branches.len(), NO_BRANCH)?;
                tops[at].text(schema, branches[at], datum, out)
            }
            _ => json::write(datum, schema, node, out, 0),
        }
    }
}
