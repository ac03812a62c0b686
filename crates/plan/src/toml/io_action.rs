//! What a rule does about I/O calls, from TOML.

use super::rule::name;
use super::rule::not_of;
use super::table::Table;
use super::table::Value;
use crate::error::PlanError;
use crate::model::Action;
use crate::model::IoAction;
use crate::model::Readahead;

const ACTIONS: &str =
    "sequential, random, normal, ahead, willneed, drop, dontcache, keep or nothing";
/// The longest pattern that the preloaded library takes, bytes.
const LONGEST_PATTERN: usize = 120;

pub(super) fn action(table: &mut Table<'_>) -> Result<Action, PlanError> {
    let value = table.need("action", "action = \"drop\"")?;
    let burst = table.get("burst_bytes");
    let readahead = table.get("readahead");
    let keep = table.get("keep_bytes");
    let ahead = table.get("readahead_bytes");
    let name = value.text()?;
    let is_known = ["nothing", "drop", "dontcache", "willneed", "keep"].contains(&name.as_str());
    let ahead_bytes = ahead.as_ref().map(Value::size).transpose()?;
    if !is_known && mode_named(&name, ahead_bytes).is_none() {
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
    let is_dropped = matches!(name.as_str(), "drop" | "dontcache");
    if let Some(value) = readahead.as_ref().filter(|_| !is_dropped) {
        return Err(not_of(value, &name));
    }
    let readahead = readahead
        .as_ref()
        .map(|value| mode(value, ahead_bytes))
        .transpose()?;
    let has_size = name == "ahead" || matches!(readahead, Some(Readahead::Ahead(_)));
    if let Some(value) = ahead.as_ref().filter(|_| !has_size) {
        return Err(not_of(value, &name));
    }
    if name == "dontcache" && has_size {
        return Err(value.error(
            "what is asked for ahead comes into the page cache, and dontcache leaves nothing there",
            "write action = \"drop\", or another readahead",
        ));
    }
    let action = match name.as_str() {
        "nothing" => return Ok(Action::Nothing),
        "drop" => IoAction::Drop { readahead },
        "dontcache" => IoAction::DontCache { readahead },
        "keep" => IoAction::Keep {
            keep_bytes: keep.as_ref().map(Value::size).transpose()?,
        },
        "willneed" => IoAction::WillNeed {
            burst_bytes: match burst {
                Some(value) => value.size()?,
                None => {
                    return Err(value.error(
                        "willneed asks for runs as a whole, and must know how long they are",
                        "add: burst_bytes = 65536",
                    ));
                }
            },
        },
        _ => IoAction::Readahead(mode(&value, ahead_bytes)?),
    };
    Ok(Action::Io(action))
}

/// `ahead_bytes`: as the rule gives them; without, any will do to know the name.
fn mode_named(name: &str, ahead_bytes: Option<u64>) -> Option<Readahead> {
    let ahead = Readahead::Ahead(ahead_bytes.unwrap_or(0));
    let mut all = Readahead::WITHOUT_SIZE.into_iter().chain([ahead]);
    all.find(|mode| mode.name() == name)
}

fn mode(value: &Value<'_>, ahead_bytes: Option<u64>) -> Result<Readahead, PlanError> {
    let text = value.text()?;
    match mode_named(&text, ahead_bytes) {
        Some(Readahead::Ahead(_)) if ahead_bytes.is_none() => Err(value.error(
            "who asks for what lies ahead must know how far",
            "add: readahead_bytes = 4194304",
        )),
        Some(mode) => Ok(mode),
        None => Err(value.error(
            format!("there is no way of reading ahead {text:?}"),
            "type one of normal, sequential, random or ahead",
        )),
    }
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
