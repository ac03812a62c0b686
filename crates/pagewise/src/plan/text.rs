//! The advice in a terminal.

use pagewise_advise::Advice;
use pagewise_plan::Action;
use pagewise_plan::CurvePoint;
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
        text.push_str(&format!("Predicted: {}.\n", promise(&advice.predicted)));
    }
    for rule in &plan.rules {
        text.push_str(&format!(
            "\n{}  {}\n",
            style.bold(rule.action.name()),
            style.clean(&rule.name)
        ));
        text.push_str(&format!("  why: {}\n", rule.why));
        if let Some(details) = details(rule) {
            text.push_str(&format!("  {details}\n"));
        }
        if let Some(predicted) = rule.predicted.filter(|_| rule.action != Action::Nothing) {
            text.push_str(&format!("  alone: {}\n", promise(&predicted)));
        }
    }
    text.push_str(&curve(&plan.curve, style));
    for (name, why) in &advice.unnamed {
        text.push_str(&format!("\nNo rule for {}: {why}\n", style.clean(name)));
    }
    text
}

/// What other sizes of memory would bring, without the plan.
fn curve(points: &[CurvePoint], style: Style) -> String {
    if points.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", style.bold("Without a plan, as predicted:"));
    text.push_str("     memory     swap-ins      time\n");
    for point in points {
        text.push_str(&format!(
            "{:>11}  {:>11}  {:>8}\n",
            bytes(point.memory_bytes),
            count(point.swap_ins),
            duration(point.wall_ns)
        ));
    }
    text
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
            ..
        }
        | Action::Lock {
            keep_bytes: Some(keep),
            ..
        } => Some(format!("kept in memory: {}", bytes(*keep))),
        _ => None,
    }
}
