//! `lakeward`: reads the command line, runs one command, ends with its exit code.

use std::process::ExitCode;

mod cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let _ = cli::parse();
    ExitCode::SUCCESS
}
