//! The `pagewise` command: one module a subcommand, glue only.

#![forbid(unsafe_code)]

mod annotate;
mod apply;
mod check;
mod cli;
mod columns;
mod compare;
mod export;
mod failure;
mod guard;
mod hugepages;
mod import;
mod input;
mod manual;
mod observe;
mod output;
mod page;
mod plan;
mod progress;
mod record;
mod report;
mod simulate;
mod target;

use std::process::ExitCode;

use clap::CommandFactory;
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
    pagewise_host::Capabilities::allow_looking_at_oneself();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let result = match cli.command {
        Command::Annotate(arguments) => annotate::run(&arguments),
        Command::Apply(arguments) => apply::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Guard(arguments) => guard::run(&arguments),
        Command::Hugepages(arguments) => hugepages::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Completions(arguments) => manual::completions(arguments.shell),
        Command::Man(arguments) => manual::pages(&arguments.folder),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            tell!("pagewise: {failure}");
            failure.exit_code()
        }
    }
}

/// `--help` and `--version` are answers; all else that clap says is our failure, not the program's, and one line.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // As with all we print, a reader that leaves early is no failure.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(OWN_FAILURE)
        }
        _ => {
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
            let command = command_of(words);
            tell!(
                "pagewise: {}",
                one_line(&error.render().to_string(), &command)
            );
            ExitCode::from(OWN_FAILURE)
        }
    }
}

/// What is wrong and clap's tip, without the usage, which `--help` tells.
fn one_line(rendered: &str, command: &str) -> String {
    let paragraphs = rendered.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let kept: Vec<String> = paragraphs
        .filter(|text| !text.starts_with("Usage:") && !text.starts_with("For more information"))
        .collect();
    let text = kept.join("; ");
    format!(
        "{}; type: {} --help",
        text.strip_prefix("error: ").unwrap_or(&text),
        command
    )
}

/// `pagewise plan`: the command whose options are told by its own `--help`.
fn command_of(arguments: impl Iterator<Item = String>) -> String {
    let mut command = Cli::command();
    let mut words = vec!["pagewise".to_owned()];
    for word in arguments.skip(1) {
        let below = command.find_subcommand(&word).cloned();
        match below {
            Some(below) => command = below,
            None if word.starts_with('-') => continue,
            None => break,
        }
        words.push(word);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let error = Cli::try_parse_from(words).expect_err("refused");
        let command = command_of(words.iter().map(|word| (*word).to_owned()));
        one_line(&error.render().to_string(), &command)
    }

    #[test]
    fn a_refusal_is_one_line_with_its_tip() {
        let line = refused(&["pagewise", "recrod"]);
        assert_eq!(
            line,
            "unrecognized subcommand 'recrod'; tip: a similar subcommand exists: 'record'; type: pagewise --help"
        );
    }

    #[test]
    fn what_is_missing_is_named_on_the_same_line() {
        let line = refused(&["pagewise", "record"]);
        assert!(line.contains("not provided: <CMD>"), "{line}");
        assert!(line.ends_with("; type: pagewise record --help"), "{line}");
        let line = refused(&["pagewise", "compare", "plan.toml", "--runs", "x"]);
        assert!(line.ends_with("; type: pagewise compare --help"), "{line}");
    }
}
