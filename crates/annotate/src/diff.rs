//! Insertions into a file's lines, as a unified diff.

use std::collections::BTreeMap;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// What is inserted into a file, in the order of insertion at equal places.
#[derive(Default)]
pub(crate) struct Insertions {
    /// Into lines, by byte offset.
    within: BTreeMap<usize, Vec<u8>>,
    /// Whole lines, without their ends, by the index of the line before which they come.
    lines: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Insertions {
    pub(crate) fn is_empty(&self) -> bool {
        self.within.is_empty() && self.lines.is_empty()
    }

    pub(crate) fn insert_within(&mut self, offset: usize, text: &str) {
        self.within
            .entry(offset)
            .or_default()
            .extend_from_slice(text.as_bytes());
    }

    /// In front of what was inserted there before.
    pub(crate) fn insert_first(&mut self, offset: usize, text: &str) {
        let there = self.within.entry(offset).or_default();
        there.splice(0..0, text.bytes());
    }

    pub(crate) fn insert_line(&mut self, before: usize, line: Vec<u8>) {
        self.lines.entry(before).or_default().push(line);
    }
}

/// A file's lines, their ends included.
pub(crate) fn lines_of(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').collect()
}

/// A line's end: what it has, or that of the file's first line.
pub(crate) fn line_end(line: &[u8]) -> &'static [u8] {
    if line.ends_with(b"\r\n") {
        b"\r\n"
    } else {
        b"\n"
    }
}

/// A line of the output.
struct Line {
    mark: u8,
    text: Vec<u8>,
}

/// The diff of one file, whose name is `name` below `a/` and `b/`; empty if nothing is inserted.
pub(crate) fn unified(name: &str, bytes: &[u8], insertions: &Insertions) -> Vec<u8> {
    if insertions.is_empty() {
        return Vec::new();
    }
    let script = script(bytes, insertions);
    let mut out = Vec::new();
    // Behind a name with blanks, a tab tells its end.
    let end = if name.contains(' ') { "\t" } else { "" };
    out.extend_from_slice(format!("--- a/{name}{end}\n+++ b/{name}{end}\n").as_bytes());
    for hunk in hunks(&script) {
        let before = |mark: u8| {
            let other = if mark == b'-' { b'+' } else { b'-' };
            script[..hunk.start]
                .iter()
                .filter(|line| line.mark != other)
                .count()
        };
        let within = |mark: u8| {
            let other = if mark == b'-' { b'+' } else { b'-' };
            script[hunk.clone()]
                .iter()
                .filter(|line| line.mark != other)
                .count()
        };
        // With no line of it, a range is told by the line before.
        let start = |mark: u8| before(mark) + usize::from(within(mark) > 0);
        let head = format!(
            "@@ -{},{} +{},{} @@\n",
            start(b'-'),
            within(b'-'),
            start(b'+'),
            within(b'+')
        );
        out.extend_from_slice(head.as_bytes());
        for line in &script[hunk.clone()] {
            out.push(line.mark);
            out.extend_from_slice(&line.text);
            if !line.text.ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

/// All lines of the file, with what becomes of them.
fn script(bytes: &[u8], insertions: &Insertions) -> Vec<Line> {
    let mut script = Vec::new();
    let mut start = 0;
    let lines = lines_of(bytes);
    for index in 0..=lines.len() {
        let near = lines.get(index.max(1) - 1).copied().unwrap_or_default();
        for inserted in insertions.lines.get(&index).into_iter().flatten() {
            let text = [inserted, line_end(near)].concat();
            script.push(Line { mark: b'+', text });
        }
        let Some(&line) = lines.get(index) else { break };
        let end = start + line.len();
        let changed = changed(line, start, insertions);
        let mark = if changed.is_some() { b'-' } else { b' ' };
        let text = line.to_vec();
        script.push(Line { mark, text });
        for text in changed.iter().flat_map(|text| lines_of(text)) {
            let text = text.to_vec();
            script.push(Line { mark: b'+', text });
        }
        start = end;
    }
    script
}

/// A line with what is inserted into it; `None`: nothing is.
fn changed(line: &[u8], start: usize, insertions: &Insertions) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut at = 0;
    for (&offset, inserted) in insertions.within.range(start..start + line.len()) {
        text.extend_from_slice(&line[at..offset - start]);
        text.extend_from_slice(inserted);
        at = offset - start;
    }
    // Behind the very last byte of a file without an end of line.
    let last = insertions
        .within
        .get(&(start + line.len()))
        .filter(|_| !line.ends_with(b"\n"));
    if at == 0 && text.is_empty() && last.is_none() {
        return None;
    }
    text.extend_from_slice(&line[at..]);
    text.extend_from_slice(last.map_or(&[][..], Vec::as_slice));
    Some(text)
}

/// Ranges of lines with changes and their context.
fn hunks(script: &[Line]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    let changes = script
        .iter()
        .enumerate()
        .filter(|(_, line)| line.mark != b' ');
    for (index, _) in changes {
        let start = index.saturating_sub(CONTEXT);
        let end = (index + 1 + CONTEXT).min(script.len());
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(text: &str, insertions: &Insertions) -> String {
        String::from_utf8(unified("a.c", text.as_bytes(), insertions)).expect("text")
    }

    #[test]
    fn nothing_inserted_is_no_diff() {
        assert_eq!(diff("a\n", &Insertions::default()), "");
    }

    #[test]
    fn lines_and_parts_of_lines_are_inserted() {
        let mut insertions = Insertions::default();
        insertions.insert_line(0, b"first".to_vec());
        insertions.insert_within(1, "!");
        insertions.insert_line(9, b"late".to_vec());
        assert_eq!(
            diff("a\nb\nc\nd\ne\nf\ng\nh\ni\n", &insertions),
            "--- a/a.c\n+++ b/a.c\n@@ -1,4 +1,5 @@\n+first\n-a\n+a!\n b\n c\n d\n@@ -7,3 +8,4 @@\n g\n h\n i\n+late\n"
        );
    }

    #[test]
    fn the_end_of_a_line_is_kept() {
        let mut insertions = Insertions::default();
        insertions.insert_line(1, b"x".to_vec());
        assert_eq!(
            diff("a\r\n", &insertions),
            "--- a/a.c\n+++ b/a.c\n@@ -1,1 +1,2 @@\n a\r\n+x\r\n"
        );
        let mut insertions = Insertions::default();
        insertions.insert_within(1, "!");
        assert_eq!(
            diff("a", &insertions),
            "--- a/a.c\n+++ b/a.c\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a!\n\\ No newline at end of file\n"
        );
    }
}
