//! What a schema lacks for messages.

use super::*;
use crate::Bounds;

fn schema() -> SchemaRef {
    let item = structure(vec![column("a", DataType::Int64)]);
    table(vec![
        column("id", DataType::Int64),
        column("n", DataType::Int8),
        column("f", DataType::Float32),
        column("text", DataType::Utf8),
        column("inner", structure(vec![column("x", DataType::Int64)])),
        column("items", array_of(column("element", item.clone()))),
        column("by_name", map_of(DataType::Utf8, column("value", item))),
    ])
}

fn plain(name: &str) -> bool {
    !name.contains(' ')
}

fn changes(messages: &[&str], transforms: &[&str], widens: bool) -> (Vec<String>, Vec<String>) {
    let transforms = Transforms::parse(transforms).unwrap();
    let decoder = Decoder::new(&schema(), "t", &transforms).unwrap();
    let bounds = Bounds { takes_name: &plain, widens, most_columns: 12 };
    let growth = decoder.growth(messages.iter().map(|message| message.as_bytes()), &bounds);
    if let Some(grown) = &growth.schema {
        let grown: SchemaRef = Arc::new(grown.clone());
        let again = Decoder::new(&grown, "t", &transforms).unwrap();
        let growth = again.growth(messages.iter().map(|message| message.as_bytes()), &bounds);
        assert_eq!((growth.schema, growth.changes), (None, vec![]), "what is grown has all of it");
    }
    let changes = growth.changes.into_iter().map(|(_, change)| change).collect();
    (changes, growth.refused.into_iter().map(|(path, _)| path).collect())
}

#[test] // P10, P11, P13, P14
fn what_is_new_is_found_once_and_typed() {
    #[rustfmt::skip] // columns: messages, changes
    let cases: &[(&[&str], &[&str])] = &[
        (&[r#"{"id":1}"#],                                        &[]),
        (&[r#"{"new":1}"#],                                       &["new column new (long)"]),
        (&[r#"{"new":null}"#, r#"{"new":[]}"#],                   &[]),
        (&[r#"{"new":null}"#, r#"{"new":{}}"#],                   &[]),
        (&[r#"{"new":{}}"#, r#"{"new":{"a":1}}"#],                &["new column new (struct<a: long>)"]),
        (&[r#"{"new":1}"#, r#"{"new":"x"}"#],                     &["new column new (string)"]),
        (&[r#"{"new":1}"#, r#"{"new":1.5}"#],                     &["new column new (double)"]),
        (&[r#"{"new":[{"a":1},{"b":true}]}"#],                    &["new column new (array<struct<a: long, b: boolean>>)"]),
        (&[r#"{"inner":{"x":1,"y":2}}"#],                         &["new column inner.y (long)"]),
        (&[r#"{"items":[{"a":1,"b":1},{"a":2,"b":2}]}"#],         &["new column items.b (long)"]),
        (&[r#"{"by_name":{"k":{"a":1,"c":"x"}}}"#],               &["new column by_name.c (string)"]),
        (&[r#"{"text":{"deep":1}}"#],                             &[]),
        (&[r#"{"id":{"deep":1}}"#],                               &[]),
        (&[r#"{"a.b":1,"ñ":2,"a-b":3}"#],                         &["new column a.b (long)", "new column ñ (long)", "new column a-b (long)"]),
        (&["nonsense", "[1]", r#"{"new":"#],                      &[]),
    ];
    for (messages, expected) in cases {
        let (changes, refused) = changes(messages, &[], false);
        assert_eq!(changes, *expected, "{messages:?}");
        assert!(refused.is_empty(), "{refused:?}");
    }
}

#[test]
fn what_can_be_no_column_is_told() {
    let (found, refused) = changes(&[r#"{"ID":1,"a b":2,"ok":{"in side":1,"y":2},"New":1,"nEW":2}"#], &[], false);
    assert_eq!(found, ["new column ok (struct<y: long>)", "new column New (long)"]);
    assert_eq!(refused, ["ID", "a b", "ok.in side", "nEW"]);
    let many: Vec<String> = (0..20).map(|n| format!(r#""m{n}":{n}"#)).collect();
    let (found, refused) = changes(&[&format!("{{{}}}", many.join(","))], &[], false);
    assert_eq!((found.len(), refused.len()), (4, 16), "eight columns there are, twelve may be");
}

#[test]
fn what_a_transform_reads_is_left_out_on_purpose() {
    let transforms = ["text: substr(when, `0`, `10`)", "id: inner.raw"];
    let messages = [r#"{"when":"2024-01-01T00:00:00Z","inner":{"raw":1,"y":2},"other":1}"#];
    assert_eq!(changes(&messages, &transforms, false).0, ["new column inner.y (long)", "new column other (long)"]);
}

#[test]
fn types_widen_as_far_as_numbers_need_and_only_where_they_may() {
    #[rustfmt::skip] // columns: message, change
    let cases: &[(&str, &[&str])] = &[
        (r#"{"n":127}"#,                     &[]),
        (r#"{"n":128}"#,                     &["column n from byte to short"]),
        (r#"{"n":"-40000"}"#,                &["column n from byte to integer"]),
        (r#"{"n":3e9}"#,                     &["column n from byte to long"]),
        (r#"{"n":1e19}"#,                    &[]),
        (r#"{"n":1.5}"#,                     &[]),
        (r#"{"n":"text"}"#,                  &[]),
        (r#"{"f":0.1}"#,                     &[]),
        (r#"{"f":1e39}"#,                    &["column f from float to double"]),
        (r#"{"f":1e400}"#,                   &[]),
        (r#"{"id":99999999999999999999}"#,   &[]),
    ];
    for (message, expected) in cases {
        assert_eq!(changes(&[message], &[], true).0, *expected, "{message}");
        assert!(changes(&[message], &[], false).0.is_empty(), "{message}: only where the table allows it");
    }
}
