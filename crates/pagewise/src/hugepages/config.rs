//! `--config FILE`: options from a file in TOML, under their long names.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use clap::Args as _;
use clap::Parser;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;

use super::arguments::ManageArguments;
use crate::failure::Failure;

/// The manager's options alone; of one that is given twice, the last counts.
#[derive(Debug, Parser)]
#[command(name = "hugepages", args_override_self = true)]
struct Options {
    #[command(flatten)]
    manage: ManageArguments,
}

/// Keys that say which processes: where some are typed, those of the file do not count.
const WHOM: [&str; 3] = ["pid", "cgroup", "all"];

/// The options of the file, and after them those that were typed: these count.
pub(super) fn merged(
    path: &Path,
    typed: impl Iterator<Item = OsString>,
) -> Result<ManageArguments, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let typed: Vec<OsString> = typed.collect();
    let alone = Options::try_parse_from(command().chain(typed.clone()));
    let names = alone.is_ok_and(|options| options.manage.names_processes());
    let mut entries = entries(path, &text)?;
    entries.retain(|entry| !names || !WHOM.contains(&entry.key.as_str()));
    let words = entries.iter().flat_map(|entry| entry.typed.iter());
    let all = words.map(OsString::from).chain(typed);
    let options = Options::try_parse_from(command().chain(all)).map_err(|error| {
        Failure::new(format!(
            "{} and the command line: {}",
            path.display(),
            said(&error)
        ))
    })?;
    options.manage.check().map_err(|failure| {
        let message = failure.to_string();
        match entries.iter().find(|entry| is_named(&entry.key, &message)) {
            Some(entry) => Failure::new(format!("{}:{}: {message}", path.display(), entry.line)),
            None => failure,
        }
    })?;
    Ok(options.manage)
}

fn command() -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("hugepages"))
}

/// Whether a message that names options names this one.
fn is_named(key: &str, message: &str) -> bool {
    let mut words = message.split([' ', ':']);
    words.any(|word| word.strip_prefix("--") == Some(key))
}

/// A key of the file.
struct Entry {
    key: String,
    line: usize,
    /// As options.
    typed: Vec<String>,
}

/// The file's options as one would type them, each of which is known and has a value that makes sense.
fn entries(path: &Path, text: &str) -> Result<Vec<Entry>, Failure> {
    let line_of = |start: usize| text[..start.min(text.len())].matches('\n').count() + 1;
    let at = |start: usize, what: String| {
        Failure::new(format!("{}:{}: {what}", path.display(), line_of(start)))
    };
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        at(start, error.message().replace('\n', ", "))
    })?;
    let mut entries = Vec::new();
    for (key, value) in table.into_inner() {
        let place = key.span().start;
        let key = key.into_inner().into_owned();
        let typed = typed(&key, &value, text).map_err(|what| at(place, what))?;
        // Each by itself, so that the line of a mistake is known.
        Options::try_parse_from(
            std::iter::once("hugepages").chain(typed.iter().map(String::as_str)),
        )
        .map_err(|error| at(place, said(&error)))?;
        entries.push(Entry {
            key,
            line: line_of(place),
            typed,
        });
    }
    Ok(entries)
}

/// An option as it is typed: its name and, if it takes one, its value.
fn typed(key: &str, value: &Spanned<DeValue<'_>>, text: &str) -> Result<Vec<String>, String> {
    let command = ManageArguments::augment_args(clap::Command::new("hugepages"));
    let options = command
        .get_arguments()
        .filter(|option| option.get_long() != Some("config"));
    let names: Vec<(&str, bool)> = options
        .filter_map(|option| Some((option.get_long()?, option.get_action().takes_values())))
        .collect();
    let Some(&(name, takes_value)) = names.iter().find(|(name, _)| *name == key) else {
        let nearest = names.iter().max_by(|a, b| {
            strsim::jaro_winkler(key, a.0).total_cmp(&strsim::jaro_winkler(key, b.0))
        });
        let nearest = nearest.map_or("all", |(name, _)| name);
        return Err(format!(
            "there is no key `{key}`; did you mean `{nearest}`?"
        ));
    };
    let source = &text[value.span()];
    let switch = format!("--{name}");
    match (value.get_ref(), takes_value) {
        (DeValue::Boolean(true), false) => Ok(vec![switch]),
        (DeValue::Boolean(false), false) => Ok(Vec::new()),
        (_, false) => Err(format!("`{key}` is true or false, not {source}")),
        (DeValue::String(string), true) => Ok(vec![format!("{switch}={string}")]),
        (DeValue::Integer(_) | DeValue::Float(_), true) => Ok(vec![format!("{switch}={source}")]),
        (DeValue::Array(items), true) if name == "pid" => {
            let items = items.iter().map(|item| text[item.span()].to_owned());
            Ok(vec![format!(
                "{switch}={}",
                items.collect::<Vec<_>>().join(",")
            )])
        }
        _ => Err(format!(
            "`{key}` cannot be {source}; write a number, or a text in quotes"
        )),
    }
}

/// Clap's own words, on one line.
fn said(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, text).expect("written");
        file
    }

    fn merge(text: &str, typed: &[&str]) -> Result<ManageArguments, String> {
        let file = file(text);
        merged(file.path(), typed.iter().map(OsString::from)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn who_is_typed_counts_and_not_who_is_in_the_file() {
        let options = merge("all = true\nrate = 3", &["--pid", "7"]).expect("understood");
        assert_eq!(
            (options.all, options.pid, options.rate.0),
            (false, vec![7], 3.0)
        );
        let options = merge("pid = [1, 2]", &["--pid", "7"]).expect("understood");
        assert_eq!(options.pid, [7]);
    }

    #[test]
    fn keys_that_contradict_each_other_are_told_with_a_line() {
        let told = |text: &str| merge(text, &[]).expect_err("refused");
        let error = told("all = true\nrate = 3\nlow = 90");
        assert!(error.contains(":3: --low 90 is above --high 85"), "{error}");
        let error = told("all = true\nhigh = 60");
        assert!(error.contains(":2: --low 70 is above"), "{error}");
        let error = told("policy = \"aggressive\"\nall = true");
        assert!(error.contains(":1: --policy aggressive"), "{error}");
    }

    #[test]
    fn the_example_is_understood_and_what_is_typed_counts() {
        let example = include_str!("../../../../etc/hugepages.toml");
        let options = merge(example, &["--config", "x", "--rate", "7"]).expect("understood");
        assert!(options.all && !options.adaptive);
        assert_eq!((options.rate.0, options.high.0), (7.0, 85.0));
        let options = merge(
            "pid = [1, 2]\nadaptive = true\nonce = false\ninterval = \"500ms\"",
            &[],
        )
        .expect("understood");
        assert_eq!(
            (options.pid, options.adaptive, options.once),
            (vec![1, 2], true, false)
        );
        assert_eq!(options.interval.0.as_millis(), 500);
    }

    #[test]
    fn mistakes_have_their_line_and_the_nearest_key() {
        for (text, say) in [
            (
                "\n\nratee = 5",
                ":3: there is no key `ratee`; did you mean `rate`?",
            ),
            (
                "all = true\nhigh = 101",
                ":2: invalid value '101' for '--high",
            ),
            (
                "all = true\ncpu = 1e-30",
                ":2: invalid value '1e-30' for '--cpu",
            ),
            ("all = 1", ":1: `all` is true or false, not 1"),
            ("rate = [1]", ":1: `rate` cannot be [1]"),
            ("policy = 'hawkey'", "did you mean `hawkeye-g`"),
            ("config = 'x'", "there is no key `config`"),
            ("all = true\nrate = ", ":2: "),
            ("all = true\npid = 5", "and the command line: the argument"),
        ] {
            let error = merge(text, &[]).expect_err(text);
            assert!(
                error.contains(say) && !error.contains('\n'),
                "{text:?}: {error}"
            );
        }
        let error = merged(Path::new("/nonexistent"), std::iter::empty()).expect_err("none");
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }
}
