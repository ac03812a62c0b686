//! Whatever bytes come, the readers end without a panic.

use std::fs;
use std::io::Write;

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

/// What can be asked for; recordings are folders, and have tests of their own.
fn asked() -> Vec<(Option<Format>, Option<Classify>)> {
    let formats = Format::all().filter(|format| *format != Format::Pagewise);
    let mut asked: Vec<_> = formats.map(|format| (Some(format), None)).collect();
    asked.push((Some(Format::Lackey), Some(Classify::Syscalls)));
    asked.push((None, None));
    asked
}

fn read_as_anything(bytes: &[u8], skip_bad: bool, paged: bool) {
    for (format, classify) in asked() {
        let options = Options {
            format,
            classify,
            page_bytes: paged.then_some(16_384),
            columns: None,
            skip_bad,
        };
        read(bytes, &options);
    }
}

/// A whole file of each compression.
fn compressed(bytes: &[u8], compression: usize) -> Vec<u8> {
    match compression {
        0 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        1 => zstd::encode_all(bytes, 1).unwrap(),
        _ => {
            let options = lzma_rust2::XzOptions::with_preset(1);
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in prop_oneof![nearly_lines(), prop::collection::vec(any::<u8>(), 0..400)],
        compression in 0..4_usize,
        skip_bad: bool,
        paged: bool,
    ) {
        let magic: &[u8] = [&b""[..], &[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zXZ\0"][compression];
        read_as_anything(&[magic, &bytes].concat(), skip_bad, paged);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// What is damaged in a compressed file gets as far as its decoder, and what that gives as far as the parser.
    #[test]
    fn no_damage_to_a_compressed_file_makes_a_reader_panic(
        bytes in nearly_lines(),
        compression in 0..3_usize,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        kept in 0.5..1.2_f64,
        skip_bad: bool,
    ) {
        let mut file = compressed(&bytes, compression);
        for (at, bits) in flips {
            let at = at.index(file.len());
            file[at] ^= bits;
        }
        file.truncate((file.len() as f64 * kept) as usize);
        let options = Options { skip_bad, ..Options::default() };
        read(&file, &options);
        read(&file, &Options { format: Some(Format::Vscsi), ..options });
    }
}
