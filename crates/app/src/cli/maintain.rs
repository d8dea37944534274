//! The command line of `maintain`.

use clap::Args;
use lakeward_delta::encode::Compression;

use super::Output;

/// Care of a table, beside whoever writes to it.
#[derive(Clone, Debug, Args)]
pub struct MaintainArgs {
    /// The table: a folder, or a URL such as s3://bucket/path.
    pub table: String,

    /// Make small files, and files with many dead rows, into few whole ones. No row changes by it.
    #[arg(long)]
    pub compact: bool,

    /// Write a checkpoint of the newest version.
    #[arg(long)]
    pub checkpoint: bool,

    /// Delete log files beyond delta.logRetentionDuration that no younger version needs.
    #[arg(long)]
    pub expire: bool,

    /// Delete files that no version within delta.deletedFileRetentionDuration names.
    ///
    /// Files that no commit names at all are kept for a day at least: a writer may be about to name them.
    #[arg(long)]
    pub vacuum: bool,

    /// With --vacuum: keep removed files so many hours, not as many as the table says. Fewer need --force.
    #[arg(long, value_name = "HOURS")]
    pub retain: Option<u64>,

    /// With --retain: fewer hours than the table says are meant. Readers of older versions lose their files.
    #[arg(long, requires = "retain")]
    pub force: bool,

    /// Size of the files that --compact makes, in MiB. Files of less than three quarters of it are small.
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub target_file_mb: u64,

    /// How the files that --compact makes are compressed: none, snappy, zstd or zstd:LEVEL.
    #[arg(long, default_value_t = Compression::Snappy, value_name = "CODEC")]
    pub compression: Compression,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Write to a store that ignores conditions (no put if absent), under a lease: one process alone.
    #[arg(long)]
    pub unsafe_single_writer: bool,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}
