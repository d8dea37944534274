//! Encodes web requests as the peer's example has them, and says what a row costs.
//!
//!     cargo run --release -p lakeward-delta --example encode -- [ROWS] [none|snappy|zstd|zstd:N] [DATES]
//!
//! DATES is how many values of the partition column take turns, row by row. The rows are made before the clock starts. CPU time is this thread's (Linux); under
//! `valgrind --tool=callgrind --toggle-collect='*Writer::write*' --toggle-collect='*seal_next*'` the
//! instructions are those of the encode alone.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use lakeward_delta::encode::{Compression, Writer, WriterOptions};
use lakeward_delta::layout::{FileSpan, Layout, LayoutParts, StatsColumns};
use lakeward_protocol::position::{Offset, PartitionId, Shape};
use object_store::memory::InMemory;
use object_store::path::Path;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const BATCH_ROWS: usize = 16_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(1_000_000, |text| text.parse().expect("a number of rows"));
    let compression: Compression =
        arguments.next().as_deref().unwrap_or("zstd").parse().unwrap_or_else(|error| panic!("{error}"));
    let dates: usize = arguments.next().map_or(1, |text| text.parse().expect("a number of dates"));
    let schema = schema();
    let mut random = SmallRng::seed_from_u64(42);
    let batches: Vec<RecordBatch> =
        (0..rows.div_ceil(BATCH_ROWS)).map(|n| batch(&schema, n * BATCH_ROWS, dates, &mut random)).collect();
    let layout = Layout::from(LayoutParts {
        table: "web_requests".to_owned(),
        shape: Shape(0),
        schema,
        partition_columns: vec!["date".to_owned()],
        stats_columns: StatsColumns::First(32),
        partition_columns_in_files: false,
        store: Arc::new(InMemory::new()),
        root: Path::from("table"),
    });
    let options = WriterOptions { compression, ..WriterOptions::default() };
    let mut writer = Writer::new(&layout, options).expect("a layout");
    for round in 1..=3 {
        let (start, mut most_bytes) = (cpu_ns(), 0);
        for (n, batch) in batches.iter().enumerate() {
            writer.write(batch, &[span(n * BATCH_ROWS)]).expect("rows");
            most_bytes = most_bytes.max(writer.held_bytes());
        }
        let (mut files, mut bytes, mut sealed) = (0, 0, 0);
        while let Some(file) = writer.seal_next().expect("a file") {
            (files, bytes, sealed) = (files + 1, bytes + file.size_bytes(), sealed + file.rows());
        }
        let ns = (cpu_ns() - start) / sealed.max(1);
        println!(
            "round {round}: {sealed} rows, {compression}: {ns} ns a row, {:.1} bytes a row, {files} files, at most {} MB held, {} resident",
            bytes as f64 / sealed as f64,
            most_bytes >> 20,
            resident()
        );
    }
}

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds on a processor")
}

/// The process's peak, the batches made before included.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.expect("a peak").trim().to_owned()
}

fn span(first: usize) -> FileSpan {
    let offset = |n: usize| Offset::new(n as i64).expect("not negative");
    FileSpan { partition: PartitionId(0), from: offset(first), to: offset(first + BATCH_ROWS), rows: BATCH_ROWS as u64 }
}

fn fields(list: &[(&str, DataType)]) -> Fields {
    list.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect()
}

fn producer() -> Fields {
    fields(&[("timestamp", DataType::Utf8)])
}

fn kafka() -> Fields {
    fields(&[("offset", DataType::Int64), ("topic", DataType::Utf8), ("partition", DataType::Int32)])
}

fn meta() -> Fields {
    fields(&[("producer", DataType::Struct(producer())), ("kafka", DataType::Struct(kafka()))])
}

fn schema() -> SchemaRef {
    let text = || DataType::Utf8;
    Arc::new(Schema::new(fields(&[
        ("meta", DataType::Struct(meta())),
        ("method", text()),
        ("session_id", text()),
        ("status", DataType::Int32),
        ("url", text()),
        ("uuid", text()),
        ("date", text()),
    ])))
}

fn batch(schema: &SchemaRef, first: usize, dates: usize, random: &mut SmallRng) -> RecordBatch {
    const METHODS: [&str; 5] = ["DELETE", "PUT", "POST", "GET", "HEAD"];
    const STATUS: [i32; 11] = [500, 200, 404, 202, 401, 302, 400, 204, 201, 301, 403];
    const SITES: [&str; 10] = [
        "weibo.com",
        "google.co.uk",
        "hao123.com",
        "imdb.com",
        "apple.com",
        "stackoverflow.com",
        "chinadaily.com.cn",
        "accuweather.com",
        "microsoftonline.com",
        "answers.yahoo.com",
    ];
    let rows = first..first + BATCH_ROWS;
    let text = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
    let mut micros = first as u64 * 50;
    let times = rows.clone().map(|_| {
        micros += random.random_range(10..90);
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        format!(
            "2021-03-24T{:02}:{:02}:{:02}.{fraction:06}+00:00",
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        )
    });
    let times = text(times.collect());
    let uuids = |random: &mut SmallRng| {
        text(rows.clone().map(|_| uuid::Uuid::from_u128(random.random()).to_string()).collect())
    };
    let pick = |random: &mut SmallRng, of: &[&str]| of[random.random_range(0..of.len())].to_owned();
    let kafka_columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|n| n as i64))),
        text(vec!["web_requests".to_owned(); BATCH_ROWS]),
        Arc::new(Int32Array::from(vec![0; BATCH_ROWS])),
    ];
    let meta_columns: Vec<ArrayRef> = vec![
        Arc::new(StructArray::new(producer(), vec![times], None)),
        Arc::new(StructArray::new(kafka(), kafka_columns, None)),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StructArray::new(meta(), meta_columns, None)),
        text(rows.clone().map(|_| pick(random, &METHODS)).collect()),
        uuids(random),
        Arc::new(Int32Array::from_iter_values(rows.clone().map(|_| STATUS[random.random_range(0..STATUS.len())]))),
        text(rows.clone().map(|_| format!("http://www.{}", pick(random, &SITES))).collect()),
        uuids(random),
        text(rows.map(|n| format!("2021-{:05}", n % dates)).collect()),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).expect("columns of the schema")
}
