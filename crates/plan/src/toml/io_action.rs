//! What a rule does about I/O calls, from TOML.

use super::rule::name;
use super::rule::not_of;
use super::table::Table;
use super::table::Value;
use crate::error::PlanError;
use crate::model::Action;
use crate::model::IoAction;
use crate::model::Readahead;

const ACTIONS: &str = "sequential, random, normal, willneed, drop, dontcache, keep or nothing";
/// The longest pattern that the preloaded library takes, bytes.
const LONGEST_PATTERN: usize = 120;

pub(super) fn action(table: &mut Table<'_>) -> Result<Action, PlanError> {
    let value = table.need("action", "action = \"drop\"")?;
    let burst = table.get("burst_bytes");
    let readahead = table.get("readahead");
    let keep = table.get("keep_bytes");
    let again = table.get("again_percent");
    let name = value.text()?;
    let is_known = ["nothing", "drop", "dontcache", "willneed", "keep"].contains(&name.as_str());
    if !is_known && mode_named(&name).is_none() {
        return Err(value.error(
            format!("there is no action {name:?} for I/O"),
            format!("type one of {ACTIONS}"),
        ));
    }
    if let Some(value) = burst.as_ref().filter(|_| name != "willneed") {
        return Err(not_of(value, &name));
    }
    if let Some(value) = keep.as_ref().filter(|_| name != "keep") {
        return Err(not_of(value, &name));
    }
    if let Some(value) = again.as_ref().filter(|_| name != "drop") {
        return Err(not_of(value, &name));
    }
    let is_dropped = matches!(name.as_str(), "drop" | "dontcache");
    if let Some(value) = readahead.as_ref().filter(|_| !is_dropped) {
        return Err(not_of(value, &name));
    }
    let readahead = readahead.as_ref().map(mode).transpose()?;
    let action = match name.as_str() {
        "nothing" => return Ok(Action::Nothing),
        "drop" => IoAction::Drop {
            readahead,
            again_percent: again.as_ref().map_or(Ok(0), percent)?,
        },
        "dontcache" => IoAction::DontCache { readahead },
        "keep" => IoAction::Keep {
            keep_bytes: keep.as_ref().map(Value::size).transpose()?,
        },
        "willneed" => IoAction::WillNeed {
            burst_bytes: match burst {
                Some(value) => value.needed_size()?,
                None => {
                    return Err(value.error(
                        "willneed asks for runs as a whole, and must know how long they are",
                        "add: burst_bytes = 65536",
                    ));
                }
            },
        },
        _ => IoAction::Readahead(mode(&value)?),
    };
    Ok(Action::Io(action))
}

fn percent(value: &Value<'_>) -> Result<u8, PlanError> {
    let number = value.number()?;
    let percent = u8::try_from(number).ok().filter(|&percent| percent <= 100);
    percent.ok_or_else(|| {
        value.error(
            format!("{number} is more than all of it"),
            "type a whole number from 0 to 100",
        )
    })
}

fn mode_named(name: &str) -> Option<Readahead> {
    Readahead::ALL.into_iter().find(|mode| mode.name() == name)
}

fn mode(value: &Value<'_>) -> Result<Readahead, PlanError> {
    let text = value.text()?;
    mode_named(&text).ok_or_else(|| {
        value.error(
            format!("there is no way of reading ahead {text:?}"),
            "type one of normal, sequential or random",
        )
    })
}

/// A pattern of file names.
pub(super) fn pattern(value: &Value<'_>) -> Result<String, PlanError> {
    let text = name(value)?;
    if text.len() > LONGEST_PATTERN {
        return Err(value.error(
            format!("the pattern has more than {LONGEST_PATTERN} bytes"),
            "type: files = \"*.sst\"",
        ));
    }
    Ok(text)
}
