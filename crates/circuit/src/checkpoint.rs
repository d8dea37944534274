//! What a checkpoint's manifest keeps of a circuit, and what has to agree before a circuit starts from it.
//!
//! The engine takes any state that its files can be read of: that of another query, or of another number of workers,
//! gives wrong answers without a word. So the manifest says what the state was made by, and everything is compared.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use dbsp::circuit::CheckpointCommitter;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::builder::Pieces;
use crate::circuit::{EngineError, StartError};
use crate::folder::{Folder, digest};

/// Of a manifest's bytes and of what it names.
const FORMAT: u32 = 3;
/// The engine, whose files no other version has to read.
pub(crate) const ENGINE: &str = "dbsp 0.349.0";
/// How rows find their worker.
const SHARDING: &str = "xxh3 of the key, modulo the workers";
/// The digest at the end of a manifest, in hexadecimal digits.
const DIGEST_BYTES: usize = 16;

/// Why a circuit is not started from a manifest: a person has to decide.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Mismatch {
    /// Its bytes are not what was written.
    #[error("the checkpoint's manifest is damaged ({why}); take an older checkpoint")]
    Damaged {
        /// What is wrong.
        why: String,
    },
    /// Another Lakeward wrote it.
    #[error(
        "the checkpoint is of format {found}, this version reads format {FORMAT}; use the version that wrote it, or \
         start the pipeline anew"
    )]
    Format {
        /// The manifest's.
        found: u64,
    },
    /// Another engine wrote it.
    #[error(
        "the checkpoint was written by {found}, this version runs {ENGINE}; use the version that wrote it, or start \
         the pipeline anew"
    )]
    Engine {
        /// The manifest's.
        found: String,
    },
    /// Rows were spread over workers in another way.
    #[error(
        "the checkpoint's rows are spread by {found}, this version spreads them by {SHARDING}; use the version that \
         wrote it, or start the pipeline anew"
    )]
    Sharding {
        /// The manifest's.
        found: String,
    },
    /// It is of another pipeline.
    #[error(
        "the pipeline is not the one that the checkpoint was taken of; undo the change, or start the pipeline anew \
         (- checkpoint, + now):\n{difference}"
    )]
    Plan {
        /// The lines of the plans that differ.
        difference: String,
    },
}

/// What a manifest keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    format: u32,
    engine: String,
    sharding: String,
    /// [`crate::plan::Plan::text`].
    plan: String,
    /// How many workers the state is of.
    pub(crate) workers: usize,
    /// Whether a step was taken: what comes in the first step only is in the state.
    pub(crate) begun: bool,
    /// The engine's name of the state.
    pub(crate) state: Uuid,
    /// The digest of the state's seal.
    pub(crate) seal: u64,
}

/// The format alone, which is all that another version's manifest is sure to have.
#[derive(Deserialize)]
struct Format {
    format: u64,
}

impl Saved {
    /// The manifest's bytes.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a manifest is JSON");
        let digest = format!("{:0DIGEST_BYTES$x}", digest(&bytes));
        bytes.extend_from_slice(digest.as_bytes());
        bytes
    }

    /// What [`Saved::encode`] gave.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Mismatch> {
        let damaged = |why: &str| Mismatch::Damaged { why: why.to_owned() };
        let at = bytes.len().checked_sub(DIGEST_BYTES).ok_or_else(|| damaged("it is cut short"))?;
        let (json, end) = bytes.split_at(at);
        if end != format!("{:0DIGEST_BYTES$x}", digest(json)).as_bytes() {
            return Err(damaged("its bytes do not add up"));
        }
        let Format { format } = serde_json::from_slice(json).map_err(|error| damaged(&error.to_string()))?;
        if format != u64::from(FORMAT) {
            return Err(Mismatch::Format { found: format });
        }
        serde_json::from_slice(json).map_err(|error| damaged(&error.to_string()))
    }

    /// Whether a circuit of `plan` may start from it.
    pub(crate) fn check(&self, plan: &str) -> Result<(), Mismatch> {
        if self.engine != ENGINE {
            return Err(Mismatch::Engine { found: self.engine.clone() });
        }
        if self.sharding != SHARDING {
            return Err(Mismatch::Sharding { found: self.sharding.clone() });
        }
        if self.plan != plan {
            return Err(Mismatch::Plan { difference: difference(&self.plan, plan) });
        }
        Ok(())
    }
}

/// The files of the state that a manifest names, below the circuit's folder: for whoever keeps a copy of it. None of
/// them ever changes, some belong to other states as well, and no other circuit makes up the same names.
///
/// # Errors
/// When the manifest or the state is not one of ours.
pub fn files(folder: &Path, manifest: &[u8]) -> Result<Vec<String>, StartError> {
    Ok(Folder::files(folder, Saved::decode(manifest)?.state)?)
}

/// A state that is taken, but not durable yet.
#[must_use = "it is not saved before it is finished"]
#[allow(missing_debug_implementations, reason = "a part of it has none")]
pub struct Pending {
    pub(crate) committer: CheckpointCommitter,
    pub(crate) folder: Arc<Folder>,
    pub(crate) pieces: Pieces,
    pub(crate) plan: String,
    pub(crate) workers: usize,
    pub(crate) begun: bool,
    /// Told of the state once it is durable.
    pub(crate) newest: Newest,
}

/// Which state the circuit goes on from; held by each save that is under way as well.
pub(crate) type Newest = Arc<std::sync::Mutex<Option<Uuid>>>;

impl Pending {
    /// Makes it durable, and returns what the manifest has to keep. May run on another thread while the circuit takes
    /// steps. Several are finished in the order in which they were prepared.
    ///
    /// # Errors
    /// It is not saved; the circuit is as before.
    pub fn finish(self) -> Result<Vec<u8>, EngineError> {
        let failed = |error: dbsp::Error| EngineError::new("save its state", error);
        let publisher = self.committer.commit().map_err(failed)?;
        let pieces = self.pieces.lock().expect("no worker panics while it holds this").clone();
        let metadata = publisher.metadata().clone();
        let state = metadata.uuid;
        let seal = self.folder.seal(metadata, pieces).map_err(|error| EngineError::new("save its state", error))?;
        publisher.publish().map_err(failed)?;
        *self.newest.lock().expect("nobody panics while holding this") = Some(state);
        let saved = Saved {
            format: FORMAT,
            engine: ENGINE.to_owned(),
            sharding: SHARDING.to_owned(),
            plan: self.plan,
            workers: self.workers,
            begun: self.begun,
            state,
            seal,
        };
        Ok(saved.encode())
    }
}

/// The lines that are only in one of two plans, in order. Nodes' numbers do not count, unless they are all there is.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let changed = lines(&old, &new, unnumbered);
    if changed.is_empty() { lines(&old, &new, str::to_owned) } else { changed }
}

/// A line without the nodes' numbers.
fn unnumbered(line: &str) -> String {
    let mut parts = line.split('#');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + "#" + part.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

/// The lines outside of the longest common part.
fn lines(old: &[&str], new: &[&str], key: impl Fn(&str) -> String) -> String {
    let keys = |lines: &[&str]| lines.iter().map(|line| key(line)).collect::<Vec<_>>();
    let (old_keys, new_keys) = (keys(old), keys(new));
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old_keys[i] == new_keys[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old_keys[i] == new_keys[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            let _ = writeln!(text, "- {}", old[i]);
            i += 1;
        } else {
            let _ = writeln!(text, "+ {}", new[j]);
            j += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        Saved {
            format: FORMAT,
            engine: ENGINE.to_owned(),
            sharding: SHARDING.to_owned(),
            plan: "source t\n#0 Source t\nview v = #0\n".to_owned(),
            workers: 3,
            begun: true,
            state: Uuid::from_u128(7),
            seal: 11,
        }
    }

    #[test]
    fn a_manifest_is_read_back_and_every_damage_of_it_is_noticed() {
        let bytes = saved().encode();
        assert_eq!(Saved::decode(&bytes), Ok(saved()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(matches!(Saved::decode(&damaged), Err(Mismatch::Damaged { .. })), "byte {at}");
            assert!(matches!(Saved::decode(&bytes[..at]), Err(Mismatch::Damaged { .. })), "cut at {at}");
        }
    }

    #[test]
    fn a_manifest_of_another_format_engine_or_sharding_is_refused() {
        let plan = saved().plan;
        let later = Saved { format: FORMAT + 1, ..saved() };
        assert_eq!(Saved::decode(&later.encode()), Err(Mismatch::Format { found: u64::from(FORMAT) + 1 }));
        let other = Saved { engine: "dbsp 1".to_owned(), ..saved() };
        assert_eq!(other.check(&plan), Err(Mismatch::Engine { found: "dbsp 1".to_owned() }));
        let other = Saved { sharding: "luck".to_owned(), ..saved() };
        assert_eq!(other.check(&plan), Err(Mismatch::Sharding { found: "luck".to_owned() }));
        assert_eq!(saved().check(&plan), Ok(()));
    }

    #[test]
    fn the_format_of_a_manifest_is_known_before_the_rest_of_it() {
        let mut bytes = br#"{"format":9,"new":1}"#.to_vec();
        bytes.extend_from_slice(format!("{:016x}", digest(&bytes)).as_bytes());
        assert_eq!(Saved::decode(&bytes), Err(Mismatch::Format { found: 9 }));
    }

    #[test]
    fn the_difference_of_two_plans_names_what_changed_alone() {
        let cases = [
            ("a <- #1\nb\n", "a <- #2\nb\n", "- a <- #1\n+ a <- #2\n"),
            ("#0 a\n#1 b\nv = #1\n", "#0 a\n#1 c\n#2 b\nv = #2\n", "+ #1 c\n"),
            ("#0 a\n#1 Filter x > 1\n", "#0 a\n#1 Filter x > 2\n", "- #1 Filter x > 1\n+ #1 Filter x > 2\n"),
            ("a\nb\n", "b\n", "- a\n"),
        ];
        for (old, new, expected) in cases {
            assert_eq!(difference(old, new), expected, "{old:?} to {new:?}");
        }
    }

    #[test]
    fn the_engine_that_is_named_is_the_one_that_runs() {
        let lock = include_str!("../../../Cargo.lock");
        let (name, version) = ENGINE.split_once(' ').unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{ENGINE} in Cargo.lock");
    }
}
