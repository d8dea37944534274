//! Where a test's tables lie, what a process needs to get there, and how to look at them.

use std::fs;
use std::path::PathBuf;

use lakeward_testkit::{Kind, Message, Objects, StoreServer, Topic};
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest, Running, free_port, lakeward};
use crate::table::{T, Table, schema};
use crate::{reader, scratch, unique, wait_for};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    S3,
    Azure,
    Gcs,
}

pub const ALL: [Store; 3] = [Store::S3, Store::Azure, Store::Gcs];

/// A bucket or container of a test's own.
pub struct Lake {
    /// `s3://bucket` and the like.
    pub url: String,
    /// What a process needs to get there.
    pub environment: Vec<(String, String)>,
    /// Where its objects are plain files.
    pub folder: Option<PathBuf>,
}

/// What an S3 client needs to know, as users set it.
pub fn s3_variables(endpoint: &str) -> Vec<(String, String)> {
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "testtest"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

impl Lake {
    /// In the store that all tests share.
    pub fn new(store: Store) -> Self {
        match store {
            Store::S3 => Self::at_server(StoreServer::shared(Kind::S3)),
            Store::Azure => Self::at_azure(StoreServer::shared(Kind::Azure)),
            Store::Gcs => {
                static SHARED: std::sync::LazyLock<Objects> = std::sync::LazyLock::new(Objects::start);
                let bucket = made(SHARED.folder().to_owned());
                let key = json!({
                    "gcs_base_url": SHARED.url(), "disable_oauth": true,
                    "client_email": "", "private_key": "", "private_key_id": "",
                });
                Self {
                    url: format!("gs://{}", bucket.1),
                    environment: vec![("GOOGLE_SERVICE_ACCOUNT_KEY".to_owned(), key.to_string())],
                    folder: Some(bucket.0),
                }
            }
        }
    }

    /// A bucket of this S3 server.
    pub fn at_server(server: &StoreServer) -> Self {
        Self::behind(server, server.url())
    }

    /// The same, reached by another address.
    pub fn behind(server: &StoreServer, endpoint: &str) -> Self {
        let (folder, name) = made(server.data());
        Self { url: format!("s3://{name}"), environment: s3_variables(endpoint), folder: Some(folder) }
    }

    /// A bucket of a store of ours, reached as S3.
    pub fn at_objects(objects: &Objects) -> Self {
        let (folder, name) = made(objects.folder().to_owned());
        Self { url: format!("s3://{name}"), environment: s3_variables(&objects.url()), folder: Some(folder) }
    }

    fn at_azure(server: &StoreServer) -> Self {
        let name = format!("c{}", unique());
        server.make_container(&name);
        let variables = [("AZURITE_BLOB_STORAGE_URL", server.url()), ("AZURE_STORAGE_USE_EMULATOR", "true")];
        Self {
            url: format!("abfss://{name}@devstoreaccount1.dfs.core.windows.net"),
            environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            folder: None,
        }
    }

    /// A table's address.
    pub fn table(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// A table's files, where they are plain files.
    pub fn files(&self, name: &str) -> std::mem::ManuallyDrop<Table> {
        let folder = self.folder.as_ref().expect("a store with plain files");
        std::mem::ManuallyDrop::new(Table { path: folder.join(name) })
    }

    /// A job into a table here that it makes, with the columns of T.
    pub fn ingest(&self, topic: &Topic, table: &str) -> Ingest {
        let file = scratch("schema");
        fs::create_dir_all(file.parent().expect("a folder")).expect("make the scratch folder");
        fs::write(&file, schema(T).to_string()).expect("write the schema");
        let file = file.display().to_string();
        let ingest = Ingest::at(topic.name(), &self.table(table));
        let ingest = ingest.with(&["--create", "--schema", &file, "--partition-by", "date"]);
        self.environment.iter().fold(ingest, |ingest, (name, value)| ingest.env(name, value))
    }

    /// Any command of the program, with what it needs to get here.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = lakeward(arguments);
        command.envs(self.environment.iter().cloned());
        Running::spawn(command, free_port()).wait()
    }

    /// The ids in a table, sorted, as a reader that is not ours sees them.
    pub fn ids(&self, table: &str) -> Vec<i64> {
        let rows = self.query(table, "select id from t").expect("the table can be read");
        let mut ids: Vec<_> = rows.iter().map(|row| row["id"].as_i64().expect("an id")).collect();
        ids.sort_unstable();
        ids
    }

    /// The rows of a question about `t`, as a reader that is not ours sees them.
    ///
    /// # Errors
    /// What the reader says.
    pub fn query(&self, table: &str, sql: &str) -> Result<Vec<Value>, String> {
        let environment: serde_json::Map<String, Value> =
            self.environment.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        reader::query_at(&self.table(table), &Value::Object(environment), sql)
    }

    /// Waits until there are at least this many rows.
    pub fn wait_rows(&self, table: &str, rows: i64) {
        wait_for(&format!("{rows} rows"), || match self.query(table, "select count(*) as n from t") {
            Ok(found) if found[0]["n"].as_i64() >= Some(rows) => Ok(()),
            Ok(found) => Err(format!("{found:?}")),
            Err(error) => Err(error),
        });
    }

    /// What exactly once comes to: each id of the range, and `verify` agrees.
    pub fn assert_once(&self, table: &str, ids: std::ops::Range<i64>, name: &str) {
        assert_eq!(self.ids(table), ids.collect::<Vec<_>>(), "{name}");
        let verified = self.run(&["verify", &self.table(table)]);
        assert_eq!(verified.code, Some(0), "{name}: {}", verified.log);
        assert!(verified.log.contains("0 lost, 0 twice"), "{name}: {}", verified.log);
    }
}

/// A message of about 520 bytes that hardly compresses.
pub fn noisy(id: i64, partitions: i64) -> Message {
    let word = |at: i64| format!("{:016x}", (id * 31 + at).wrapping_mul(0x1E37_79B9_7F4A_7C15));
    let text = json!({"id": id, "name": (0..30).map(word).collect::<String>(), "date": "2024-01-01"}).to_string();
    Message::new(text).to(i32::try_from(id % partitions).expect("few"))
}

/// A folder for a bucket, and its name.
fn made(parent: PathBuf) -> (PathBuf, String) {
    let name = format!("b{}", unique());
    let folder = parent.join(&name);
    fs::create_dir_all(&folder).expect("make a bucket");
    (folder, name)
}
