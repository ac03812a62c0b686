//! Each event as a line of text (RFC 4180, with a header).

use std::io::Write;
use std::sync::Arc;

use csv::Terminator;
use csv::WriterBuilder;

use crate::error::ExportError;
use crate::events::Events;

/// The columns, as documented.
pub(crate) const COLUMNS: &[&str] = &[
    "time_ns",
    "space",
    "pid",
    "tid",
    "kind",
    "address",
    "latency_ns",
    "object",
    "object_kind",
    "name",
    "file",
    "line",
    "function",
    "page",
];

/// What is unknown is an empty field.
pub(crate) fn write(events: &mut Events, out: &mut impl Write) -> Result<(), ExportError> {
    let mut lines = WriterBuilder::new()
        .terminator(Terminator::CRLF)
        .from_writer(out);
    lines.write_record(COLUMNS)?;
    // Names are the same for all events of an object.
    let mut labels: Vec<String> = Vec::new();
    while let Some(located) = events.next()? {
        for object in labels.len()..events.objects() {
            labels.push(events.identity(object).to_string());
        }
        let (event, place) = (&located.event, located.place);
        let identity = events.identity(place.object);
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let text = |value: &Option<Arc<str>>| value.as_deref().unwrap_or_default().to_owned();
        lines.write_record([
            event.time_ns.to_string(),
            event.space.to_string(),
            number(events.pid(event.space).map(u64::from)),
            number(event.tid.map(u64::from)),
            event.kind.as_str().to_owned(),
            event.address.to_string(),
            number(event.latency_ns),
            labels[place.object].clone(),
            identity.kind.name().to_owned(),
            text(&identity.name),
            text(&identity.file),
            number(identity.line.map(u64::from)),
            text(&identity.function),
            number(place.page),
        ])?;
    }
    lines.flush()?;
    Ok(())
}
