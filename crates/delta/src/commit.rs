//! The bytes of our commits, and what can be read from them again.
//!
//! A commit is JSON lines: `txn`s, `add`s, `commitInfo` (first instead where the table has in-commit
//! timestamps), and `metaData` where the commit brings columns. Our own facts stand in `commitInfo.lakeward`, which other readers pass over: the
//! batch's name, the topic or the sources, the spans, the gaps that the user accepted, and of a view
//! how many rows came and went.

use lakeward_protocol::position::{CommitId, Offset, PartitionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::layout::{Batch, DataFile, FileSpan};
use crate::letters::Companion;
use crate::row_ids::RowIds;
use crate::view::CHAINS_TAG;

/// The key in `add.tags` under which a file says which spans it holds.
pub const SPANS_TAG: &str = "lakeward.spans";

/// What writes: as in Parquet's `created_by` and the log's `engineInfo`.
pub const ENGINE: &str = concat!("lakeward/", env!("CARGO_PKG_VERSION"));

/// Delta's name for what we do.
const OPERATION: &str = "STREAMING UPDATE";

/// `commitInfo.lakeward`: durable, so fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notes {
    /// The batch's name, 32 hexadecimal digits.
    pub commit_id: String,
    /// The application that the `txn`s belong to.
    pub app_id: String,
    /// The topic; `None` where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub topic: Option<String>,
    /// The topic's id, 32 hexadecimal digits; `None` where the broker gives none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub topic_id: Option<String>,
    /// A pipeline's sources; none where the one topic is all there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceNote>,
    /// Of a view's table: what the commit does to its rows. `None` where rows are the spans' records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<ViewNote>,
    /// The table that has the bad records of the spans; `None` where nobody keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<Companion>,
    /// Of a table of dead letters: the table whose letters they are. Its spans' records are letters alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters_of: Option<Companion>,
    /// What the commit covers, by partition.
    #[serde(default)]
    pub spans: Vec<Span>,
    /// Breaks in the chain that the user accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<GapNote>,
    /// Where a person chose what the frontier is: who and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ByNote>,
}

/// Who chose a frontier, and why. Stands in `commitInfo.userMetadata` as well, where other tools show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByNote {
    /// The user and the host.
    pub who: String,
    /// What was asked for, in words.
    pub why: String,
}

/// A pipeline's source, as it was when the commit was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceNote {
    /// The name that the pipeline gives it, and that the `txn`s have.
    pub name: String,
    /// Its topic.
    pub topic: String,
    /// The topic's id, 32 hexadecimal digits; `None` where the broker gives none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub topic_id: Option<String>,
}

/// What a commit does to the rows of a view's table. They are not the records of its spans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewNote {
    /// `append`, `upsert` or `changelog`.
    pub mode: String,
    /// Rows that are there after it, and were not before.
    pub came: u64,
    /// Rows that were there before it, and are not after.
    pub gone: u64,
}

/// One partition's stretch of one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The source's name, where sources have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The source's partition.
    pub partition: u32,
    /// First offset covered.
    pub from: i64,
    /// The one after the last.
    pub to: i64,
    /// Records taken in.
    #[serde(default)]
    pub records: u64,
    /// Rows that the records became: of the table, or of the source where it is a view's.
    #[serde(default)]
    pub rows: u64,
    /// Of them, those beyond one for each record that became rows; below 0 where such records hold none. Left out
    /// where it is 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra_rows: i64,
    /// Records set aside as bad.
    #[serde(default)]
    pub bad: u64,
    /// Records without a value.
    #[serde(default)]
    pub tombstones: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(extra_rows: &i64) -> bool {
    *extra_rows == 0
}

/// A break in one partition's chain that the user accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapNote {
    /// The source's name, where sources have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The source's partition.
    pub partition: u32,
    /// Where the chain stood.
    pub from: i64,
    /// Where it goes on.
    pub to: i64,
    /// What happened, and which option let it pass.
    pub reason: String,
}

/// What a commit does to files that were there.
#[derive(Debug, Default)]
pub(crate) struct Rewrite {
    /// `remove`s and `add`s, in this order: what is not a new file of the batch.
    pub actions: Vec<Value>,
    /// Files removed, or removed and added with other deletion vectors.
    pub touched_files: usize,
    /// Rows that die by it.
    pub deleted_rows: u64,
    /// Rows only move: no row comes or goes.
    pub is_compaction: bool,
}

/// All that a commit says, beside its files.
pub(crate) struct Draft<'a> {
    pub notes: &'a Notes,
    /// appId and last consumed offset.
    pub txns: &'a [(String, i64)],
    /// `None`: a commit that moves frontiers alone.
    pub batch: Option<&'a Batch>,
    /// `None`: a commit that only adds.
    pub rewrite: Option<&'a Rewrite>,
    /// What stands in `commitInfo.lakeward` beside the notes.
    pub more: &'a Map<String, Value>,
    pub read_version: u64,
    pub now_ms: i64,
    /// Where the table has in-commit timestamps: this commit's.
    pub in_commit_timestamp_ms: Option<i64>,
    /// Where the table tracks rows: the ids to give.
    pub row_ids: Option<RowIds>,
}

/// The commit as it is put.
pub(crate) fn render(draft: &Draft<'_>) -> Vec<u8> {
    let files = draft.batch.map_or(&[][..], |batch| &batch.files);
    let mut out = Vec::with_capacity(1024 + 1024 * files.len());
    let info = json!({ "commitInfo": commit_info(draft, files) });
    if draft.in_commit_timestamp_ms.is_some() {
        push_line(&mut out, &info);
    }
    for (app_id, version) in draft.txns {
        push_line(&mut out, &json!({"txn": {"appId": app_id, "version": version, "lastUpdated": draft.now_ms}}));
    }
    for action in draft.rewrite.iter().flat_map(|rewrite| &rewrite.actions) {
        push_line(&mut out, action);
    }
    if let Some(metadata) = draft.batch.and_then(|batch| batch.metadata.as_ref()) {
        out.extend_from_slice(metadata.as_bytes());
        out.push(b'\n');
    }
    let moves_only = draft.rewrite.is_some_and(|rewrite| rewrite.is_compaction);
    let mut row_ids = draft.row_ids;
    for file in files {
        push_line(&mut out, &add(file, !moves_only, row_ids.as_mut()));
    }
    if let Some(given) = row_ids.filter(|_| !files.is_empty()) {
        push_line(&mut out, &given.action());
    }
    if draft.in_commit_timestamp_ms.is_none() {
        push_line(&mut out, &info);
    }
    out
}

fn push_line(out: &mut Vec<u8>, action: &Value) {
    serde_json::to_writer(&mut *out, action).expect("JSON of plain values");
    out.push(b'\n');
}

fn add(file: &DataFile, data_change: bool, row_ids: Option<&mut RowIds>) -> Value {
    let values: Map<String, Value> = file
        .partition_values
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().map_or(Value::Null, Value::String)))
        .collect();
    let mut add = json!({
        "path": file.path,
        "partitionValues": values,
        "size": file.size_bytes,
        "modificationTime": file.modification_time_ms,
        "dataChange": data_change,
        "stats": file.stats,
    });
    if !file.spans.is_empty() {
        add["tags"] = json!({ SPANS_TAG: spans_to_tag(&file.spans) });
    }
    if let Some(chains) = &file.chains {
        add["tags"][CHAINS_TAG] = json!(chains);
    }
    if let Some(row_ids) = row_ids {
        row_ids.give(&mut add, file.num_records);
    }
    json!({ "add": add })
}

fn commit_info(draft: &Draft<'_>, files: &[DataFile]) -> Value {
    let notes = draft.notes;
    let rows: u64 = files.iter().map(|file| file.num_records).sum();
    let bytes: u64 = files.iter().map(|file| file.size_bytes).sum();
    let (operation, parameters) = operation(draft);
    let mut info = json!({
        "timestamp": draft.now_ms,
        "operation": operation,
        "operationParameters": parameters,
        "readVersion": draft.read_version,
        "isolationLevel": "Serializable",
        "isBlindAppend": draft.rewrite.is_none(),
        "operationMetrics": {
            "numRemovedFiles": draft.rewrite.map_or(0, |rewrite| rewrite.touched_files).to_string(),
            "numAddedFiles": files.len().to_string(),
            "numOutputRows": rows.to_string(),
            "numOutputBytes": bytes.to_string(),
        },
        "engineInfo": ENGINE,
        "clientVersion": concat!("lakeward.", env!("CARGO_PKG_VERSION")),
        "txnId": uuid_form(&notes.commit_id),
        "lakeward": notes,
    });
    let own = info["lakeward"].as_object_mut().expect("notes are an object");
    own.extend(draft.more.iter().map(|(key, value)| (key.clone(), value.clone())));
    if let Some(rewrite) = draft.rewrite.filter(|rewrite| !rewrite.is_compaction) {
        info["operationMetrics"]["numDeletedRows"] = json!(rewrite.deleted_rows.to_string());
    }
    if let Some(by) = &notes.by {
        info["userMetadata"] = json!(format!("{}: {}", by.who, by.why));
    }
    if let Some(timestamp_ms) = draft.in_commit_timestamp_ms {
        info["inCommitTimestamp"] = json!(timestamp_ms);
    }
    info
}

/// Delta's name for what the commit does, and its parameters.
fn operation(draft: &Draft<'_>) -> (&'static str, Value) {
    if draft.rewrite.is_some_and(|rewrite| rewrite.is_compaction) {
        return ("OPTIMIZE", json!({"predicate": "[]", "zOrderBy": "[]", "auto": "true"}));
    }
    let mode = match (draft.batch, draft.rewrite) {
        (None, _) => "Complete",
        (Some(_), None) => "Append",
        (Some(_), Some(_)) => "Update",
    };
    let (app_id, epoch) = (&draft.notes.app_id, draft.now_ms.to_string());
    (OPERATION, json!({"outputMode": mode, "queryId": app_id, "epochId": epoch}))
}

/// 32 hexadecimal digits with the dashes of a UUID.
fn uuid_form(hex: &str) -> String {
    uuid::Uuid::try_parse(hex).map_or_else(|_| hex.to_owned(), |uuid| uuid.to_string())
}

impl Notes {
    /// Reads our facts from a `commitInfo`, if it is one of ours.
    pub(crate) fn of(info: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(info.get("lakeward")?.clone()).ok()
    }

    /// Is it the commit of this batch?
    pub(crate) fn is(&self, commit: CommitId) -> bool {
        self.commit_id == commit.to_string()
    }
}

/// `[[partition,from,to,rows],...]`.
pub(crate) fn spans_to_tag(spans: &[FileSpan]) -> String {
    let rows: Vec<_> = spans.iter().map(|span| (span.partition.0, span.from.get(), span.to.get(), span.rows)).collect();
    serde_json::to_string(&rows).expect("JSON of numbers")
}

/// The other way; `None` for what we did not write.
#[must_use]
pub fn spans_from_tag(tag: &str) -> Option<Vec<FileSpan>> {
    let rows: Vec<(u32, i64, i64, u64)> = serde_json::from_str(tag).ok()?;
    rows.into_iter()
        .map(|(partition, from, to, rows)| {
            let (from, to) = (Offset::new(from).ok()?, Offset::new(to).ok()?);
            Some(FileSpan { partition: PartitionId(partition), from, to, rows })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_that_touch_files_say_so() {
        let action = json!({"remove": {"path": "x"}});
        let rewrite =
            Rewrite { actions: vec![action.clone()], touched_files: 1, deleted_rows: 2, is_compaction: false };
        let compaction = Rewrite { is_compaction: true, actions: vec![action.clone()], ..Rewrite::default() };
        #[rustfmt::skip] // columns: rewrite, operation, dataChange of new files
        let cases = [(&rewrite, "STREAMING UPDATE", true), (&compaction, "OPTIMIZE", false)];
        for (rewrite, operation, data_change) in cases {
            let files = vec![DataFile { stats: "{}".to_owned(), ..file() }];
            let batch = Batch { files, ..Batch::default() };
            let notes = notes();
            let bytes = render(&Draft {
                notes: &notes,
                txns: &[],
                batch: Some(&batch),
                rewrite: Some(rewrite),
                more: &Map::from_iter([("moves".to_owned(), json!([7]))]),
                read_version: 4,
                now_ms: 99,
                in_commit_timestamp_ms: None,
                row_ids: None,
            });
            let text = String::from_utf8(bytes).unwrap();
            let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(lines[0], action);
            assert_eq!(lines[1]["add"]["dataChange"], data_change);
            assert_eq!(lines[2]["commitInfo"]["operation"], operation);
            assert_eq!(lines[2]["commitInfo"]["isBlindAppend"], false);
            assert_eq!(lines[2]["commitInfo"]["lakeward"]["moves"], json!([7]));
            assert_eq!(
                Notes::of(lines[2]["commitInfo"].as_object().unwrap()),
                Some(notes),
                "the notes are read as ever"
            );
        }
    }

    #[test]
    fn a_commit_brings_its_schema_and_its_rows_their_ids() {
        let files = vec![file(), DataFile { num_records: 5, ..file() }];
        let metadata = Some(json!({"metaData": {"id": "x"}}).to_string());
        let batch = Batch { files, metadata, ..Batch::default() };
        let notes = notes();
        let bytes = render(&Draft {
            notes: &notes,
            txns: &[],
            batch: Some(&batch),
            rewrite: None,
            more: &Map::new(),
            read_version: 4,
            now_ms: 99,
            in_commit_timestamp_ms: None,
            row_ids: Some(RowIds { highest: 9, version: 5 }),
        });
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], json!({"metaData": {"id": "x"}}));
        let ids: Vec<_> = [&lines[1], &lines[2]].map(|line| line["add"]["baseRowId"].as_i64()).to_vec();
        assert_eq!((ids, &lines[2]["add"]["defaultRowCommitVersion"]), (vec![Some(10), Some(12)], &json!(5)));
        assert_eq!(lines[3]["domainMetadata"]["configuration"], json!("{\"rowIdHighWaterMark\":16}"));
    }

    fn offset(raw: i64) -> Offset {
        Offset::new(raw).unwrap()
    }

    fn notes() -> Notes {
        Notes {
            commit_id: CommitId(7).to_string(),
            app_id: "app".to_owned(),
            topic: Some("web".to_owned()),
            spans: vec![Span { from: 0, to: 3, records: 3, rows: 2, bad: 1, ..Span::default() }],
            ..Notes::default()
        }
    }

    fn file() -> DataFile {
        DataFile {
            path: "date=2024/part-0.parquet".to_owned(),
            partition_values: vec![("date".to_owned(), Some("2024".to_owned())), ("k".to_owned(), None)],
            size_bytes: 10,
            modification_time_ms: 5,
            num_records: 2,
            stats: r#"{"numRecords":2}"#.to_owned(),
            spans: vec![FileSpan { partition: PartitionId(0), from: offset(0), to: offset(3), rows: 2 }],
            chains: None,
        }
    }

    #[test] // durable: what is written stays readable, and an ingest job's notes name no source
    fn notes_as_they_stand_in_the_log() {
        let plain = json!({
            "commitId": "00000000000000000000000000000007", "appId": "app", "topic": "web",
            "spans": [{"partition": 0, "from": 0, "to": 3, "records": 3, "rows": 2, "bad": 1, "tombstones": 0}],
        });
        let source = SourceNote { name: "bid".to_owned(), topic: "web".to_owned(), topic_id: Some("0f".to_owned()) };
        let mut named = notes();
        named.topic = None;
        named.spans[0].source = Some("bid".to_owned());
        named.sources = vec![source];
        named.view = Some(ViewNote { mode: "upsert".to_owned(), came: 5, gone: 2 });
        let gap = GapNote { source: Some("bid".to_owned()), partition: 1, from: 2, to: 3, reason: "r".to_owned() };
        named.gaps = vec![gap];
        named.by = Some(ByNote { who: "alice@host".to_owned(), why: "told to".to_owned() });
        let with_names = json!({
            "commitId": "00000000000000000000000000000007", "appId": "app",
            "sources": [{"name": "bid", "topic": "web", "topicId": "0f"}],
            "view": {"mode": "upsert", "came": 5, "gone": 2},
            "spans": [{
                "source": "bid", "partition": 0, "from": 0, "to": 3, "records": 3, "rows": 2, "bad": 1, "tombstones": 0,
            }],
            "gaps": [{"source": "bid", "partition": 1, "from": 2, "to": 3, "reason": "r"}],
            "by": {"who": "alice@host", "why": "told to"},
        });
        for (notes, text) in [(notes(), plain), (named, with_names)] {
            assert_eq!(serde_json::to_value(&notes).unwrap(), text);
            assert_eq!(serde_json::from_value::<Notes>(text).unwrap(), notes);
        }
    }

    #[test] // K01
    fn a_data_commit_reads_as_the_peers() {
        let file = file();
        let batch = Batch { files: vec![file.clone()], ..Batch::default() };
        let notes = notes();
        let txns = [("app-0".to_owned(), 2)];
        let mut draft = Draft {
            notes: &notes,
            txns: &txns,
            batch: Some(&batch),
            rewrite: None,
            more: &Map::new(),
            read_version: 4,
            now_ms: 99,
            in_commit_timestamp_ms: None,
            row_ids: None,
        };
        let lines = |bytes: &[u8]| -> Vec<Value> {
            bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect()
        };
        let actions = lines(&render(&draft));
        assert_eq!(actions[0], json!({"txn": {"appId": "app-0", "version": 2, "lastUpdated": 99}}));
        assert_eq!(actions[1]["add"]["partitionValues"], json!({"date": "2024", "k": null}));
        assert_eq!(spans_from_tag(actions[1]["add"]["tags"][SPANS_TAG].as_str().unwrap()).unwrap(), file.spans);
        let info = &actions[2]["commitInfo"];
        assert_eq!(info["operation"], "STREAMING UPDATE");
        assert_eq!(info["isBlindAppend"], true);
        assert_eq!(info["operationParameters"], json!({"outputMode": "Append", "queryId": "app", "epochId": "99"}));
        assert_eq!(info["operationMetrics"]["numOutputRows"], "2");
        assert_eq!(Notes::of(info.as_object().unwrap()).unwrap(), notes);
        assert!(Notes::of(info.as_object().unwrap()).unwrap().is(CommitId(7)));

        let signed =
            Notes { by: Some(ByNote { who: "alice@host".to_owned(), why: "told to".to_owned() }), ..notes.clone() };
        draft.notes = &signed;
        draft.in_commit_timestamp_ms = Some(123);
        draft.batch = None;
        let actions = lines(&render(&draft));
        assert_eq!(actions.len(), 2);
        assert_eq!(actions[0]["commitInfo"]["inCommitTimestamp"], 123);
        assert_eq!(actions[0]["commitInfo"]["operationParameters"]["outputMode"], "Complete");
        assert_eq!(actions[0]["commitInfo"]["userMetadata"], "alice@host: told to");
    }
}
