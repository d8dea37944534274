//! `lakeward maintain`: small files made few, the log kept short, garbage deleted, beside whoever writes to the table.

use std::time::Duration;

use lakeward_delta::encode::WriterOptions;
use lakeward_delta::{Care, CompactOptions, Compacted, VacuumOptions, Vacuumed};
use serde_json::{Value, json};

use crate::cli::Output;
use crate::cli::maintain::MaintainArgs;
use crate::failure::Failure;
use crate::report::{counted, grouped};
use crate::session::Session;

/// Memory for rows on the way from file to file, in bytes.
const WRITER_BYTES: usize = 64 << 20;

/// What was done of what was asked; `None` was not asked.
#[derive(Debug, Default)]
struct Done {
    compacted: Option<Compacted>,
    checkpoint: Option<bool>,
    expired: Option<u64>,
    vacuumed: Option<Vacuumed>,
    stopped: bool,
}

/// Does what is asked, or all of it where nothing is: compact, checkpoint, expire, vacuum, in this order.
///
/// # Errors
/// A table that does not allow it, with why; a store that refuses. What was done until then stands.
pub fn run(args: &MaintainArgs) -> Result<(), Failure> {
    if args.retain.is_some() && !wants(args, args.vacuum) {
        return Err(Failure::usage("--retain is for --vacuum, which is not asked for"));
    }
    let session = Session::start()?;
    let admission = match args.dry_run {
        true => None,
        false => match session.admit(&args.table, args.unsafe_single_writer)? {
            Some(admission) => Some(admission),
            None => return Ok(()),
        },
    };
    let care = Care::open(&args.table, session.runtime.handle().clone());
    let mut care = care.map_err(|error| Failure::port(&error))?;
    let mut done = Done::default();
    let outcome = steps(args, &session, &mut care, &mut done);
    drop(admission);
    match args.output {
        Output::Table => print!("{}", text(args, care.version(), &done)),
        Output::Json => println!("{}", as_json(args, care.version(), &done)),
    }
    outcome.map_err(|error| Failure::port(&error))
}

/// Is a step asked for? Without any all are.
fn wants(args: &MaintainArgs, step: bool) -> bool {
    step || !(args.compact || args.checkpoint || args.expire || args.vacuum)
}

fn steps(
    args: &MaintainArgs,
    session: &Session,
    care: &mut Care,
    done: &mut Done,
) -> Result<(), lakeward_delta::DeltaError> {
    let dry_run = args.dry_run;
    if wants(args, args.compact) {
        let writer = WriterOptions {
            compression: args.compression,
            target_file_bytes: args.target_file_mb << 20,
            memory_bytes: WRITER_BYTES,
            keeps_rules: true,
            ..WriterOptions::default()
        };
        let options = CompactOptions { writer, dry_run };
        let goes_on = |so_far: &Compacted| {
            if so_far.commits > 0 {
                tracing::info!("{} made into {}", files(so_far.removed_files), files(so_far.added_files));
            }
            !session.signals.raised()
        };
        done.compacted = Some(care.compact(&options, goes_on)?);
        done.stopped = session.signals.raised();
    }
    if wants(args, args.checkpoint) && !done.stopped && !dry_run {
        done.checkpoint = Some(care.checkpoint()?);
    }
    if wants(args, args.expire) && !done.stopped {
        done.expired = Some(care.expire(dry_run)?);
    }
    if wants(args, args.vacuum) && !done.stopped {
        let retain = args.retain.map(|hours| Duration::from_secs(hours.saturating_mul(3_600)));
        let options = VacuumOptions { retain, force: args.force, dry_run };
        done.vacuumed = Some(care.vacuum(&options)?);
    }
    Ok(())
}

fn files(number: u64) -> String {
    counted(usize::try_from(number).unwrap_or(usize::MAX), "file")
}

fn mib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", grouped(tenths / 10), tenths % 10)
}

fn text(args: &MaintainArgs, version: u64, done: &Done) -> String {
    let would = if args.dry_run { "would " } else { "" };
    let mut out = format!("{} at version {version}\n", args.table);
    if let Some(compacted) = &done.compacted {
        out += &match (compacted.removed_files, args.dry_run) {
            (0, _) => "compact     nothing to do\n".to_owned(),
            (removed, true) => {
                format!("compact     would rewrite {} of {}\n", files(removed), mib(compacted.removed_bytes))
            }
            (removed, false) => format!(
                "compact     {} of {} made into {} of {}, in {}\n",
                files(removed),
                mib(compacted.removed_bytes),
                files(compacted.added_files),
                mib(compacted.added_bytes),
                counted(usize::try_from(compacted.commits).unwrap_or(usize::MAX), "commit"),
            ),
        };
        if compacted.overtaken_files > 0 {
            let left = files(compacted.overtaken_files);
            out += &format!("            {left} left: somebody else changed them meanwhile; run it again\n");
        }
    }
    if let Some(written) = done.checkpoint {
        out += if written { "checkpoint  written\n" } else { "checkpoint  there already\n" };
    }
    if let Some(expired) = done.expired {
        let log_files = counted(usize::try_from(expired).unwrap_or(usize::MAX), "log file");
        out += &format!("expire      {would}delete {log_files}\n").replace("      delete", "      deleted");
    }
    if let Some(vacuumed) = &done.vacuumed {
        let line = format!("vacuum      {would}delete {} of {}\n", files(vacuumed.files), mib(vacuumed.bytes));
        out += &line.replace("      delete", "      deleted");
        for name in &vacuumed.names {
            out += &format!("            {name}\n");
        }
        if vacuumed.names.len() < usize::try_from(vacuumed.files).unwrap_or(usize::MAX) && args.dry_run {
            out += "            ...\n";
        }
    }
    if done.stopped {
        out += "stopped before its end; what is said above is done\n";
    }
    out
}

fn as_json(args: &MaintainArgs, version: u64, done: &Done) -> Value {
    json!({
        "table": args.table, "version": version, "dry_run": args.dry_run, "stopped": done.stopped,
        "compact": done.compacted.as_ref().map(|of| json!({
            "commits": of.commits, "removed_files": of.removed_files, "removed_bytes": of.removed_bytes,
            "added_files": of.added_files, "added_bytes": of.added_bytes, "overtaken_files": of.overtaken_files,
        })),
        "checkpoint": done.checkpoint,
        "expire": done.expired.map(|files| json!({ "log_files": files })),
        "vacuum": done.vacuumed.as_ref().map(|of| json!({ "files": of.files, "bytes": of.bytes, "names": of.names })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_people_read_them() {
        let cases = [(0, "0.0 MiB"), (1 << 20, "1.0 MiB"), ((1 << 20) * 5 / 2, "2.5 MiB"), (1 << 32, "4,096.0 MiB")];
        for (bytes, text) in cases {
            assert_eq!(mib(bytes), text);
        }
    }
}
