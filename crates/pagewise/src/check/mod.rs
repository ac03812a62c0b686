//! `pagewise check`: one line a sensor and action: whether it works here, what is lost without it, what to type.

mod actions;
mod sensors;

use std::fmt::Write as _;
use std::process::ExitCode;

use pagewise_host::HostFacts;
use serde::Serialize;

use crate::cli::CheckArguments;
use crate::failure::Failure;
use crate::output;

/// One thing that may or may not work here.
#[derive(Debug, Serialize)]
struct Item {
    name: &'static str,
    /// What it is good for.
    purpose: &'static str,
    works: bool,
    /// Why not, or how well.
    detail: String,
    /// What to type to get it; `null` if it works or cannot be had.
    hint: Option<String>,
}

#[derive(Debug, Serialize)]
struct Document<'facts> {
    schema: &'static str,
    items: Vec<Item>,
    host: &'facts HostFacts,
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let facts = HostFacts::gather();
    let mut items = sensors::items();
    let actions = actions::items(&facts, &items);
    items.extend(actions);
    if arguments.json {
        let document = Document {
            schema: "pagewise.check/1",
            items,
            host: &facts,
        };
        let json = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::new(error.to_string()))?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&text(&facts, &items))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(facts: &HostFacts, items: &[Item]) -> String {
    let mut text = String::new();
    let kernel = facts.kernel_release.as_deref().unwrap_or("unknown kernel");
    let user = if facts.effective_uid == 0 {
        "root".to_owned()
    } else {
        format!("user {}", facts.effective_uid)
    };
    let _ = writeln!(text, "Linux {kernel}, as {user}");
    let width = items.iter().map(|item| item.name.len()).max().unwrap_or(0);
    for item in items {
        let mark = if item.works { "yes" } else { "no " };
        let _ = writeln!(
            text,
            "{mark}  {:width$}  {}: {}",
            item.name, item.purpose, item.detail
        );
        if let Some(hint) = &item.hint {
            let _ = writeln!(text, "     {:width$}  -> {hint}", "");
        }
    }
    text
}

const AS_ROOT: &str = "sudo pagewise ...";
