//! Code of processes that have ended, or run another program, before anybody looked at what they had mapped: the kernel tells of it as it
//! is mapped.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use pagewise_attribute::Mapping;
use pagewise_collect::CodeChange;
use pagewise_collect::CodeEvent;
use pagewise_collect::CodeEvents;

/// Of so many processes of the machine, those that were told of last.
const MOST_PROCESSES: usize = 1024;
/// A process that makes code as it runs maps it again and again.
const MOST_MAPPINGS: usize = 512;
/// Programs run by one process, one after the other, while nobody has heard of it.
const MOST_PROGRAMS: usize = 8;

const DELETED: &str = " (deleted)";

#[derive(Default)]
pub(super) struct ToldCode {
    events: Option<CodeEvents>,
    lost: u64,
    processes: HashMap<u32, Vec<Program>>,
}

/// A program that a process ran.
struct Program {
    begin_ns: u64,
    last_ns: u64,
    /// The file that was mapped first.
    executable: Option<String>,
    /// Executable mappings, by their first addresses.
    code: BTreeMap<u64, Mapping>,
}

impl ToldCode {
    pub(super) fn new(events: CodeEvents) -> Self {
        Self {
            events: Some(events),
            ..Self::default()
        }
    }

    /// Takes what has been told since the last call.
    pub(super) fn listen(&mut self) {
        let Some(events) = &mut self.events else {
            return;
        };
        let told = events.drain();
        if self.lost != events.lost() {
            // Another program may have begun: what is known could be of the one before.
            self.lost = events.lost();
            self.processes.clear();
        }
        told.into_iter().for_each(|event| self.note(event));
        self.keep_the_latest();
    }

    fn note(&mut self, event: CodeEvent) {
        let CodeEvent {
            time_ns,
            pid,
            change,
        } = event;
        match change {
            CodeChange::Exec => {
                let programs = self.processes.entry(pid).or_default();
                if programs.len() == MOST_PROGRAMS {
                    programs.remove(0);
                }
                programs.push(Program {
                    begin_ns: time_ns,
                    last_ns: time_ns,
                    executable: None,
                    code: BTreeMap::new(),
                });
            }
            // Where the begin was not heard of, this is not all of it.
            CodeChange::Mapped { .. } => {
                let programs = self.processes.get_mut(&pid);
                if let Some(program) = programs.and_then(|programs| programs.last_mut()) {
                    program.last_ns = time_ns;
                    program.add(mapping(change));
                }
            }
        }
    }

    fn keep_the_latest(&mut self) {
        if self.processes.len() <= MOST_PROCESSES {
            return;
        }
        let last = |programs: &Vec<Program>| programs.last().map_or(0, |last| last.last_ns);
        let mut times: Vec<u64> = self.processes.values().map(last).collect();
        times.sort_unstable();
        let oldest = times[times.len() - MOST_PROCESSES / 2];
        self.processes
            .retain(|_, programs| last(programs) >= oldest);
    }

    /// The code of the program that a process ran at that time, sorted by address. Empty: unknown.
    ///
    /// `roots`: where paths may begin that are another file for the process than for us.
    pub(super) fn of(&mut self, pid: u32, time_ns: u64, roots: &[String]) -> Vec<Mapping> {
        self.listen();
        let code = self.program(pid, time_ns).map(|program| &program.code);
        let code = code.into_iter().flat_map(BTreeMap::values);
        code.map(|mapping| as_found(mapping.clone(), roots))
            .collect()
    }

    /// The path of that program's file, as the process had it.
    pub(super) fn executable(&mut self, pid: u32, time_ns: u64) -> Option<String> {
        self.listen();
        self.program(pid, time_ns)?.executable.clone()
    }

    fn program(&self, pid: u32, time_ns: u64) -> Option<&Program> {
        let programs = self.processes.get(&pid)?;
        let ran = |program: &&Program| program.begin_ns <= time_ns;
        programs.iter().rev().find(ran)
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

impl Program {
    fn add(&mut self, mapping: Mapping) {
        if self.executable.is_none() {
            self.executable = mapping.file().map(str::to_owned);
        }
        let overlaps = |old: &Mapping| old.start < mapping.end && mapping.start < old.end;
        let before = self.code.range(..mapping.start).next_back();
        let within = self.code.range(mapping.start..mapping.end);
        let replaced: Vec<u64> = within
            .chain(before)
            .filter(|(_, old)| overlaps(old))
            .map(|(&start, _)| start)
            .collect();
        for start in replaced {
            self.code.remove(&start);
        }
        if self.code.len() < MOST_MAPPINGS {
            self.code.insert(mapping.start, mapping);
        }
    }
}

fn mapping(change: CodeChange) -> Mapping {
    let CodeChange::Mapped {
        start,
        end,
        offset,
        device,
        inode,
        path,
    } = change
    else {
        unreachable!("asked for mappings only")
    };
    let (path, deleted) = match path.strip_suffix(DELETED) {
        Some(path) => (path.to_owned(), true),
        None => (path, false),
    };
    // Memory without a file is called //anon and the like.
    let is_name = inode != 0 || path.starts_with('[');
    Mapping {
        start,
        end,
        readable: true,
        writable: false,
        executable: true,
        shared: false,
        offset,
        device,
        inode,
        path: is_name.then_some(path),
        deleted,
    }
}

/// With the path under which its file is found; if it is another file by now, or elsewhere, it counts as deleted. Devices are not
/// compared: of stacked file systems they differ from what stat(2) says.
fn as_found(mut mapping: Mapping, roots: &[String]) -> Mapping {
    let Some(path) = mapping.file().filter(|_| !mapping.deleted) else {
        return mapping;
    };
    let inode = mapping.inode;
    let is_it = |path: &String| fs::metadata(path).is_ok_and(|file| file.ino() == inode);
    let candidates = std::iter::once(path.to_owned());
    let mut candidates = candidates.chain(roots.iter().map(|root| format!("{root}{path}")));
    match candidates.find(is_it) {
        Some(found) => mapping.path = Some(found),
        None => mapping.deleted = true,
    }
    mapping
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 7;

    fn exec(time_ns: u64) -> CodeEvent {
        CodeEvent {
            time_ns,
            pid: PID,
            change: CodeChange::Exec,
        }
    }

    fn mapped(time_ns: u64, start: u64, end: u64, path: &str, inode: u64) -> CodeEvent {
        let change = CodeChange::Mapped {
            start,
            end,
            offset: 0,
            device: (0, 0),
            inode,
            path: path.to_owned(),
        };
        CodeEvent {
            time_ns,
            pid: PID,
            change,
        }
    }

    fn told(events: impl IntoIterator<Item = CodeEvent>) -> ToldCode {
        let mut told = ToldCode::default();
        events.into_iter().for_each(|event| told.note(event));
        told
    }

    fn starts(told: &mut ToldCode, time_ns: u64) -> Vec<u64> {
        let code = told.of(PID, time_ns, &[]);
        code.iter().map(|mapping| mapping.start).collect()
    }

    #[test]
    fn each_program_of_a_process_has_its_own_code() {
        let mut told = told([
            mapped(1, 0x9000, 0xa000, "//anon", 0),
            exec(2),
            mapped(3, 0x3000, 0x4000, "//anon", 0),
            mapped(4, 0x1000, 0x2000, "[vdso]", 0),
            exec(6),
            mapped(7, 0x5000, 0x6000, "//anon", 0),
        ]);
        assert!(starts(&mut told, 1).is_empty(), "its begin was not told");
        assert_eq!(starts(&mut told, 5), [0x1000, 0x3000]);
        assert_eq!(starts(&mut told, 9), [0x5000]);
        told.forget(PID);
        assert!(starts(&mut told, 9).is_empty());
    }

    #[test]
    fn what_is_mapped_over_other_code_replaces_it() {
        let mut told = told([
            exec(1),
            mapped(2, 0x1000, 0x3000, "//anon", 0),
            mapped(3, 0x5000, 0x6000, "//anon", 0),
            mapped(4, 0x2000, 0x5000, "//anon", 0),
        ]);
        assert_eq!(starts(&mut told, 9), [0x2000, 0x5000]);
    }

    #[test]
    fn a_file_is_the_one_of_that_inode_or_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a").display().to_string();
        fs::write(&path, "").expect("written");
        let inode = fs::metadata(&path).expect("there").ino();
        let inside = "/a";
        let roots = [folder.path().display().to_string()];
        for (told_path, told_inode, found) in [
            (path.as_str(), inode, Some(path.as_str())),
            (inside, inode, Some(path.as_str())),
            (path.as_str(), inode + 1, None),
            (&format!("{path} (deleted)"), inode, None),
        ] {
            let mut told = told([exec(1), mapped(2, 0, 0x1000, told_path, told_inode)]);
            let code = told.of(PID, 9, &roots);
            let [mapping] = code.as_slice() else {
                panic!("{code:?}")
            };
            let kept = mapping.path.as_deref().filter(|_| !mapping.deleted);
            assert_eq!(kept, found, "{told_path}");
        }
    }

    #[test]
    fn of_many_processes_the_latest_are_kept() {
        let mut told = ToldCode::default();
        for pid in 0..=MOST_PROCESSES as u32 {
            told.note(CodeEvent {
                pid,
                ..exec(u64::from(pid))
            });
        }
        told.keep_the_latest();
        assert!(told.processes.len() <= MOST_PROCESSES);
        assert!(told.processes.contains_key(&(MOST_PROCESSES as u32)));
        assert!(!told.processes.contains_key(&0));
    }
}
