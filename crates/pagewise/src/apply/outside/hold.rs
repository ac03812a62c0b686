//! One enforcer for each process: two would give and take back each other's hints.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use pagewise_abi::plan::PLAN_VARIABLE;
use pagewise_host::process;
use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::SocketAddrUnix;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::failure::Failure;
use crate::output::tell;

/// Held by a name that the kernel frees when we end, however that is.
pub(super) struct Hold {
    _socket: OwnedFd,
}

impl Hold {
    /// `start_ns`: when the process started, as its number may come to mean another one.
    pub(super) fn of(pid: u32, start_ns: u64) -> Result<Self, Failure> {
        if has_plan_inside(pid) {
            return Err(Failure::new(format!(
                "process {pid} was started with a plan in force (pagewise apply PLAN -- CMD); let it end first"
            )));
        }
        let name = format!("pagewise-enforce-{pid}-{start_ns}");
        bind(&name).map(|_socket| Self { _socket }).map_err(|errno| match errno {
            Errno::ADDRINUSE => Failure::new(format!(
                "process {pid} has a plan in force already, from another pagewise apply --pid; end that with Ctrl-C"
            )),
            errno => Failure::new(format!("cannot mark process {pid} as taken: {errno}")),
        })
    }
}

/// Those of the processes that are followed.
#[derive(Default)]
pub(super) struct Holds {
    held: BTreeMap<u32, Hold>,
    /// Processes that have an enforcer of their own.
    others: BTreeSet<u32>,
}

impl Holds {
    /// A process that was there at the start.
    pub(super) fn take(&mut self, pid: u32, start_ns: u64) -> Result<(), Failure> {
        self.held.insert(pid, Hold::of(pid, start_ns)?);
        Ok(())
    }

    /// A process that came later, or runs another program now: one that cannot be held is left alone.
    pub(super) fn came(&mut self, pid: u32) {
        let is_held = self.held.contains_key(&pid) && !has_plan_inside(pid);
        let Some(stat) = process::stat(pid).filter(|_| !is_held) else {
            return;
        };
        self.held.remove(&pid);
        if let Err(why) = self.take(pid, stat.start_ns)
            && self.others.insert(pid)
        {
            tell!("pagewise: {why}; it is left alone");
        }
    }

    pub(super) fn ended(&mut self, pid: u32) {
        self.held.remove(&pid);
        self.others.remove(&pid);
    }

    pub(super) fn is_left_alone(&self, pid: u32) -> bool {
        self.others.contains(&pid)
    }
}

fn bind(name: &str) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    rustix::net::bind(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    Ok(socket)
}

/// Whether the preloaded library was given a plan there.
fn has_plan_inside(pid: u32) -> bool {
    let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("{PLAN_VARIABLE}=");
    variables
        .split(|&byte| byte == 0)
        .any(|variable| variable.starts_with(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_held_once_at_a_time() {
        let own = std::process::id();
        let first = Hold::of(own, 7).expect("free");
        let refusal = Hold::of(own, 7).err().expect("refused").to_string();
        assert!(refusal.contains("already") && refusal.contains(&own.to_string()));
        // Another process of this number.
        assert!(Hold::of(own, 8).is_ok());
        drop(first);
        assert!(Hold::of(own, 7).is_ok());
    }

    #[test]
    fn a_process_that_came_later_is_held_or_left_alone() {
        let own = std::process::id();
        let start_ns = process::stat(own).expect("we are").start_ns;
        let mut holds = Holds::default();
        holds.came(own);
        assert!(!holds.is_left_alone(own) && Hold::of(own, start_ns).is_err());
        let mut others = Holds::default();
        others.came(own);
        assert!(others.is_left_alone(own));
        holds.ended(own);
        others.ended(own);
        assert!(!others.is_left_alone(own) && Hold::of(own, start_ns).is_ok());
    }
}
