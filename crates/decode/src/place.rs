//! Where a transform's value goes: the way to its column, and what that does to the structs on it.

use crate::column::{Column, Data, Struct};
use crate::error::{PlanError, Refused};

/// A transform's place in a table: field indices and names.
pub(crate) type Place = (Vec<usize>, Vec<String>);

/// The place of `property`: the column of that very name, or a part of a struct. `None` when there is none.
pub(crate) fn place(property: &str, root: &Struct) -> Result<Option<Place>, PlanError> {
    if let Some(index) = root.keys.field(property) {
        return Ok(Some((vec![index], vec![property.to_owned()])));
    }
    let (mut path, mut names) = (Vec::new(), Vec::new());
    let mut parts = root;
    let mut rest = property.split('.').peekable();
    while let Some(name) = rest.next() {
        let Some(index) = parts.keys.field(name) else { return Ok(None) };
        path.push(index);
        names.push(name.to_owned());
        match &parts.fields[index].data {
            Data::Struct(inner) => parts = inner,
            _ if rest.peek().is_none() => {}
            _ => return Err(PlanError::Target { property: property.to_owned(), column: names.join(".") }),
        }
    }
    Ok(Some((path, names)))
}

/// Marks the structs on the way to a transform's target.
pub(crate) fn fill_late(parts: &mut Struct, path: &[usize]) {
    parts.filled_late = true;
    let Some((&index, rest)) = path.split_first() else { return };
    if let Data::Struct(inner) = &mut parts.fields[index].data
        && !rest.is_empty()
    {
        fill_late(inner, rest);
    }
}

/// The struct at `path`, there in row `row` afterwards, as all on the way are.
pub(crate) fn open_struct<'a>(mut parts: &'a mut Struct, path: &[usize], row: usize) -> &'a mut Struct {
    for &index in path {
        let there = parts.mark(index, row);
        let column = &mut parts.fields[index];
        let null = there && column.nulls.last().is_some_and(|&last| last as usize == row);
        if null {
            column.nulls.pop();
        }
        let Data::Struct(inner) = &mut column.data else { unreachable!("placed through structs") };
        if null {
            inner.truncate(row);
        }
        if null || !there {
            inner.len = row + 1;
            inner.open_row();
        }
        parts = inner;
    }
    parts
}

impl Struct {
    /// A field, cut back for a value in row `row`.
    #[inline]
    pub(crate) fn open(&mut self, field: usize, row: usize) -> &mut Column {
        if self.mark(field, row) {
            self.fields[field].truncate(row);
        }
        &mut self.fields[field]
    }
}

/// Closes row `row` of structs that transforms set parts of: what is still missing is null.
pub(crate) fn fill(parts: &mut Struct, late: &[Vec<usize>], row: usize) -> Result<(), Refused> {
    for path in late {
        fill_at(parts, path, row)?;
    }
    Ok(())
}

/// Fills the struct at `path`, unless it is null or missing.
fn fill_at(parts: &mut Struct, path: &[usize], row: usize) -> Result<(), Refused> {
    let Some((&index, rest)) = path.split_first() else { return parts.fill(row) };
    let column = &mut parts.fields[index];
    let null = column.nulls.last().is_some_and(|&last| last as usize == row);
    match &mut column.data {
        Data::Struct(inner) if inner.len > row && !null => {
            fill_at(inner, rest, row).map_err(|refused| refused.within(&column.name))
        }
        _ => Ok(()),
    }
}
