//! A plan's rules at the lines that allocate; those about I/O are in `io_rules`.

use pagewise_attribute::simple_name;
use pagewise_plan::Rule;
use pagewise_plan::Target;
use tree_sitter::Node;

use crate::allocator::Allocation;
use crate::annotate::Annotated;
use crate::annotate::Refusal;
use crate::annotate::allocations;
use crate::binding::Binding;
use crate::binding::bind;
use crate::binding::kept_in;
use crate::binding::name_around;
use crate::calls;
use crate::container::grows_as_filled;
use crate::declared::Declared;
use crate::declared::why_scattered;
use crate::expression::function_around;
use crate::io_rules;
use crate::patch::Patch;
use crate::source::Source;
use crate::source::ancestors;
use crate::source::descendants;

/// Places the calls of rules that act ([`pagewise_plan::Plan::acting_rules`]) on objects that this source allocates, and the hints of
/// rules about I/O. Of the latter also those that do nothing must be given: their calls may be by the same line.
pub fn from_plan(source: &Source, rules: &[&Rule]) -> Annotated {
    let mut patch = Patch::new(source);
    let declared = Declared::read(source);
    let allocations = allocations(source, &declared);
    let mut whole = Vec::new();
    let is_io = |rule: &&&Rule| matches!(rule.target, Target::Io { .. });
    let (of_io, of_memory): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(is_io);
    for refusal in io_rules::place(&mut patch, source, &of_io) {
        match refusal.line {
            Some(line) => patch.refuse_line(line - 1, refusal.why),
            None => whole.push(refusal),
        }
    }
    for rule in of_memory {
        if let Err(why) = place(&mut patch, source, &declared, &allocations, rule) {
            let why = format!("{}: {why}", rule.name);
            match rule.place.line {
                Some(line) => patch.refuse_line((line as usize).saturating_sub(1), why),
                None => whole.push(Refusal { line: None, why }),
            }
        }
    }
    let mut annotated = patch.finish();
    annotated.refusals.splice(0..0, whole);
    annotated
}

pub(crate) const NO_LINE: &str =
    "the plan does not tell its line: build the program with -g, and record and plan again";

/// What to do about a rule for which the plan tells no source, as about a variable or the heap.
pub fn without_source(rule: &Rule) -> String {
    let no_file = || {
        "the plan does not tell in which file it is: build the program with -g, and record and plan again; else apply the \
         plan to the program in place of a patch"
            .to_owned()
    };
    why_without_line(rule).unwrap_or_else(no_file)
}

/// Why no line at all has a call.
fn why_without_line(rule: &Rule) -> Option<String> {
    match &rule.target {
        Target::Global { symbol, .. } => Some(format!(
            "it is a variable: write pagewise_lock(&{symbol}, sizeof {symbol}); where the program starts"
        )),
        Target::Heap { .. } => Some(
            "it is the heap, which no line allocates: apply the plan to the program in place of a patch"
                .to_owned(),
        ),
        _ => None,
    }
}

fn place(
    patch: &mut Patch<'_>,
    source: &Source,
    declared: &Declared,
    allocations: &[Allocation<'_>],
    rule: &Rule,
) -> Result<(), String> {
    if let Some(why) = why_without_line(rule) {
        return Err(why);
    }
    let line = rule.place.line.ok_or(NO_LINE)?;
    let (allocation, binding) = at_line(source, declared, allocations, rule, line as usize)?;
    let calls = calls::of_rule(rule, &binding)?;
    patch.insert(allocation, &binding, calls);
    Ok(())
}

/// The allocation that a rule means.
fn at_line<'list, 'tree>(
    source: &Source,
    declared: &Declared,
    allocations: &'list [Allocation<'tree>],
    rule: &Rule,
    line: usize,
) -> Result<(&'list Allocation<'tree>, Binding<'tree>), String> {
    let here: Vec<&Allocation<'_>> = allocations
        .iter()
        .filter(|allocation| is_on(allocation.node, line))
        .collect();
    let first = here
        .first()
        .ok_or_else(|| why_nothing(source, declared, line))?;
    require_same_function(source, first.node, rule)?;
    if let [only] = here[..] {
        require_same_variable(source, only, rule)?;
        let binding = bind(source, declared, only).map_err(|why| format!("{}: {why}", only.by))?;
        return Ok((only, binding));
    }
    one_of_several(source, declared, &here, variable_of(rule))
}

/// The allocation that is kept in a variable. Also that which no call can follow counts: the memory of another must not
/// be taken for it.
fn one_of_several<'list, 'tree>(
    source: &Source,
    declared: &Declared,
    here: &[&'list Allocation<'tree>],
    variable: &str,
) -> Result<(&'list Allocation<'tree>, Binding<'tree>), String> {
    let mut called_so: Vec<(&Allocation<'_>, Result<Binding<'_>, String>)> = Vec::new();
    for allocation in here {
        let bound = bind(source, declared, allocation);
        let name = match &bound {
            Ok(binding) => Some(binding.name.clone()),
            Err(_) => name_around(source, allocation),
        };
        if name.as_deref() == Some(variable) {
            called_so.push((allocation, bound));
        }
    }
    match (called_so.len(), called_so.pop()) {
        (1, Some((allocation, Ok(binding)))) => Ok((allocation, binding)),
        (1, Some((allocation, Err(why)))) => Err(format!("{}: {why}", allocation.by)),
        (0, _) => Err(format!(
            "several allocations on this line, and not one is called {variable}: give each a line of its own, and record \
             and plan again"
        )),
        _ => Err(format!(
            "several allocations on this line are called {variable}: give each a line of its own, and record and plan again"
        )),
    }
}

/// Recordings call an object `name (file:line)`.
fn variable_of(rule: &Rule) -> &str {
    rule.name.split(" (").next().unwrap_or_default()
}

/// The name of what is allocated may have changed since, but not to that of another variable on the line that is given
/// something, perhaps by a macro or a function that allocates.
fn require_same_variable(
    source: &Source,
    allocation: &Allocation<'_>,
    rule: &Rule,
) -> Result<(), String> {
    let variable = variable_of(rule);
    if name_around(source, allocation).as_deref() == Some(variable) {
        return Ok(());
    }
    let row = allocation.node.start_position().row;
    let own = |node: Node<'_>| node.byte_range().contains(&allocation.node.start_byte());
    let is_another = |node: &Node<'_>| {
        let value = node
            .child_by_field_name("value")
            .or_else(|| node.child_by_field_name("right"));
        matches!(node.kind(), "init_declarator" | "assignment_expression")
            && node.start_position().row == row
            && !own(*node)
            && value.is_some_and(|value| {
                descendants(value).any(|part| part.kind() == "call_expression")
            })
            && kept_in(source, *node).as_deref() == Some(variable)
    };
    match descendants(source.root()).any(|node| is_another(&node)) {
        true => Err(format!(
            "{variable} is given something on this line that is not known to allocate: place the call by hand"
        )),
        false => Ok(()),
    }
}

/// Why no call can be placed on a line on which nothing is found that allocates.
fn why_nothing(source: &Source, declared: &Declared, line: usize) -> String {
    let mut scattered = declared.scattered.iter();
    if let Some((_, kind)) = scattered.find(|(row, _)| row + 1 == line) {
        return why_scattered(kind);
    }
    let growing = |node| grows_as_filled(source, node).filter(|_| is_on(node, line));
    match descendants(source.root()).find_map(growing) {
        Some(name) => format!(
            "{name} fills a container: the memory of a vector or string moves as it grows, so call reserve before, and \
             record and plan again; one that keeps its elements in blocks of their own (list, map, deque) has no call: \
             apply the plan to the program in place of a patch"
        ),
        None => "nothing on this line allocates (malloc and kin, new, mmap, a container): has the source changed since \
                 it was recorded? else place the call by hand"
            .to_owned(),
    }
}

/// Whether a node is in the function that a rule says, as far as both can be told.
pub(crate) fn require_same_function(
    source: &Source,
    node: Node<'_>,
    rule: &Rule,
) -> Result<(), String> {
    let now = function_around(source, node);
    match (now, rule.place.function.as_deref().and_then(named)) {
        (Some(now), Some(then)) if now != then => Err(format!(
            "this line is in {now}, and was in {then} when it was recorded: record it again"
        )),
        _ => Ok(()),
    }
}

/// Whether the statement that a node is in reaches over a line.
fn is_on(node: Node<'_>, line: usize) -> bool {
    let statement = ancestors(node).find(|node| {
        matches!(
            node.kind(),
            "expression_statement" | "declaration" | "return_statement" | "field_initializer"
        )
    });
    let node = statement.unwrap_or(node);
    (node.start_position().row..=node.end_position().row).contains(&(line.saturating_sub(1)))
}

/// A function's name without scope, parameters and template arguments; `None`: it has none, as lambdas do.
fn named(function: &str) -> Option<String> {
    let is_lambda = ["{lambda", "'lambda"]
        .iter()
        .any(|word| function.contains(word));
    (!is_lambda).then(|| simple_name(function)).flatten()
}
