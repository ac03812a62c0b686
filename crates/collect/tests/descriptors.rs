//! Processes that ask for a ring when no more files may be open. By itself: the limit is that of the whole process.

use std::os::fd::AsRawFd;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::AllocationServer;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::net::AddressFamily;
use rustix::net::SocketAddrUnix;
use rustix::net::SocketType;
use rustix::process::Resource;
use rustix::process::Rlimit;

const PROCESSES: u64 = 3;

fn allow(most: u64) {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: Some(most),
        ..limit
    };
    rustix::process::setrlimit(Resource::Nofile, limit).expect("set");
}

fn is_asked(server: &AllocationServer) -> bool {
    let listener = server.listener();
    let mut files = [PollFd::new(&listener, PollFlags::IN)];
    let at_once = Timespec::default();
    rustix::event::poll(&mut files, Some(&at_once)).expect("polled") > 0
}

#[test]
fn who_cannot_be_accepted_is_refused_and_counted() {
    let before = rustix::process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(1024);
    let mut server = AllocationServer::start().expect("it listens");
    let address = SocketAddrUnix::new_abstract_name(server.socket().as_bytes()).expect("a name");
    let clients: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let kind = SocketType::SEQPACKET;
            let client = rustix::net::socket(AddressFamily::UNIX, kind, None).expect("a socket");
            rustix::net::connect(&client, &address).expect("connected");
            client
        })
        .collect();
    assert!(is_asked(&server));
    // All lower numbers are in use.
    let next = rustix::io::dup(&clients[0]).expect("a descriptor");
    allow(next.as_raw_fd().unsigned_abs().into());
    let begun = Instant::now();
    server.drain(|_, _| {});
    let (asked, refused) = (is_asked(&server), server.unserved());
    allow(before);
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(!asked, "it would be woken again and again");
    assert_eq!((refused, server.served()), (PROCESSES, 0));
    drop(clients);
}
