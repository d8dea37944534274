//! Which files are made one.

use std::collections::BTreeMap;

use crate::view::files::LiveFile;

/// A file is small below this share of the size wanted, in percent.
const SMALL_PERCENT: u64 = 75;

/// A file is rewritten once more than this share of its rows is dead, in percent.
const DEAD_PERCENT: u64 = 20;

/// Groups of files, each of one partition value, by their places in `files`: those that are small, oldest first, as many
/// as make a file of the size wanted, and those with many dead rows. A small file without another one stays.
pub(super) fn bins(files: &[&LiveFile], target_bytes: u64) -> Vec<Vec<usize>> {
    let mut by_value: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        if is_candidate(file, target_bytes) {
            let value = serde_json::to_string(&file.partition_values).expect("JSON of JSON");
            by_value.entry(value).or_default().push(at);
        }
    }
    let mut bins = Vec::new();
    for mut candidates in by_value.into_values() {
        // Rows that came together stay together: bounds of times stay narrow.
        candidates.sort_by_key(|at| (files[*at].modification_time_ms, *at));
        let (mut bin, mut bytes) = (Vec::new(), 0);
        for at in candidates {
            if !bin.is_empty() && bytes + files[at].size_bytes > target_bytes {
                bins.push(std::mem::take(&mut bin));
                bytes = 0;
            }
            bin.push(at);
            bytes += files[at].size_bytes;
        }
        bins.push(bin);
    }
    bins.retain(|bin| bin.len() > 1 || bin.iter().any(|at| is_decayed(files[*at])));
    bins
}

/// May it be rewritten at all?
pub(super) fn is_candidate(file: &LiveFile, target_bytes: u64) -> bool {
    is_decayed(file) || file.size_bytes * 100 < target_bytes * SMALL_PERCENT
}

fn is_decayed(file: &LiveFile) -> bool {
    let dead = file.dead_rows();
    dead > 0 && dead * 100 > file.rows_by_stats() * DEAD_PERCENT
}

#[cfg(test)]
mod tests {
    use delta_kernel::actions::deletion_vector::{DeletionVectorDescriptor, DeletionVectorStorageType};
    use roaring::RoaringTreemap;
    use serde_json::json;

    use super::*;

    /// Files as `partition value, size, rows, dead, age`; a size of 100 is wanted.
    fn check(files: &[(&str, u64, u64, i64, i64)], expect: &[&[usize]]) {
        let live: Vec<LiveFile> = (0..)
            .zip(files)
            .map(|(at, (value, size_bytes, rows, dead, age)): (usize, _)| LiveFile {
                path: at.to_string(),
                partition_values: json!({ "p": value }).as_object().cloned().unwrap_or_default(),
                size_bytes: *size_bytes,
                modification_time_ms: -age,
                stats: Some(format!("{{\"numRecords\":{rows}}}")),
                tags: None,
                vector: (*dead > 0).then(|| {
                    DeletionVectorDescriptor::try_new(DeletionVectorStorageType::Inline, "", None, 0, *dead).unwrap()
                }),
                dead: RoaringTreemap::new(),
                rows: 0,
            })
            .collect();
        assert_eq!(bins(&live.iter().collect::<Vec<_>>(), 100), expect, "{files:?}");
    }

    #[test]
    fn small_and_decayed_files_are_grouped() {
        check(&[], &[]);
        check(&[("a", 10, 1, 0, 0)], &[]);
        check(&[("a", 10, 1, 0, 0), ("b", 10, 1, 0, 0)], &[]);
        check(&[("a", 10, 1, 0, 1), ("a", 10, 1, 0, 0)], &[&[0, 1]]);
        // Oldest first, and no more than the size wanted; what is left alone stays.
        check(&[("a", 60, 1, 0, 1), ("a", 40, 1, 0, 9), ("a", 60, 1, 0, 8)], &[&[1, 2]]);
        check(&[("a", 74, 1, 0, 3), ("a", 75, 1, 0, 2), ("a", 20, 1, 0, 1)], &[&[0, 2]]);
        // Dead rows: more than a fifth, whatever the size.
        check(&[("a", 500, 100, 20, 0)], &[]);
        check(&[("a", 500, 100, 21, 0)], &[&[0]]);
        check(&[("a", 500, 100, 21, 1), ("a", 9, 1, 0, 0), ("a", 9, 1, 0, 0)], &[&[0], &[1, 2]]);
    }

    #[test]
    fn what_was_grouped_is_not_grouped_again() {
        // Next fit: two neighbours never fit into one file.
        check(&[("a", 55, 1, 0, 2), ("a", 60, 1, 0, 1), ("a", 70, 1, 0, 0)], &[]);
    }
}
