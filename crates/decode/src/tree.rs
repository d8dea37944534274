//! A message as a tree, for the slow way and for inference: members in their order, numbers by their texts.

use crate::column::{Column, Data, Struct};
use crate::error::Refused;
use crate::scan::{Cursor, quote};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    /// `null`, `true`, `false` or a number: its text.
    Word(String),
    String(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// Parses one JSON document.
    pub(crate) fn parse(text: &str) -> Result<Self, Refused> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        let tree = Self::value(&mut cursor, 0)?;
        cursor.end()?;
        Ok(tree)
    }

    fn value(cursor: &mut Cursor, depth: usize) -> Result<Self, Refused> {
        let mut scratch = String::new();
        match cursor.peek() {
            b'"' => Ok(Self::String(cursor.string(&mut scratch)?.to_owned())),
            b'[' => {
                let mut elements = Vec::new();
                cursor.elements(depth, |cursor| {
                    elements.push(Self::value(cursor, depth + 1)?);
                    Ok(())
                })?;
                Ok(Self::Array(elements))
            }
            b'{' => {
                let mut members = Vec::new();
                cursor.members(depth, |cursor| {
                    let name = cursor.string(&mut scratch)?.to_owned();
                    cursor.colon()?;
                    members.push((name, Self::value(cursor, depth + 1)?));
                    Ok(())
                })?;
                Ok(Self::Object(members))
            }
            _ => {
                let start = cursor.at;
                cursor.skip_value(depth, &mut scratch)?;
                Ok(Self::Word(cursor.text[start..cursor.at].to_owned()))
            }
        }
    }

    /// Keeps the last of each key's values in what becomes `parts`, inside too. What becomes text stays as it is.
    pub(crate) fn keep_last(&mut self, parts: &Struct) {
        let Self::Object(members) = self else { return };
        *members = last_wins(std::mem::take(members));
        for (name, value) in members {
            if let Some(field) = parts.keys.field(name) {
                value.keep_last_in(&parts.fields[field]);
            }
        }
    }

    fn keep_last_in(&mut self, column: &Column) {
        match (&column.data, self) {
            (Data::Struct(parts), tree) => tree.keep_last(parts),
            (Data::List(list), Self::Array(elements)) => {
                elements.iter_mut().for_each(|element| element.keep_last_in(&list.element));
            }
            (Data::Map(map), Self::Object(members)) => {
                *members = last_wins(std::mem::take(members));
                members.iter_mut().for_each(|(_, value)| value.keep_last_in(&map.value));
            }
            _ => {}
        }
    }

    /// Sets the value at `path`, making objects on the way out of whatever is there.
    pub(crate) fn set(&mut self, path: &[String], value: Self) {
        let Some((name, rest)) = path.split_first() else {
            *self = value;
            return;
        };
        if !matches!(self, Self::Object(_)) {
            *self = Self::Object(Vec::new());
        }
        let Self::Object(members) = self else { unreachable!("made one above") };
        let at = members.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            members.push((name.clone(), Self::Word("null".to_owned())));
            members.len() - 1
        });
        members[at].1.set(rest, value);
    }

    /// Appends the compact text.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Word(text) => out.push_str(text),
            Self::String(text) => quote(text, out),
            Self::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    quote(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Each name once, where it came first, with the value that came last.
pub(crate) fn last_wins(members: Vec<(String, Tree)>) -> Vec<(String, Tree)> {
    let mut at = ahash::AHashMap::with_capacity(members.len());
    let mut kept: Vec<(String, Tree)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        match at.get(&name) {
            Some(&place) => kept[place] = (name, value),
            None => {
                at.insert(name.clone(), kept.len());
                kept.push((name, value));
            }
        }
    }
    kept
}
