//! How much memory a process may use, and how it is shared out.

use std::path::Path;

const MIB: u64 = 1 << 20;
/// Share of the machine's or cgroup's memory that is taken where the user says nothing.
const DEFAULT_SHARE: u64 = 4;
const DEFAULT_MOST: u64 = 1024 * MIB;
const DEFAULT_LEAST: u64 = 256 * MIB;
/// What a process takes that holds no record.
const BESIDE: u64 = 24 * MIB;

/// Bytes for each of the places that hold records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The whole.
    pub total_bytes: u64,
    /// Fetched by librdkafka, not yet taken.
    pub fetch_bytes: u64,
    /// Taken from librdkafka, not yet decoded.
    pub arena_bytes: u64,
    /// Decoded and encoded, not yet committed. Reached: a commit is made before its time.
    pub stage_bytes: u64,
}

impl Budget {
    /// Shares `--memory-mb` out, or the default.
    #[must_use]
    pub fn new(memory_mb: Option<u64>) -> Self {
        let total = memory_mb.map_or_else(|| default_bytes(available_bytes()), |mib| mib * MIB);
        Self::of(total)
    }

    /// The part of each of so many that do the same beside each other.
    #[must_use]
    pub fn divided(self, parts: usize) -> Self {
        Self::of(self.total_bytes / u64::try_from(parts.max(1)).unwrap_or(u64::MAX))
    }

    /// The same with half of all for the keys of a table's rows: that half in bytes, and what is left to share out.
    #[must_use]
    pub fn with_keys(self) -> (u64, Self) {
        let keys = self.total_bytes / 2;
        (keys, Self::of(self.total_bytes - keys))
    }

    /// The same with an eighth of all for files that are made few: that part in bytes, and what is left to share out.
    #[must_use]
    pub fn with_compaction(self) -> (u64, Self) {
        let files = self.total_bytes / 8;
        (files, Self { total_bytes: self.total_bytes, ..Self::of(self.total_bytes - files) })
    }

    /// What is not shared out is for metadata and the allocator, and for the files of a commit under way: a store that
    /// stalls has them held beside what the stage holds.
    fn of(total: u64) -> Self {
        let fetch_bytes = (total / 8).clamp(4 * MIB, 16 * MIB);
        let arena_bytes = (total / 16).clamp(2 * MIB, 16 * MIB);
        let left = total.saturating_sub(fetch_bytes + arena_bytes + BESIDE);
        Self { total_bytes: total, fetch_bytes, arena_bytes, stage_bytes: (total * 2 / 5).min(left / 2) }
    }
}

fn default_bytes(available: u64) -> u64 {
    (available / DEFAULT_SHARE).clamp(DEFAULT_LEAST, DEFAULT_MOST)
}

/// The least of what the machine has and what the cgroup allows (version 2, then 1).
fn available_bytes() -> u64 {
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let allowed = limits.iter().filter_map(|file| read(file)?.trim().parse().ok());
    allowed.chain(machine_bytes()).min().unwrap_or(DEFAULT_MOST)
}

fn machine_bytes() -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(file)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fit_into_the_whole() {
        for mib in [64, 100, 256, 1024, 65_536] {
            let budget = Budget::of(mib * MIB);
            let parts = budget.fetch_bytes + budget.arena_bytes + budget.stage_bytes;
            assert!(parts <= budget.total_bytes * 5 / 6, "{budget:?}");
        }
    }

    #[test]
    fn the_default_is_a_share_within_bounds() {
        assert_eq!(default_bytes(512 * MIB), 256 * MIB);
        assert_eq!(default_bytes(2048 * MIB), 512 * MIB);
        assert_eq!(default_bytes(1 << 40), 1024 * MIB);
    }
}
