//! Text of strangers (names of variables, files, programs) as HTML and as JSON inside of HTML.

/// Characters of a name that are shown; of a longer one the middle goes.
const LONGEST: usize = 240;

/// As text or as the value of an attribute in double quotes. Characters that a reader could not see, or that change the
/// order of those that follow, are written as escapes.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A name of reasonable length in which every character can be seen.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(4 * LONGEST));
    let length = text.chars().count();
    let (head, tail) = match length > LONGEST {
        true => (LONGEST / 2, LONGEST / 2),
        false => (length, 0),
    };
    for (index, character) in text.chars().enumerate() {
        if index == head && tail > 0 {
            shown.push('…');
        }
        if index >= head && index < length - tail {
            continue;
        }
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Controls, and what hides text or turns its direction round (Unicode TR 36).
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// JSON that can stand in a `<script>` element: nothing in it ends the element or begins a comment.
pub(super) fn json(value: &impl serde::Serialize) -> serde_json::Result<String> {
    // Outside of strings JSON has no `<`, and in them this means the same.
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_an_element_or_an_attribute() {
        assert_eq!(
            html("</script><b a='1' c=\"2\">&"),
            "&lt;/script&gt;&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;"
        );
        let text = json(&"</script><!--").expect("a string");
        assert_eq!(text, "\"\\u003c/script>\\u003c!--\"");
        let back: String = serde_json::from_str(&text).expect("JSON");
        assert_eq!(back, "</script><!--");
    }

    #[test]
    fn what_cannot_be_seen_is_told() {
        assert_eq!(visible("a\nb\x1b[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(visible("abc\u{202e}cba"), "abc\\u{202e}cba");
        assert_eq!(visible("größe 日本"), "größe 日本");
    }

    #[test]
    fn a_long_name_keeps_both_ends() {
        let name = format!("begin{}end", "x".repeat(10_000));
        let shown = visible(&name);
        assert_eq!(shown.chars().count(), LONGEST + 1);
        assert!(shown.starts_with("begin") && shown.ends_with("end") && shown.contains('…'));
    }
}
