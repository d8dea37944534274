//! `lakeward demo`: an embedded broker, two workers, one of them killed twice, and the proof; then live SQL over the
//! same topic, killed too, and compared with a batch query.
//!
//! The broker is librdkafka's own mock cluster, in this process; the workers are this very program,
//! as anyone would start it. Progress is read from the table alone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lakeward_protocol::ports::Exit;

use crate::cli::DemoArgs;
use crate::failure::Failure;
use crate::report::grouped;
use crate::session::Session;
use crate::verify;
use broker::Broker;
use progress::Progress;
use workers::Workers;

mod broker;
mod live;
mod progress;
mod requests;
mod show;
mod workers;

/// The demo's topic.
const TOPIC: &str = "web_requests";
const PARTITIONS: u32 = 8;
/// Shares of the messages, in percent, at which the second worker is killed.
const KILLS_AT_PERCENT: [u64; 2] = [20, 50];
/// Longer than this and something is wrong.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(50);
/// Speed is taken over so long.
const STRIDE: Duration = Duration::from_millis(500);

/// Runs the whole show.
///
/// # Errors
/// When the proof fails, or a part of the demo does not work on this machine.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let session = Session::start()?;
    let folder = clean(&args.folder)?;
    let logs = tempfile_dir()?;
    say(&format!("An embedded broker, topic {TOPIC} with {PARTITIONS} partitions"));
    let broker = Broker::start(TOPIC, PARTITIONS)?;
    let bar = Progress::new("producing", args.messages);
    broker.produce(TOPIC, PARTITIONS, args.messages, |done| bar.set(done))?;
    bar.done(&format!("{} web requests produced", grouped(args.messages)));

    let began = Instant::now();
    let mut workers = Workers::start(&broker, &folder, &logs)?;
    let bar = Progress::new("ingesting", args.messages);
    let run = watch(&session, &mut workers, &folder, args.messages, &bar)?;
    let took = began.elapsed();
    bar.done(&format!(
        "all ingested by two workers; one of them was killed {} times (SIGKILL) and came back",
        run.kills
    ));

    let mut chains = verify::follow(&folder.display().to_string(), &session)?;
    verify::compare(&mut chains, broker.bootstrap())?;
    show::result(&folder, &session, &chains, took, &run)?;
    let rows: u64 = chains.chains.values().map(|chain| chain.rows).sum();
    if chains.is_sound() && rows == args.messages {
        let live = clean(&live_folder(&args.folder))?;
        live::run(&broker, &folder, &live, args.messages, &session)?;
        show::next(&args.folder);
        return Ok(());
    }
    Err(Failure::new(Exit::Software, format_args!("the proof failed; the workers' logs are in {}", logs.display())))
}

/// Where the second half works: beside the table.
fn live_folder(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    name.push("-live");
    folder.with_file_name(name)
}

/// What the run was like, as seen in the table.
struct Run {
    messages: u64,
    kills: usize,
    /// The most messages a second that the table grew by, over half a second or more.
    fastest: f64,
}

/// Follows the table until all is in it; kills on the way.
fn watch(
    session: &Session,
    workers: &mut Workers,
    folder: &Path,
    messages: u64,
    bar: &Progress,
) -> Result<Run, Failure> {
    let began = Instant::now();
    let mut run = Run { messages, kills: 0, fastest: 0.0 };
    let (mut done, mut mark) = (0, (began, 0));
    let table = progress::Table::new(folder, session);
    while done < messages || !workers.all_ended()? {
        if began.elapsed() > PATIENCE || session.signals.raised() {
            return Err(Failure::new(
                Exit::TryAgain,
                format_args!(
                    "given up at {done} of {messages} messages; the workers' logs are in {}",
                    workers.logs().display()
                ),
            ));
        }
        done = table.covered();
        bar.set(done);
        if KILLS_AT_PERCENT.get(run.kills).is_some_and(|at| done * 100 >= messages * at && done < messages) {
            workers.kill_and_restart()?;
            run.kills += 1;
            say(&format!("  worker 2 killed at {} messages, and started again", grouped(done)));
        }
        let since = mark.0.elapsed();
        if since >= STRIDE {
            run.fastest = run.fastest.max((done - mark.1) as f64 / since.as_secs_f64());
            mark = (Instant::now(), done);
        }
        std::thread::sleep(LOOK);
    }
    Ok(run)
}

/// An earlier demo's table goes; anything else in its place stays, and we don't go there.
fn clean(folder: &Path) -> Result<PathBuf, Failure> {
    let refused = |what: std::io::Error| Failure::new(Exit::Config, format_args!("{}: {what}", folder.display()));
    let absolute = std::path::absolute(folder).map_err(refused)?;
    if absolute.exists() {
        let empty = std::fs::read_dir(&absolute).map_err(refused)?.next().is_none();
        let ours = std::fs::read_to_string(absolute.join(MARK)).is_ok();
        if !empty && !ours {
            return Err(Failure::new(
                Exit::Config,
                format_args!("{} is there and is no table of an earlier demo; name another folder", folder.display()),
            ));
        }
        std::fs::remove_dir_all(&absolute).map_err(refused)?;
    }
    std::fs::create_dir_all(&absolute).map_err(refused)?;
    std::fs::write(absolute.join(MARK), "This table was made by `lakeward demo`, which replaces it each time.\n")
        .map_err(refused)?;
    Ok(absolute)
}

/// Says that a folder is ours to replace. Delta passes over names that begin with an underscore.
const MARK: &str = "_lakeward_demo";

fn tempfile_dir() -> Result<PathBuf, Failure> {
    let folder = std::env::temp_dir().join(format!("lakeward-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(Exit::Config, format_args!("{}: {error}", folder.display())))?;
    Ok(folder)
}

fn say(text: &str) {
    println!("{text}");
}
