//! What messages hold and the table does not: dropped, and counted by name.

use crate::column::{Data, Struct};

/// A field of messages that is no column, and was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Its dotted path; `None` stands for all names beyond those that are told apart (64 for each object).
    pub path: Option<String>,
    /// How often it was dropped since this was last asked for.
    pub count: u64,
}

/// Takes the counts of a struct, at `path` in the table, and of all inside it.
pub(crate) fn take_unknown(parts: &mut Struct, path: &str, fields: &mut Vec<UnknownField>) {
    let (told, untold) = parts.keys.take_unknown();
    fields.extend(told.into_iter().map(|(name, count)| UnknownField { path: Some(join(path, name)), count }));
    if untold > 0 {
        fields.push(UnknownField { path: None, count: untold });
    }
    for field in &mut parts.fields {
        let path = join(path, &field.name);
        take_unknown_in(&mut field.data, &path, fields);
    }
}

fn take_unknown_in(data: &mut Data, path: &str, fields: &mut Vec<UnknownField>) {
    match data {
        Data::Struct(parts) => take_unknown(parts, path, fields),
        Data::List(list) => take_unknown_in(&mut list.element.data, path, fields),
        Data::Map(map) => take_unknown_in(&mut map.value.data, path, fields),
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
