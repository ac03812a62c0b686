//! Which system calls have arguments that are looked at, and how.

use std::ffi::c_int;
use std::ffi::c_long;

use libc::epoll_event;
use libc::gid_t;
use libc::pollfd;

use crate::buffers::bytes_of;

/// The arguments of a call, as many as any has.
pub(super) type Arguments = [usize; 6];

/// Which argument; the first is 0.
type Which = usize;

/// What is looked at of a call's arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    /// A buffer that the kernel fills, or reads.
    Filled(Which, Length),
    Read(Which, Length),
    /// A list of buffers, and how many.
    FilledList(Which, Which),
    ReadList(Which, Which),
    /// A message's, of many messages too.
    FilledMessage(Which),
    ReadMessage(Which),
    FilledMessages(Which, Which),
    ReadMessages(Which, Which),
    /// A buffer that is filled as far as a number elsewhere says.
    Told(Which, Which),
    /// Three sets of as many descriptors as the first argument says.
    Sets,
}

/// How long a buffer is, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    /// Always so long.
    Is(usize),
    Bytes(Which),
    /// As `Bytes`, and so many more.
    BytesAnd(Which, usize),
    /// A `socklen_t`.
    Short(Which),
    /// So many of a kind, each so long.
    Each(Which, usize),
    /// So long, but that there is none where the argument is this.
    Unless(Which, c_int, usize),
}

impl Length {
    pub(super) fn of(self, arguments: &Arguments) -> usize {
        match self {
            Self::Is(bytes) => bytes,
            Self::Bytes(which) => arguments[which],
            Self::BytesAnd(which, more) => arguments[which].saturating_add(more),
            Self::Short(which) => arguments[which] as libc::socklen_t as usize,
            Self::Each(which, each) => {
                bytes_of::<u8>(arguments[which] as c_int).saturating_mul(each)
            }
            Self::Unless(which, none, bytes) => match arguments[which] as c_int == none {
                true => 0,
                false => bytes,
            },
        }
    }
}

/// Its number, its name and what is looked at.
pub(super) struct Call(
    pub(super) c_long,
    pub(super) &'static str,
    pub(super) &'static [Look],
);

const POLL: usize = size_of::<pollfd>();
const EVENT: usize = size_of::<epoll_event>();
const GROUP: usize = size_of::<gid_t>();
const STATUS: usize = size_of::<libc::stat>();
const PAIR: usize = 2 * size_of::<c_int>();
const KIND_OF_MESSAGE: usize = size_of::<c_long>();
/// Of a path, whose length is not told.
const FIRST: Length = Length::Is(1);

pub(super) const CALLS: &[Call] = {
    use Length::*;
    use Look::*;
    &[
        Call(libc::SYS_read, "read", &[Filled(1, Bytes(2))]),
        Call(libc::SYS_pread64, "pread", &[Filled(1, Bytes(2))]),
        Call(libc::SYS_write, "write", &[Read(1, Bytes(2))]),
        Call(libc::SYS_pwrite64, "pwrite", &[Read(1, Bytes(2))]),
        Call(libc::SYS_readv, "readv", &[FilledList(1, 2)]),
        Call(libc::SYS_preadv, "preadv", &[FilledList(1, 2)]),
        Call(libc::SYS_preadv2, "preadv2", &[FilledList(1, 2)]),
        Call(libc::SYS_writev, "writev", &[ReadList(1, 2)]),
        Call(libc::SYS_pwritev, "pwritev", &[ReadList(1, 2)]),
        Call(libc::SYS_pwritev2, "pwritev2", &[ReadList(1, 2)]),
        Call(libc::SYS_vmsplice, "vmsplice", &[ReadList(1, 2)]),
        Call(
            libc::SYS_recvfrom,
            "recvfrom",
            &[Filled(1, Bytes(2)), Told(4, 5)],
        ),
        Call(
            libc::SYS_sendto,
            "sendto",
            &[Read(1, Bytes(2)), Read(4, Short(5))],
        ),
        Call(libc::SYS_recvmsg, "recvmsg", &[FilledMessage(1)]),
        Call(libc::SYS_sendmsg, "sendmsg", &[ReadMessage(1)]),
        Call(libc::SYS_recvmmsg, "recvmmsg", &[FilledMessages(1, 2)]),
        Call(libc::SYS_sendmmsg, "sendmmsg", &[ReadMessages(1, 2)]),
        Call(libc::SYS_accept, "accept", &[Told(1, 2)]),
        Call(libc::SYS_accept4, "accept4", &[Told(1, 2)]),
        Call(libc::SYS_getsockname, "getsockname", &[Told(1, 2)]),
        Call(libc::SYS_getpeername, "getpeername", &[Told(1, 2)]),
        Call(libc::SYS_getsockopt, "getsockopt", &[Told(3, 4)]),
        Call(libc::SYS_setsockopt, "setsockopt", &[Read(3, Short(4))]),
        Call(libc::SYS_bind, "bind", &[Read(1, Short(2))]),
        Call(libc::SYS_connect, "connect", &[Read(1, Short(2))]),
        Call(libc::SYS_socketpair, "socketpair", &[Filled(3, Is(PAIR))]),
        Call(libc::SYS_pipe2, "pipe2", &[Filled(0, Is(PAIR))]),
        Call(libc::SYS_getrandom, "getrandom", &[Filled(0, Bytes(1))]),
        Call(libc::SYS_getdents64, "getdents64", &[Filled(1, Bytes(2))]),
        Call(libc::SYS_getcwd, "getcwd", &[Filled(0, Bytes(1))]),
        Call(libc::SYS_readlinkat, "readlinkat", &[Filled(2, Bytes(3))]),
        Call(libc::SYS_getxattr, "getxattr", &[Filled(2, Bytes(3))]),
        Call(libc::SYS_lgetxattr, "lgetxattr", &[Filled(2, Bytes(3))]),
        Call(libc::SYS_fgetxattr, "fgetxattr", &[Filled(2, Bytes(3))]),
        Call(libc::SYS_listxattr, "listxattr", &[Filled(1, Bytes(2))]),
        Call(libc::SYS_llistxattr, "llistxattr", &[Filled(1, Bytes(2))]),
        Call(libc::SYS_flistxattr, "flistxattr", &[Filled(1, Bytes(2))]),
        Call(libc::SYS_setxattr, "setxattr", &[Read(2, Bytes(3))]),
        Call(libc::SYS_lsetxattr, "lsetxattr", &[Read(2, Bytes(3))]),
        Call(libc::SYS_fsetxattr, "fsetxattr", &[Read(2, Bytes(3))]),
        Call(
            libc::SYS_getgroups,
            "getgroups",
            &[Filled(1, Each(0, GROUP))],
        ),
        Call(libc::SYS_ppoll, "ppoll", &[Filled(0, Each(1, POLL))]),
        Call(libc::SYS_pselect6, "pselect", &[Sets]),
        Call(
            libc::SYS_epoll_ctl,
            "epoll_ctl",
            &[Read(3, Unless(1, libc::EPOLL_CTL_DEL, EVENT))],
        ),
        Call(
            libc::SYS_epoll_pwait,
            "epoll_pwait",
            &[Filled(1, Each(2, EVENT))],
        ),
        Call(
            libc::SYS_epoll_pwait2,
            "epoll_pwait2",
            &[Filled(1, Each(2, EVENT))],
        ),
        Call(
            libc::SYS_mq_timedreceive,
            "mq_timedreceive",
            &[Filled(1, Bytes(2))],
        ),
        Call(libc::SYS_mq_timedsend, "mq_timedsend", &[Read(1, Bytes(2))]),
        Call(
            libc::SYS_msgrcv,
            "msgrcv",
            &[Filled(1, BytesAnd(2, KIND_OF_MESSAGE))],
        ),
        Call(
            libc::SYS_msgsnd,
            "msgsnd",
            &[Read(1, BytesAnd(2, KIND_OF_MESSAGE))],
        ),
        Call(libc::SYS_fstat, "fstat", &[Filled(1, Is(STATUS))]),
        Call(
            libc::SYS_newfstatat,
            "fstatat",
            &[Read(1, FIRST), Filled(2, Is(STATUS))],
        ),
        Call(libc::SYS_openat, "openat", &[Read(1, FIRST)]),
        Call(libc::SYS_chdir, "chdir", &[Read(0, FIRST)]),
        // Those that may begin a sandbox.
        Call(libc::SYS_prctl, "prctl", &[]),
        Call(libc::SYS_seccomp, "seccomp", &[]),
        // Those that newer processors' tables have not got.
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_readlink, "readlink", &[Filled(1, Bytes(2))]),
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_poll, "poll", &[Filled(0, Each(1, POLL))]),
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_select, "select", &[Sets]),
        #[cfg(target_arch = "x86_64")]
        Call(
            libc::SYS_epoll_wait,
            "epoll_wait",
            &[Filled(1, Each(2, EVENT))],
        ),
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_pipe, "pipe", &[Filled(0, Is(PAIR))]),
        #[cfg(target_arch = "x86_64")]
        Call(
            libc::SYS_stat,
            "stat",
            &[Read(0, FIRST), Filled(1, Is(STATUS))],
        ),
        #[cfg(target_arch = "x86_64")]
        Call(
            libc::SYS_lstat,
            "lstat",
            &[Read(0, FIRST), Filled(1, Is(STATUS))],
        ),
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_open, "open", &[Read(0, FIRST)]),
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_access, "access", &[Read(0, FIRST)]),
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_unlink, "unlink", &[Read(0, FIRST)]),
        #[cfg(target_arch = "x86_64")]
        Call(
            libc::SYS_rename,
            "rename",
            &[Read(0, FIRST), Read(1, FIRST)],
        ),
        #[cfg(target_arch = "x86_64")]
        Call(libc::SYS_mkdir, "mkdir", &[Read(0, FIRST)]),
    ]
};

/// Numbers from here on are of no call above.
pub(super) const MOST_NUMBERS: usize = 512;

/// For each number where its call is, from 1 on; 0: nothing of it is looked at. Most calls are of that kind, and cost no more
/// than one byte of this.
pub(super) static WHICH: [u8; MOST_NUMBERS] = {
    let mut which = [0; MOST_NUMBERS];
    let mut index = 0;
    while index < CALLS.len() {
        let number = CALLS[index].0 as usize;
        assert!(which[number] == 0, "a call is told twice");
        which[number] = (index + 1) as u8;
        index += 1;
    }
    which
};

/// The call of a number, if anything of it is looked at.
#[inline(always)]
pub(super) fn of(number: c_long) -> Option<&'static Call> {
    let which = *WHICH.get(usize::try_from(number).ok()?)?;
    CALLS.get(usize::from(which).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_of_its_call_and_others_of_none() {
        for call in CALLS {
            assert_eq!(of(call.0).map(|found| found.1), Some(call.1));
            assert!(call.1.len() <= pagewise_abi::guard::NAME_BYTES);
        }
        assert_eq!(
            CALLS.len(),
            WHICH.iter().filter(|&&which| which != 0).count()
        );
        let others = [libc::SYS_getpid, libc::SYS_futex, -1, 511, 512, c_long::MAX];
        assert!(others.into_iter().all(|number| of(number).is_none()));
    }

    #[test]
    fn lengths_are_as_wide_as_the_kernel_takes_them() {
        let high = 1 << 32;
        let arguments = [high | 3, 4, usize::MAX, -1i32 as usize, 0, 0];
        for (length, bytes) in [
            (Length::Is(8), 8),
            (Length::Bytes(1), 4),
            (Length::Bytes(0), high | 3),
            (Length::BytesAnd(1, 8), 12),
            (Length::BytesAnd(2, 8), usize::MAX),
            (Length::Short(0), 3),
            (Length::Each(0, 12), 36),
            (Length::Each(3, 12), 0),
            (Length::Unless(1, 4, 12), 0),
            (Length::Unless(1, 5, 12), 12),
        ] {
            assert_eq!(length.of(&arguments), bytes, "{length:?}");
        }
    }
}
