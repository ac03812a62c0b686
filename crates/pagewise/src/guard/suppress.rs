//! Errors that are not to be told of: lines `KIND:PATTERN`, where the kind may be `*`, and `*` in a pattern stands for
//! anything. A pattern is held against functions, files and modules of all call paths of an error.

use std::path::Path;

use pagewise_attribute::Frame;

use super::findings::Finding;
use super::findings::KINDS;
use crate::failure::Failure;

/// All lines of a file.
#[derive(Debug, Default)]
pub(super) struct Suppressions(Vec<(String, String)>);

impl Suppressions {
    /// Reads them from a file.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::new(format!(
                "cannot read {shown}: {error}; name another with --suppressions FILE"
            ))
        })?;
        Self::parse(&text)
            .map_err(|(line, why)| Failure::new(format!("{shown}, line {line}: {why}")))
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut all = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: &str| {
                (
                    index + 1,
                    format!(
                        "{why}; write KIND:PATTERN, with a kind of {}, or *",
                        KINDS.join(", ")
                    ),
                )
            };
            let (kind, pattern) = line
                .split_once(':')
                .ok_or_else(|| wrong("it has no colon"))?;
            if kind != "*" && !KINDS.contains(&kind) {
                return Err(wrong("it names no kind of error"));
            }
            if pattern.is_empty() {
                return Err(wrong("it has no pattern"));
            }
            all.push((kind.to_owned(), pattern.to_owned()));
        }
        Ok(Self(all))
    }

    /// Whether an error is not to be told of.
    pub(super) fn cover(&self, finding: &Finding) -> bool {
        self.0.iter().any(|(kind, pattern)| {
            (kind == "*" || kind == finding.kind())
                && [&finding.access, &finding.allocation, &finding.release]
                    .into_iter()
                    .flatten()
                    .any(|frame| is_at(frame, pattern))
        })
    }
}

fn is_at(frame: &Frame, pattern: &str) -> bool {
    [&frame.function, &frame.file, &frame.module]
        .into_iter()
        .flatten()
        .any(|name| {
            is_match(pattern, name) || is_match(pattern, pagewise_attribute::display_file(name))
        })
}

/// Whether a text is as a pattern says.
fn is_match(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    // A pattern has at least one part.
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, expected) in [
            ("main", "main", true),
            ("main", "domain", false),
            ("*main", "domain", true),
            ("ma*", "main", true),
            ("*a*n*", "main", true),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn lines_that_mean_nothing_are_refused_by_number() {
        let good = "# known\n\nleak:init_*\n*:libold.so*\n";
        assert_eq!(Suppressions::parse(good).map(|all| all.0.len()), Ok(2));
        for (text, line) in [("leak", 1), ("\nleaks:x", 2), ("leak:", 1)] {
            let refused = Suppressions::parse(text).map(|_| ());
            assert_eq!(refused.map_err(|(line, _)| line), Err(line), "{text}");
        }
    }
}
