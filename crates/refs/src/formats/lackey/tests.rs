//! Logs as lackey writes them.

use crate::block::Block;
use crate::decode::Decoder;
use crate::decode::Lines;
use crate::decode::Position;
use crate::runs::ANONYMOUS_READ;
use crate::runs::ANONYMOUS_WRITE;
use crate::runs::Access;
use crate::runs::FILE_READ;
use crate::runs::FILE_WRITE;
use crate::runs::Run;

use super::ByKind;
use super::BySyscalls;

fn decode(decoder: &mut dyn Decoder, text: &str) -> Vec<Run> {
    let block = Block::of(text.as_bytes());
    let mut position = Position::default();
    let mut runs = Vec::new();
    while position.at < block.len() {
        decoder.decode(&block, &mut position, &mut runs).unwrap();
    }
    runs
}

/// Accesses, and a letter for each page in order of first appearance.
fn by_syscalls(text: &str) -> Vec<(char, Access)> {
    let mut seen = Vec::new();
    let runs = decode(&mut Lines(BySyscalls::new(12)), text);
    runs.iter()
        .map(|run| {
            assert_eq!(run.pages, 1);
            if !seen.contains(&run.key) {
                seen.push(run.key);
            }
            let index = seen.iter().position(|key| *key == run.key).unwrap();
            (char::from(b'a' + index as u8), run.access)
        })
        .collect()
}

/// The stack, as every program begins.
const STACK: &str = " S 1fff000758,8\n";
const MAP_FILE: &str = "SYSCALL[7,1](257) sys_openat ( 4294967196, 0x40(/lib/x.so), 524288 ) --> [async] ... \n\
    SYSCALL[7,1](257) ... [async] --> Success(0x4) \n\
    SYSCALL[7,1](9) sys_mmap ( 0x0, 8192, 3, 2, 4, 0 ) --> [pre-success] Success(0x5000000) \n\
    SYSCALL[7,1](3) sys_close ( 4 )[sync] --> Success(0x0) \n";

#[test]
fn paper_goes_by_the_kind_of_access() {
    let text = "==7== Command: x\n --> [pre-fail] Failure(0x26) \nI  04001ffe,5\n L 1fff000758,8\n M 1fff000fff,2\n\n";
    let runs = decode(&mut Lines(ByKind { page_shift: 12 }), text);
    let run = |key, pages, access| Run { key, pages, access };
    let expected = [
        run(0x4001, 2, FILE_READ),
        run(0x01ff_f000, 1, ANONYMOUS_READ),
        run(0x01ff_f000, 2, ANONYMOUS_READ),
        run(0x01ff_f000, 2, ANONYMOUS_WRITE),
    ];
    assert_eq!(runs, expected);
}

#[test]
fn a_written_private_page_becomes_an_anonymous_copy() {
    let text =
        format!("{STACK}{MAP_FILE} L 05000000,8\n S 05000010,8\n L 05000000,8\n L 05001000,8\n");
    let expected = [
        ('a', ANONYMOUS_WRITE),
        ('b', FILE_READ),
        ('b', FILE_READ),
        ('c', ANONYMOUS_WRITE),
        ('c', ANONYMOUS_READ),
        ('d', FILE_READ),
    ];
    assert_eq!(by_syscalls(&text), expected);
}

#[test]
fn a_file_mapped_twice_has_the_same_pages() {
    let again = MAP_FILE
        .replace("0x5000000", "0x7000000")
        .replace("8192, 3, 2, 4, 0", "4096, 3, 1, 4, 4096");
    let text = format!("{STACK}{MAP_FILE} L 05001000,8\n{again} L 07000000,8\n S 07000000,8\n");
    let expected = [
        ('a', ANONYMOUS_WRITE),
        ('b', FILE_READ),
        ('b', FILE_READ),
        ('b', FILE_WRITE),
    ];
    assert_eq!(by_syscalls(&text), expected);
}

#[test]
fn new_mappings_bring_new_pages() {
    let map = "SYSCALL[7,1](9) sys_mmap ( 0x0, 8192, 3, 34, 4294967295, 0 ) --> [pre-success] Success(0x5000000) \n";
    let unmap = "SYSCALL[7,1](11) sys_munmap ( 0x5000000, 8192 )[sync] --> Success(0x0) \n";
    let discard = "SYSCALL[7,1](28) sys_madvise ( 0x5001000, 4096, 4 ) --> [async] ... \n\
        SYSCALL[7,1](28) ... [async] --> Success(0x0) \n";
    let touch = " S 05000ff8,16\n";
    let text = format!("{STACK}{map}{touch}{discard}{touch}{unmap}{map}{touch}");
    let pages: String = by_syscalls(&text).iter().map(|(page, _)| page).collect();
    assert_eq!(pages, "abcbdef");
}

#[test]
fn moved_pages_stay_what_they_are() {
    let text = format!(
        "{STACK}SYSCALL[7,1](9) sys_mmap ( 0x0, 8192, 3, 34, 4294967295, 0 ) --> [pre-success] Success(0x5000000) \n S 05000000,1\n S 05001000,1\n\
        SYSCALL[7,1](25) sys_mremap ( 0x5000000, 8192, 12288, 0x1 ) --> [pre-success] Success(0x9000000) \n L 09001000,1\n L 09000000,1\n L 09002000,1\n"
    );
    let pages: String = by_syscalls(&text).iter().map(|(page, _)| page).collect();
    assert_eq!(pages, "abccbd");
}

#[test]
fn the_heap_is_anonymous_and_the_program_is_a_file() {
    let text = format!(
        "I  00109000,4\n{STACK} L 0010c000,8\n\
        SYSCALL[7,1](12) sys_brk ( 0x0 ) --> [pre-success] Success(0x4035000) \n\
        SYSCALL[7,1](12) sys_brk ( 0x404d6a0 ) --> [pre-success] Success(0x404d6a0) \n L 04035008,8\n L 0404d008,8\n"
    );
    let expected = [
        ('a', FILE_READ),
        ('b', ANONYMOUS_WRITE),
        ('c', FILE_READ),
        ('d', ANONYMOUS_READ),
        ('e', ANONYMOUS_READ),
    ];
    assert_eq!(by_syscalls(&text), expected);
}

#[test]
fn memory_files_can_only_be_swapped() {
    let text = format!(
        "{STACK}SYSCALL[7,1](319) sys_memfd_create ( 0x10a010, 0 )[sync] --> Success(0x6) \n\
        SYSCALL[7,1](9) sys_mmap ( 0x0, 8192, 3, 1, 6, 0 ) --> [pre-success] Success(0x5000000) \n S 05000000,8\n"
    );
    assert_eq!(by_syscalls(&text)[1], ('b', ANONYMOUS_WRITE));
}

#[test]
fn a_log_without_system_calls_is_told() {
    let mut decoder = Lines(BySyscalls::new(12));
    decode(&mut decoder, STACK);
    assert!(decoder.notice().unwrap().contains("--trace-syscalls=yes"));
    decode(&mut decoder, MAP_FILE);
    assert_eq!(decoder.notice(), None);
}
