//! Delta tables as fixtures: made by hand, looked at through their log alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{reader, wait_for};

/// A table in a folder of its own; the folder goes with the value, unless the test failed.
pub struct Table {
    pub path: PathBuf,
}

/// Columns of the default table T of the cases, partitioned by `date`.
pub const T: &[(&str, &str)] = &[
    ("id", "long"),
    ("name", "string"),
    ("n", "integer"),
    ("d", "double"),
    ("ok", "boolean"),
    ("ts", "timestamp"),
    ("amt", "decimal(10,2)"),
    ("date", "string"),
];

/// T with the place of each record beside it, for tests of order. Filled by [`PLACE_TRANSFORMS`].
pub const PLACED: &[(&str, &str)] =
    &[("id", "long"), ("kafka_partition", "integer"), ("kafka_offset", "long"), ("date", "string")];

/// Options that fill the place columns of [`PLACED`].
pub const PLACE_TRANSFORMS: [&str; 4] = ["-t", "kafka_partition: kafka.partition", "-t", "kafka_offset: kafka.offset"];

/// One field of Delta's schema JSON; `kind` is a primitive's name, or a nested type's JSON.
pub fn field(name: &str, kind: &str, nullable: bool) -> Value {
    let kind = if kind.starts_with('{') { serde_json::from_str(kind).expect("a type") } else { json!(kind) };
    json!({"name": name, "type": kind, "nullable": nullable, "metadata": {}})
}

/// Delta's schema JSON of nullable columns.
pub fn schema(columns: &[(&str, &str)]) -> Value {
    let fields: Vec<_> = columns.iter().map(|(name, kind)| field(name, kind, true)).collect();
    json!({"type": "struct", "fields": fields})
}

impl Table {
    /// The default table T, empty.
    pub fn t() -> Self {
        Self::new(T, &["date"])
    }

    /// A table of nullable columns, protocol 1/2, empty.
    pub fn new(columns: &[(&str, &str)], partition: &[&str]) -> Self {
        Self::made(&schema(columns), partition, &json!({}))
    }

    /// Any table of protocol 1/2.
    pub fn made(schema: &Value, partition: &[&str], properties: &Value) -> Self {
        let table = Self::absent();
        table.put(0, &first_version(schema, partition, properties));
        table
    }

    /// A folder with no table in it.
    pub fn absent() -> Self {
        let path = crate::scratch("table");
        fs::create_dir_all(&path).expect("make the table's folder");
        Self { path }
    }

    /// A copy of a fixture's table.
    pub fn copied(from: &Path) -> Self {
        let table = Self::absent();
        copy(from, &table.path);
        table
    }

    fn log(&self, version: u64) -> PathBuf {
        self.path.join(format!("_delta_log/{version:020}.json"))
    }

    /// Puts one version if absent, as any other writer would; false where it is taken.
    pub fn put(&self, version: u64, actions: &[Value]) -> bool {
        let path = self.log(version);
        fs::create_dir_all(path.parent().expect("a parent")).expect("make the log's folder");
        let part = path.with_extension(format!("{}.tmp", crate::unique()));
        let mut file = fs::File::create(&part).expect("write a commit");
        for action in actions {
            writeln!(file, "{action}").expect("write a commit");
        }
        drop(file);
        let put = fs::hard_link(&part, &path).is_ok();
        fs::remove_file(&part).expect("remove the temporary file");
        put
    }

    /// Commits as a foreign writer, at whatever version is next; the version.
    pub fn commit(&self, actions: &[Value]) -> u64 {
        loop {
            let version = self.version().map_or(0, |version| version + 1);
            if self.put(version, actions) {
                return version;
            }
        }
    }

    /// The newest version, by the log's file names.
    pub fn version(&self) -> Option<u64> {
        let names = fs::read_dir(self.path.join("_delta_log")).ok()?;
        names.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".json")?.parse().ok()).max()
    }

    /// Each version that is there as JSON, with its actions.
    pub fn commits(&self) -> BTreeMap<u64, Vec<Value>> {
        let newest = self.version().map_or(0, |version| version + 1);
        (0..newest).filter_map(|version| Some((version, actions(&self.log(version))?))).collect()
    }

    /// All actions of one kind (`add`, `txn`, ..) with their versions, in the log's order.
    pub fn actions(&self, kind: &str) -> Vec<(u64, Value)> {
        let commits = self.commits().into_iter();
        let all = commits.flat_map(|(version, actions)| actions.into_iter().map(move |action| (version, action)));
        all.filter_map(|(version, mut action)| Some((version, action.get_mut(kind)?.take()))).collect()
    }

    /// The newest `txn` of each app id.
    pub fn txns(&self) -> BTreeMap<String, i64> {
        let all = self.actions("txn").into_iter();
        all.map(|(_, txn)| {
            (txn["appId"].as_str().expect("appId").to_owned(), txn["version"].as_i64().expect("version"))
        })
        .collect()
    }

    /// Rows by the stats of files added and not removed.
    pub fn rows(&self) -> u64 {
        let removed: Vec<_> = self.actions("remove").into_iter().map(|(_, remove)| remove["path"].clone()).collect();
        let added = self.actions("add").into_iter().filter(|(_, add)| !removed.contains(&add["path"]));
        added.map(|(_, add)| stats(&add)["numRecords"].as_u64().expect("numRecords")).sum()
    }

    /// Parquet files on disk, committed or not.
    pub fn files_on_disk(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .map(|entry| match entry.path() {
                    path if path.ends_with("_delta_log") => 0,
                    path if path.is_dir() => count(&path),
                    path => usize::from(path.extension().is_some_and(|extension| extension == "parquet")),
                })
                .sum()
        }
        count(&self.path)
    }

    /// Waits until the version is at least this.
    pub fn wait_version(&self, version: u64) {
        wait_for(&format!("version {version}"), || {
            if self.version() >= Some(version) { Ok(()) } else { Err(format!("{:?}", self.version())) }
        });
    }

    /// Waits until there are at least this many rows.
    pub fn wait_rows(&self, rows: u64) {
        wait_for(&format!("{rows} rows"), || {
            let found = self.rows();
            if found >= rows { Ok(()) } else { Err(format!("{found}, txns {:?}", self.txns())) }
        });
    }

    /// Waits until an app id's `txn` is exactly this.
    pub fn wait_txn(&self, app: &str, version: i64) {
        wait_for(&format!("txn {app} = {version}"), || {
            let txns = self.txns();
            if txns.get(app) == Some(&version) { Ok(()) } else { Err(format!("{txns:?}")) }
        });
    }

    /// The values of one column, as both engines read them, sorted.
    pub fn values(&self, column: &str) -> Vec<Value> {
        let rows = reader::query(&self.path, &format!("select \"{column}\" as v from t"));
        let mut values: Vec<_> = rows.into_iter().map(|mut row| row["v"].take()).collect();
        values.sort_by_key(|value| (value.as_i64(), value.to_string()));
        values
    }

    /// The `id` column as numbers, sorted: what exactly-once is judged by.
    pub fn ids(&self) -> Vec<i64> {
        self.values("id").iter().map(|id| id.as_i64().expect("an id")).collect()
    }

    /// Rows as both engines read them.
    pub fn query(&self, sql: &str) -> Vec<Value> {
        reader::query(&self.path, sql)
    }

    /// Asks the reader to do something with this table.
    pub fn ask(&self, mut request: Value) -> Value {
        request["table"] = json!(self.path);
        reader::ask(&request).unwrap_or_else(|error| panic!("{request}: {error}"))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Best effort: it lies in the target folder.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// protocol, metaData of a new table.
pub fn first_version(schema: &Value, partition: &[&str], properties: &Value) -> [Value; 2] {
    let metadata = json!({
        "id": format!("table-{}", crate::unique()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.to_string(),
        "partitionColumns": partition,
        "configuration": properties,
        "createdTime": 0,
    });
    [json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}), json!({"metaData": metadata})]
}

/// An add's statistics, parsed.
pub fn stats(add: &Value) -> Value {
    serde_json::from_str(add["stats"].as_str().expect("an add has stats")).expect("stats are JSON")
}

fn actions(path: &Path) -> Option<Vec<Value>> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().map(|line| serde_json::from_str(line).expect("an action is JSON")).collect())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make a folder");
    for entry in fs::read_dir(from).expect("read the fixture").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).expect("read the fixture")).expect("copy the fixture");
        }
    }
}
