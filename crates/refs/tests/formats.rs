//! Each format as other tools write it, plain and compressed, whole and damaged.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use pagewise_refs::Classify;
use pagewise_refs::Format;
use pagewise_refs::Options;
use pagewise_refs::Reader;
use pagewise_refs::RefsError;
use tempfile::TempDir;

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// Page numbers; `w` after writes, `f` after pages of files.
fn read(bytes: impl AsRef<[u8]>, options: &Options) -> Result<(Format, String), RefsError> {
    let files = Files::new();
    let path = files.put("trace", bytes);
    let mut reader = Reader::open(&path, options)?;
    let all = reader.read_all()?;
    let words: Vec<String> = (all.iter())
        .map(|reference| {
            let write = if reference.is_write() { "w" } else { "" };
            let file = if reference.is_file() { "f" } else { "" };
            format!("{}{write}{file}", reference.page())
        })
        .collect();
    Ok((reader.format(), words.join(" ")))
}

fn plain(bytes: impl AsRef<[u8]>) -> (Format, String) {
    read(bytes, &Options::default()).unwrap()
}

fn with(format: Format, bytes: impl AsRef<[u8]>) -> String {
    let options = Options {
        format: Some(format),
        ..Options::default()
    };
    read(bytes, &options).unwrap().1
}

#[test]
fn texts_are_recognized() {
    let cases: &[(&str, Format, &str)] = &[
        ("7\n8\n*\n\n7\n", Format::Lirs, "0f 1f 0f"),
        ("7\r\n8\r\n7", Format::Lirs, "0f 1f 0f"),
        ("10 3 0 1\n11 1 0 2\n", Format::Arc, "0f 1f 2f 1f"),
        (
            "l 0x1000 5\ns 0x2fff 1\nl 0x1ff8 2\n",
            Format::Address,
            "0 1w 0",
        ),
        (
            "I  00001ffe,3\n L 00001000,8\n M 00003000,4\n",
            Format::Lackey,
            "0f 1f 0 2 2w",
        ),
        (
            "readi\t0x1ffe\t4\nreadd\t0x1000\t4\nwrite\t0x1000\t4\n",
            Format::Memtrace,
            "0f 1f 0 0w",
        ),
        (
            "time,op,size,lbn\n1,2a,512,7\n2,28,512,8\n3,28,512,7\n",
            Format::Csv,
            "0wf 1f 0f",
        ),
        (
            "ts;Operation;Address\n1;R;4096\n2;WRITE;0x1001\n",
            Format::Csv,
            "0 0w",
        ),
        (
            "key\tsize\nuser:1\t3\nuser:2\t3\nuser:1\t3\n",
            Format::Csv,
            "0f 1f 0f",
        ),
        ("a,\"obj_id\"\n\"x,y\",5\nz,\"6\"\n", Format::Csv, "0f 1f"),
    ];
    for (text, format, expected) in cases {
        assert_eq!(plain(text), (*format, (*expected).to_owned()), "{text:?}");
    }
}

#[test]
fn addresses_of_all_ones_are_pages_like_others() {
    let text = "readd\t0xffffffffffffffff\t8\nwrite\t0xfffffffffffff000\t1\nreadd\t0x0\t0\n";
    assert_eq!(plain(text).1, "0 0w 1");
    let lackey = " L ffffffffffffffff,8\nI  ffffffffffffffff,1\n S 00000000,16\n";
    assert_eq!(plain(lackey).1, "0 0f 1w");
    assert_eq!(plain(format!("{}\n0\n", u64::MAX)).1, "0f 1f");
    let syscalls = Options {
        classify: Some(Classify::Syscalls),
        ..Options::default()
    };
    assert!(read(lackey, &syscalls).is_ok());
}

fn oracle_general(objects: &[u64]) -> Vec<u8> {
    let record = |(time, object): (usize, &u64)| {
        let mut record = (time as u32).to_le_bytes().to_vec();
        record.extend(object.to_le_bytes());
        record.extend(4096_u32.to_le_bytes());
        record.extend((-1_i64).to_le_bytes());
        record
    };
    objects.iter().enumerate().flat_map(record).collect()
}

/// Records of serial number, bytes, segments, command, version, block and time.
fn vscsi(version: u8, requests: &[(u16, u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (serial, (command, block, length)) in (0_u32..).zip(requests) {
        let [serial, length, segments] = [serial, *length, 1].map(u32::to_le_bytes);
        let [command, version_field] = [*command, u16::from(version) << 8].map(u16::to_le_bytes);
        let [block, time] = [*block, 99].map(u64::to_le_bytes);
        if version == 1 {
            bytes.extend([&serial[..], &length, &segments, &command, &version_field].concat());
            bytes.extend([block, time].concat());
        } else {
            bytes.extend([&command[..], &version_field, &serial, &length, &segments].concat());
            bytes.extend([block, time, 7_u64.to_le_bytes()].concat());
        }
    }
    bytes
}

#[test]
fn records_are_recognized() {
    let objects = oracle_general(&[9, u64::MAX, 9]);
    assert_eq!(
        plain(&objects),
        (Format::OracleGeneral, "0f 1f 0f".to_owned())
    );
    let requests = [(0x28, 100, 4096), (0x2a, 108, 8192), (0x28, 100, 512)];
    for version in [1, 2] {
        let bytes = vscsi(version, &requests);
        assert_eq!(plain(&bytes), (Format::Vscsi, "0f 1wf 0f".to_owned()));
        let pages = Options {
            page_bytes: Some(4096),
            ..Options::default()
        };
        // 100 sectors are 12.5 pages.
        assert_eq!(read(&bytes, &pages).unwrap().1, "0f 1f 1wf 2wf 3wf 0f");
    }
}

#[test]
fn blocks_are_joined_to_pages_where_asked_for() {
    let pages = Options {
        page_bytes: Some(4096),
        ..Options::default()
    };
    assert_eq!(read("0 8 0 0\n7 2 0 1\n", &pages).unwrap().1, "0f 0f 1f");
    let csv = "op,size,lbn\nw,8192,4\n";
    assert_eq!(read(csv, &pages).unwrap().1, "0wf 1wf 2wf");
    let lirs = read("1\n2\n", &pages).unwrap_err().to_string();
    assert!(lirs.contains("leave out --page-size"), "{lirs}");
}

#[test]
fn columns_are_named_or_asked_for() {
    let text = "1,w,77\n2,r,78\n";
    let error = read(text, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("--columns"), "{error}");
    let columns = Options {
        columns: Some("id=3,op=2".parse().unwrap()),
        ..Options::default()
    };
    assert_eq!(read(text, &columns).unwrap().1, "0wf 1f");
}

fn compressed(text: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    // As the command line tool does, and the library does not.
    zstd.include_checksum(true).unwrap();
    zstd.write_all(text).unwrap();
    let zstd = zstd.finish().unwrap();
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    xz.write_all(text).unwrap();
    let xz = xz.finish().unwrap();
    vec![("gzip", gzip), ("zstd", zstd), ("xz", xz)]
}

fn long_text() -> String {
    (0..200_000_u64)
        .map(|index| format!("{}\n", index * 7919 % 10_007))
        .collect()
}

#[test]
fn compressed_files_are_read_as_they_come() {
    let text = long_text();
    let expected = plain(&text);
    for (name, bytes) in compressed(text.as_bytes()) {
        assert_eq!(plain(&bytes), expected, "{name}");
        // Files put behind one another are one file.
        let twice = plain([bytes.clone(), bytes].concat());
        assert_eq!(twice.1, format!("{} {}", expected.1, expected.1), "{name}");
    }
}

#[test]
fn damaged_compression_is_an_error_that_says_so() {
    let text = long_text();
    for (name, bytes) in compressed(text.as_bytes()) {
        let cut = &bytes[..bytes.len() * 2 / 3];
        let error = read(cut, &Options::default()).unwrap_err();
        assert!(
            matches!(error, RefsError::Compressed { .. }),
            "{name}: {error}"
        );
        assert!(error.to_string().contains(name), "{error}");
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0x5a);
        assert!(read(&damaged, &Options::default()).is_err(), "{name}");
    }
}

#[test]
fn bad_lines_have_numbers_and_can_be_left_out() {
    let mut text = long_text();
    text.push_str("12x\n3\nfoo\n");
    let error = read(&text, &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("line 200001: expected one block number: `12x`"),
        "{error}"
    );
    assert!(error.contains("--skip-bad"), "{error}");
    let files = Files::new();
    let options = Options {
        skip_bad: true,
        ..Options::default()
    };
    let mut reader = Reader::open(&files.put("t", &text), &options).unwrap();
    let all = reader.read_all().unwrap();
    assert_eq!((all.len(), reader.skipped()), (200_001, 2));
    assert!(reader.first_skipped().unwrap().starts_with("line 200001"));
}

#[test]
fn a_last_record_that_is_not_whole_is_told() {
    let bytes = oracle_general(&[1, 2, 3]);
    let cut = &bytes[..bytes.len() - 5];
    let error = read(cut, &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("19 bytes after the last whole record of 24"),
        "{error}"
    );
    let skip = Options {
        skip_bad: true,
        ..Options::default()
    };
    assert_eq!(read(cut, &skip).unwrap().1, "0f 1f");
}

#[test]
fn traces_without_references_are_refused() {
    for text in ["", "\n\n", "*\n"] {
        let options = Options {
            format: Some(Format::Lirs),
            ..Options::default()
        };
        let error = read(text, &options).unwrap_err();
        assert!(
            matches!(error, RefsError::Empty { .. }),
            "{text:?}: {error}"
        );
    }
    let missing = Reader::open("/nowhere/trace".as_ref(), &Options::default()).unwrap_err();
    assert!(missing.to_string().contains("/nowhere/trace"));
}

#[test]
fn what_is_not_recognized_is_asked_for() {
    for bytes in [
        &b"hello world\nhow are you\n"[..],
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0",
    ] {
        let error = read(bytes, &Options::default()).unwrap_err().to_string();
        assert!(
            error.contains("--format lirs|") || error.contains("--format pagewise|"),
            "{error}"
        );
    }
    // Two numbers a line are no format, but one may be told to take them.
    assert!(read("1 2\n3 4\n", &Options::default()).is_err());
    assert_eq!(with(Format::Address, "s 1000 3\n"), "0w");
}

#[test]
fn runs_of_many_pages_are_streamed() {
    let files = Files::new();
    let path = files.put("t", "0 3000000 0 0\n5 1 0 1\n");
    let mut reader = Reader::open(&path, &Options::default()).unwrap();
    let (mut references, mut longest) = (0, 0);
    while let Some(chunk) = reader.next_chunk().unwrap() {
        references += chunk.len();
        longest = longest.max(chunk.len());
    }
    assert_eq!((references, reader.pages()), (3_000_001, 3_000_000));
    assert!(longest <= 1 << 16, "{longest}");
}
