//! What a table's schema lacks for messages: new fields, typed as [`infer`](crate::infer) types them, and wider types.
//!
//! - A field that is only ever null, an empty array or an empty object has no type yet, and waits.
//! - A name that differs from a column's, or from that of an earlier new one, by case alone is no new column.
//! - What a transform reads and the table does not have is known and left out on purpose: it is no new column.
//! - Inside of a string column nothing is new, its text has it all; nor are a map's keys.

use arrow_schema::{DataType, Field, Fields, Schema};

use crate::column::{Column, Data, Struct};
use crate::decoder::Decoder;
use crate::infer::Seen;
use crate::key::Target;
use crate::number::{self, Misfit};
use crate::tree::{Tree, last_wins};

/// How far a schema may grow.
pub struct Bounds<'a> {
    /// May this be a new column's name?
    pub takes_name: &'a dyn Fn(&str) -> bool,
    /// May byte, short, integer become long, and float double?
    pub widens: bool,
    /// Columns, counted by their leaves, beyond which no new one is added.
    pub most_columns: usize,
}

/// What messages ask of a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// The schema that takes them all in; `None` where it is the same.
    pub schema: Option<Schema>,
    /// Each change: the field's dotted path, as dropped fields are told (arrays and maps are no steps of it), and in words, as `new column a.b (long)`, `column n from integer to long`.
    pub changes: Vec<(String, String)>,
    /// Fields that can be no column: their dotted paths, and why.
    pub refused: Vec<(String, &'static str)>,
}

impl Decoder {
    /// What the schema lacks for these messages, all together. What is no JSON object is passed over.
    ///
    /// The cost of a parse into trees: ask where [`take_unknown_fields`](Self::take_unknown_fields) tells of new names.
    pub fn growth<'a>(&self, messages: impl IntoIterator<Item = &'a [u8]>, bounds: &Bounds<'_>) -> Growth {
        let mut grower = Grower { bounds, growth: Growth::default(), path: Vec::new() };
        let mut parts = Part::of_struct(self.schema().fields(), self.root());
        for message in messages {
            if let Some(Tree::Object(members)) =
                std::str::from_utf8(message).ok().and_then(|text| Tree::parse(text).ok())
            {
                grower.members(&mut parts, members);
            }
        }
        let mut left = bounds.most_columns.saturating_sub(leaves(self.schema().fields()));
        let fields = grower.fields(&parts, &mut left);
        let mut growth = grower.growth;
        growth.schema = (!growth.changes.is_empty()).then(|| Schema::new(fields));
        growth
    }
}

/// A struct's parts as far as they are seen.
struct Parts {
    fields: Vec<(String, Part)>,
    /// Names that transforms read and the table does not have.
    known: Vec<String>,
}

/// A field, or what lies inside of an array or map.
enum Part {
    Struct(Field, Parts),
    List(Field, Box<Part>),
    Map(Field, Box<Part>),
    /// A column, and the type that it becomes.
    Leaf(Field, Option<DataType>),
    New(Seen),
}

impl Part {
    fn of_struct(fields: &Fields, columns: &Struct) -> Parts {
        let known = columns.keys.names().filter(|(_, target)| matches!(target, Target::Ghost(_)));
        let known = known.map(|(name, _)| name.to_owned()).collect();
        let parts = fields.iter().zip(&columns.fields);
        let fields = parts.map(|(field, column)| (field.name().clone(), Self::of(field, column))).collect();
        Parts { fields, known }
    }

    fn of(field: &Field, column: &Column) -> Self {
        let own = field.clone();
        match (field.data_type(), &column.data) {
            (DataType::Struct(fields), Data::Struct(parts)) => Self::Struct(own, Self::of_struct(fields, parts)),
            (DataType::List(element), Data::List(list)) => Self::List(own, Box::new(Self::of(element, &list.element))),
            (DataType::Map(entries, _), Data::Map(map)) => match entries.data_type() {
                DataType::Struct(pair) => Self::Map(own, Box::new(Self::of(&pair[1], &map.value))),
                _ => Self::Leaf(own, None),
            },
            _ => Self::Leaf(own, None),
        }
    }
}

struct Grower<'a> {
    bounds: &'a Bounds<'a>,
    growth: Growth,
    path: Vec<String>,
}

impl Grower<'_> {
    fn members(&mut self, parts: &mut Parts, members: Vec<(String, Tree)>) {
        for (name, value) in last_wins(members) {
            let at = parts.fields.iter().position(|(other, _)| *other == name);
            self.path.push(name.clone());
            match at {
                Some(at) => self.see(&mut parts.fields[at].1, value),
                None if parts.known.contains(&name) || is_null(&value) => {}
                None => {
                    let lower = name.to_lowercase();
                    if parts.fields.iter().any(|(other, _)| other.to_lowercase() == lower) {
                        self.refuse("its name differs from a column's by case alone");
                    } else if !(self.bounds.takes_name)(&name) {
                        self.refuse("a table without column mapping can't have a column of this name");
                    } else {
                        let mut part = Part::New(Seen::Nothing);
                        self.see(&mut part, value);
                        parts.fields.push((name, part));
                    }
                }
            }
            self.path.pop();
        }
    }

    fn see(&mut self, part: &mut Part, value: Tree) {
        match (part, value) {
            (Part::New(seen), value) => seen.add(self.without_unfit(value)),
            (Part::Struct(_, parts), Tree::Object(members)) => self.members(parts, members),
            (Part::List(_, element), Tree::Array(elements)) => {
                elements.into_iter().for_each(|value| self.see(element, value));
            }
            (Part::Map(_, inner), Tree::Object(members)) => {
                last_wins(members).into_iter().for_each(|(_, value)| self.see(inner, value));
            }
            // Text with a number in it is one, too.
            (Part::Leaf(field, wider), Tree::Word(text) | Tree::String(text)) if self.bounds.widens => {
                let now = wider.as_ref().unwrap_or(field.data_type());
                if let Some(needed) = wide_enough(now, text.trim_ascii()) {
                    *wider = Some(needed);
                }
            }
            _ => {}
        }
    }

    /// A new field's value without the fields inside that can be no column.
    fn without_unfit(&mut self, value: Tree) -> Tree {
        match value {
            Tree::Object(members) => {
                let mut kept = Vec::with_capacity(members.len());
                for (name, value) in members {
                    self.path.push(name.clone());
                    if (self.bounds.takes_name)(&name) {
                        kept.push((name, self.without_unfit(value)));
                    } else {
                        self.refuse("a table without column mapping can't have a column of this name");
                    }
                    self.path.pop();
                }
                Tree::Object(kept)
            }
            Tree::Array(elements) => {
                Tree::Array(elements.into_iter().map(|element| self.without_unfit(element)).collect())
            }
            other => other,
        }
    }

    fn refuse(&mut self, why: &'static str) {
        let path = self.path.join(".");
        if !self.growth.refused.iter().any(|(known, _)| *known == path) {
            self.growth.refused.push((path, why));
        }
    }

    /// The fields that parts come to; `left` is how many leaves may be added.
    fn fields(&mut self, parts: &Parts, left: &mut usize) -> Fields {
        let mut fields = Vec::with_capacity(parts.fields.len());
        for (name, part) in &parts.fields {
            self.path.push(name.clone());
            fields.extend(self.field(name, part, left));
            self.path.pop();
        }
        fields.into()
    }

    fn field(&mut self, name: &str, part: &Part, left: &mut usize) -> Option<Field> {
        Some(match part {
            Part::Struct(field, parts) => retyped(field, DataType::Struct(self.fields(parts, left))),
            Part::List(field, element) => {
                let inner = self.field(name, element, left)?;
                retyped(field, DataType::List(inner.into()))
            }
            Part::Map(field, value) => {
                let value = self.field(name, value, left)?;
                let DataType::Map(entries, sorted) = field.data_type() else { return Some(field.clone()) };
                let DataType::Struct(pair) = entries.data_type() else { return Some(field.clone()) };
                let pair = DataType::Struct(vec![pair[0].clone(), value.into()].into());
                retyped(field, DataType::Map(retyped(entries, pair).into(), *sorted))
            }
            Part::Leaf(field, None) => field.clone(),
            Part::Leaf(field, Some(wider)) => {
                let (path, from, to) = (self.path.join("."), type_name(field.data_type()), type_name(wider));
                let change = format!("column {path} from {from} to {to}");
                self.growth.changes.push((path, change));
                retyped(field, wider.clone())
            }
            Part::New(seen) => {
                let kind = seen.data_type()?;
                let more = leaves_of(&kind);
                if more > *left {
                    self.refuse("the table has as many columns as --evolve makes");
                    return None;
                }
                *left -= more;
                let path = self.path.join(".");
                let change = format!("new column {path} ({})", type_name(&kind));
                self.growth.changes.push((path, change));
                Field::new(name, kind, true)
            }
        })
    }
}

fn retyped(field: &Field, kind: DataType) -> Field {
    field.clone().with_data_type(kind)
}

fn is_null(value: &Tree) -> bool {
    matches!(value, Tree::Word(word) if word == "null")
}

/// The type that takes the number as well, where `now` does not and a wider one does.
fn wide_enough(now: &DataType, text: &str) -> Option<DataType> {
    if *now == DataType::Float32 {
        let fits = number::float(text) != Err(Misfit::Range);
        return (!fits && number::double(text).is_ok()).then_some(DataType::Float64);
    }
    let ranks = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64];
    let rank = ranks.iter().position(|kind| kind == now)?;
    let needed = match number::whole(text).ok()? {
        value if i8::try_from(value).is_ok() => 0,
        value if i16::try_from(value).is_ok() => 1,
        value if i32::try_from(value).is_ok() => 2,
        _ => 3,
    };
    (needed > rank).then(|| ranks[needed].clone())
}

/// Columns of no parts.
fn leaves(fields: &Fields) -> usize {
    fields.iter().map(|field| leaves_of(field.data_type())).sum()
}

fn leaves_of(kind: &DataType) -> usize {
    match kind {
        DataType::Struct(fields) => leaves(fields),
        DataType::List(field) | DataType::Map(field, _) => leaves_of(field.data_type()),
        _ => 1,
    }
}

/// A type in Delta's words, as far as messages have it.
fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 => "byte".to_owned(),
        DataType::Int16 => "short".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::List(element) => format!("array<{}>", type_name(element.data_type())),
        DataType::Struct(fields) => {
            let parts = fields.iter().map(|field| format!("{}: {}", field.name(), type_name(field.data_type())));
            format!("struct<{}>", parts.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
