//! Numbers and tables as people read them.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};

/// `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: impl std::fmt::Display) -> String {
    let digits = number.to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut text = String::from(sign);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rows of text in columns: the first column to the left, the others to the right.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(n, (cell, width))| if n == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(head.to_vec())).chain(body).collect()
}

/// `1 view`, `2 views`.
#[must_use]
pub fn counted(number: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Each row of a batch as text, one cell a column.
#[must_use]
pub fn cells(batch: &RecordBatch, null: &str) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null(null);
    let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect();
    let cell = |row: usize| {
        let text = |column: &Result<ArrayFormatter<'_>, _>| {
            column.as_ref().map_or_else(|_| "?".to_owned(), |c| c.value(row).to_string())
        };
        columns.iter().map(text).collect()
    };
    (0..batch.num_rows()).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_threes() {
        let cases = [("0", "0"), ("999", "999"), ("1000", "1,000"), ("-1234567", "-1,234,567")];
        for (number, text) in cases {
            assert_eq!(grouped(number.parse::<i64>().unwrap()), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "10".into()], vec!["long".into(), "5".into()]];
        assert_eq!(table(&["name", "n"], &rows), "name   n\na     10\nlong   5\n");
    }
}
