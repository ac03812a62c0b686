//! An object as the report shows it.

use std::sync::Arc;

use crate::counts::Counts;
use crate::fault_paths::WorstPath;
use crate::identity::Identity;
use crate::identity::ObjectKind;
use crate::pattern::Pattern;
use crate::pattern::PatternFacts;
use crate::pattern::Phase;

/// One data object: all allocations of one variable on one line, or a mapping.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it is called.
    pub identity: Identity,
    /// Its variable's type, as a declaration has it (`double *`); `None`: the debug information does not tell.
    pub type_name: Option<Arc<str>>,
    /// Most bytes alive at once; `None` where there is no telling.
    pub bytes: Option<u64>,
    /// Bytes alive on average when anything of the program swapped in; `None`: nothing did.
    pub mean_bytes: Option<u64>,
    /// How many allocations it had; of sampled ones an estimate.
    pub allocations: u64,
    /// The most of them that were alive at once; of sampled ones an estimate.
    pub most_alive: u64,
    /// In how many stretches they lay when most bytes were alive: those with no whole page between them are one.
    pub stretches: u64,
    /// Whether some of its allocations were sampled: `bytes` and `allocations` are estimates, and where its pages hold
    /// other objects too, the counts of events as well.
    pub sampled: bool,
    /// What happened to it.
    pub counts: Counts,
    /// Different pages that came back from swap.
    pub distinct_pages: u64,
    /// The share of its resident pages that was accessed in an interval, over all looks; `None` if not recorded.
    pub accessed_share: Option<f64>,
    /// Mean share of its pages that was in memory while it lived, 0 to 1; `None` if that was not observed.
    pub resident_share: Option<f64>,
    /// The most of it that was in memory at once, of the most bytes alive: 1 of what is filled bit by bit. `None` alike.
    pub most_resident_share: Option<f64>,
    /// In what order they came back: of the phase that cost most.
    pub pattern: Option<Pattern>,
    /// What more is known of that. Apart: most of a million objects have none.
    pub pattern_facts: Option<Box<PatternFacts>>,
    /// In what order they came back over time. Empty: it saw no swap-in.
    pub phases: Vec<Phase>,
    /// Memory for the whole program, beyond what there was, that would have avoided 99 % of this object's stall, in bytes;
    /// `None` if most of it cannot be told.
    pub extra_bytes: Option<u64>,
    /// The call path with the most of its stall.
    pub worst_path: Option<WorstPath>,
    /// Its call path, innermost first: of its allocations, the path that was named. Paths share their frames.
    pub site: Vec<Arc<ObjectFrame>>,
}

/// One frame of an object's call path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectFrame {
    /// Function.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Executable or library.
    pub module: Option<String>,
    /// The address of the code as stated in the module; only where it has no line, else `None`: equal lines are equal
    /// frames.
    pub module_offset: Option<u64>,
    /// Inlined into the next frame.
    pub inlined: bool,
}

impl Object {
    /// Its swap-ins, if it stands for memory of no recorded object.
    pub(crate) fn unattributed_swap_ins(&self) -> u64 {
        match self.identity.kind {
            ObjectKind::Heap | ObjectKind::Unknown => self.counts.swap_ins,
            _ => 0,
        }
    }
}

impl ObjectFrame {
    /// Whether it only allocates for others: of an allocator, a language's runtime, or a function that by its name wraps one.
    pub(crate) fn is_allocator(&self) -> bool {
        self.is_runtime()
            || self
                .function
                .as_deref()
                .is_some_and(pagewise_attribute::is_allocator_by_name)
    }

    fn is_runtime(&self) -> bool {
        pagewise_attribute::is_runtime_code(
            self.function.as_deref(),
            self.file.as_deref(),
            self.module.as_deref(),
        )
    }

    /// Whether it is of an allocator, a language's runtime or the system's shared libraries, not of the program.
    pub fn is_library(&self) -> bool {
        let module = pagewise_attribute::path_inside(self.module.as_deref().unwrap_or(""));
        let shared = module.ends_with(".so") || module.contains(".so.") || module == "[vdso]";
        let of_system = [
            "/usr/lib",
            "/lib",
            "/usr/local/lib",
            "/nix/store/",
            "/snap/",
        ];
        let in_system = of_system.iter().any(|folder| module.starts_with(folder));
        // Where the C library begins a program (crt1.o).
        let start = self.file.is_none() && self.function.as_deref() == Some("_start");
        shared && in_system || module == "[vdso]" || start || self.is_runtime()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_programs_and_what_a_library_s() {
        let of = |module: &str, file: Option<&str>| ObjectFrame {
            module: Some(module.to_owned()),
            file: file.map(str::to_owned),
            function: Some("f".to_owned()),
            ..ObjectFrame::default()
        };
        for (module, file) in [
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", None),
            ("/lib64/libcairo.so.2", None),
            ("/proc/4711/root/usr/lib/libcairo.so.2", None),
            ("[vdso]", None),
            (
                "/home/me/solver",
                Some("/usr/include/c++/12/bits/stl_algo.h"),
            ),
            (
                "/home/me/solver",
                Some("/rustc/59807616/library/core/src/ptr/mod.rs"),
            ),
        ] {
            assert!(of(module, file).is_library(), "{module} {file:?}");
        }
        for (module, file) in [
            ("/usr/bin/solver", None),
            ("/usr/lib/git-core/git", None),
            ("/home/me/build/libgrid.so", Some("/home/me/grid.c")),
            (
                "/home/me/solver",
                Some("/usr/include/lemon/network_simplex.h"),
            ),
        ] {
            assert!(!of(module, file).is_library(), "{module} {file:?}");
        }
    }
}
