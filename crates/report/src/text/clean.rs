//! Names that programs and files bring along, made harmless to a terminal.
//!
//! All text that does not come from Pagewise itself goes through [`clean`]: a name must not move the cursor, turn the
//! reading direction, begin a line of its own or fill the screen.

use unicode_width::UnicodeWidthChar;
use unicode_width::UnicodeWidthStr;

/// Columns that one name may fill: longer ones lose their middle.
pub(crate) const LONGEST_NAME: usize = 160;
/// And a sentence.
pub(crate) const LONGEST_SENTENCE: usize = 1000;
/// Marks that sit on a letter; more of them on one letter climb over the lines around.
const MOST_MARKS: usize = 2;

/// The text with everything in it escaped that is no visible character, of so many columns at most. `ascii`: so is all
/// that is not ASCII.
pub(crate) fn clean(text: &str, ascii: bool, longest: usize) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut marks = 0;
    for character in text.chars() {
        marks = match character.width() {
            Some(0) => marks + 1,
            _ => 0,
        };
        if is_harmless(character, ascii) && marks <= MOST_MARKS {
            safe.push(character);
        } else {
            safe.extend(character.escape_default());
        }
    }
    match safe.width() <= longest {
        true => safe,
        false => cut(&safe, longest),
    }
}

fn is_harmless(character: char, ascii: bool) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // Cc, the format characters (bidirectional controls, joiners, tags), line and paragraph separators, private use.
    let invisible = matches!(character,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}');
    !ascii && !invisible
}

/// The beginning and the end of a text that is too wide: the end of a name tells the line.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let half = width.saturating_sub(1) / 2;
    let head = take_width(text.chars(), width.saturating_sub(1) - half);
    let tail: String = take_width(text.chars().rev(), half).chars().rev().collect();
    format!("{head}~{tail}")
}

/// The first characters that fit into a width.
pub(crate) fn take_width(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += character.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_visible_stays() {
        for name in [
            "cost (solver.cpp:41)",
            "日本語",
            "naïve_größe",
            "operator<=>",
            "a\u{301}",
        ] {
            assert_eq!(clean(name, false, LONGEST_NAME), name);
        }
        assert_eq!(clean("größe", true, LONGEST_NAME), "gr\\u{f6}\\u{df}e");
    }

    #[test]
    fn what_moves_the_cursor_is_written_out() {
        for (name, safe) in [
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\x1b[2Jx", "\\u{1b}[2Jx"),
            ("\u{9b}31mred", "\\u{9b}31mred"),
            ("\u{7f}\0", "\\u{7f}\\u{0}"),
            ("txt\u{202e}cpp", "txt\\u{202e}cpp"),
            (
                "a\u{2066}b\u{2069}\u{200b}",
                "a\\u{2066}b\\u{2069}\\u{200b}",
            ),
            ("a\u{2028}b", "a\\u{2028}b"),
            ("x\u{301}\u{301}\u{301}", "x\u{301}\u{301}\\u{301}"),
        ] {
            assert_eq!(clean(name, false, LONGEST_NAME), safe);
        }
    }

    #[test]
    fn ten_thousand_characters_are_too_many() {
        let long = clean(
            &format!("begin{}end", "x".repeat(10_000)),
            false,
            LONGEST_NAME,
        );
        assert!(long.width() <= LONGEST_NAME, "{}", long.width());
        assert!(long.starts_with("beginx") && long.ends_with("xend"));
        assert!(clean(&"日".repeat(10_000), false, LONGEST_NAME).width() <= LONGEST_NAME);
    }

    #[test]
    fn a_cut_keeps_both_ends() {
        assert_eq!(cut("abcdefghijk", 7), "abc~ijk");
        assert_eq!(cut("日本語日本語", 5).width(), 5);
        assert_eq!(cut("abc", 1), "~");
        assert_eq!(cut("abc", 0), "~");
    }
}
