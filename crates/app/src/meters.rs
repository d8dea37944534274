//! Every metric's name, once; beside it the peer's, which go to statsd. docs/metrics.md explains them all.

use std::time::Duration;

use lakeward_decode::{Bad, BadKind};
use lakeward_delta::{Batch, Housekeeping, Tally};
use lakeward_protocol::position::PartitionId;
use lakeward_protocol::records::Records;
use metrics::{Label, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::statsd;

/// Upper bounds of `lakeward_commit_seconds`.
pub const COMMIT_SECONDS: [f64; 9] = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Says what each metric means, so that `/metrics` carries it.
pub fn describe() {
    describe_counter!("lakeward_records_total", "Records taken in, uncommitted ones included");
    describe_counter!("lakeward_rows_total", "Rows made of them");
    describe_counter!("lakeward_bad_records_total", "Records left out because they can't be rows, by kind");
    describe_counter!(
        "lakeward_tombstones_total",
        "Records without a value: passed over, or deletes of the row of their key"
    );
    describe_counter!("lakeward_dead_letters_total", "Dead letters made of bad records, uncommitted ones included");
    describe_counter!("lakeward_dead_letter_commits_total", "Versions put into the dead-letter table");
    describe_counter!("lakeward_unknown_fields_total", "Message fields dropped because the table has no such column");
    describe_counter!("lakeward_commits_total", "Versions put into the table");
    describe_counter!("lakeward_committed_offsets_total", "Offsets that those versions cover");
    describe_counter!("lakeward_races_total", "Versions that somebody else put first; the commit was tried again");
    describe_counter!("lakeward_discards_total", "Times that uncommitted records were let go, to be read again");
    describe_counter!("lakeward_retries_total", "Failed calls that were tried again, by port");
    describe_counter!("lakeward_gaps_total", "Breaks in a partition's chain that an option let pass");
    describe_counter!(
        "lakeward_schema_requests_total",
        "Requests to the schema registry, by outcome: found, not_there, not_allowed, out_of_reach"
    );
    describe_counter!("lakeward_checkpoints_total", "Delta checkpoints written");
    describe_counter!(
        "lakeward_housekeeping_failures_total",
        "Checkpoints or log cleanups that failed, in part or whole"
    );
    describe_counter!("lakeward_compactions_total", "Versions put by --auto-compact");
    describe_counter!("lakeward_compacted_files_total", "Files that these replaced");
    describe_gauge!("lakeward_partitions", "Partitions in our hands");
    describe_gauge!("lakeward_held_bytes", "Memory of records not yet committed");
    describe_gauge!("lakeward_table_version", "The newest version that we put");
    describe_gauge!("lakeward_read_lag_offsets", "Offsets between what is taken in and the partition's end");
    describe_gauge!("lakeward_commit_lag_offsets", "Offsets between what is committed and the partition's end");
    describe_gauge!("lakeward_read_lag_seconds", "Age of the last record taken in; 0 at the partition's end");
    describe_gauge!("lakeward_commit_lag_seconds", "Age of the last record committed; 0 when all is committed");
    describe_counter!("lakeward_steps_total", "Steps that the circuit took");
    describe_counter!("lakeward_state_checkpoints_total", "Checkpoints of the circuit's state");
    describe_counter!(
        "lakeward_failed_rows_total",
        "Rows left out of a view because an expression failed, by operator"
    );
    describe_gauge!(
        "lakeward_operator_rows",
        "Rows that an operator or keyed source of a pipeline keeps, as of its last checkpoint, by operator"
    );
    describe_gauge!("lakeward_upsert_keys", "Rows of a table in mode upsert, whose keys this process has in memory");
    describe_histogram!("lakeward_step_seconds", "Time from the first message of a step to its end, in seconds");
    describe_histogram!("lakeward_commit_seconds", "Time from sealing to the commit, in seconds");
}

/// What became of some records.
pub fn decoded(tally: &Tally, bad: &[Bad]) {
    counter!("lakeward_records_total").increment(tally.records);
    counter!("lakeward_rows_total").increment(tally.rows);
    counter!("lakeward_tombstones_total").increment(tally.tombstones);
    for bad in bad {
        counter!("lakeward_bad_records_total", "kind" => bad.kind.name()).increment(1);
    }
    let untransformed = bad.iter().filter(|bad| bad.kind == BadKind::Transform).count() as u64;
    let failed = bad.len() as u64 - untransformed;
    statsd::count("messages.deserialization.completed", tally.records.saturating_sub(tally.tombstones + failed));
    statsd::count("messages.deserialization.failed", failed);
    statsd::count("messages.transform.completed", tally.rows);
    statsd::count("messages.transform.failed", untransformed);
    statsd::count("recordbatch.started", 1);
    statsd::count("recordbatch.completed", 1);
}

/// Records came from the topic.
pub fn taken(records: &Records) {
    let mean = records.value_bytes() / records.len().max(1);
    statsd::gauge("messages.size", mean as u64);
}

/// A batch of rows went into the files that are open.
pub fn encoded(took: Duration) {
    statsd::timing("recordbatch.write_duration", took);
}

/// What was held is in files.
pub fn sealed(batch: &Batch) {
    statsd::count("delta.write.started", 1);
    for file in &batch.files {
        statsd::gauge("delta.add.size", file.size_bytes);
    }
}

/// Batches of rows that no commit has yet.
pub fn batches_held(count: usize) {
    statsd::gauge("buffered.record_batches", count as u64);
}

/// How far all partitions together are behind, in offsets: read, and committed.
pub fn lags(read: &[i64], committed: &[i64]) {
    const READ: [&str; 4] = ["buffer.lag.num_partitions", "buffer.lag.total", "buffer.lag.max", "buffer.lag.min"];
    const COMMITTED: [&str; 4] =
        ["delta.write.lag.num_partitions", "delta.write.lag.total", "delta.write.lag.max", "delta.write.lag.min"];
    for (names, lags) in [(READ, read), (COMMITTED, committed)] {
        let (most, least) = (lags.iter().max().copied(), lags.iter().min().copied());
        let values = [lags.len() as i64, lags.iter().sum(), most.unwrap_or(0), least.unwrap_or(0)];
        for (name, value) in names.into_iter().zip(values) {
            statsd::gauge(name, value.max(0).unsigned_abs());
        }
    }
}

/// Letters for the table of them, uncommitted ones included.
pub fn dead_letters(count: u64) {
    counter!("lakeward_dead_letters_total").increment(count);
}

/// A version of the dead-letter table is ours.
pub fn letters_committed(gaps: u64) {
    counter!("lakeward_dead_letter_commits_total").increment(1);
    counter!("lakeward_gaps_total").increment(gaps);
}

/// Fields that no column took.
pub fn unknown_fields(count: u64) {
    counter!("lakeward_unknown_fields_total").increment(count);
}

/// Whose a gauge is, where a process carries on with several things: its sink, its source.
pub type Labels = Vec<Label>;

/// The source of a pipeline, and its sink where each goes on by itself.
#[must_use]
pub fn labels(sink: Option<&str>, source: &str) -> Labels {
    let sink = sink.map(|sink| Label::new("sink", sink.to_owned()));
    sink.into_iter().chain([Label::new("source", source.to_owned())]).collect()
}

/// A version is ours.
pub fn committed(labels: &Labels, version: u64, offsets: u64, gaps: u64, seconds: Option<f64>) {
    counter!("lakeward_commits_total").increment(1);
    counter!("lakeward_committed_offsets_total").increment(offsets);
    counter!("lakeward_gaps_total").increment(gaps);
    #[expect(clippy::cast_precision_loss, reason = "versions stay far below 2^52")]
    gauge!("lakeward_table_version", labels.clone()).set(version as f64);
    if let Some(seconds) = seconds {
        histogram!("lakeward_commit_seconds").record(seconds);
        statsd::count("delta.write.completed", 1);
        statsd::timing("delta.write.duration", Duration::from_secs_f64(seconds));
    }
}

/// Somebody else was first.
pub fn raced() {
    counter!("lakeward_races_total").increment(1);
}

/// Uncommitted records were let go.
pub fn discarded() {
    counter!("lakeward_discards_total").increment(1);
}

/// A call failed and is tried again.
pub fn retrying(port: &str) {
    counter!("lakeward_retries_total", "port" => port.to_owned()).increment(1);
    if port == "output" {
        statsd::count("delta.write.failed", 1);
    }
}

/// The schema registry was asked.
pub fn schema_request(outcome: &'static str) {
    counter!("lakeward_schema_requests_total", "outcome" => outcome).increment(1);
}

/// Partitions in our hands.
pub fn partitions(labels: &Labels, count: usize) {
    gauge!("lakeward_partitions", labels.clone()).set(count as f64);
}

/// Memory of the stage.
pub fn held(labels: &Labels, bytes: usize) {
    gauge!("lakeward_held_bytes", labels.clone()).set(bytes as f64);
}

/// What the table's housekeeping did since the start.
pub fn housekeeping(labels: &Labels, done: &Housekeeping) {
    counter!("lakeward_checkpoints_total", labels.clone()).absolute(done.checkpoints());
    counter!("lakeward_housekeeping_failures_total", labels.clone()).absolute(done.failures());
    counter!("lakeward_compactions_total", labels.clone()).absolute(done.compactions());
    counter!("lakeward_compacted_files_total", labels.clone()).absolute(done.compacted_files());
}

/// How far one partition is behind: offsets and seconds, read and committed.
pub fn lag(labels: &Labels, partition: PartitionId, read: (f64, f64), commit: (f64, f64)) {
    let mut labels = labels.clone();
    labels.push(Label::new("partition", partition.number().to_string()));
    gauge!("lakeward_read_lag_offsets", labels.clone()).set(read.0);
    gauge!("lakeward_read_lag_seconds", labels.clone()).set(read.1);
    gauge!("lakeward_commit_lag_offsets", labels.clone()).set(commit.0);
    gauge!("lakeward_commit_lag_seconds", labels).set(commit.1);
}

/// A partition is not ours any more: its lag is somebody else's to tell.
pub fn forget_lag(labels: &Labels, partition: PartitionId) {
    lag(labels, partition, (0.0, 0.0), (0.0, 0.0));
}

/// The circuit took a step.
pub fn stepped(seconds: f64) {
    counter!("lakeward_steps_total").increment(1);
    histogram!("lakeward_step_seconds").record(seconds);
}

/// The circuit's state was saved.
pub fn saved() {
    counter!("lakeward_state_checkpoints_total").increment(1);
}

/// What one operator keeps.
pub fn operator_rows(operator: String, rows: u64) {
    gauge!("lakeward_operator_rows", "operator" => operator).set(rows as f64);
}

/// Rows of a table in mode upsert, whose keys are in memory.
pub fn keys(rows: usize) {
    gauge!("lakeward_upsert_keys").set(rows as f64);
}

/// Rows that an expression failed for, on their way into a view.
pub fn failed_rows(operator: &str, rows: u64) {
    counter!("lakeward_failed_rows_total", "operator" => operator.to_owned()).increment(rows);
}
