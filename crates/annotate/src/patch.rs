//! What is put where in a source: calls behind statements or in place of others, and the headers they need.

use std::collections::BTreeMap;
use std::ops::Range;

use tree_sitter::Node;

use crate::allocator::Allocation;
use crate::allocator::is_wrapper;
use crate::annotate::Annotated;
use crate::annotate::Found;
use crate::annotate::FoundCall;
use crate::annotate::Refusal;
use crate::binding::Binding;
use crate::calls::HEADER;
use crate::diff::Insertions;
use crate::diff::lines_of;
use crate::expression::function_around;
use crate::file_calls;
use crate::file_calls::FileCall;
use crate::include;
use crate::macros::Macros;
use crate::source::Source;
use crate::source::descendants;
use crate::statement::Statement;

/// What comes of a source.
pub(crate) struct Patch<'source> {
    source: &'source Source,
    annotated: Annotated,
    /// From where to where each header's calls are used.
    used: BTreeMap<&'static str, Range<usize>>,
}

impl<'source> Patch<'source> {
    pub(crate) fn new(source: &'source Source) -> Self {
        Self {
            source,
            annotated: Annotated::default(),
            used: BTreeMap::new(),
        }
    }

    pub(crate) fn refuse(&mut self, allocation: &Allocation<'_>, why: String) {
        let found = self.found(allocation);
        let by = &allocation.by;
        self.refuse_line(allocation.node.start_position().row, format!("{by}: {why}"));
        self.annotated.found.push(found);
    }

    pub(crate) fn refuse_line(&mut self, row: usize, why: String) {
        self.annotated.refusals.push(Refusal {
            line: Some(row + 1),
            why,
        });
    }

    /// Macros that allocate, where they are defined and where they are used.
    pub(crate) fn refuse_macros(&mut self) {
        let source = self.source;
        let macros = Macros::read(source);
        for (row, name) in &macros.defined {
            self.refuse_line(
                *row,
                format!("the macro {name} allocates: place the call in it by hand"),
            );
        }
        if macros.defined.is_empty() {
            return;
        }
        for node in descendants(source.root()) {
            if let Some(name) = macros.used(source, node)
                && !is_wrapper(name)
            {
                self.refuse_line(
                    node.start_position().row,
                    format!("{name} is a macro that allocates: place the call by hand"),
                );
            }
        }
    }

    fn found(&self, allocation: &Allocation<'_>) -> Found {
        Found {
            line: allocation.node.start_position().row + 1,
            function: function_around(self.source, allocation.node).map(str::to_owned),
            variable: None,
            by: allocation.by.clone(),
            bytes: None,
            calls: Vec::new(),
            already: false,
        }
    }

    pub(crate) fn insert(
        &mut self,
        allocation: &Allocation<'_>,
        binding: &Binding<'_>,
        calls: Vec<String>,
    ) {
        let already = calls
            .iter()
            .all(|call| self.follows(binding.statement, call));
        if !already {
            self.place(binding.statement, &calls);
        }
        self.annotated.found.push(Found {
            variable: Some(binding.name.clone()),
            bytes: binding.bytes.clone().ok(),
            calls,
            already,
            ..self.found(allocation)
        });
    }

    /// Whether this very call follows the statement, other calls of ours between them.
    fn follows(&self, statement: Statement<'_>, call: &str) -> bool {
        let next = std::iter::successors(statement.node.next_named_sibling(), |node| {
            node.next_named_sibling()
        });
        next.filter(|node| node.kind() != "comment")
            .map(|node| self.source.exact(node).unwrap_or_default())
            .take_while(|text| text.starts_with("pagewise_"))
            .any(|text| text == call)
    }

    /// A call here needs a header.
    fn needs(&mut self, header: &'static str, start: usize) {
        let used = self.used.entry(header).or_insert(start..start + 1);
        *used = start.min(used.start)..used.end.max(start + 1);
    }

    /// Puts a call with a hint in the place of one without.
    pub(crate) fn give_hint(&mut self, call: &FileCall<'_>, hint: &str) -> Result<(), String> {
        const NOT_TEXT: &str = "it is not UTF-8";
        let source = self.source;
        let already = match call.hint(source) {
            Some(there) if there == hint => true,
            Some(there) => {
                return Err(format!(
                    "it has another hint already, {there}: take that out first"
                ));
            }
            None => false,
        };
        let hinted = call.hinted(source, hint).ok_or(NOT_TEXT)?;
        let file = call.file(source).ok_or(NOT_TEXT)?;
        if !already {
            self.needs(file_calls::HEADER, call.node.start_byte());
            for (at, text) in call.insertions(source, hint).ok_or(NOT_TEXT)? {
                self.annotated.insertions.insert_within(at, &text);
            }
        }
        self.annotated.found_calls.push(FoundCall {
            line: call.node.start_position().row + 1,
            function: function_around(source, call.node).map(str::to_owned),
            by: call.by.to_owned(),
            file,
            call: hinted,
            already,
        });
        Ok(())
    }

    fn place(&mut self, statement: Statement<'_>, calls: &[String]) {
        let (start, end) = (statement.node.start_byte(), statement.node.end_byte());
        self.needs(HEADER, start);
        let insertions = &mut self.annotated.insertions;
        if statement.needs_braces {
            insertions.insert_first(start, "{ ");
            insertions.insert_within(end, &format!(" {} }}", calls.join(" ")));
        } else if is_last_on_line(&self.source.bytes()[end..]) {
            let indent = indent(self.source, statement.node);
            for call in calls {
                let line = [indent, call.as_bytes()].concat();
                insertions.insert_line(statement.node.end_position().row + 1, line);
            }
        } else {
            insertions.insert_within(end, &format!(" {}", calls.join(" ")));
        }
    }

    pub(crate) fn finish(mut self) -> Annotated {
        for (header, used) in std::mem::take(&mut self.used) {
            if let Err(why) = self.include_header(header, &used) {
                self.withdraw(why);
            }
        }
        let annotated = &mut self.annotated;
        annotated.found.sort_by_key(|found| found.line);
        annotated.found_calls.sort_by_key(|found| found.line);
        annotated.refusals.sort();
        self.annotated
    }

    /// Without its header no call compiles.
    fn withdraw(&mut self, why: String) {
        let annotated = &mut self.annotated;
        annotated.insertions = Insertions::default();
        annotated.found_calls.retain(|found| found.already);
        for found in annotated.found.iter_mut().filter(|found| !found.already) {
            found.calls.clear();
            found.variable = None;
        }
        annotated.refusals.push(Refusal { line: None, why });
    }

    fn include_header(&mut self, header: &str, used: &Range<usize>) -> Result<(), String> {
        let source = self.source;
        if include::is_there(source, header, used) {
            return Ok(());
        }
        let line = format!("#include \"{header}\"");
        let row = include::row(source, used).ok_or_else(|| {
            format!(
                "{line} has no place that is behind macros like _GNU_SOURCE and before all calls: write it where it belongs, and \
                 annotate again"
            )
        })?;
        let insertions = &mut self.annotated.insertions;
        match source.bytes().strip_prefix(b"\xef\xbb\xbf") {
            // Nothing may come before a byte order mark.
            Some(_) if row == 0 => insertions.insert_first(3, &format!("{line}\n")),
            _ => insertions.insert_line(row, line.into_bytes()),
        }
        Ok(())
    }
}

/// Whether nothing but blanks and a comment follows on the line.
fn is_last_on_line(rest: &[u8]) -> bool {
    let line = lines_of(rest).first().copied().unwrap_or_default();
    // Of a file without a last end of line, the last line is changed, not followed.
    let ends = line.ends_with(b"\n");
    let line = line.trim_ascii();
    let is_comment = match line {
        [] => true,
        [b'/', b'/', ..] => !line.ends_with(b"\\"),
        [b'/', b'*', text @ .., b'*', b'/'] => !text.windows(2).any(|pair| pair == b"*/"),
        _ => false,
    };
    ends && is_comment
}

/// The blanks in front of the line that a statement begins on.
fn indent<'text>(source: &'text Source, statement: Node<'_>) -> &'text [u8] {
    let start = statement.start_byte() - statement.start_position().column;
    let line = &source.bytes()[start..];
    let length = line
        .iter()
        .take_while(|&&byte| byte == b' ' || byte == b'\t')
        .count();
    &line[..length]
}
