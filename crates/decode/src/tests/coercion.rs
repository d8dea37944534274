//! What each column takes, case by case.

use super::*;

#[test]
fn strings_take_all() {
    #[rustfmt::skip] // K23, K29: the compact text of what is no text
    let cases = [
        (r#""x""#, r#""x""#), (r#""""#, r#""""#), (r#""é\u00e9\n\"\ud83d\ude00""#, r#""éé\n\"😀""#),
        (r#"{"x":"x","y":"y"}"#, r#""{\"x\":\"x\",\"y\":\"y\"}""#),
        (r#" { "x" : [ 1 , 2.50 , -0.0e+1 ] , "y" : null } "#, r#""{\"x\":[1,2.50,-0.0e+1],\"y\":null}""#),
        (r#"{"\u0061":"\u00e9\/\u001f\u0008"}"#, r#""{\"a\":\"é/\\u001f\\b\"}""#),
        ("12", r#""12""#), ("1.50", r#""1.50""#), ("true", r#""true""#), ("false", r#""false""#), ("null", "null"),
        ("123456789012345678901234567890", r#""123456789012345678901234567890""#),
        ("[]", r#""[]""#), ("{}", r#""{}""#), ("[1, {\"b\":2,\"a\":1}]", r#""[1,{\"b\":2,\"a\":1}]""#),
    ];
    for (json, expected) in cases {
        check(&DataType::Utf8, json, expected);
    }
}

#[test]
fn whole_numbers_lose_nothing() {
    #[rustfmt::skip] // K28, K29, P08, P37: json, byte, short, int, long
    let cases = [
        ("1", ["1"; 4]), ("-1", ["-1"; 4]), ("0", ["0"; 4]), ("-0", ["0"; 4]), ("1.0", ["1"; 4]), ("1e1", ["10"; 4]), ("1.5e1", ["15"; 4]),
        ("null", ["null"; 4]), (r#""12""#, ["12"; 4]), (r#"" +12 ""#, ["12"; 4]), (r#""1.0""#, ["1"; 4]),
        ("127", ["127"; 4]), ("128", ["!does_not_fit", "128", "128", "128"]), ("-129", ["!does_not_fit", "-129", "-129", "-129"]),
        ("1e3", ["!does_not_fit", "1000", "1000", "1000"]),
        ("32768", ["!does_not_fit", "!does_not_fit", "32768", "32768"]),
        ("3000000000", ["!does_not_fit", "!does_not_fit", "!does_not_fit", "3000000000"]),
        ("9223372036854775807", ["!does_not_fit", "!does_not_fit", "!does_not_fit", "9223372036854775807"]),
        ("-9223372036854775808", ["!does_not_fit", "!does_not_fit", "!does_not_fit", "-9223372036854775808"]),
        ("9223372036854775808", ["!does_not_fit"; 4]), ("1e30", ["!does_not_fit"; 4]), ("1e300", ["!does_not_fit"; 4]),
        ("1.9", ["!does_not_fit"; 4]), ("1e-1", ["!does_not_fit"; 4]), (r#""1.9""#, ["!does_not_fit"; 4]),
        (r#""abc""#, ["!wrong_type"; 4]), (r#""""#, ["!wrong_type"; 4]), ("true", ["!wrong_type"; 4]), ("[1]", ["!wrong_type"; 4]),
        ("{}", ["!wrong_type"; 4]), ("1e400", ["!not_json"; 4]), ("01", ["!not_json"; 4]), ("1.", ["!not_json"; 4]),
        (".5", ["!not_json"; 4]), ("-", ["!not_json"; 4]), ("+1", ["!not_json"; 4]), ("1e", ["!not_json"; 4]), ("NaN", ["!not_json"; 4]),
    ];
    for (json, expected) in cases {
        for (data_type, expected) in
            [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64].iter().zip(expected)
        {
            check(data_type, json, expected);
        }
    }
}

#[test]
fn fractions_are_rounded_to_the_nearest_and_never_overflow() {
    #[rustfmt::skip] // json, float, double
    let cases = [
        ("1", "1.0", "1.0"), ("-0", "-0.0", "-0.0"), ("-0.0", "-0.0", "-0.0"), ("0.1", "0.1", "0.1"), (r#""1.5""#, "1.5", "1.5"), ("1e3", "1000.0", "1000.0"),
        ("16777217", "16777216.0", "16777217.0"), ("9007199254740993", "9007199000000000.0", "9007199254740992.0"),
        ("123456789012345678901234567890", "1.2345679e29", "1.2345678901234568e29"),
        ("1e300", "!does_not_fit", "1e300"), ("1.7976931348623157e308", "!does_not_fit", "1.7976931348623157e308"), ("5e-324", "0.0", "5e-324"),
        (r#""1e400""#, "!does_not_fit", "!does_not_fit"), (r#""NaN""#, "NaN", "NaN"), (r#""-inf""#, "-inf", "-inf"), (r#""Infinity""#, "inf", "inf"),
        (r#""x""#, "!wrong_type", "!wrong_type"), ("true", "!wrong_type", "!wrong_type"), ("null", "null", "null"), ("[]", "!wrong_type", "!wrong_type"),
    ];
    for (json, float, double) in cases {
        check(&DataType::Float32, json, float);
        check(&DataType::Float64, json, double);
    }
}

#[test]
fn decimals_are_exact() {
    #[rustfmt::skip]
    let cases = [
        ("1", "100"), ("12.3", "1230"), ("-12.34", "-1234"), ("12.340000", "1234"), ("1e3", "100000"), (r#""12.34""#, "1234"), (r#"" 1 ""#, "100"),
        ("12.345", "!does_not_fit"), (r#""0.001""#, "!does_not_fit"), ("99999999.99", "9999999999"), ("100000000", "!does_not_fit"),
        ("1e200", "!does_not_fit"), (r#""x""#, "!wrong_type"), ("false", "!wrong_type"), ("null", "null"), ("0e99", "0"),
    ];
    for (json, expected) in cases {
        check(&DataType::Decimal128(10, 2), json, expected);
    }
    let widest = "9".repeat(38);
    check(&DataType::Decimal128(38, 0), &widest, &widest);
    check(&DataType::Decimal128(38, 38), "0.00000000000000000000000000000000000001", "1");
    check(&DataType::Decimal128(38, 0), "123456789012345678901234567890", "123456789012345678901234567890");
}

#[test]
fn times_are_read_in_their_forms() {
    let at = "1636668718000000";
    #[rustfmt::skip] // K25, K26, P32
    let cases = [
        (r#""2021-11-11T22:11:58Z""#, at), (r#""2021-11-11T22:11:58+00:00""#, at), (r#""2021-11-11T22:11:58-00:00""#, at), ("1636668718000000", at),
        (r#""2021-11-11 22:11:58""#, at), (r#""2021-11-11T22:11:58""#, at), (r#""2021-11-12T00:11:58+02:00""#, at), (r#""2021-11-11T22:11:58.000000999Z""#, at),
        (r#""2021-11-11""#, "1636588800000000"), ("1636668718000000.0", at), ("1.636668718e15", at),
        (r#""2262-04-13T00:00:00Z""#, "9223459200000000"), (r#""9999-12-31T23:59:59.999999Z""#, "253402300799999999"), (r#""0001-01-01T00:00:00Z""#, "-62135596800000000"),
        (r#""20211111T22115800Z""#, "!wrong_type"), (r#""nope""#, "!wrong_type"), (r#""1636668718000000""#, "!wrong_type"), (r#""2021-02-30T00:00:00Z""#, "!wrong_type"),
        ("1.5", "!does_not_fit"), ("true", "!wrong_type"), ("{}", "!wrong_type"), ("null", "null"),
    ];
    for (json, expected) in cases {
        check(&timestamp(), json, expected);
        check(&DataType::Timestamp(TimeUnit::Microsecond, None), json, expected);
    }
    #[rustfmt::skip]
    let cases = [
        (r#""2021-11-11""#, "18942"), (r#""1970-01-01""#, "0"), (r#""9999-12-31""#, "2932896"), ("18942", "18942"), (r#""2021-11-11T00:00:00Z""#, "18942"),
        (r#""2021-11-11T00:00:01Z""#, "!wrong_type"), (r#""2021-13-01""#, "!wrong_type"), (r#""18942""#, "!wrong_type"), ("1.5", "!does_not_fit"), ("true", "!wrong_type"), ("null", "null"),
    ];
    for (json, expected) in cases {
        check(&DataType::Date32, json, expected);
    }
}

#[test]
fn booleans_and_bytes() {
    #[rustfmt::skip] // K28
    let cases = [
        (DataType::Boolean, "true", "true"), (DataType::Boolean, "false", "false"), (DataType::Boolean, "null", "null"), (DataType::Boolean, r#""yes""#, "!wrong_type"),
        (DataType::Boolean, r#""true""#, "!wrong_type"), (DataType::Boolean, "1", "!wrong_type"), (DataType::Boolean, "tru", "!not_json"),
        (DataType::Binary, r#""00fFa0""#, "x00ffa0"), (DataType::Binary, r#""""#, "x"), (DataType::Binary, r#""0""#, "!wrong_type"),
        (DataType::Binary, r#""zz""#, "!wrong_type"), (DataType::Binary, "1", "!wrong_type"), (DataType::Binary, "null", "null"),
    ];
    for (data_type, json, expected) in cases {
        check(&data_type, json, expected);
    }
}

#[test]
fn nested_columns() {
    let pair = structure(vec![column("a", DataType::Int64), column("b", DataType::Utf8)]);
    let list = array_of(column("element", DataType::Int64));
    let strict = array_of(not_null("element", DataType::Int64));
    let map = map_of(DataType::Utf8, column("value", DataType::Int64));
    let numbers = map_of(DataType::Int32, column("value", DataType::Utf8));
    #[rustfmt::skip] // P08, P10
    let cases = [
        (pair.clone(), r#"{"a":1,"b":"x"}"#, r#"{a:1,b:"x"}"#), (pair.clone(), "{}", "{a:null,b:null}"), (pair.clone(), "null", "null"),
        (pair.clone(), r#"{"b":{"c":1},"z":[]}"#, r#"{a:null,b:"{\"c\":1}"}"#), (pair.clone(), "[]", "!wrong_type"), (pair.clone(), "1", "!wrong_type"), (pair.clone(), r#""{}""#, "!wrong_type"),
        (list.clone(), "[1,2.0,null,\"3\"]", "[1,2,null,3]"), (list.clone(), "[]", "[]"), (list.clone(), "null", "null"), (list.clone(), "1", "!wrong_type"), (list.clone(), "{}", "!wrong_type"),
        (list.clone(), "[1,[2]]", "!wrong_type"), (strict, "[1,null]", "!null_in_not_null"), (array_of(column("element", list)), "[[1],null,[],[2,3]]", "[[1],null,[],[2,3]]"),
        (map.clone(), r#"{"x":1,"y":null}"#, r#"{"x"=1,"y"=null}"#), (map.clone(), "{}", "{}"), (map.clone(), "null", "null"), (map.clone(), "[]", "!wrong_type"),
        (map.clone(), r#"{"x":1,"y":2,"x":3}"#, r#"{"x"=3,"y"=2}"#), (map, r#"{"x":"n"}"#, "!wrong_type"),
        (numbers.clone(), r#"{"1":"x","-2":3}"#, r#"{1="x",-2="3"}"#), (numbers.clone(), r#"{"k":"x"}"#, "!wrong_type"), (numbers, r#"{"1":"x","01":"y"}"#, "!wrong_type"),
        (array_of(column("element", pair.clone())), r#"[{"a":1},null,{"b":"x","a":2}]"#, r#"[{a:1,b:null},null,{a:2,b:"x"}]"#),
        (map_of(DataType::Utf8, column("value", pair)), r#"{"k":{"a":1}}"#, r#"{"k"={a:1,b:null}}"#),
    ];
    for (data_type, json, expected) in cases {
        check(&data_type, json, expected);
    }
    let many: Vec<String> = (0..40).map(|n| format!("\"k{}\":{n}", n % 39)).collect();
    let shown = value_of(&map_of(DataType::Utf8, column("value", DataType::Int64)), &format!("{{{}}}", many.join(",")));
    assert!(shown.starts_with("{\"k0\"=39,\"k1\"=1,") && shown.matches('=').count() == 39, "{shown}");
}
