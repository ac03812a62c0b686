//! Which processes there are, and the address space of each.

use std::collections::BTreeSet;
use std::path::Path;

use pagewise_collect::Observation;
use pagewise_collect::record::ProcessChange;
use pagewise_trace as trace;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

use super::Translator;
use crate::record::residency::Target;

impl Translator {
    /// Processes that have an address space of their own, with its number.
    pub(in crate::record) fn live_spaces(&self) -> Vec<(u32, u32)> {
        let spaces = self.spaces.values();
        spaces.map(|row| (self.user_of(row), row.space)).collect()
    }

    /// A process that uses this address space: the one that it began with, while that lives.
    fn user_of(&self, row: &trace::Space) -> u32 {
        self.pids.get(&row.space).copied().unwrap_or(row.pid)
    }

    pub(in crate::record) fn process(
        &mut self,
        change: Observation,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let Observation::Process {
            time_ns,
            what,
            space,
            parent_space,
            pid,
            start_boottime_ns,
            exec_epoch,
            command,
        } = change
        else {
            return Ok(());
        };
        match what {
            ProcessChange::Exec | ProcessChange::Fork | ProcessChange::Join => {
                if what == ProcessChange::Exec {
                    let former = self.call_paths.runs_another_program(pid, time_ns);
                    if self.pids.get(&parent_space) == Some(&pid) {
                        self.pids.remove(&parent_space);
                        self.former_programs.insert(parent_space, former);
                    } else {
                        self.call_paths.forget(former);
                    }
                    self.leave_space(parent_space, pid, time_ns, writer)?;
                }
                if space == 0 {
                    return Ok(()); // not recorded before its exec, or there was no room
                }
                if what == ProcessChange::Fork
                    && let Some(&parent) = self.pids.get(&parent_space)
                {
                    self.call_paths.forked(parent, pid);
                }
                let executable = self.call_paths.executable(pid, time_ns);
                if let (ProcessChange::Exec, Some(path)) = (what, &executable) {
                    self.executables.note(path);
                }
                let row = trace::Space {
                    space,
                    pid,
                    start_time_ns: start_boottime_ns,
                    exec_epoch,
                    parent_space: (parent_space != 0).then_some(parent_space),
                    begin_ns: time_ns,
                    end_ns: None,
                    command,
                    executable: executable.map(|path| path.display().to_string()),
                };
                self.users.entry(space).or_default().push(pid);
                // A child that borrows its parent's memory (vfork) has no space of its own.
                if parent_space != space {
                    writer.spaces.push(row.clone())?;
                    self.spaces.insert(space, row);
                    self.pids.insert(space, pid);
                    if what != ProcessChange::Fork {
                        self.read_mappings_of(pid, space, time_ns, writer)?;
                    }
                }
                self.spaces_of
                    .entry(pid)
                    .or_default()
                    .push((time_ns, space));
            }
            ProcessChange::Exit => {
                self.leave_space(space, pid, time_ns, writer)?;
                self.ended.push(pid);
            }
        }
        Ok(())
    }

    /// A process ends or runs another program: its address space ends with the last process that uses it.
    fn leave_space(
        &mut self,
        space: u32,
        pid: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let Some(users) = self.users.get_mut(&space) else {
            return Ok(());
        };
        users.retain(|user| *user != pid);
        if let Some(&heir) = users.first() {
            self.pids.insert(space, heir);
            return Ok(());
        }
        self.end_space(space, time_ns, writer)
    }

    pub(in crate::record) fn end_space(
        &mut self,
        space: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        self.users.remove(&space);
        let Some(mut row) = self.spaces.remove(&space) else {
            return Ok(());
        };
        if let Some(anonymous) = &mut self.anonymous {
            anonymous.forget(space);
        }
        row.end_ns = Some(time_ns);
        writer.spaces.push(row)
    }

    /// Processes that a sensor has told of and that have not ended.
    pub(in crate::record) fn live_processes(&self) -> BTreeSet<u32> {
        let spaces = self.spaces.values();
        spaces.map(|row| self.user_of(row)).collect()
    }

    /// A program is run from this file.
    pub(in crate::record) fn note_executable(&mut self, path: &Path) {
        self.executables.note(path);
    }

    /// Where the library could not be preloaded; see `Executables::state`.
    pub(in crate::record) fn preload_state(&self, served: bool) -> Option<String> {
        self.executables.state(served)
    }

    /// To be called after each drain: processes that had ended before the last one, of which all has come by now. Their rings can go.
    pub(in crate::record) fn take_ended(&mut self) -> Vec<u32> {
        let newly = std::mem::take(&mut self.ended);
        let ended = std::mem::replace(&mut self.ended_before, newly);
        for pid in &ended {
            self.call_paths.forget(*pid);
            self.maps.remove(pid);
            self.pids.retain(|_, of| of != pid);
        }
        for space in std::mem::take(&mut self.former_before) {
            if let Some(former) = self.former_programs.remove(&space) {
                self.call_paths.forget(former);
            }
        }
        self.former_before = self.former_programs.keys().copied().collect();
        ended
    }

    pub(in crate::record) fn space_at(&self, pid: u32, time_ns: u64) -> Option<u32> {
        let spaces = self.spaces_of.get(&pid)?;
        spaces
            .iter()
            .rev()
            .find(|(begin, _)| *begin <= time_ns)
            .or(spaces.first())
            .map(|(_, space)| *space)
    }

    /// Without a sensor that sees exec, fork and exit: a process is there that was not known, or it runs another program.
    pub(in crate::record) fn introduce(
        &mut self,
        pid: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        let before = self.spaces_of.get(&pid).and_then(|spaces| spaces.last());
        // The space of a process that has ended may be that of another one with the same number.
        let before = before
            .map(|&(_, space)| space)
            .filter(|space| self.spaces.contains_key(space));
        let stat = pagewise_host::process::stat(pid);
        let parent = stat
            .as_ref()
            .and_then(|stat| self.forked_from(pid, stat.parent));
        let exec_epoch = before
            .and_then(|space| self.spaces.get(&space))
            .map_or(0, |row| row.exec_epoch + 1);
        let space = self.next_space();
        let change = Observation::Process {
            time_ns,
            what: if before.is_none() && parent.is_some() {
                ProcessChange::Fork
            } else {
                ProcessChange::Exec
            },
            space,
            parent_space: before.or(parent).unwrap_or(0),
            pid,
            start_boottime_ns: stat.map_or(0, |stat| stat.start_ns),
            exec_epoch,
            command: pagewise_host::process::comm(pid)
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        };
        self.process(change, writer)
    }

    /// A number that no address space has yet, where no sensor gives them numbers.
    pub(in crate::record) fn next_space(&mut self) -> u32 {
        self.last_space += 1;
        self.last_space
    }

    /// The parent's space, if the process runs the same program still: a copy of its memory.
    pub(in crate::record) fn forked_from(&self, pid: u32, parent: u32) -> Option<u32> {
        let space = self.space_at(parent, u64::MAX)?;
        let program = pagewise_host::process::exe;
        (program(pid).is_some() && program(pid) == program(parent)).then_some(space)
    }

    /// Whether this process is being recorded.
    pub(in crate::record) fn knows(&self, pid: u32) -> bool {
        self.spaces.values().any(|row| row.pid == pid)
    }

    /// Without a sensor that sees it: a process has ended.
    pub(in crate::record) fn process_ended(
        &mut self,
        pid: u32,
        time_ns: u64,
        writer: &mut TraceWriter,
    ) -> Result<(), TraceError> {
        // What its ring still holds is told later: the numbers stay known.
        let live = self.spaces.values().filter(|row| row.pid == pid);
        let spaces: Vec<u32> = live.map(|row| row.space).collect();
        for space in spaces {
            self.end_space(space, time_ns, writer)?;
        }
        self.ended.push(pid);
        Ok(())
    }

    /// Processes being recorded, each with its address space.
    pub(in crate::record) fn live(&self) -> Vec<(u32, u32)> {
        let mut live: Vec<(u32, u32)> = self
            .spaces
            .values()
            .map(|row| (self.user_of(row), row.space))
            .collect();
        live.sort_unstable();
        live
    }

    /// The same, as the residency sensor wants them.
    pub(in crate::record) fn targets(&self) -> Vec<Target> {
        let parent = |space: Option<u32>| Some(self.spaces.get(&space?)?.pid);
        let target = |(pid, space)| Target {
            pid,
            space,
            parent: parent(self.spaces.get(&space).and_then(|row| row.parent_space)),
        };
        self.live().into_iter().map(target).collect()
    }
}

#[cfg(test)]
mod tests {
    use pagewise_trace::Meta;
    use pagewise_trace::Overwrite;

    use super::*;

    /// No such process: nothing is read of it.
    const PARENT: u32 = 5_000_000;
    const CHILD: u32 = 5_000_001;

    /// Spaces that live after all that happened: what, space, parent's or former space, process.
    fn live_after(changes: &[(ProcessChange, u32, u32, u32)]) -> Vec<(u32, u32)> {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("a trace");
        let mut translator = Translator::new(4096, true);
        for (time_ns, &(what, space, parent_space, pid)) in (1..).zip(changes) {
            let change = Observation::Process {
                time_ns,
                what,
                space,
                parent_space,
                pid,
                start_boottime_ns: 0,
                exec_epoch: 0,
                command: String::new(),
            };
            translator.process(change, &mut writer).expect("written");
        }
        translator.live()
    }

    const BEGIN: (ProcessChange, u32, u32, u32) = (ProcessChange::Exec, 1, 0, PARENT);

    #[test]
    fn a_space_ends_though_there_is_no_room_for_the_next() {
        assert_eq!(live_after(&[BEGIN]), [(PARENT, 1)]);
        assert_eq!(
            live_after(&[BEGIN, (ProcessChange::Exec, 0, 1, PARENT)]),
            []
        );
    }

    #[test]
    fn a_space_ends_with_the_last_process_that_uses_it() {
        let borrowed = (ProcessChange::Fork, 1, 1, CHILD);
        let parent_ends = (ProcessChange::Exit, 1, 0, PARENT);
        assert_eq!(live_after(&[BEGIN, borrowed]), [(PARENT, 1)]);
        assert_eq!(live_after(&[BEGIN, borrowed, parent_ends]), [(CHILD, 1)]);
        let child_ends = (ProcessChange::Exit, 1, 0, CHILD);
        assert_eq!(live_after(&[BEGIN, borrowed, parent_ends, child_ends]), []);
        let child_execs = (ProcessChange::Exec, 2, 1, CHILD);
        assert_eq!(
            live_after(&[BEGIN, borrowed, child_execs]),
            [(PARENT, 1), (CHILD, 2)]
        );
    }
}
