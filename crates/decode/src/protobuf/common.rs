//! Files that schemas import and that registries' clients have built in, beside `google/protobuf`.

/// The text of a common file.
pub(super) fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

/// The least of each that a schema needs: names, numbers and types.
const FILES: [(&str, &str); 9] = [
    (
        "confluent/meta.proto",
        r#"syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }"#,
    ),
    (
        "confluent/type/decimal.proto",
        r#"syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"#,
    ),
    (
        "google/type/date.proto",
        r#"syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"#,
    ),
    (
        "google/type/timeofday.proto",
        r#"syntax = "proto3"; package google.type;
        message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"#,
    ),
    (
        "google/type/datetime.proto",
        r#"syntax = "proto3"; package google.type; import "google/protobuf/duration.proto";
        message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5;
          int32 seconds = 6; int32 nanos = 7;
          oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }
        message TimeZone { string id = 1; string version = 2; }"#,
    ),
    (
        "google/type/money.proto",
        r#"syntax = "proto3"; package google.type;
        message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"#,
    ),
    (
        "google/type/latlng.proto",
        r#"syntax = "proto3"; package google.type; message LatLng { double latitude = 1; double longitude = 2; }"#,
    ),
    ("google/type/decimal.proto", r#"syntax = "proto3"; package google.type; message Decimal { string value = 1; }"#),
    (
        "google/type/dayofweek.proto",
        r#"syntax = "proto3"; package google.type;
        enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4;
          FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }"#,
    ),
];
