//! How to render: what the terminal can show, and what was asked for.

use unicode_width::UnicodeWidthStr;

use super::clean::LONGEST_NAME;
use super::clean::LONGEST_SENTENCE;
use super::clean::clean;

/// How to render.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns to fill at most.
    pub width: usize,
    /// Escape sequences for bold and dim.
    pub color: bool,
    /// Whether more than ASCII can be shown.
    pub unicode: bool,
    /// Objects to list.
    pub objects: usize,
    /// Call paths with the frames of libraries.
    pub library_frames: bool,
    /// Source files by their whole path.
    pub whole_paths: bool,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set to anything but nothing.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Style {
    /// For standard output as it is: its width if it is a terminal, 100 columns if not; more than ASCII if the locale says
    /// UTF-8.
    pub fn of_stdout(choice: ColorChoice) -> Self {
        let terminal = terminal_size::terminal_size_of(std::io::stdout());
        let wanted = || std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            width: terminal.map_or(100, |(width, _)| usize::from(width.0).max(NARROWEST)),
            color: match choice {
                ColorChoice::Auto => terminal.is_some() && wanted(),
                ColorChoice::Always => true,
                ColorChoice::Never => false,
            },
            unicode: is_utf8(|name| std::env::var(name).ok()),
            objects: 20,
            library_frames: false,
            whole_paths: false,
        }
    }

    /// For what breaks lines by itself and shows all characters, such as a browser.
    pub(crate) const PAGE: Self = Self {
        width: usize::MAX,
        color: false,
        unicode: true,
        objects: 20,
        library_frames: false,
        whole_paths: false,
    };

    /// Text that stands out.
    pub fn bold(self, text: &str) -> String {
        self.between(BOLD, text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.between("\x1b[2m", text)
    }

    fn between(self, begin: &str, text: &str) -> String {
        match self.color {
            true => format!("{begin}{text}{PLAIN}"),
            false => text.to_owned(),
        }
    }

    /// A name as it may be shown.
    pub fn clean(self, name: &str) -> String {
        clean(name, !self.unicode, LONGEST_NAME)
    }

    /// So is a sentence.
    pub(crate) fn clean_sentence(self, sentence: &str) -> String {
        clean(sentence, !self.unicode, LONGEST_SENTENCE)
    }

    /// Adds lines to a text, each broken to the style's width.
    pub(crate) fn add_wrapped(self, text: &mut String, lines: &str) {
        for line in lines.lines() {
            let (begin, end) = match line
                .strip_prefix(BOLD)
                .and_then(|line| line.strip_suffix(PLAIN))
            {
                Some(_) => (BOLD, PLAIN),
                None => ("", ""),
            };
            for part in self.wrapped(&line[begin.len()..line.len() - end.len()]) {
                text.extend([begin, &part, end, "\n"]);
            }
        }
    }

    /// A text in lines of the style's width, broken at spaces.
    pub(crate) fn wrapped(self, text: &str) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.last_mut().expect("there is always a line");
            if line.is_empty() {
                line.push_str(word);
            } else if line.width() + 1 + word.width() <= self.width {
                line.push(' ');
                line.push_str(word);
            } else {
                lines.push(word.to_owned());
            }
        }
        lines
    }
}

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Narrower terminals get lines that they break themselves.
pub(crate) const NARROWEST: usize = 40;

/// As `setlocale` decides: the first of these that is not empty.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names
        .iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_says_what_can_be_shown() {
        let locale = |set: &[(&str, &str)]| {
            is_utf8(|name| {
                let found = set.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(locale(&[("LANG", "de_DE.UTF-8")]));
        assert!(locale(&[
            ("LC_ALL", ""),
            ("LC_CTYPE", "C.utf8"),
            ("LANG", "C")
        ]));
        assert!(!locale(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!locale(&[]));
    }

    #[test]
    fn words_stay_whole() {
        let style = Style {
            width: 12,
            color: false,
            unicode: true,
            objects: 1,
            library_frames: false,
            whole_paths: false,
        };
        assert_eq!(
            style.wrapped("one two three four"),
            ["one two", "three four"]
        );
        assert_eq!(
            style.wrapped("abcdefghijklmnop b"),
            ["abcdefghijklmnop", "b"]
        );
        assert_eq!(style.wrapped(""), [""]);
    }
}
