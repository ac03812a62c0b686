//! Whatever bytes come, the readers end without a panic.

use std::fs;

use pagewise_refs::Classify;
use pagewise_refs::Format;
use pagewise_refs::Options;
use pagewise_refs::Reader;
use proptest::prelude::*;

/// Lines that are nearly right get further than bytes at random.
fn nearly_lines() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("I  ".to_owned()),
        Just(" L ".to_owned()),
        Just(" M ".to_owned()),
        Just("SYSCALL[1,1](9) sys_mmap ( 0x0, ".to_owned()),
        Just("SYSCALL[1,1](25) sys_mremap ( 0x4000, 0x3000, ".to_owned()),
        Just("SYSCALL[1,1](11) sys_munmap ( ".to_owned()),
        Just("SYSCALL[1,1](12) sys_brk ( 0x0 ) --> [pre-success] Success(0x".to_owned()),
        Just(", 3, 34, 4294967295, 0 ) --> [pre-success] Success(0x5000)".to_owned()),
        Just(" )[sync] --> Success(0x6000)".to_owned()),
        Just("write\t0x".to_owned()),
        Just("l 0x".to_owned()),
        Just("id,op,size\n".to_owned()),
        Just(",".to_owned()),
        Just("\"".to_owned()),
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| format!("{number:x}")),
        (0..70_000_u64).prop_map(|number| format!("{number:x},8\n")),
        ".{0,5}",
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat().into_bytes())
}

/// References of a run can be many: a few chunks are enough.
const CHUNKS: usize = 20;

fn read(bytes: &[u8], options: &Options) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, bytes).unwrap();
    let Ok(mut reader) = Reader::open(&path, options) else {
        return;
    };
    for _ in 0..CHUNKS {
        match reader.next_chunk() {
            Ok(Some(chunk)) => assert!(chunk.iter().all(|r| r.page() < 1 << 30)),
            Ok(None) | Err(_) => break,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in prop_oneof![nearly_lines(), prop::collection::vec(any::<u8>(), 0..400)],
        compression in 0..4_usize,
        skip_bad: bool,
        paged: bool,
    ) {
        let magic: &[u8] = [&b""[..], &[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zXZ\0"][compression];
        let bytes = [magic, &bytes].concat();
        let formats = Format::all().filter(|format| *format != Format::Pagewise);
        for format in formats.map(Some).chain([None]) {
            for classify in [None, Some(Classify::Syscalls)] {
                let options = Options {
                    format,
                    classify: classify.filter(|_| format == Some(Format::Lackey)),
                    page_bytes: paged.then_some(16_384),
                    columns: None,
                    skip_bad,
                };
                read(&bytes, &options);
            }
        }
    }
}
