//! Names of allocations taken apart: `s->rows[]` is a variable, a member of it, and its elements.

/// A variable and the way from there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VariablePath {
    /// The variable, with the scopes that were written.
    pub(crate) variable: String,
    pub(crate) steps: Vec<Step>,
}

/// One step from a type to another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// What it points to or holds.
    Element,
    /// A member of it, or of what it points to.
    Member(String),
}

impl VariablePath {
    /// `None`: it is a call, or nothing that has a type.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let pointers = name
            .chars()
            .take_while(|&character| character == '*')
            .count();
        if name.contains("()") {
            return None;
        }
        // `(*p)->x`: a member is looked for behind pointers anyway.
        let plain: String = name
            .chars()
            .filter(|character| !"*()".contains(*character))
            .collect();
        let plain = plain
            .replace("->", ".")
            .replace('%', ".")
            .replace("[]", ".[]");
        let mut parts = plain.split('.');
        let variable = parts.next()?.to_owned();
        let is_word = |part: &str| {
            let mut letters = part.chars();
            !part.is_empty()
                && letters.all(|letter| letter.is_alphanumeric() || "_:$".contains(letter))
        };
        let mut steps = Vec::new();
        for part in parts {
            steps.push(match part {
                "[]" => Step::Element,
                _ if is_word(part) => Step::Member(part.to_owned()),
                _ => return None,
            });
        }
        steps.extend(std::iter::repeat_with(|| Step::Element).take(pointers));
        is_word(&variable).then_some(Self { variable, steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ways_from_variables() {
        let member = |name: &str| Step::Member(name.to_owned());
        for (name, variable, steps) in [
            ("x", "x", vec![]),
            ("ns::pool::items", "ns::pool::items", vec![]),
            ("s->rows[]", "s", vec![member("rows"), Step::Element]),
            ("*out", "out", vec![Step::Element]),
            ("(*p)->x.y", "p", vec![member("x"), member("y")]),
            (
                "blocks[]%cells",
                "blocks",
                vec![Step::Element, member("cells")],
            ),
        ] {
            let found = VariablePath::parse(name).expect("a path");
            assert_eq!(
                (found.variable.as_str(), found.steps),
                (variable, steps),
                "{name}"
            );
        }
        for name in ["", "f()", "f()->x", "a b", "->", "x.", "[]"] {
            assert_eq!(VariablePath::parse(name), None, "{name}");
        }
    }
}
