//! Text of CHAR and VARCHAR columns, as Spark writes it: blanks at the end that are too many go, text of
//! a CHAR is filled up with them, and what is still too long is no value of the column.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};

use super::sift::Unfit;
use crate::layout::TextLength;

/// The batch with the texts as they are written; rows whose text is too long are told, and keep it.
pub(super) fn fit(batch: RecordBatch, columns: &[(usize, TextLength)], unfit: &mut Vec<Unfit>) -> RecordBatch {
    if columns.is_empty() {
        return batch;
    }
    let (schema, mut arrays, _) = batch.into_parts();
    for (index, length) in columns {
        arrays[*index] = fitted(&arrays[*index], length, unfit);
    }
    RecordBatch::try_new(schema, arrays).expect("strings for strings")
}

fn fitted(array: &ArrayRef, length: &TextLength, unfit: &mut Vec<Unfit>) -> ArrayRef {
    let texts = array.as_string::<i32>();
    let mut changed = false;
    let mut fitted = Vec::with_capacity(texts.len());
    for (row, text) in texts.iter().enumerate() {
        fitted.push(text.map(|text| match written(text, length) {
            Some(text) => {
                changed |= matches!(text, Cow::Owned(_)) || text.len() != texts.value(row).len();
                text
            }
            None => {
                let kind = if length.padded { "char" } else { "varchar" };
                let has = text.chars().count();
                let reason = format!("{}: {has} characters, and the column is {kind}({})", length.column, length.most);
                unfit.push(Unfit { row, reason });
                Cow::Borrowed(text)
            }
        }));
    }
    if changed { Arc::new(StringArray::from_iter(fitted)) } else { Arc::clone(array) }
}

/// The text as it is written; `None` where it is too long.
fn written<'a>(text: &'a str, length: &TextLength) -> Option<Cow<'a, str>> {
    // No text has more characters than bytes.
    if text.len() <= length.most && !length.padded {
        return Some(Cow::Borrowed(text));
    }
    let has = text.chars().count();
    if has <= length.most {
        let blanks = if length.padded { length.most - has } else { 0 };
        return Some(match blanks {
            0 => Cow::Borrowed(text),
            blanks => Cow::Owned(format!("{text}{}", " ".repeat(blanks))),
        });
    }
    let end = text.char_indices().nth(length.most).map_or(text.len(), |(end, _)| end);
    text[end..].bytes().all(|byte| byte == b' ').then_some(Cow::Borrowed(&text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_filled_or_refused() {
        #[rustfmt::skip] // columns: text, CHAR?, as written with 3 characters
        let cases = [
            ("",      false, Some("")),
            ("abc",   false, Some("abc")),
            ("añé",   false, Some("añé")),
            ("abc  ", false, Some("abc")),
            ("abcd",  false, None),
            ("ab d",  false, None),
            ("",      true,  Some("   ")),
            ("a",     true,  Some("a  ")),
            ("ñ",     true,  Some("ñ  ")),
            ("abc ",  true,  Some("abc")),
            ("abcd",  true,  None),
        ];
        for (text, padded, expected) in cases {
            let length = TextLength { column: "c".to_owned(), most: 3, padded };
            assert_eq!(written(text, &length).as_deref(), expected, "{text:?} {padded}");
        }
    }
}
