//! Fortran: memory is asked for by one statement, `allocate`, or by assigning to a whole allocatable variable. Reading these
//! takes no syntax tree.

use super::Finding;

/// How lines of a source are continued and commented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By columns, as on punched cards.
    Fixed,
    /// By `&` and `!`.
    Free,
}

impl Form {
    /// By a file's extension, in small letters.
    pub(super) fn of(extension: &str) -> Option<Self> {
        match extension {
            "f" | "for" | "ftn" | "f77" => Some(Self::Fixed),
            "f90" | "f95" | "f03" | "f08" | "f18" => Some(Self::Free),
            _ => None,
        }
    }

    /// What a line says, without its comment, and whether it goes on the line before and goes on on the next.
    fn line(self, line: &str) -> Line<'_> {
        match self {
            Self::Free => {
                let code = without_comment(line).trim();
                let continued = code.ends_with('&');
                let text = code.trim_end_matches('&').trim_start_matches('&');
                Line {
                    text,
                    continues: code.starts_with('&'),
                    continued,
                }
            }
            Self::Fixed => {
                let is_comment = line.starts_with(['c', 'C', '*', 'd', 'D']);
                let code = if is_comment {
                    ""
                } else {
                    without_comment(line)
                };
                let mark = code.get(5..6).filter(|mark| !matches!(*mark, " " | "0"));
                let continues = mark.is_some() && code[..5].trim().is_empty();
                Line {
                    text: if continues { &code[6..] } else { code },
                    continues,
                    continued: false,
                }
            }
        }
    }
}

struct Line<'text> {
    text: &'text str,
    continues: bool,
    continued: bool,
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, character) in line.char_indices() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character == '!' => return &line[..at],
            None if matches!(character, '\'' | '"') => quote = Some(character),
            None => {}
        }
    }
    line
}

/// What the allocation on a line (from 1) is bound to; `None` if nothing on it may allocate.
pub(super) fn find(text: &str, form: Form, line: u32) -> Option<Finding> {
    let statement = statement_at(text, form, line)?;
    let mut names: Vec<String> = Vec::new();
    for part in top_level(&statement, ';') {
        for name in bound(part) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    (!names.is_empty()).then(|| Finding {
        name: Some(names.join("|")),
        escape: None,
    })
}

/// The whole statement that a line is part of. Lines that say nothing may lie between its parts.
fn statement_at(text: &str, form: Form, line: u32) -> Option<String> {
    let row = usize::try_from(line).ok()?.checked_sub(1)?;
    let lines: Vec<Line<'_>> = text.lines().map(|line| form.line(line)).collect();
    let says = |row: &usize| {
        lines
            .get(*row)
            .is_some_and(|line| !line.text.trim().is_empty())
    };
    lines.get(row)?;
    let mut first = row;
    while let Some(before) = (0..first).rev().find(says)
        && (lines[first].continues || lines[before].continued)
    {
        first = before;
    }
    let mut statement = lines[first].text.to_owned();
    let mut last = first;
    while let Some(next) = (last + 1..lines.len()).find(says)
        && (lines[last].continued || lines[next].continues)
    {
        statement.push_str(lines[next].text);
        last = next;
    }
    Some(statement)
}

/// The variables that a statement gives memory to.
fn bound(statement: &str) -> Vec<String> {
    let statement = statement
        .trim()
        .trim_start_matches(|c: char| c.is_ascii_digit());
    let statement = after_condition(statement.trim_start());
    if let Some(list) = keyword(statement, "allocate").and_then(group) {
        // `allocate (real(8) :: x(n), stat=error)`
        let list = list.split_once("::").map_or(list, |(_, list)| list);
        let objects = top_level(list, ',').filter(|item| top_level(item, '=').count() == 1);
        return objects
            .filter_map(|object| designator(without_last_group(object)))
            .collect();
    }
    let mut sides = top_level(statement, '=');
    let (left, right) = (sides.next().unwrap_or(""), sides.next());
    // `p => target` and `a == b` take no memory.
    let assigns = right.is_some_and(|right| !right.is_empty() && !right.starts_with('>'));
    let whole = assigns && without_last_group(left).len() == left.trim().len();
    whole
        .then(|| designator(left))
        .flatten()
        .into_iter()
        .collect()
}

/// What follows `if (...)`.
fn after_condition(statement: &str) -> &str {
    let condition = keyword(statement, "if");
    let after = condition.and_then(|rest| Some(&rest[group(rest)?.len() + 2..]));
    after.map_or(statement, str::trim_start)
}

/// What follows a keyword and begins with a parenthesis.
fn keyword<'text>(statement: &'text str, word: &str) -> Option<&'text str> {
    let begin = statement.get(..word.len())?;
    let rest = statement[word.len()..].trim_start();
    (begin.eq_ignore_ascii_case(word) && rest.starts_with('(')).then_some(rest)
}

/// What is between the first parenthesis and the one that closes it.
fn group(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return text.get(1..at);
        }
    }
    None
}

/// The parts between separators that no parentheses or quotes hold.
fn top_level(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut depth, mut quote) = (0_i32, None);
    text.split(move |character: char| {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            (None, _) => return depth == 0 && character == separator,
        }
        false
    })
}

/// `m%cells` of `m%cells(n, m)`: what `allocate` gives a shape to.
fn without_last_group(object: &str) -> &str {
    let object = object.trim();
    if !object.ends_with(')') {
        return object;
    }
    let mut depth = 0_i32;
    for (at, character) in object.char_indices().rev() {
        match character {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return object[..at].trim_end();
        }
    }
    object
}

/// A variable or component as names show it: `blocks[]%cells` of `blocks(i) % cells`.
fn designator(text: &str) -> Option<String> {
    let mut name = String::new();
    let mut depth = 0_i32;
    for character in text.chars().filter(|character| !character.is_whitespace()) {
        match character {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                name.push_str(if depth == 0 { "[]" } else { "" });
            }
            _ if depth > 0 => {}
            '%' | '_' => name.push(character),
            _ if character.is_ascii_alphanumeric() => name.push(character),
            _ => return None,
        }
    }
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    (begins && depth == 0).then_some(name)
}

/// The name of the program unit around a line (from 1), in small letters.
pub(super) fn function_at(text: &str, form: Form, line: u32) -> Option<String> {
    let before: Vec<&str> = text.lines().take(line as usize).collect();
    let mut closed = 0_usize;
    for line in before.into_iter().rev() {
        let code = form.line(line).text.trim().to_ascii_lowercase();
        let words: Vec<&str> = code.split_whitespace().collect();
        let opens = words
            .iter()
            .position(|word| matches!(*word, "subroutine" | "function" | "program"));
        match opens {
            Some(1) if words[0] == "end" => closed += 1,
            Some(at)
                if !words[..at]
                    .iter()
                    .any(|word| word.contains(['=', '\'', '"'])) =>
            {
                let name = words.get(at + 1)?.split('(').next()?;
                match closed.checked_sub(1) {
                    Some(left) => closed = left,
                    None => return Some(name.to_owned()),
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(form: Form, text: &str, line: u32) -> Option<String> {
        find(text, form, line).and_then(|finding| finding.name)
    }

    #[test]
    fn statements_that_take_memory_name_what_they_give_it_to() {
        for (statement, expected) in [
            ("allocate(grid(n, n))", Some("grid")),
            ("ALLOCATE (Work(size(a, 1)), stat=status)", Some("Work")),
            ("10 if (n > f(2)) allocate (x(n), y(n))", Some("x|y")),
            (
                "allocate (real(8) :: m % cells(n), source=f(x, y))",
                Some("m%cells"),
            ),
            ("allocate (blocks(i)%cells(0:n))", Some("blocks[]%cells")),
            ("allocate (node)", Some("node")),
            ("copied = work", Some("copied")),
            ("m%cells = [1, 2, 3]", Some("m%cells")),
            ("part(1:n) = other", None),
            ("view => other(1:n)", None),
            ("if (a == b) stop", None),
            ("call prepare(grid = n)", None),
            ("print *, 'allocate(x(n))'", None),
            ("text = 'a = b; c = d'", Some("text")),
        ] {
            let found = name_of(Form::Free, statement, 1);
            assert_eq!(found.as_deref(), expected, "{statement}");
        }
    }

    #[test]
    fn statements_go_on_over_lines() {
        let free = "allocate (a(n), & ! the first (one\n\n  ! nothing\n  & b(n))\nc = d\n";
        for line in [1, 4] {
            assert_eq!(name_of(Form::Free, free, line).as_deref(), Some("a|b"));
        }
        assert_eq!(name_of(Form::Free, free, 5).as_deref(), Some("c"));
        let fixed =
            "C     allocate(no(n))\n      allocate(a(n),\n     +         b(n))\n      c = d\n";
        assert_eq!(name_of(Form::Fixed, fixed, 1), None);
        assert_eq!(name_of(Form::Fixed, fixed, 2).as_deref(), Some("a|b"));
        assert_eq!(name_of(Form::Fixed, fixed, 3).as_deref(), Some("a|b"));
        assert_eq!(name_of(Form::Fixed, fixed, 4).as_deref(), Some("c"));
    }

    #[test]
    fn anything_at_all_is_survived() {
        for text in [
            "allocate(",
            "allocate)(",
            "if (",
            "if",
            "x(=",
            "&",
            "é = é",
            ")(=1",
            "     é",
        ] {
            for form in [Form::Free, Form::Fixed] {
                for line in [0, 1, 2, u32::MAX] {
                    assert_eq!(name_of(form, text, line), None, "{text}");
                    let _ = function_at(text, form, line);
                }
            }
        }
    }

    #[test]
    fn lines_are_in_program_units() {
        let text = "program solver\n  call a\ncontains\n  pure real function f(x)\n    f = x\n  end function f\n\
                    \n  subroutine a\n    y = 1\n  end subroutine\nend program\n";
        let at = |line| function_at(text, Form::Free, line);
        assert_eq!(at(2).as_deref(), Some("solver"));
        assert_eq!(at(5).as_deref(), Some("f"));
        assert_eq!(at(9).as_deref(), Some("a"));
        assert_eq!(at(11), None);
    }
}
