//! Walks over all tasks of the machine: finds the address spaces of processes that run already (`bpf/running.h`).

use std::io::ErrorKind;
use std::io::Read;

use libbpf_rs::Iter;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;

use crate::CollectError;
use crate::SwapSensor;
use crate::driver::find;

const WANTED: u32 = 0;
const JOINED: u32 = 1;

impl SwapSensor {
    /// Records these running processes, with all their threads, from now on, and the children they will have.
    /// Returns those of them that were not recorded before: what is recorded already, has ended or is a thread of the
    /// kernel is left out.
    ///
    /// # Errors
    /// If the kernel refuses to fill a map or to walk its tasks.
    pub fn watch_running(&self, pids: &[u32]) -> Result<Vec<u32>, CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("wanted", &error);
        let wanted = find(&self.object, "wanted")?;
        for pid in pids {
            wanted
                .update(&pid.to_ne_bytes(), &WANTED.to_ne_bytes(), MapFlags::ANY)
                .map_err(refused)?;
        }
        let walked = self.walk("find_wanted");
        let mut joined = Vec::new();
        for pid in pids {
            let state = wanted
                .lookup(&pid.to_ne_bytes(), MapFlags::ANY)
                .map_err(refused)?;
            if state.as_deref() == Some(&JOINED.to_ne_bytes()[..]) {
                joined.push(*pid);
            }
            // The same process may stand in the list twice.
            let _ = wanted.delete(&pid.to_ne_bytes());
        }
        walked.map(|()| joined)
    }

    /// Major faults of the recorded threads that live.
    pub(crate) fn live_major_faults(&self) -> Result<u64, CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("live", &error);
        let sum = find(&self.object, ".data.live")?;
        let key = 0u32.to_ne_bytes();
        sum.update(&key, &0u64.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused)?;
        self.walk("count_major_faults")?;
        let bytes = sum.lookup(&key, MapFlags::ANY).map_err(refused)?;
        let word = bytes.and_then(|bytes| bytes.get(..8)?.try_into().ok());
        Ok(word.map_or(0, u64::from_ne_bytes))
    }

    /// Runs a program for each task of the machine.
    fn walk(&self, name: &str) -> Result<(), CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf(name, &error);
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == name)
            .ok_or_else(|| CollectError::Refused {
                program: name.to_owned(),
                detail: "it is not there".to_owned(),
            })?;
        let link = program.attach().map_err(refused)?;
        let mut tasks = Iter::new(&link).map_err(refused)?;
        // The programs print nothing: reading is what makes them run.
        let mut nothing = [0; 64];
        loop {
            match tasks.read(&mut nothing) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // The kernel lets other tasks run now and then.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(source) => {
                    return Err(CollectError::System {
                        action: format!("walking all tasks ({name})"),
                        source,
                    });
                }
            }
        }
    }
}
