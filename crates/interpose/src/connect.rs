//! Asks the recorder for a ring, or the launcher for its plan: one datagram out, one descriptor back, mapped and closed again, so that a program
//! that closes all descriptors, or counts them, notices nothing.

use pagewise_abi::HEADER_BYTES;
use pagewise_abi::Hello;
use pagewise_abi::Precedence;

use crate::process_id;

/// A recorder that dies closes the socket, and nobody waits; one on a busy machine may take its time.
const ANSWER_SECONDS: i64 = 10;

struct Descriptor(i32);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and open; nobody else closes it.
        unsafe { libc::close(self.0) };
    }
}

/// Asks for a memory file, maps it for life, and returns where and its length in bytes, a header's at least.
pub fn request_file(socket: &[u8]) -> Option<(*mut u8, usize)> {
    let connection = connect(socket)?;
    let hello = Hello { pid: process_id() };
    send(&connection, &hello.encode())?;
    map(&receive_descriptor(&connection)?)
}

/// Asks the launcher to let this process's threads that read ahead run before its others. It may not be permitted to; nobody waits for
/// an answer.
pub fn request_precedence(socket: &[u8]) {
    if let Some(connection) = connect(socket) {
        let _ = send(&connection, &Precedence.encode());
    }
}

fn send(connection: &Descriptor, message: &[u8]) -> Option<()> {
    // SAFETY: the buffer is valid for its length. MSG_NOSIGNAL: a dead recorder must not kill the program.
    let sent = unsafe {
        libc::send(
            connection.0,
            message.as_ptr().cast(),
            message.len(),
            libc::MSG_NOSIGNAL,
        )
    };
    (sent == message.len() as isize).then_some(())
}

fn connect(socket: &[u8]) -> Option<Descriptor> {
    // SAFETY: all zeros is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    // An abstract name: a zero byte, then the name.
    for (place, &byte) in address
        .sun_path
        .get_mut(1..=socket.len())?
        .iter_mut()
        .zip(socket)
    {
        *place = byte as libc::c_char;
    }
    let length = size_of::<libc::sa_family_t>() + 1 + socket.len();
    // SAFETY: no pointers are passed.
    let descriptor =
        unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return None;
    }
    let connection = Descriptor(descriptor);
    let patience = libc::timeval {
        tv_sec: ANSWER_SECONDS,
        tv_usec: 0,
    };
    // SAFETY: the option's value is a timeval that lives across the call.
    unsafe {
        libc::setsockopt(
            connection.0,
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const patience).cast(),
            size_of::<libc::timeval>() as u32,
        )
    };
    // SAFETY: the address is valid for `length` bytes.
    let connected =
        unsafe { libc::connect(connection.0, (&raw const address).cast(), length as u32) };
    (connected == 0).then_some(connection)
}

fn receive_descriptor(connection: &Descriptor) -> Option<Descriptor> {
    let mut byte = [0u8; 1];
    let mut control = [0u64; 8];
    let mut vector = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: message points to buffers that live across the call, with their true lengths.
    let received = unsafe { libc::recvmsg(connection.0, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if received < 1 {
        return None;
    }
    // SAFETY: the kernel filled in msg_control and msg_controllen; CMSG_FIRSTHDR checks the length.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() }?;
    if header.cmsg_level != libc::SOL_SOCKET || header.cmsg_type != libc::SCM_RIGHTS {
        return None;
    }
    // SAFETY: an SCM_RIGHTS message carries at least one descriptor, behind its header.
    let descriptor = unsafe { libc::CMSG_DATA(header).cast::<i32>().read_unaligned() };
    Some(Descriptor(descriptor))
}

fn map(file: &Descriptor) -> Option<(*mut u8, usize)> {
    // SAFETY: all zeros is a valid stat buffer.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the buffer lives across the call.
    if unsafe { libc::fstat(file.0, &raw mut status) } != 0 {
        return None;
    }
    let bytes = usize::try_from(status.st_size)
        .ok()
        .filter(|&bytes| bytes > HEADER_BYTES)?;
    // The kernel's own call, not libc's: that one may be interposed, by us.
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            std::ptr::null_mut::<u8>(),
            bytes,
            // Variadic arguments are passed as they are: each must fill its register.
            libc::c_long::from(libc::PROT_READ | libc::PROT_WRITE),
            libc::c_long::from(libc::MAP_SHARED),
            libc::c_long::from(file.0),
            0 as libc::c_long,
        )
    };
    (start > 0).then_some((start as *mut u8, bytes))
}
