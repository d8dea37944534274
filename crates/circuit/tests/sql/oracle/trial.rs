//! A schema, views over it, and how its tables change: all out of two tapes.

use std::collections::BTreeMap;

use super::expr::DIVIDED;
use super::kinds::{ALL, Kind, Table};
use super::query::{Maker, column_kind};
use super::tape::Tape;
use crate::case::{Case, Event};

/// A row as text; `None` is NULL.
pub type Values = Vec<Option<String>>;

/// A query with its input, step by step.
#[derive(Clone, Debug)]
pub struct Trial {
    pub tables: Vec<Table>,
    /// Views by name, each over what stands before it; the last is the answer.
    pub views: Vec<(String, String)>,
    pub steps: Vec<Vec<Event>>,
    pub wild: bool,
    pub workers: usize,
    /// Whether each event is taken in by a step of its own.
    pub cut: bool,
    /// Whether tables that no row is taken from are declared to only grow.
    pub grows: bool,
}

/// How many steps a trial has.
pub const STEPS: usize = 12;

pub fn make(shape: &mut Tape, stream: &mut Tape) -> Trial {
    let workers = 1 + shape.below(3);
    let cut = shape.chance(20);
    let wild = shape.chance(15);
    let tables = tables(shape);
    let mut maker = Maker { tape: shape, tables: tables.clone(), wild, aliases: 0 };
    let mut views = Vec::new();
    if maker.tape.chance(20) {
        let inner = maker.query(1);
        let columns = inner.kinds.iter().enumerate().map(|(at, kind)| (format!("c{at}"), *kind)).collect();
        maker.tables.push(Table { name: "v0".to_owned(), columns, keyed: false, grows: false });
        views.push(("v0".to_owned(), inner.sql));
    }
    let depth = 1 + maker.tape.below(2);
    let query = maker.query(depth);
    views.push(("v".to_owned(), query.sql));
    let steps = steps(stream, &tables, wild);
    Trial { tables, views, steps, wild, workers, cut, grows: true }
}

fn tables(tape: &mut Tape) -> Vec<Table> {
    let count = 1 + tape.below(3);
    let key = if tape.chance(20) { *tape.pick(&ALL) } else { Kind::Int };
    let table = |at: usize, tape: &mut Tape| {
        let more = 1 + tape.below(3);
        let mut columns = vec![("k".to_owned(), key)];
        columns.extend(["b", "d", "e"][..more].iter().map(|name| ((*name).to_owned(), column_kind(tape))));
        let keyed = tape.chance(25);
        Table { name: format!("t{at}"), columns, keyed, grows: !keyed && tape.chance(30) }
    };
    (0..count).map(|at| table(at, tape)).collect()
}

/// What each table holds: the rows of a bag, or by key.
#[derive(Clone, Debug, Default)]
pub struct Contents(pub BTreeMap<String, Vec<Values>>);

impl Contents {
    pub fn take(&mut self, event: &Event) {
        let rows = self.0.entry(event.table.clone()).or_default();
        match event.kind {
            '+' => rows.push(event.values.clone()),
            '-' => {
                let at = rows.iter().position(|row| *row == event.values).expect("a row that is there");
                rows.swap_remove(at);
            }
            kind => {
                rows.retain(|row| key(row) != key(&event.values));
                if kind == '^' {
                    rows.push(event.values.clone());
                }
            }
        }
    }
}

/// Both zeros are one key.
fn key(row: &Values) -> Option<&str> {
    row[0].as_deref().map(|key| if key == "-0.0" { "0.0" } else { key })
}

fn steps(tape: &mut Tape, tables: &[Table], wild: bool) -> Vec<Vec<Event>> {
    let mut contents = Contents::default();
    let mut steps = Vec::new();
    for step in 0..STEPS {
        let mut events = Vec::new();
        let size = if step == 0 { 4 + tape.below(10) } else { tape.below(6) };
        if step > 0 && tape.chance(6) {
            events.extend(tables.iter().flat_map(|table| everything(table, &contents)));
            events.iter().for_each(|event| contents.take(event));
        }
        for _ in 0..size {
            let table = tape.pick(tables).clone();
            for event in change(tape, &table, &contents, wild, step == 0) {
                contents.take(&event);
                events.push(event);
            }
        }
        steps.push(events);
    }
    steps
}

fn everything(table: &Table, contents: &Contents) -> Vec<Event> {
    let rows = contents.0.get(&table.name).cloned().unwrap_or_default();
    let kind = if table.keyed { '~' } else { '-' };
    let rows = if table.grows { Vec::new() } else { rows };
    rows.into_iter().map(|values| Event { kind, table: table.name.clone(), values }).collect()
}

/// One change: a row comes, or goes, or is replaced, or comes and goes at once.
fn change(tape: &mut Tape, table: &Table, contents: &Contents, wild: bool, fresh: bool) -> Vec<Event> {
    let event = |kind: char, values: Values| Event { kind, table: table.name.clone(), values };
    let rows = contents.0.get(&table.name).map_or(&[] as &[Values], Vec::as_slice);
    let choice = if fresh { 0 } else { tape.below(10) };
    if table.keyed {
        let row = row(tape, table, wild);
        return match choice {
            0..=5 => vec![event('^', row)],
            6 | 7 => vec![event('~', row)],
            8 => vec![event('~', row.clone()), event('^', row)],
            _ => vec![event('^', row.clone()), event('~', row)],
        };
    }
    let known = if rows.is_empty() { None } else { Some(tape.pick(rows).clone()) };
    // Rows only come, each perhaps once more.
    let choice = if table.grows { choice % 4 } else { choice };
    match (choice, known) {
        (4..=6, Some(known)) => vec![event('-', known)],
        (7, Some(known)) => {
            let mut row = row(tape, table, wild);
            row[0].clone_from(&known[0]);
            vec![event('-', known), event('+', row)]
        }
        (3, Some(known)) => vec![event('+', known)],
        (8, _) => {
            let row = row(tape, table, wild);
            vec![event('+', row.clone()), event('-', row)]
        }
        (9, Some(known)) => vec![event('-', known.clone()), event('+', known)],
        _ => vec![event('+', row(tape, table, wild))],
    }
}

fn row(tape: &mut Tape, table: &Table, wild: bool) -> Values {
    let mut row = Vec::with_capacity(table.columns.len());
    for (at, (_, kind)) in table.columns.iter().enumerate() {
        let null = tape.chance(15) && !(table.keyed && at == 0);
        row.push((!null).then(|| kind.value(tape, wild).to_owned()));
    }
    row
}

impl Trial {
    /// The same in the words of a golden file's case.
    pub fn case(&self) -> Case {
        let views = self.views.iter().map(|(name, sql)| (name.clone(), sql.replace(DIVIDED, "/"))).collect();
        let steps = self.steps.iter().map(|events| (events.clone(), None)).collect();
        Case { tables: self.ddl("PRIMARY KEY"), views, steps, grows: self.grows, ..Case::default() }
    }

    /// A `CREATE TABLE` for each table; a key's column is marked with `key`.
    pub fn ddl(&self, key: &str) -> Vec<String> {
        let table = |table: &Table| {
            let column = |(at, (name, kind)): (usize, &(String, Kind))| {
                let mark = if table.keyed && at == 0 { key } else { "" };
                let kind = if *kind == Kind::Time { "TIMESTAMP(6)" } else { kind.name() };
                format!("{name} {kind} {mark}").trim_end().to_owned()
            };
            let columns: Vec<String> = table.columns.iter().enumerate().map(column).collect();
            format!("CREATE TABLE {} ({})", table.name, columns.join(", "))
        };
        self.tables.iter().map(table).collect()
    }

    /// The views as another dialect writes them.
    pub fn views_for_duckdb(&self) -> Vec<(String, String)> {
        let view = |sql: &str| sql.replace(DIVIDED, "//").replace("DATE_BIN(", "TIME_BUCKET(");
        self.views.iter().map(|(name, sql)| (name.clone(), view(sql))).collect()
    }

    /// The views alone.
    pub fn views_text(&self) -> String {
        let views = self.case().views;
        views.iter().map(|(name, sql)| format!("CREATE VIEW {name} AS {sql};\n")).collect()
    }

    /// As a golden file: what is put there once it is right.
    pub fn text(&self) -> String {
        let case = self.case();
        let mut text: String = case.tables.iter().map(|table| format!("{table};\n")).collect();
        text += &self.views_text();
        let last = self.steps.iter().rposition(|events| !events.is_empty()).unwrap_or(0);
        for events in &self.steps[..=last] {
            let events: Vec<String> = events.iter().map(shown).collect();
            text += &format!("--! {}\n", events.join(" "));
        }
        text
    }
}

fn shown(event: &Event) -> String {
    let value = |value: &Option<String>| value.as_ref().map_or_else(|| "NULL".to_owned(), |value| format!("'{value}'"));
    let values: Vec<String> = event.values.iter().map(value).collect();
    format!("{}{}({})", event.kind, event.table, values.join(","))
}
