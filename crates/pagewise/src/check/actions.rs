//! What can be done here.

use pagewise_collect::page_walks::WalkEvents;
use pagewise_host::HostFacts;
use pagewise_host::huge_pages::Features;

use super::AS_ROOT;
use super::Item;

/// `sensors`: the items of what can be observed, on which some depend.
pub(super) fn items(facts: &HostFacts, sensors: &[Item]) -> Vec<Item> {
    let works = |name: &str| {
        sensors
            .iter()
            .any(|sensor| sensor.name == name && sensor.works)
    };
    vec![
        limit(facts),
        swap(facts),
        remote_advice(facts),
        io_hints(facts),
        hugepages(facts, works("access")),
        guard(facts),
    ]
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

fn remote_advice(facts: &HostFacts) -> Item {
    Item {
        name: "advice",
        purpose: "changing a running program's memory from outside (hugepages)",
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

/// What it needs of BPF is the item `io`.
fn io_hints(facts: &HostFacts) -> Item {
    let lacks_rights = facts.effective_uid != 0;
    let detail = match (facts.open_files, lacks_rights) {
        (false, _) => "needs pidfd_getfd (Linux 5.6) and cachestat (Linux 6.5)",
        (true, true) => "pidfd_getfd and cachestat; other processes only as root",
        (true, false) => "pidfd_getfd and cachestat, with the sensor io",
    };
    Item {
        name: "io_hints",
        purpose: "apply --pid: a plan's rules about I/O on a running program",
        works: facts.open_files && !lacks_rights,
        detail: detail.to_owned(),
        hint: (facts.open_files && lacks_rights).then(|| AS_ROOT.to_owned()),
    }
}

/// What the kernel does with huge pages from outside.
fn acts(features: &Features) -> &'static str {
    match (features.collapse, features.split, features.frees_zeros) {
        (None, _, _) => "it could not be tried: no huge page was free, or it is not permitted",
        (Some(false), _, _) => {
            "no promotion on request: MADV_COLLAPSE needs Linux 6.1 with huge pages"
        }
        (_, Some(true), Some(true)) => "promotion, and recovery of bloat",
        (_, Some(true), _) => {
            "promotion; a split frees no zeros, so bloat stays: that needs Linux 6.12"
        }
        _ => "promotion; huge pages are not split on request, so bloat stays",
    }
}

/// Tried with a huge page of our own.
fn hugepages(facts: &HostFacts, tells_accesses: bool) -> Item {
    let features = &facts.huge_page_actions;
    let acts = acts(features);
    let lacks_counters = WalkEvents::find().is_err();
    let (looks, policies) = match (tells_accesses, facts.pagemap_scan) {
        (true, _) if lacks_counters => (
            true,
            "; all policies but hawkeye-pmu, whose counters are missing",
        ),
        (true, _) => (true, ""),
        (false, true) => (
            true,
            "; what is accessed is not told (access), so only --policy linux, freebsd and none",
        ),
        (false, false) => (
            false,
            "; nothing looks at other processes' memory: that needs access, or PAGEMAP_SCAN (Linux 6.7)",
        ),
    };
    let promotes = features.collapse == Some(true);
    let detail = format!("{acts}{}", if promotes || !looks { policies } else { "" });
    let works = promotes && looks;
    // Root of a container may lack them, too.
    let missing = facts.capabilities.map_or(Vec::new(), |capabilities| {
        capabilities.missing_for_huge_pages()
    });
    let lacks_rights = !missing.is_empty();
    Item {
        name: "hugepages",
        purpose: "hugepages: the right regions, from outside the program",
        works: works && !lacks_rights,
        detail: if lacks_rights {
            let missing = missing.join(", ");
            format!(
                "{detail}; other processes only with the capabilities that are missing: {missing}"
            )
        } else {
            detail
        },
        hint: lacks_rights.then(|| AS_ROOT.to_owned()),
    }
}

fn guard(facts: &HostFacts) -> Item {
    let (works, detail, hint) = match (crate::guard::library(), facts.guard_regions) {
        (Err(why), _) => (false, why, Some("make build".to_owned())),
        (Ok(_), true) => {
            let all = "guard regions, one mapping for all objects";
            let compaction = match facts.kernel_userfaults {
                true => "compaction (--memory) by userfaultfd",
                false => {
                    "no compaction (--memory): that needs root or sysctl vm.unprivileged_userfaultfd=1"
                }
            };
            (true, format!("{all}; {compaction}"), None)
        }
        (Ok(_), false) => {
            let few = "by mprotect, some 30,000 objects at once: guard regions need Linux 6.13";
            let more = facts.effective_uid == 0;
            let hint = more.then(|| "sysctl vm.max_map_count=1000000".to_owned());
            (true, few.to_owned(), hint)
        }
    };
    Item {
        name: "guard",
        purpose: "guard: heap errors, at the very instruction",
        works,
        detail,
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_for_huge_pages_is_named() {
        for (collapse, split, frees_zeros, told) in [
            (
                Some(true),
                Some(true),
                Some(true),
                "promotion, and recovery of bloat",
            ),
            (
                Some(true),
                Some(true),
                Some(false),
                "frees no zeros, so bloat stays: that needs Linux 6.12",
            ),
            (Some(true), Some(true), None, "frees no zeros"),
            (Some(true), Some(false), None, "not split on request"),
            (Some(false), None, None, "MADV_COLLAPSE needs Linux 6.1"),
            (None, None, None, "could not be tried"),
        ] {
            let features = Features {
                collapse,
                split,
                frees_zeros,
            };
            assert!(acts(&features).contains(told), "{features:?}");
        }
    }
}
