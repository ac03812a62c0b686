//! A plan's rules about I/O at the calls that read or write: what a rule says of a call path is said to the kernel at the line where
//! that path leaves the program's own code.

use pagewise_plan::Action;
use pagewise_plan::IoAction;
use pagewise_plan::Rule;
use pagewise_plan::Target;

use crate::annotate::Refusal;
use crate::file_calls::FileCall;
use crate::file_calls::hint;
use crate::file_calls::macro_on_line;
use crate::file_calls::on_line;
use crate::file_calls::own_advice;
use crate::patch::Patch;
use crate::rules::NO_LINE;
use crate::rules::require_same_function;
use crate::source::Source;

/// Gives the calls of this source that rules are about their hints, and returns what is refused.
pub(crate) fn place(patch: &mut Patch<'_>, source: &Source, rules: &[&Rule]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut refuse = |rule: &Rule, why: String| {
        if rule.action != Action::Nothing {
            refusals.push(Refusal {
                line: rule.place.line.map(|line| line as usize),
                why: format!("{}: {why}", rule.name),
            });
        }
    };
    let mut of_calls: Vec<(FileCall<'_>, Vec<&Rule>)> = Vec::new();
    for &rule in rules {
        match call_of(source, rule) {
            Err(why) => refuse(rule, why),
            Ok(call) => {
                let same = |(known, _): &&mut (FileCall<'_>, _)| known.node == call.node;
                match of_calls.iter_mut().find(same) {
                    Some((_, rules)) => rules.push(rule),
                    None => of_calls.push((call, vec![rule])),
                }
            }
        }
    }
    for (call, rules) in of_calls {
        let done = agreed(&rules)
            .and_then(|action| hint_of(source, &call, &action))
            .and_then(|hint| match hint {
                Some(hint) => patch.give_hint(&call, &hint),
                None => Ok(()),
            });
        if let Err(why) = done {
            for rule in rules {
                refuse(rule, format!("{}: {why}", call.by));
            }
        }
    }
    refusals
}

/// The call that a rule means.
fn call_of<'source>(source: &'source Source, rule: &Rule) -> Result<FileCall<'source>, String> {
    let line = rule.place.line.ok_or(NO_LINE)? as usize;
    let mut calls = on_line(source, line);
    let Some(call) = calls.pop() else {
        return Err(match macro_on_line(source, line) {
            Some(name) => format!("{name} is a macro that reads or writes: place the hint in it by hand"),
            None => "nothing on this line reads or writes (read, pread, readv, fread, fgets, getline, write and kin; \
                     not streams of C++, nor libraries that read by themselves): has the source changed since it was \
                     recorded? else leave it to pagewise apply"
                .to_owned(),
        });
    };
    if !calls.is_empty() {
        return Err("several calls on this line read or write: give each a line of its own, and record it again".to_owned());
    }
    require_same_function(source, call.node, rule)?;
    Ok(call)
}

/// What all rules of a line want; a source tells neither call paths nor files apart.
fn agreed(rules: &[&Rule]) -> Result<Action, String> {
    let (first, others) = rules.split_first().ok_or("no rule is about it")?;
    if let Some(other) = others.iter().find(|other| other.action != first.action) {
        return Err(format!(
            "call paths that meet on this line want different things ({} and {}), which only pagewise apply tells apart",
            first.action.name(),
            other.action.name()
        ));
    }
    let pattern = rules.iter().find_map(|rule| match &rule.target {
        Target::Io { files, .. } => files.as_deref(),
        _ => None,
    });
    match pattern {
        Some(pattern) if first.action != Action::Nothing => Err(format!(
            "it is right for files called {pattern} only, which the source does not tell: leave it to pagewise apply"
        )),
        _ => Ok(first.action.clone()),
    }
}

/// `None`: nothing is done.
fn hint_of(
    source: &Source,
    call: &FileCall<'_>,
    action: &Action,
) -> Result<Option<String>, String> {
    if *action == Action::Nothing {
        return Ok(None);
    }
    if let Some(why) = call.why_not(source) {
        return Err(why);
    }
    let own = own_advice(source);
    match (own, action) {
        // How it reads ahead the program says itself; what is used again it does not.
        (Some(_), Action::Io(IoAction::Drop { .. })) => hint(&Action::Io(IoAction::Drop {
            readahead: None,
            again_percent: 0,
        }))
        .map(Some),
        (Some(row), Action::Io(IoAction::Readahead(_) | IoAction::WillNeed { .. })) => {
            Err(format!(
                "line {} says itself how the kernel reads ahead: choose one of both by hand",
                row + 1
            ))
        }
        _ => hint(action).map(Some),
    }
}
