//! A golden file: tables and a view in SQL, then in comments the steps and the view's rows after each.
//!
//! ```sql
//! CREATE TABLE t (k INT PRIMARY KEY, v TEXT);   -- with a key, ^ and ~ are upserts and deletes by it
//! CREATE VIEW v AS SELECT k FROM t;
//! --! +t(1,'a') -t(2,'b') ^t(1,'c') ~t(1)       one step
//! --= (1) x2 (2)                                the bag of rows after it; `empty` for none
//! --= error: does not fit                       a row of the view that failed, by a part of the reason
//! --refused: a part of the reason               in place of steps
//! ```

/// One event: which table, what happens, and the values as written.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: char,
    pub table: String,
    /// `None` is NULL.
    pub values: Vec<Option<String>>,
}

/// What is to be seen after a step.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Each row's values as text, once for each copy; sorted.
    pub rows: Vec<String>,
    /// A part of the reason of a failure that is in force.
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Case {
    pub tables: Vec<String>,
    pub views: Vec<(String, String)>,
    pub steps: Vec<(Vec<Event>, Option<Expected>)>,
    pub refused: Option<String>,
    /// Whether tables that no row is taken from are declared to only grow.
    pub grows: bool,
}

pub fn parse(text: &str) -> Result<Case, String> {
    let mut case = Case::default();
    let mut sql = String::new();
    for line in text.lines() {
        if let Some(events) = line.strip_prefix("--!") {
            case.steps.push((self::events(events)?, None));
        } else if let Some(expected) = line.strip_prefix("--=") {
            let step = case.steps.last_mut().ok_or("an expectation before any step")?;
            let seen = step.1.get_or_insert_default();
            match expected.trim().strip_prefix("error:") {
                Some(reason) => seen.errors.push(reason.trim().to_owned()),
                None => seen.rows.extend(rows(expected)?),
            }
            seen.rows.sort();
        } else if let Some(reason) = line.strip_prefix("--refused:") {
            case.refused = Some(reason.trim().to_owned());
        } else if !line.trim_start().starts_with("--") {
            sql.push_str(line);
            sql.push('\n');
        }
    }
    for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        if statement.to_uppercase().starts_with("CREATE TABLE") {
            case.tables.push(statement.to_owned());
        } else {
            let rest = statement.get(11..).filter(|_| statement.to_uppercase().starts_with("CREATE VIEW"));
            let rest = rest.ok_or_else(|| format!("not a table or view: {statement}"))?;
            let at = rest
                .to_uppercase()
                .find(" AS ")
                .or_else(|| rest.to_uppercase().find(" AS\n"))
                .ok_or("AS is missing")?;
            case.views.push((rest[..at].trim().to_owned(), rest[at + 4..].trim().to_owned()));
        }
    }
    if case.steps.is_empty() && case.refused.is_none() {
        return Err("neither steps nor a refusal".to_owned());
    }
    Ok(case)
}

fn events(mut text: &str) -> Result<Vec<Event>, String> {
    let mut events = Vec::new();
    loop {
        text = text.trim_start();
        let Some(kind) = text.chars().next() else { return Ok(events) };
        if !"+-^~".contains(kind) {
            return Err(format!("an event expected at {text}"));
        }
        let open = text.find('(').ok_or("( is missing")?;
        let (values, length) = tuple(&text[open..])?;
        events.push(Event { kind, table: text[1..open].trim().to_owned(), values });
        text = &text[open + length..];
    }
}

/// The values between the brackets that `text` starts with, and how long that is.
fn tuple(text: &str) -> Result<(Vec<Option<String>>, usize), String> {
    let (mut values, mut value, mut quoted, mut was_quoted) = (Vec::new(), String::new(), false, false);
    let mut chars = text.char_indices().skip(1).peekable();
    let mut depth = 0;
    while let Some((at, char)) = chars.next() {
        match char {
            '\'' if quoted && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                value.push('\'');
                chars.next();
            }
            '\'' => (quoted, was_quoted) = (!quoted, true),
            ',' | ')' if !quoted && depth == 0 => {
                let plain = value.trim().to_owned();
                let null = !was_quoted && (plain.eq_ignore_ascii_case("null") || plain.is_empty());
                if !(char == ')' && values.is_empty() && plain.is_empty() && !was_quoted) {
                    values.push((!null).then_some(if was_quoted { std::mem::take(&mut value) } else { plain }));
                }
                (value, was_quoted) = (String::new(), false);
                if char == ')' {
                    return Ok((values, at + 1));
                }
            }
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            other if quoted || !other.is_whitespace() || !was_quoted => value.push(other),
            _ => {}
        }
    }
    Err(format!(") is missing: {text}"))
}

fn rows(text: &str) -> Result<Vec<String>, String> {
    let (mut rows, mut text) = (Vec::new(), text.trim());
    if text == "empty" {
        return Ok(rows);
    }
    while !text.is_empty() {
        let (values, length) = tuple(text)?;
        text = text[length..].trim_start();
        let copies = match text.strip_prefix('x') {
            Some(rest) => {
                let digits = rest.chars().take_while(char::is_ascii_digit).count();
                text = rest[digits..].trim_start();
                rest[..digits].parse().map_err(|_| "a number of copies expected")?
            }
            None => 1,
        };
        let row = shown(values.iter().map(Option::as_deref));
        rows.extend(std::iter::repeat_n(row, copies));
    }
    Ok(rows)
}

/// A row as text.
pub fn shown<'a>(values: impl Iterator<Item = Option<&'a str>>) -> String {
    format!("({})", values.map(|value| value.unwrap_or("NULL")).collect::<Vec<_>>().join(", "))
}
