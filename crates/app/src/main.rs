//! `lakeward`: reads the command line, runs one command, ends with its exit code.
//!
//! Read `ingest.rs` first: it joins the rooms. The clock, the environment, threads and signals live
//! in this crate alone.
#![allow(clippy::disallowed_methods, reason = "the app is where clock, environment and threads are")]

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

mod admin;
mod badlog;
mod budget;
mod check;
mod cli;
mod creation;
mod demo;
mod dlq;
mod explain;
mod failure;
mod footprint;
mod ingest;
mod letters;
mod maintain;
mod meters;
mod offsets;
mod pipeline;
mod plan;
mod processor;
mod query;
mod registry;
mod reminder;
mod report;
mod run;
mod secrets;
mod session;
mod sink;
mod stage;
mod start;
mod statsd;
mod status;
mod tombstones;
mod verify;
mod watch;
mod who;
mod world;

use cli::{Command, LogFormat};
use failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    footprint::settle();
    if let Err(lacking) = processor::check() {
        return ended(Err(lacking), LogFormat::Text);
    }
    secrets::argv::hide();
    let cli = cli::parse();
    start_log(cli.log_format);
    die_of_panics();
    secrets::argv::tell();
    if let Err(lacking) = secrets::find() {
        return ended(Err(lacking), cli.log_format);
    }
    if !matches!(cli.command, Command::Ingest(_) | Command::Run(_)) {
        footprint::end_with_the_reader();
    }
    let ending = match cli.command {
        Command::Ingest(args) => ingest::run(*args),
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Dlq(command) => dlq::run(&command),
        Command::Offsets(command) => offsets::run(&command),
        Command::Maintain(args) => maintain::run(&args),
        Command::Demo(args) => demo::run(&args),
    };
    ended(ending, cli.log_format)
}

/// Says why it ended, whatever `RUST_LOG` chooses to log.
fn ended(result: Result<(), Failure>, format: LogFormat) -> ExitCode {
    let Err(Failure { code, text }) = result else { return ExitCode::SUCCESS };
    match format {
        LogFormat::Text => eprintln!("lakeward: {text}"),
        LogFormat::Json => eprintln!("{}", serde_json::json!({"level": "ERROR", "message": text, "exit_code": code})),
    }
    ExitCode::from(code)
}

/// Logs to standard error; `RUST_LOG` chooses what, as the peer's.
fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new(
            "warn,lakeward=info,delta_kernel=off,delta_kernel_default_engine=off,dbsp=error,rdkafka::consumer=off",
        )
    });
    let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(color).init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
    }
}

/// A broken belief in any thread ends the process: a crash is an event that the protocol knows, a
/// process with half its threads is not.
fn die_of_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        eprintln!(
            "lakeward: this is a fault of lakeward, please report it; nothing is lost, a restart goes on from the table"
        );
        std::process::exit(i32::from(lakeward_protocol::ports::Exit::Software.code()));
    }));
}
