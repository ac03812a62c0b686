//! What can be observed here.

use std::path::Path;

use pagewise_collect::CollectError;
use pagewise_collect::FaultEvents;
use pagewise_collect::Layout;
use pagewise_host::Capabilities;
use pagewise_host::page_out::PageOut;
use pagewise_host::page_out::page_out;

use super::AS_ROOT;
use super::Item;
use crate::record::runtime_library;
use crate::record::unprivileged::is_lack_of_privilege;
use crate::record::unprivileged::perf_refused;
use crate::record::unprivileged::setcap;
use crate::record::waits;

pub(super) fn items() -> Vec<Item> {
    let bpf = Bpf::probe();
    vec![
        faults(&bpf),
        major_faults(),
        thread_faults(),
        call_paths(&bpf),
        allocations(),
        residency(),
        access(&bpf),
        spots(&bpf),
        stalls(&bpf),
        io(&bpf),
        io_calls(),
        pressure(),
        delays(),
        undisturbed(),
    ]
}

/// Whether the kernel lets us read its page tables, on which all BPF sensors depend.
struct Bpf(Result<Layout, CollectError>);

impl Bpf {
    fn probe() -> Self {
        Self(pagewise_collect::calibrate())
    }

    /// The item of a sensor that works where BPF does; `detail` of the layout that was found.
    fn item(
        &self,
        name: &'static str,
        purpose: &'static str,
        detail: impl FnOnce(&Layout) -> String,
    ) -> Item {
        let (works, detail, hint) = match &self.0 {
            Ok(layout) => (true, detail(layout), None),
            Err(error) if is_lack_of_privilege(error) => {
                let executable = std::env::current_exe().unwrap_or_default();
                let hint = format!("{AS_ROOT}, or once: {}", setcap(&executable));
                (false, error.to_string(), Some(hint))
            }
            Err(error) => (false, error.to_string(), None),
        };
        Item {
            name,
            purpose,
            works,
            detail,
            hint,
        }
    }
}

fn faults(bpf: &Bpf) -> Item {
    let purpose = "each swap-in and eviction with address and latency";
    bpf.item("faults", purpose, |layout| {
        let levels = if layout.top_level_shift == 48 { 5 } else { 4 };
        let reading = if layout.use_cast {
            "directly"
        } else {
            "by helper"
        };
        let zeros = if layout.page_structs.is_some() {
            ""
        } else {
            "; zero-filled pages count as written, and swap-ins of shared memory as faults of files"
        };
        format!("BPF reads page tables of {levels} levels {reading}{zeros}")
    })
}

fn call_paths(bpf: &Bpf) -> Item {
    let purpose = "where in the code each swap-in was";
    bpf.item("call_paths", purpose, |_| {
        "unwind tables, memoized in BPF; no frame pointers needed".to_owned()
    })
}

fn access(bpf: &Bpf) -> Item {
    let purpose = "record --access: which pages are used";
    let item = bpf.item("access", purpose, |_| {
        "accessed bits, by BPF and /proc/PID/clear_refs".to_owned()
    });
    if item.works && !Path::new("/proc/self/clear_refs").exists() {
        return Item {
            works: false,
            detail: "no /proc/PID/clear_refs: the kernel lacks CONFIG_PROC_PAGE_MONITOR".to_owned(),
            ..item
        };
    }
    item
}

fn spots(bpf: &Bpf) -> Item {
    let purpose = "how often some pages are used, which stand for all";
    let item = bpf.item("spots", purpose, |_| {
        "accessed bits, by BPF and MADV_COLD".to_owned()
    });
    let may_advise = Capabilities::current().is_none_or(|own| own.sys_nice);
    let in_the_way = if pagewise_host::cold::folios_may_be_large() {
        "memory may be in large folios, which would be split: transparent_hugepage/hugepages-*kB/enabled"
    } else if !may_advise {
        "no advice about memory of others: run as root, or give pagewise cap_sys_nice, too"
    } else {
        return item;
    };
    match item.works {
        true => Item {
            works: false,
            detail: in_the_way.to_owned(),
            ..item
        },
        false => item,
    }
}

fn stalls(bpf: &Bpf) -> Item {
    let purpose = "threads that reclaim memory themselves, with time";
    bpf.item("stalls", purpose, |_| "tracepoints of reclaim".to_owned())
}

fn io(bpf: &Bpf) -> Item {
    let purpose = "record --io: calls on files, with what the page cache does";
    let item = bpf.item("io", purpose, |_| {
        "tracepoints of system calls and of the page cache".to_owned()
    });
    match pagewise_collect::require_io() {
        Err(error) if item.works => Item {
            works: false,
            detail: error.to_string(),
            ..item
        },
        _ => item,
    }
}

fn io_calls() -> Item {
    let purpose = "in place of io: the C library's calls on files";
    Item {
        name: "io_calls",
        purpose,
        ..allocations()
    }
}

fn pressure() -> Item {
    let works = pagewise_host::counters::memory_pressure().is_some();
    let (detail, hint) = match works {
        true => ("/proc/pressure/memory", None),
        false => (
            "no /proc/pressure/memory",
            Some("boot with psi=1, on a kernel with CONFIG_PSI"),
        ),
    };
    Item {
        name: "pressure",
        purpose: "what the kernel says of waiting for memory (PSI)",
        works,
        detail: detail.to_owned(),
        hint: hint.map(str::to_owned),
    }
}

fn delays() -> Item {
    let state = waits::delays_state();
    let works = state == "on";
    let hint = state
        .contains("sysctl")
        .then(|| "sudo sysctl kernel.task_delayacct=1".to_owned());
    Item {
        name: "delays",
        purpose: "the kernel's own account of each thread's waiting",
        works,
        detail: if works {
            "delay accounting is on".to_owned()
        } else if hint.is_some() {
            "delay accounting is off".to_owned()
        } else {
            state
        },
        hint,
    }
}

/// Whether evictions mean that memory was short.
fn undisturbed() -> Item {
    let found = page_out();
    let words: Vec<String> = found.iter().map(PageOut::words).collect();
    let stop: Vec<String> = found.into_iter().filter_map(|one| one.stop).collect();
    Item {
        name: "undisturbed",
        purpose: "evictions for want of memory only: nothing else pages out",
        works: words.is_empty(),
        detail: match words.is_empty() {
            true => "no thread of DAMON does".to_owned(),
            false => words.join("; "),
        },
        hint: (!stop.is_empty())
            .then(|| format!("if nobody needs it, as root: {}", stop.join("; "))),
    }
}

/// Tried on ourselves.
fn major_faults() -> Item {
    let (works, detail, hint) = match FaultEvents::open(std::process::id()) {
        Ok(_) => (true, "perf events".to_owned(), None),
        Err(error) => {
            let hint = "sudo sysctl kernel.perf_event_paranoid=2";
            let refused = error.kind() == std::io::ErrorKind::PermissionDenied;
            let hint = refused.then(|| hint.to_owned());
            (false, perf_refused(&error), hint)
        }
    };
    Item {
        name: "major_faults",
        purpose: "in place of faults: swap-ins with address, without latency",
        works,
        detail,
        hint,
    }
}

fn thread_faults() -> Item {
    let works = !pagewise_host::family::thread_faults(std::process::id()).is_empty();
    Item {
        name: "thread_faults",
        purpose: "in place of faults: counts of each thread",
        works,
        detail: if works {
            "/proc/PID/task"
        } else {
            "/proc/PID/task cannot be read"
        }
        .to_owned(),
        hint: None,
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

fn residency() -> Item {
    let (works, detail) = match pagewise_collect::residency::method() {
        Ok(method) if method.tells_huge() => (true, "PAGEMAP_SCAN".to_owned()),
        Ok(_) => {
            let less =
                "huge pages and pages of zeros look like others, as PAGEMAP_SCAN needs Linux 6.7";
            (true, format!("/proc/PID/pagemap; {less}"))
        }
        Err(error) => (false, format!("/proc/PID/pagemap cannot be read: {error}")),
    };
    Item {
        name: "residency",
        purpose: "which pages are in memory, of the program's and its children's",
        works,
        detail,
        hint: None,
    }
}
