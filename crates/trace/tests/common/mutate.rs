//! Traces damaged in every way we thought of, with checksums that fit the damage or are gone: what the decoders see of
//! a file that was made to harm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pagewise_trace::META_FILE;
use serde_json::Value;
use serde_json::json;

use crate::common::Random;

/// A trace's files by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) fn load(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

pub(crate) fn store(files: &Files, dir: &Path) {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir(dir).unwrap();
    for (name, content) in files {
        fs::write(dir.join(name), content).unwrap();
    }
}

/// One to four changes, and then perhaps checksums that agree with them. Says what was done.
pub(crate) fn mutate(files: &mut Files, random: &mut Random) -> String {
    let mut done: Vec<String> = Vec::new();
    for _ in 0..=random.below(4) {
        done.push(change(files, random));
    }
    done.push(match random.below(4) {
        0 => "checksums as they were".to_owned(),
        1 => {
            remove_checksums(files);
            "no checksums".to_owned()
        }
        _ => {
            fit_checksums(files);
            fit_journal(files);
            "checksums that fit".to_owned()
        }
    });
    done.join(", ")
}

fn change(files: &mut Files, random: &mut Random) -> String {
    let names: Vec<String> = files.keys().cloned().collect();
    let pick = |random: &mut Random| names[random.below(names.len() as u64) as usize].clone();
    let name = pick(random);
    let other = pick(random);
    let of_other = files[&other].clone();
    let content = files.get_mut(&name).unwrap();
    let length = content.len() as u64;
    if length == 0 {
        return format!("{name} empty");
    }
    // Headers and footers are where sizes are.
    let at = match random.below(4) {
        0 => random.below(length.min(64)),
        1 => length - 1 - random.below(length.min(900)),
        _ => random.below(length),
    } as usize;
    let rest = content.len() - at;
    match random.below(12) {
        0..=2 => content[at] ^= 1 << random.below(8),
        3 => content[at] = random.below(256) as u8,
        4 => content.truncate(at),
        5 => content.extend((0..random.below(200)).map(|_| 0x5a)),
        6 => {
            // The largest numbers: as Thrift's varint, and as FlatBuffers' and Parquet's fixed ones.
            let huge: &[u8] = [
                &[0xff, 0xff, 0xff, 0xff, 0x0f][..],
                &[0xfe, 0xff, 0xff, 0xff, 0x0f],
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
                &[0xff, 0xff, 0xff, 0x7f],
                &[0x80, 0x80, 0x80, 0x80, 0x08],
            ][random.below(5) as usize];
            let fits = huge.len().min(rest);
            content[at..at + fits].copy_from_slice(&huge[..fits]);
        }
        7 => {
            let end = at + rest.min(1 + random.below(40) as usize);
            content[at..end].fill([0, 0xff, 0x7f, 0x80][random.below(4) as usize]);
        }
        8 => {
            let from = random.below(length) as usize;
            let bytes = (content.len() - from.max(at)).min(random.below(300) as usize);
            content.copy_within(from..from + bytes, at);
        }
        9 => {
            content.insert(at, random.below(256) as u8);
        }
        10 => {
            *content = of_other;
            return format!("{name} like {other}");
        }
        _ if name == META_FILE => return change_number(files, random),
        _ => {
            files.remove(&name);
            return format!("{name} removed");
        }
    }
    format!("{name} at {at}")
}

/// A number of the meta file becomes another one.
fn change_number(files: &mut Files, random: &mut Random) -> String {
    let Some(mut meta) = meta(files) else {
        return "meta.json beyond repair".to_owned();
    };
    let numbers = [
        json!(u64::MAX),
        json!(0),
        json!(-1),
        json!(1e300),
        json!(1_u64 << 40),
        json!("x"),
    ];
    let number = numbers[random.below(6) as usize].clone();
    let tables = ["checksums", "row_counts"];
    let table = tables[random.below(2) as usize];
    let Some(object) = meta[table]
        .as_object_mut()
        .filter(|object| !object.is_empty())
    else {
        return "nothing to change".to_owned();
    };
    let position = random.below(object.len() as u64) as usize;
    if let Some(value) = object.values_mut().nth(position) {
        match value.get_mut(["bytes", "block_bytes"][random.below(2) as usize]) {
            Some(inner) => *inner = number,
            None => *value = number,
        }
    }
    files.insert(META_FILE.to_owned(), meta.to_string().into_bytes());
    format!("a number of {table}")
}

fn meta(files: &Files) -> Option<Value> {
    serde_json::from_slice(files.get(META_FILE)?).ok()
}

/// As `docs/trace-format.md` advises to whoever rewrites a table.
fn remove_checksums(files: &mut Files) {
    if let Some(Value::Object(mut meta)) = meta(files) {
        meta.remove("checksums");
        meta.remove("row_counts");
        files.insert(
            META_FILE.to_owned(),
            Value::Object(meta).to_string().into_bytes(),
        );
    }
}

fn fit_checksums(files: &mut Files) {
    const BLOCK: usize = 1 << 20;
    let Some(mut meta) = meta(files) else { return };
    let Some(sums) = meta["checksums"].as_object_mut() else {
        return;
    };
    for (table, sum) in sums {
        let Some(content) = files.get(&format!("{table}.parquet")) else {
            continue;
        };
        let blocks = content
            .chunks(BLOCK)
            .map(|block| format!("{:08x}", crc32fast::hash(block)));
        *sum = json!({
            "bytes": content.len(),
            "block_bytes": BLOCK,
            "crc32": blocks.collect::<String>(),
        });
    }
    if let Some(meta) = meta.as_object_mut() {
        meta.remove("row_counts");
    }
    files.insert(META_FILE.to_owned(), meta.to_string().into_bytes());
}

/// Makes the journal vouch for what its lines name now, as far as they can still be read.
fn fit_journal(files: &mut Files) {
    let Some(journal) = files.get("journal") else {
        return;
    };
    let text = String::from_utf8_lossy(journal).into_owned();
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [table, start, end, rows, ..] = words[..] else {
            return format!("{line}\n");
        };
        let content = files.get(&format!("{table}.arrows"));
        let range = start.parse::<usize>().ok().zip(end.parse::<usize>().ok());
        let bytes = content
            .zip(range)
            .and_then(|(content, (start, end))| content.get(start..end));
        let crc32 = crc32fast::hash(bytes.unwrap_or_default());
        let line = format!("{table} {start} {end} {rows} {crc32:08x}");
        format!("{line} {:08x}\n", crc32fast::hash(line.as_bytes()))
    });
    let fitted = lines.collect::<String>().into_bytes();
    files.insert("journal".to_owned(), fitted);
}
