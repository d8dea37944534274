//! A writer's schema, as the reader of values wants it: nodes by number, so that types may name themselves.
//!
//! Parsing, names and the canonical form are `apache_avro`'s. Debezium and Kafka Connect write what a number means
//! into an attribute of their own (`connect.name`); where it is one that Avro has a logical type for, and none stands
//! there, it is read as that.

use std::collections::HashMap;
use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::rabin::Rabin;
use apache_avro::schema::{DecimalSchema, InnerDecimalSchema, Name, NamespaceRef, RecordSchema, UuidSchema};
use serde_json::Value;

use crate::schemas::ReferredSchema;

/// An Avro schema, ready to read values by. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AvroSchema(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    nodes: Vec<Node>,
    top: NodeId,
    fingerprint: [u8; 8],
}

/// Why a text is no Avro schema to read values by.
#[derive(Debug, thiserror::Error)]
#[error("this is no Avro schema: {detail}")]
pub struct AvroSchemaError {
    detail: String,
}

/// A type's place among a schema's nodes.
pub(crate) type NodeId = u32;

/// A type.
#[derive(Debug)]
pub(crate) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(Box<[Box<str>]>),
    Date,
    TimeMillis,
    TimeMicros,
    Timestamp(Unit, Zone),
    Decimal {
        precision: usize,
        scale: i64,
        size: Size,
    },
    /// Bytes that hold the digits' bytes and the scale.
    BigDecimal,
    UuidText,
    UuidBytes(Size),
    /// Months, days and milliseconds.
    Duration,
    Array(NodeId),
    Map(NodeId),
    Union(Box<[NodeId]>),
    Record(Box<[(Box<str>, NodeId)]>),
}

/// How long a run of bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// It says so itself.
    Told,
    Fixed(usize),
}

/// What a timestamp counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Micros,
    Nanos,
}

/// Whose clock a timestamp is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    Utc,
    Local,
}

impl AvroSchema {
    /// Reads a schema, and those that it refers to by full name.
    ///
    /// # Errors
    /// It is none, a name is missing, or a type contains itself without an end.
    pub fn parse(text: &str, references: &[ReferredSchema]) -> Result<Self, AvroSchemaError> {
        let wrong = |detail: String| AvroSchemaError { detail };
        let read = |text: &str| {
            let mut value: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
            prepare(&mut value);
            Ok::<_, AvroSchemaError>(value.to_string())
        };
        let others = references.iter().map(|other| read(&other.text)).collect::<Result<Vec<_>, _>>()?;
        let (schema, others) =
            Schema::parse_str_with_list(&read(text)?, &others).map_err(|error| wrong(error.to_string()))?;
        let mut compiler = Compiler { nodes: Vec::new(), names: HashMap::new(), others: &others };
        let top = compiler.node(&schema, None).map_err(wrong)?;
        if let Some(endless) = endless(&compiler.nodes) {
            return Err(wrong(format!("record {endless} contains itself, so its values have no end")));
        }
        let mut whole = schema;
        whole.denormalize(&others).map_err(|error| wrong(error.to_string()))?;
        let fingerprint = whole.fingerprint::<Rabin>().bytes.try_into().expect("64 bits");
        Ok(Self(Arc::new(Parsed { nodes: compiler.nodes, top, fingerprint })))
    }

    /// CRC-64-AVRO of the canonical form, as single-object encoding writes it (little endian).
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 8] {
        self.0.fingerprint
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.0.nodes[id as usize]
    }

    pub(crate) fn top(&self) -> NodeId {
        self.0.top
    }
}

/// Gives numbers whose meaning Kafka Connect or Debezium names the logical type that says the same. Takes defaults out:
/// a writer's values are all there, and a default that does not fit its type is no reason not to read them.
fn prepare(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(prepare),
        Value::Object(members) => {
            members.remove("default");
            let named = members.get("connect.name").and_then(Value::as_str).and_then(logical_type);
            if let Some((of, logical)) = named
                && members.get("type").and_then(Value::as_str) == Some(of)
                && !members.contains_key("logicalType")
            {
                members.insert("logicalType".to_owned(), logical.into());
            }
            members.values_mut().for_each(prepare);
        }
        _ => {}
    }
}

/// Avro's type and logical type of what Connect calls by a name.
fn logical_type(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => ("int", "date"),
        "io.debezium.time.Time" | "org.apache.kafka.connect.data.Time" => ("int", "time-millis"),
        "io.debezium.time.MicroTime" => ("long", "time-micros"),
        "io.debezium.time.Timestamp" => ("long", "local-timestamp-millis"),
        "org.apache.kafka.connect.data.Timestamp" => ("long", "timestamp-millis"),
        "io.debezium.time.MicroTimestamp" => ("long", "local-timestamp-micros"),
        "io.debezium.time.NanoTimestamp" => ("long", "local-timestamp-nanos"),
        _ => return None,
    })
}

struct Compiler<'a> {
    nodes: Vec<Node>,
    /// Full names of the types that there are.
    names: HashMap<String, NodeId>,
    others: &'a [Schema],
}

impl Compiler<'_> {
    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a schema has fewer types than bytes")
    }

    /// A type with a name; one of that name is never there yet, the parser sees to that.
    fn add_named(&mut self, name: &Name, space: NamespaceRef, node: Node) -> NodeId {
        let id = self.add(node);
        self.names.insert(name.fullname(space), id);
        id
    }

    fn node(&mut self, schema: &Schema, space: NamespaceRef) -> Result<NodeId, String> {
        Ok(match schema {
            Schema::Array(array) => {
                let items = self.node(&array.items, space)?;
                self.add(Node::Array(items))
            }
            Schema::Map(map) => {
                let values = self.node(&map.types, space)?;
                self.add(Node::Map(values))
            }
            Schema::Union(union) => {
                let branches = union.variants().iter().map(|branch| self.node(branch, space));
                let branches = branches.collect::<Result<_, _>>()?;
                self.add(Node::Union(branches))
            }
            Schema::Record(record) => self.record(record, space)?,
            Schema::Enum(one) => {
                let symbols = one.symbols.iter().map(|symbol| symbol.as_str().into()).collect();
                self.add_named(&one.name, space, Node::Enum(symbols))
            }
            Schema::Fixed(fixed) => self.add_named(&fixed.name, space, Node::Fixed(fixed.size)),
            Schema::Duration(fixed) => self.add_named(&fixed.name, space, Node::Duration),
            Schema::Uuid(UuidSchema::Fixed(fixed)) => {
                self.add_named(&fixed.name, space, Node::UuidBytes(Size::Fixed(fixed.size)))
            }
            Schema::Decimal(DecimalSchema { precision, scale, inner }) => {
                let precision = *precision;
                let scale = i64::try_from(*scale).map_err(|_| format!("a decimal of scale {scale}"))?;
                match inner {
                    InnerDecimalSchema::Bytes => self.add(Node::Decimal { precision, scale, size: Size::Told }),
                    InnerDecimalSchema::Fixed(fixed) => {
                        let node = Node::Decimal { precision, scale, size: Size::Fixed(fixed.size) };
                        self.add_named(&fixed.name, space, node)
                    }
                }
            }
            Schema::Ref { name } => self.named(name, space)?,
            plain => {
                let node = unnamed(plain);
                self.add(node)
            }
        })
    }

    fn record(&mut self, record: &RecordSchema, space: NamespaceRef) -> Result<NodeId, String> {
        // Its fields may name it.
        let id = self.add_named(&record.name, space, Node::Record(Box::default()));
        let name = record.name.fully_qualified_name(space);
        let fields = record.fields.iter().map(|field| {
            let node = self.node(&field.schema, name.namespace())?;
            Ok((field.name.as_str().into(), node))
        });
        let fields = fields.collect::<Result<_, String>>()?;
        self.nodes[id as usize] = Node::Record(fields);
        Ok(id)
    }

    fn named(&mut self, name: &Name, space: NamespaceRef) -> Result<NodeId, String> {
        let full = name.fullname(space);
        if let Some(id) = self.names.get(&full) {
            return Ok(*id);
        }
        let other = self.others.iter().find(|other| other.name().is_some_and(|name| name.fullname(None) == full));
        match other {
            Some(other) => self.node(other, None),
            None => Err(format!("there is no type {full}")),
        }
    }
}

/// Types without parts and names.
fn unnamed(schema: &Schema) -> Node {
    match schema {
        Schema::Null => Node::Null,
        Schema::Boolean => Node::Boolean,
        Schema::Int => Node::Int,
        Schema::Long => Node::Long,
        Schema::Float => Node::Float,
        Schema::Double => Node::Double,
        Schema::Bytes => Node::Bytes,
        Schema::String => Node::String,
        Schema::Date => Node::Date,
        Schema::TimeMillis => Node::TimeMillis,
        Schema::TimeMicros => Node::TimeMicros,
        Schema::TimestampMillis => Node::Timestamp(Unit::Millis, Zone::Utc),
        Schema::TimestampMicros => Node::Timestamp(Unit::Micros, Zone::Utc),
        Schema::TimestampNanos => Node::Timestamp(Unit::Nanos, Zone::Utc),
        Schema::LocalTimestampMillis => Node::Timestamp(Unit::Millis, Zone::Local),
        Schema::LocalTimestampMicros => Node::Timestamp(Unit::Micros, Zone::Local),
        Schema::LocalTimestampNanos => Node::Timestamp(Unit::Nanos, Zone::Local),
        Schema::BigDecimal => Node::BigDecimal,
        Schema::Uuid(UuidSchema::String) => Node::UuidText,
        Schema::Uuid(UuidSchema::Bytes) => Node::UuidBytes(Size::Told),
        named => unreachable!("{named:?} is seen to by the compiler"),
    }
}

/// A record that contains itself, with no union, array or map between.
fn endless(nodes: &[Node]) -> Option<String> {
    /// 0: not seen; 1: being looked at; 2: ends.
    fn ends(nodes: &[Node], id: NodeId, seen: &mut [u8]) -> bool {
        let Node::Record(fields) = &nodes[id as usize] else { return true };
        match seen[id as usize] {
            1 => return false,
            2 => return true,
            _ => seen[id as usize] = 1,
        }
        let all = fields.iter().all(|(_, field)| ends(nodes, *field, seen));
        seen[id as usize] = 2;
        all
    }
    let mut seen = vec![0; nodes.len()];
    let records = nodes.iter().zip(0..).filter(|(node, _)| matches!(node, Node::Record(_)));
    for (node, id) in records {
        if seen[id as usize] == 0 && !ends(nodes, id, &mut seen) {
            let Node::Record(fields) = node else { continue };
            return Some(format!(
                "of fields {}",
                fields.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ")
            ));
        }
    }
    None
}
