//! SQL's types and Arrow's.

use arrow_schema::DataType;

use super::super::nearest;
use super::{SINK, fault, good};

fn source(sql: &str) -> String {
    format!("CREATE SOURCE t (\n x {sql}, y INT) WITH (kafka = 'h:1', topic = 't');{SINK}")
}

fn arrow(sql: &str) -> DataType {
    good(&source(sql)).sources[0].columns[0].data_type.clone()
}

#[test]
fn types() {
    #[rustfmt::skip] // columns: as written, as Arrow shows it
    let cases = [
        ("BOOLEAN", "Boolean"), ("bool", "Boolean"),
        ("TINYINT", "Int8"), ("SMALLINT", "Int16"), ("INT2", "Int16"), ("INT", "Int32"), ("INTEGER", "Int32"),
        ("INT4", "Int32"), ("BIGINT", "Int64"), ("INT8", "Int64"),
        ("REAL", "Float32"), ("FLOAT", "Float32"), ("FLOAT4", "Float32"),
        ("DOUBLE", "Float64"), ("DOUBLE PRECISION", "Float64"), ("FLOAT8", "Float64"),
        ("DECIMAL(10, 2)", "Decimal128(10, 2)"), ("NUMERIC(38)", "Decimal128(38, 0)"), ("DEC(1,1)", "Decimal128(1, 1)"),
        ("TEXT", "Utf8"), ("VARCHAR", "Utf8"), ("STRING", "Utf8"), ("CHARACTER VARYING", "Utf8"),
        ("BYTEA", "Binary"), ("BINARY", "Binary"), ("VARBINARY", "Binary"), ("BLOB", "Binary"), ("BYTES", "Binary"),
        ("DATE", "Date32"),
        ("TIMESTAMP", "Timestamp(µs)"), ("TIMESTAMP(6)", "Timestamp(µs)"), ("DATETIME", "Timestamp(µs)"),
        ("TIMESTAMP WITHOUT TIME ZONE", "Timestamp(µs)"),
        ("TIMESTAMPTZ", "Timestamp(µs, \"UTC\")"), ("TIMESTAMP WITH TIME ZONE", "Timestamp(µs, \"UTC\")"),
        ("TIMESTAMP(6) WITH TIME ZONE", "Timestamp(µs, \"UTC\")"),
        ("BIGINT[]", "List(Int64)"), ("ARRAY<TEXT>", "List(Utf8)"), ("INT[][]", "List(List(Int32))"),
        ("ARRAY<ARRAY<TEXT>>", "List(List(Utf8))"),
        ("STRUCT<A BIGINT, \"B\" TEXT[]>", "Struct(\"a\": Int64, \"B\": List(Utf8))"),
        ("STRUCT<a: INT>", "Struct(\"a\": Int32)"),
        ("MAP(TEXT, STRUCT<a INT>)", "Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": Struct(\"a\": Int32)), unsorted)"),
    ];
    for (sql, expected) in cases {
        assert_eq!(arrow(sql).to_string(), expected, "{sql}");
        assert_eq!(arrow(&format!("{sql} NOT NULL")).to_string(), expected, "{sql} NOT NULL");
    }
}

#[test]
fn refused_types() {
    #[rustfmt::skip] // columns: as written, the message
    let cases = [
        ("VARCHAR(10)",       "`VARCHAR(10)` is no type of a column; write TEXT: lengths are not held"),
        ("CHAR",              "`CHAR` is no type of a column; write TEXT: lengths are not held"),
        ("TIMESTAMP(3)",      "`TIMESTAMP(3)` is no type of a column; write TIMESTAMP: it has microseconds"),
        ("TIMESTAMP(9) WITH TIME ZONE", "`TIMESTAMP(9) WITH TIME ZONE` is no type of a column; write TIMESTAMPTZ: it has microseconds"),
        ("TIMESTAMP_LTZ(3)",  "`TIMESTAMP_LTZ(3)` is no type of a column; write TIMESTAMPTZ"),
        ("UUID",              "`UUID` is no type of a column; write TEXT"),
        ("JSONB",             "`JSONB` is no type of a column; write TEXT: it takes any JSON value as its text"),
        ("TIME",              "`TIME` is no type of a column; write TEXT, or BIGINT for a count of microseconds"),
        ("INTERVAL",          "`INTERVAL` is no type of a column; write BIGINT, and say the unit in the column's name"),
        ("INT(11)",           "`INT(11)` is no type of a column; write it without a width"),
        ("BIGINT UNSIGNED",   "`BIGINT UNSIGNED` is no type of a column; write DECIMAL(20, 0): Delta tables have no unsigned numbers"),
        ("DECIMAL",           "DECIMAL needs its digits: write DECIMAL(precision, scale)"),
        ("DECIMAL(39, 0)",    "a DECIMAL has from 1 to 38 digits"),
        ("DECIMAL(0)",        "a DECIMAL has from 1 to 38 digits"),
        ("DECIMAL(5, 6)",     "the scale of this DECIMAL is from 0 to 5"),
        ("DECIMAL(5, -1)",    "the scale of this DECIMAL is from 0 to 5"),
        ("INT[3]",            "arrays have no fixed length: write INT[]"),
        ("STRUCT<INT>",       "a field of a STRUCT has a name: write STRUCT<a BIGINT, b TEXT>"),
        ("STRUCT<a INT, A INT>", "the STRUCT has two fields `a`"),
        ("MAP(DOUBLE, INT)",  "the key of a MAP is a number without fraction, a text, a date or the like"),
        ("ARRAY<UUID>",       "`UUID` is no type of a column; write TEXT"),
    ];
    for (sql, message) in cases {
        assert_eq!(fault(&source(sql)), format!("2:4: {message}"), "{sql}");
    }
    let other = fault(&source("HYPERCUBE"));
    assert!(other.starts_with("2:4: `HYPERCUBE` is no type of a column; known are BOOLEAN, "), "{other}");
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("ARRAY<", ">"), ("STRUCT<a ", ">"), ("MAP(INT, ", ")")] {
        for (depth, is_good) in [(8, true), (16, true), (17, false), (20_000, false)] {
            let text = source(&format!("{}INT{}", open.repeat(depth), close.repeat(depth)));
            if is_good {
                good(&text);
            } else {
                assert_eq!(fault(&text), "2:4: the type is nested more than 16 deep", "{open} {depth}");
            }
        }
    }
    assert_eq!(fault(&source(&format!("INT{}", "[]".repeat(17)))), "2:4: the type is nested more than 16 deep");
    let wide: Vec<String> = (0..100).map(|n| format!("f{n} ARRAY<DECIMAL(10, 2)>")).collect();
    good(&source(&format!("STRUCT<{}>", wide.join(", "))));
}

#[test]
fn nearest_names() {
    let known = ["auction", "bidder", "price", "date_time"];
    #[rustfmt::skip] // columns: name, nearest
    let cases = [
        ("auktion", Some("auction")), ("Auction", Some("auction")), ("acution", Some("auction")),
        ("bider", Some("bidder")), ("pricee", Some("price")), ("rpice", Some("price")), ("datetime", Some("date_time")),
        ("ab", None), ("volume", None), ("", None), ("x", None), ("xuxtxox", None),
    ];
    for (name, expected) in cases {
        assert_eq!(nearest(name, known), expected, "{name}");
    }
    assert_eq!((nearest("x", ["y"]), nearest("X", ["x"]), nearest("", [""])), (None, Some("x"), Some("")));
    assert_eq!(nearest("ba", ["xa", "ab"]), Some("xa"), "a swap is one slip, as a change is");
    assert_eq!(nearest("abdc", ["abcd"]), Some("abcd"));
    assert_eq!(nearest("acb", ["abc"]), Some("abc"), "two changes would be too many");
    assert_eq!(nearest("ab", ["ac", "ad"]), Some("ac"), "the first of equals");
    assert_eq!(nearest("abc", ["abd", "abc"]), Some("abc"), "the nearer");
    assert_eq!(nearest("größe", ["grösse", "größer"]), Some("größer"));
    assert_eq!(nearest("a", []), None);
}
