//! How a writer's values get into a table's columns: found out once for a schema, followed for each message.
//!
//! Fields and columns find each other by name. What no column takes is gone over and counted.

use crate::column::{Column, Data, Struct};
use crate::key::{NONE, Target};

use super::schema::{AvroSchema, Node, NodeId};

/// What becomes of a value.
#[derive(Debug)]
pub(crate) enum Plan {
    /// One that has no parts, by the rules of its type and the column's.
    Scalar(NodeId),
    /// Anything with parts, as JSON text.
    Text(NodeId),
    /// A union of null and one other type.
    Nullable {
        null: usize,
        other: Box<Plan>,
    },
    /// Another union: by branch.
    Union(Box<[Plan]>),
    Record(Box<[FieldPlan]>),
    /// A record's fields as a map's entries.
    RecordEntries(Box<[(Box<str>, Plan)]>),
    Array(Box<Plan>),
    Map(Box<Plan>),
    /// A map's entries as a struct's fields: by field, for each of the keys.
    MapFields {
        values: NodeId,
        fields: Box<[Plan]>,
    },
    /// A kind of value that the column can't take.
    Wrong(&'static str),
}

/// What becomes of a record's field.
#[derive(Debug)]
pub(crate) struct FieldPlan {
    pub(crate) name: Box<str>,
    pub(crate) to: To,
}

/// Where a field goes.
#[derive(Debug)]
pub(crate) enum To {
    Column(usize, Plan),
    /// Nowhere; counted as unknown.
    Unknown(Target, NodeId),
    /// Nowhere: a transform looks at it, or sets what it would.
    Nowhere(NodeId),
}

/// Which columns are left to transforms: field indices from the root.
pub(crate) type Without<'a> = &'a [Vec<usize>];

/// The plan of a record's fields into the columns of `parts`, which lie at `path`.
pub(crate) fn fields(
    schema: &AvroSchema,
    record: &[(Box<str>, NodeId)],
    parts: &mut Struct,
    without: Without,
    path: &mut Vec<usize>,
) -> Box<[FieldPlan]> {
    let field = |(name, node): &(Box<str>, NodeId)| {
        let to = match parts.keys.field(name) {
            Some(index) => {
                path.push(index);
                let left_out = without.contains(path);
                let plan = match left_out {
                    true => To::Nowhere(*node),
                    false => To::Column(index, value(schema, *node, &mut parts.fields[index], without, path)),
                };
                path.pop();
                plan
            }
            None => match unknown(parts, name) {
                Target::Ghost(_) => To::Nowhere(*node),
                target => To::Unknown(target, *node),
            },
        };
        FieldPlan { name: name.clone(), to }
    };
    record.iter().map(field).collect()
}

/// What counts a field that is no column.
pub(crate) fn unknown(parts: &mut Struct, name: &str) -> Target {
    let slot = parts.keys.look_up(NONE, name);
    parts.keys.found(slot).target
}

/// The plan of a value into `column`, which lies at `path`.
pub(crate) fn value(
    schema: &AvroSchema,
    node: NodeId,
    column: &mut Column,
    without: Without,
    path: &mut Vec<usize>,
) -> Plan {
    match schema.node(node) {
        Node::Union(branches) => {
            let null = branches.iter().position(|branch| matches!(schema.node(*branch), Node::Null));
            if let (Some(null @ (0 | 1)), &[first, second]) = (null, &**branches) {
                let other = if null == 0 { second } else { first };
                let other = Box::new(value(schema, other, column, without, path));
                return Plan::Nullable { null, other };
            }
            Plan::Union(branches.iter().map(|branch| value(schema, *branch, column, without, path)).collect())
        }
        Node::Record(record) => match &mut column.data {
            Data::Struct(parts) => Plan::Record(fields(schema, record, parts, without, path)),
            Data::Map(map) => {
                let entry = |(name, node): &(Box<str>, NodeId)| {
                    (name.clone(), value(schema, *node, &mut map.value, &[], &mut Vec::new()))
                };
                Plan::RecordEntries(record.iter().map(entry).collect())
            }
            Data::String(_) => Plan::Text(node),
            _ => Plan::Wrong("a record"),
        },
        Node::Array(items) => match &mut column.data {
            // Transforms set nothing inside of arrays and maps.
            Data::List(list) => Plan::Array(Box::new(value(schema, *items, &mut list.element, &[], &mut Vec::new()))),
            Data::String(_) => Plan::Text(node),
            _ => Plan::Wrong("an array"),
        },
        Node::Map(values) => match &mut column.data {
            Data::Map(map) => Plan::Map(Box::new(value(schema, *values, &mut map.value, &[], &mut Vec::new()))),
            Data::Struct(parts) => {
                let plan = |field: &mut Column| value(schema, *values, field, &[], &mut Vec::new());
                Plan::MapFields { values: *values, fields: parts.fields.iter_mut().map(plan).collect() }
            }
            Data::String(_) => Plan::Text(node),
            _ => Plan::Wrong("a map"),
        },
        _ => Plan::Scalar(node),
    }
}
