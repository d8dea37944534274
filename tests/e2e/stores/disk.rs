//! A local disk that takes no more, for a while.

use std::os::unix::process::CommandExt;

use crate::ingest::{Ingest, Running, free_port};
use crate::stores::lake::noisy;
use crate::table::Table;
use crate::topic;

/// Bytes that a file may have at first: logs fit, the data does not.
const FULL: u64 = 400_000;

/// Bounds what the files of a process may grow to, as a full disk does: writes beyond it fail.
fn bound(command: &mut std::process::Command) {
    let limit = libc::rlimit { rlim_cur: FULL, rlim_max: libc::RLIM_INFINITY };
    let set = move || {
        // SAFETY: both are async-signal-safe, and the pointer is to a value of the closure's own.
        #[allow(unsafe_code, reason = "std bounds no process")]
        let failed = unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
        };
        if failed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    #[allow(unsafe_code, reason = "limits are set between fork and exec")]
    unsafe {
        command.pre_exec(set)
    };
}

/// Lets a process write again.
fn free(running: &Running) {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a value that outlives the call; the old limit is not asked for.
    #[allow(unsafe_code, reason = "std bounds no process")]
    let failed = unsafe { libc::prlimit(running.id(), libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_full_disk_is_waited_for_and_named() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce((0..5000).map(|id| noisy(id, 1)).collect::<Vec<_>>());
    let admin = free_port();
    let mut command = Ingest::new(&topic, &table).with(&["-b", "134217728", "-m", "5000"]).command(admin);
    bound(&mut command);
    let running = Running::spawn(command, admin);
    running.wait_log("nothing is lost, trying again");
    let log = running.log();
    let file = log.lines().find(|line| line.contains("trying again")).expect("it was there");
    for part in ["put data file", ".parquet", "File too large"] {
        assert!(file.contains(part), "no '{part}' in {file}");
    }
    assert_eq!((table.version(), table.files_on_disk()), (Some(0), 0), "nothing half");
    free(&running);
    table.wait_rows(5000);
    running.stop();
    assert_eq!(table.ids(), (0..5000).collect::<Vec<_>>());
}
