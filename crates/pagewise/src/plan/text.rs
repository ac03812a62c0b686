//! The advice in a terminal.

use pagewise_advise::Advice;
use pagewise_plan::Action;
use pagewise_plan::CurvePoint;
use pagewise_plan::IoAction;
use pagewise_plan::Prediction;
use pagewise_plan::Rule;
use pagewise_report::bytes;
use pagewise_report::count;
use pagewise_report::duration;
use pagewise_report::text::Style;

/// What to do, what it promises, and why.
pub(super) fn render(advice: &Advice, style: Style) -> String {
    let plan = &advice.plan;
    let mut text = format!(
        "{}\n",
        style.bold(&format!(
            "For {} of memory: {}.",
            bytes(plan.memory.bytes),
            advice.words
        ))
    );
    if advice.plan.does_something() {
        text.push_str(&format!("Predicted: {}.\n", promises(advice)));
    }
    for rule in plan.acting_rules() {
        text.push_str(&entry(
            rule.action.name(),
            &style.clean(&rule.name),
            &rule.why,
            style,
        ));
        if let Some(details) = details(rule) {
            text.push_str(&format!("  {details}\n"));
        }
        if let Some(predicted) = rule.predicted {
            text.push_str(&format!("  alone: {}\n", promise(&predicted)));
        }
    }
    for (why, names) in left_alone(&plan.rules) {
        let names: Vec<_> = names.into_iter().map(|name| style.clean(name)).collect();
        text.push_str(&entry(
            Action::Nothing.name(),
            &names.join("\n         "),
            why,
            style,
        ));
    }
    text.push_str(&curve(&plan.curve, style));
    for (name, why) in &advice.unnamed {
        text.push_str(&format!("\nNo rule for {}: {why}\n", style.clean(name)));
    }
    text
}

fn entry(action: &str, names: &str, why: &str, style: Style) -> String {
    format!("\n{}  {names}\n  why: {why}\n", style.bold(action))
}

/// What the plan does nothing about, by the reason, in the plan's order.
fn left_alone(rules: &[Rule]) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for rule in rules.iter().filter(|rule| rule.action == Action::Nothing) {
        match found.iter_mut().find(|(why, _)| *why == rule.why) {
            Some((_, names)) => names.push(&rule.name),
            None => found.push((&rule.why, vec![&rule.name])),
        }
    }
    found
}

/// Of recordings with no looks at accessed bits, or too few.
const UNSEEN: &str = "\
or more: how often what stayed in memory is used was not looked at, or too seldom, and with less of it
there may be many times as many; to know, record as root with the sensor spots, a run of some seconds or
more, or with --access=0.1 --access-cost=2
";

/// What other sizes of memory would bring, without the plan.
fn curve(points: &[CurvePoint], style: Style) -> String {
    if points.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", style.bold("Without a plan, as predicted:"));
    text.push_str("     memory     swap-ins      time  swap-ins may be\n");
    for point in points {
        let interval = match (point.swap_ins_low, point.swap_ins_high) {
            (Some(low), Some(high)) => format!("{} to {}", count(low), count(high)),
            (Some(low), None) => format!("{} or more", count(low)),
            (None, _) => "?".to_owned(),
        };
        text.push_str(&format!(
            "{:>11}  {:>11}  {:>8}  {interval}\n",
            bytes(point.memory_bytes),
            count(point.swap_ins),
            point.wall_ns.map_or_else(|| "?".to_owned(), duration),
        ));
    }
    if points.iter().any(|point| point.swap_ins_high.is_none()) {
        text.push_str(UNSEEN);
    }
    text
}

/// Of all rules together.
fn promises(advice: &Advice) -> String {
    let is_io = |rule: &Rule| matches!(rule.action, Action::Io(_));
    let rules = || advice.plan.acting_rules();
    let (has_io, has_memory) = (rules().any(is_io), !rules().all(is_io));
    match advice.predicted.filter(|_| has_memory || !has_io) {
        Some(predicted) if has_io => format!(
            "{}, what hints for input and output bring left out",
            promise(&predicted)
        ),
        Some(predicted) => promise(&predicted),
        None => {
            "nothing, as what hints for input and output bring is seen by trying only".to_owned()
        }
    }
}

fn promise(predicted: &Prediction) -> String {
    format!(
        "{:.2} times as fast ({:.2} to {:.2})",
        predicted.speedup, predicted.low, predicted.high
    )
}

fn details(rule: &Rule) -> Option<String> {
    match &rule.action {
        Action::Stream {
            keep_bytes: Some(keep),
            keep_more: true,
            ..
        }
        | Action::Lock {
            keep_bytes: Some(keep),
            keep_more: true,
            ..
        } => Some(format!(
            "kept in memory: {}, and more where that saves more swap-ins than it costs",
            bytes(*keep)
        )),
        Action::Stream {
            keep_bytes: Some(keep),
            ..
        }
        | Action::Lock {
            keep_bytes: Some(keep),
            ..
        } => Some(format!("kept in memory: {}", bytes(*keep))),
        Action::Io(IoAction::Keep {
            keep_bytes: Some(keep),
        }) => Some(format!("kept in the page cache: {}", bytes(*keep))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_plan::SourcePlace;
    use pagewise_plan::Target;
    use pagewise_report::text::ColorChoice;

    #[test]
    fn what_is_left_alone_for_one_reason_is_one_entry() {
        let rule = |name: &str, action, why: &str| Rule {
            objects: None,
            name: name.to_owned(),
            place: SourcePlace::default(),
            target: Target::Global {
                module: "program".to_owned(),
                symbol: name.to_owned(),
                bytes: None,
                module_offset: None,
            },
            action,
            why: why.to_owned(),
            predicted: None,
        };
        let rules = [
            rule("a", Action::Nothing, "too little"),
            rule("b", Action::Cold, "unused"),
            rule("c", Action::Nothing, "once"),
            rule("d", Action::Nothing, "too little"),
        ];
        let expected = vec![("too little", vec!["a", "d"]), ("once", vec!["c"])];
        assert_eq!(left_alone(&rules), expected);
    }

    #[test]
    fn how_many_swap_ins_at_most_is_not_known_where_nobody_looked() {
        let point = |swap_ins_high| CurvePoint {
            memory_bytes: 64 << 20,
            swap_ins: 4000,
            swap_ins_low: Some(3000),
            swap_ins_high,
            wall_ns: None,
        };
        let style = Style::of_stdout(ColorChoice::Never);
        let known = curve(&[point(Some(5000))], style);
        assert!(known.ends_with("  3,000 to 5,000\n"), "{known}");
        let unknown = curve(&[point(None), point(Some(5000))], style);
        assert!(unknown.contains("  3,000 or more\n"), "{unknown}");
        assert!(unknown.ends_with(UNSEEN), "{unknown}");
    }
}
