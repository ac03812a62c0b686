//! `pagewise man` and `pagewise completions`: both from the command line's own definition, so that they never differ from it.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    output::print(&completions_text(shell))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `pagewise.1` and a page for each subcommand.
pub(crate) fn pages(folder: &Path) -> Result<ExitCode, Failure> {
    let written = clap_mangen::generate_to(whole_command(), folder);
    written.map_err(|error| {
        Failure::new(format!(
            "cannot write manual pages to {}: {error}; it must be a folder that exists",
            folder.display()
        ))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// With the arguments of all subcommands, which are made only once asked for.
fn whole_command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn completions_text(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut whole_command(), "pagewise", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The subcommands, and the long options of each.
    fn subcommands() -> Vec<(String, Vec<String>)> {
        let command = whole_command();
        let options = |command: &clap::Command| {
            let shown = command
                .get_arguments()
                .filter(|option| !option.is_hide_set());
            shown
                .filter_map(|option| option.get_long().map(str::to_owned))
                .collect()
        };
        let all = command.get_subcommands();
        all.map(|command| (command.get_name().to_owned(), options(command)))
            .collect()
    }

    #[test]
    fn each_subcommand_has_a_page_with_its_options() {
        let folder = tempfile::tempdir().expect("a folder");
        pages(folder.path()).expect("pages");
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        let overview = page("pagewise.1");
        for (name, options) in subcommands() {
            assert!(
                overview.contains(&format!("pagewise\\-{name}(1)")),
                "{name}"
            );
            // Troff writes a hyphen as \-.
            let text = page(&format!("pagewise-{name}.1")).replace("\\-", "-");
            for option in options {
                assert!(text.contains(&format!("--{option}")), "{name} --{option}");
            }
        }
    }

    #[test]
    fn each_shell_completes_each_subcommand_and_option() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completions_text(shell);
            for (name, options) in subcommands() {
                assert!(text.contains(&name), "{shell} {name}");
                for option in options {
                    assert!(text.contains(&option), "{shell} {name} --{option}");
                }
            }
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let failure = pages(Path::new("/nonexistent/man1")).expect_err("refused");
        assert!(
            failure.to_string().contains("/nonexistent/man1"),
            "{failure}"
        );
    }
}
