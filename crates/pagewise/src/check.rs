//! `pagewise check`: one line a sensor and action: whether it works here, what is lost without it, what to type.

use std::fmt::Write as _;
use std::process::ExitCode;

use pagewise_host::HostFacts;
use serde::Serialize;

use crate::cli::CheckArguments;
use crate::failure::Failure;
use crate::output;
use crate::record::runtime_library;

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
    let items = vec![
        faults(),
        allocations(),
        limit(&facts),
        swap(&facts),
        residency(&facts),
        remote_advice(&facts),
    ];
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

fn faults() -> Item {
    let (works, detail, hint) = match pagewise_collect::calibrate() {
        Ok(layout) => {
            let levels = if layout.top_level_shift == 48 { 5 } else { 4 };
            let reading = if layout.use_cast {
                "directly"
            } else {
                "by helper"
            };
            let zeros = if layout.page_structs.is_some() {
                ""
            } else {
                "; zero-filled pages count as written"
            };
            (
                true,
                format!("BPF reads page tables of {levels} levels {reading}{zeros}"),
                None,
            )
        }
        Err(error @ pagewise_collect::CollectError::NotPermitted) => {
            (false, format!("{error}"), Some(AS_ROOT.to_owned()))
        }
        Err(error) => (false, format!("{error}"), None),
    };
    let purpose = "each swap-in and eviction with address and latency";
    Item {
        name: "faults",
        purpose,
        works,
        detail,
        hint,
    }
}

fn allocations() -> Item {
    let purpose = "objects by variable and line";
    let name = "allocations";
    match runtime_library() {
        Ok(path) => Item {
            name,
            purpose,
            works: true,
            detail: format!("preloads {}", path.display()),
            hint: None,
        },
        Err(why) => Item {
            name,
            purpose,
            works: false,
            detail: why,
            hint: Some("make build".to_owned()),
        },
    }
}

fn limit(facts: &HostFacts) -> Item {
    let cgroup = &facts.cgroup;
    let version = cgroup
        .host
        .as_ref()
        .map(|host| format!("cgroup {:?}", host.version).to_lowercase());
    let works = cgroup.can_create;
    let detail = match (&cgroup.why_not, version) {
        (Some(why), _) if !works => why.clone(),
        (_, Some(version)) => version,
        _ => "no memory cgroup".to_owned(),
    };
    let hint = (!works && facts.effective_uid != 0).then(|| AS_ROOT.to_owned());
    Item {
        name: "limit",
        purpose: "record --memory",
        works,
        detail,
        hint,
    }
}

fn swap(facts: &HostFacts) -> Item {
    let areas = facts.swap_areas.as_deref().unwrap_or_default();
    let zram = &facts.zram;
    let zram_possible = !zram.unused.is_empty() || zram.can_add;
    let mut kinds = Vec::new();
    if zram_possible {
        kinds.push("zram");
    }
    kinds.push("file");
    let root = facts.effective_uid == 0;
    let existing = match areas.len() {
        0 => "none active".to_owned(),
        count => format!("{count} active"),
    };
    let detail = if root {
        format!("{existing}; can be set up for a run: {}", kinds.join(", "))
    } else {
        format!("{existing}; none can be set up without root")
    };
    Item {
        name: "swap",
        purpose: "room for what does not fit",
        works: root || !areas.is_empty(),
        detail,
        hint: (!root).then(|| AS_ROOT.to_owned()),
    }
}

fn residency(facts: &HostFacts) -> Item {
    Item {
        name: "residency",
        purpose: "which pages are in memory (not used yet)",
        works: facts.pagemap_scan,
        detail: if facts.pagemap_scan {
            "PAGEMAP_SCAN"
        } else {
            "PAGEMAP_SCAN needs Linux 6.7"
        }
        .to_owned(),
        hint: None,
    }
}

fn remote_advice(facts: &HostFacts) -> Item {
    Item {
        name: "advice",
        purpose: "changing a running program's memory from outside (not used yet)",
        works: facts.process_madvise,
        detail: if facts.process_madvise {
            "process_madvise"
        } else {
            "process_madvise needs Linux 5.10"
        }
        .to_owned(),
        hint: None,
    }
}
