//! From text to a plan.

use std::collections::HashMap;
use std::path::Path;

use toml::de::DeTable;

use super::rule;
use super::table::Document;
use super::table::Table;
use super::table::Value;
use crate::SCHEMA;
use crate::error::PlanError;
use crate::model::CurvePoint;
use crate::model::Fresh;
use crate::model::HeadwayPoint;
use crate::model::LEAST_PREZERO_RATE;
use crate::model::MOST_HEADWAY;
use crate::model::Memory;
use crate::model::Plan;
use crate::model::Program;
use crate::model::Rule;

const SCHEMA_NAME: &str = "pagewise.plan/";

pub(super) fn plan(text: &str, path: &Path) -> Result<Plan, PlanError> {
    let document = Document { text, path };
    let parsed = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let what = error.message().lines().collect::<Vec<_>>().join(" ");
        let remedy = match text.trim_start().starts_with('{') {
            true => "this is JSON, and a plan is TOML: name what pagewise plan wrote with -o",
            false => "see https://toml.io for its grammar",
        };
        document.error(offset, "TOML", what, remedy)
    })?;
    let mut root = Table::of_document(document, &parsed);
    // First: of a newer form, all else may differ.
    require_schema(&root.need("schema", &format!("schema = \"{SCHEMA}\""))?)?;
    let program = program(
        root.need("program", "[program] and executable = \"...\" below it")?
            .table()?,
    )?;
    let memory = memory(
        root.need("memory", "[memory] and bytes = 201326592 below it")?
            .table()?,
    )?;
    let rules = match root.get("rule") {
        Some(value) => rules(&value)?,
        None => Vec::new(),
    };
    let curve = match root.get("curve") {
        Some(value) => value
            .list()?
            .iter()
            .map(curve_point)
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let headway = match root.get("headway") {
        Some(value) => headway(value.table()?)?,
        None => Vec::new(),
    };
    let files = match root.get("io") {
        Some(value) => files(value.table()?)?,
        None => Vec::new(),
    };
    root.finish()?;
    Ok(Plan {
        program,
        memory,
        rules,
        curve,
        headway,
        files,
    })
}

fn require_schema(value: &Value<'_>) -> Result<(), PlanError> {
    let schema = value.text()?;
    if schema == SCHEMA {
        return Ok(());
    }
    let version = schema.strip_prefix(SCHEMA_NAME);
    if version.is_some_and(|version| version.parse::<u32>().is_ok_and(|version| version > 1)) {
        return Err(value.error(
            format!("{schema:?} is newer than this pagewise, which reads {SCHEMA}"),
            "update pagewise, or make the plan anew with pagewise plan",
        ));
    }
    Err(value.error(
        format!("{schema:?} is no plan's"),
        format!("type: schema = \"{SCHEMA}\""),
    ))
}

fn program(mut table: Table<'_>) -> Result<Program, PlanError> {
    let executable = table.need("executable", "executable = \"/usr/bin/...\"")?;
    let build_id = table.get("build_id");
    let arguments = match table.get("arguments") {
        Some(value) => value
            .list()?
            .iter()
            .map(Value::text)
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let modules = match table.get("modules") {
        Some(value) => value
            .list()?
            .iter()
            .map(rule::name)
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    table.finish()?;
    Ok(Program {
        executable: rule::name(&executable)?,
        build_id: build_id.as_ref().map(rule::build_id).transpose()?,
        arguments,
        modules,
    })
}

fn memory(mut table: Table<'_>) -> Result<Memory, PlanError> {
    let bytes = table.need("bytes", "bytes = 201326592")?.needed_size()?;
    let peak_bytes = table
        .get("peak_bytes")
        .map(|value| value.size())
        .transpose()?;
    let lock = table.get("lock_bytes");
    let fresh = table.get("fresh").map(|value| fresh(&value)).transpose()?;
    let prezero_rate = table
        .get("prezero_rate")
        .map(|value| prezero_rate(&value))
        .transpose()?;
    table.finish()?;
    let lock_bytes = lock.as_ref().map(Value::size).transpose()?;
    if let Some((value, _)) = lock
        .as_ref()
        .zip(lock_bytes)
        .filter(|&(_, most)| most >= bytes)
    {
        return Err(value.error(
            format!("locking all of the {bytes} bytes of memory leaves none for the rest"),
            format!("type: lock_bytes = {}", bytes / 4 * 3),
        ));
    }
    Ok(Memory {
        bytes,
        peak_bytes,
        lock_bytes,
        fresh,
        prezero_rate,
    })
}

fn prezero_rate(value: &Value<'_>) -> Result<u64, PlanError> {
    let rate = value.size()?;
    match rate >= LEAST_PREZERO_RATE {
        true => Ok(rate),
        false => Err(value.error(
            format!(
                "{rate} bytes a second are less than one huge page each time that there is a look"
            ),
            format!("type: prezero_rate = {LEAST_PREZERO_RATE}"),
        )),
    }
}

fn fresh(value: &Value<'_>) -> Result<Fresh, PlanError> {
    let text = value.text()?;
    let mut all = Fresh::ALL.into_iter();
    all.find(|fresh| fresh.name() == text).ok_or_else(|| {
        value.error(
            format!("fresh memory cannot be {text:?}"),
            "type: fresh = \"huge\" or fresh = \"prezero\"",
        )
    })
}

fn rules(value: &Value<'_>) -> Result<Vec<Rule>, PlanError> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut seen = HashMap::new();
    for value in value.list()? {
        let rule = rule::rule(value.table()?)?;
        if let Some(other) = seen.insert(rule.target.clone(), rules.len()) {
            return Err(value.error(
                format!("rule {} is about the same object", other + 1),
                "remove one of the two",
            ));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn files(mut table: Table<'_>) -> Result<Vec<String>, PlanError> {
    let files = table.need("files", "files = [\"/data/file.db\"]")?;
    table.finish()?;
    files.list()?.iter().map(rule::name).collect()
}

fn headway(mut table: Table<'_>) -> Result<Vec<HeadwayPoint>, PlanError> {
    let example = "points = [[10, 0], [20, 1500]]";
    let points = table.need("points", example)?;
    table.finish()?;
    let pairs = points.list()?;
    if pairs.len() > MOST_HEADWAY {
        let remedy = "make the plan anew with pagewise plan";
        return Err(points.error(format!("has more than {MOST_HEADWAY} points"), remedy));
    }
    let mut found: Vec<HeadwayPoint> = Vec::new();
    for pair in &pairs {
        let numbers = pair.list()?;
        let [user_ms, major_faults] = &numbers[..] else {
            return Err(pair.error(
                "user time in ms and major faults by then",
                format!("type: {example}"),
            ));
        };
        let point = HeadwayPoint {
            user_ms: user_ms.number()?,
            major_faults: major_faults.number()?,
        };
        let is_less = |before: &HeadwayPoint| {
            before.user_ms > point.user_ms || before.major_faults > point.major_faults
        };
        if found.last().is_some_and(is_less) {
            return Err(pair.error("points ascend", format!("type: {example}")));
        }
        found.push(point);
    }
    Ok(found)
}

fn curve_point(value: &Value<'_>) -> Result<CurvePoint, PlanError> {
    let mut table = value.table()?;
    let mut number = |name| table.get(name).map(|value| value.number()).transpose();
    let (swap_ins_low, swap_ins_high) = (number("swap_ins_low")?, number("swap_ins_high")?);
    let wall_ns = number("wall_ns")?;
    let point = CurvePoint {
        memory_bytes: table
            .need("memory_bytes", "memory_bytes = 201326592")?
            .needed_size()?,
        swap_ins: table.need("swap_ins", "swap_ins = 100000")?.number()?,
        swap_ins_low,
        swap_ins_high,
        wall_ns,
    };
    table.finish()?;
    Ok(point)
}
