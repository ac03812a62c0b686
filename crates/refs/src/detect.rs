//! Formats recognized by how a file begins, where that is safe.

use crate::cursor::Cursor;
use crate::format::Format;
use crate::formats::csv;
use crate::formats::oracle_general;
use crate::formats::vscsi;

/// Lines looked at.
const LINES: usize = 200;

/// The format of a file that begins so; an error says what it looks like.
pub(crate) fn detect(head: &[u8]) -> Result<Format, String> {
    if is_binary(head) {
        return binary(head);
    }
    let lines: Vec<&[u8]> = head
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty())
        .take(LINES)
        .collect();
    // The last line may be cut off.
    let lines = match lines.as_slice() {
        [whole @ .., _] if lines.len() > 1 => whole,
        all => all,
    };
    text(lines)
}

fn is_binary(head: &[u8]) -> bool {
    let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t');
    head.iter().take(4096).any(control)
}

fn binary(head: &[u8]) -> Result<Format, String> {
    // vscsi first: its version bytes say more than times in order.
    if vscsi::record_bytes(head).is_some() {
        Ok(Format::Vscsi)
    } else if oracle_general::looks_like(head) {
        Ok(Format::OracleGeneral)
    } else {
        Err(format!(
            "binary data of a format that is not recognized; {}",
            advice()
        ))
    }
}

fn text(lines: &[&[u8]]) -> Result<Format, String> {
    let most = |test: fn(&[u8]) -> bool| {
        let matching = lines.iter().filter(|line| test(line)).count();
        matching > 0 && matching * 10 >= lines.len() * 9
    };
    let format = if most(is_lackey) {
        Format::Lackey
    } else if most(is_memtrace) {
        Format::Memtrace
    } else if most(is_address) {
        Format::Address
    } else if most(is_lirs) {
        Format::Lirs
    } else if most(is_arc) {
        Format::Arc
    } else if is_csv(lines) {
        Format::Csv
    } else {
        let first = lines.first().copied().unwrap_or_default();
        return Err(format!(
            "a line such as `{}` is of no format that is recognized; {}",
            beginning(first),
            advice()
        ));
    };
    Ok(format)
}

fn advice() -> String {
    let names: Vec<&str> = Format::all().map(Format::as_str).collect();
    format!("say which it is with --format {}", names.join("|"))
}

/// The first characters of a line.
pub(crate) fn beginning(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(240)]);
    let clean = |character: char| {
        if character.is_control() {
            '\u{fffd}'
        } else {
            character
        }
    };
    let short: String = text.chars().take(60).map(clean).collect();
    if text.chars().count() > 60 {
        short + "..."
    } else {
        short
    }
}

/// Runs a test on one line as the decoders see it.
fn with(line: &[u8], test: impl FnOnce(&mut Cursor<'_>) -> bool) -> bool {
    let mut padded = line.to_vec();
    padded.push(b'\n');
    padded.extend([0; crate::block::PADDING]);
    test(&mut Cursor::new(&padded, 0))
}

fn is_lackey(line: &[u8]) -> bool {
    let starts = |word: &[u8]| line.starts_with(word);
    let valgrind = starts(b"==") || starts(b"--") || starts(b"SYSCALL[");
    let access = [&b"I  "[..], b" L ", b" S ", b" M "];
    valgrind || access.into_iter().any(starts) && line.contains(&b',')
}

fn is_memtrace(line: &[u8]) -> bool {
    let words = [
        &b"readi\t"[..],
        b"readd\t",
        b"write\t",
        b"readi ",
        b"readd ",
        b"write ",
    ];
    words.iter().any(|word| line.starts_with(word))
}

fn is_address(line: &[u8]) -> bool {
    with(line, |cursor| {
        (cursor.take_word(b"l ") || cursor.take_word(b"s "))
            && cursor.take_word(b"0x")
            && cursor.hexadecimal().is_some()
            && cursor.blanks()
            && cursor.decimal().is_some()
            && cursor.end_of_line()
    })
}

fn is_lirs(line: &[u8]) -> bool {
    line == b"*"
        || with(line, |cursor| {
            cursor.decimal().is_some() && cursor.end_of_line()
        })
}

fn is_arc(line: &[u8]) -> bool {
    with(line, |cursor| {
        (0..4).all(|_| cursor.decimal().is_some() && (cursor.blanks() || cursor.peek() <= b'\r'))
            && cursor.end_of_line()
    })
}

/// Several columns, as many in each line.
fn is_csv(lines: &[&[u8]]) -> bool {
    let delimiter = csv::delimiter(lines.first().copied().unwrap_or_default());
    let columns = |line: &&[u8]| csv::fields(line, delimiter).count();
    let mut counts = lines.iter().map(columns);
    let first = counts.next().unwrap_or(0);
    first > 1 && counts.all(|count| count == first)
}
