//! The `pagewise` command: one module a subcommand, glue only.

#![forbid(unsafe_code)]

mod check;
mod cli;
mod failure;
mod output;
mod record;
mod report;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::cli::Command;
use crate::failure::OWN_FAILURE;
use crate::output::tell;

fn main() -> ExitCode {
    // The keeper is this executable again, under a hidden argument, before anything else is set up.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == pagewise_host::keeper::ARGUMENT)
    {
        return pagewise_host::keeper::main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let result = match cli.command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            tell!("pagewise: {failure}");
            failure.exit_code()
        }
    }
}

/// `--help` and `--version` are answers; all else that clap says is our failure, not the program's.
fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(OWN_FAILURE)
    } else {
        ExitCode::SUCCESS
    }
}
