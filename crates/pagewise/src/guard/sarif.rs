//! Errors as SARIF 2.1.0 (OASIS), which code hosts show beside the source.

use pagewise_attribute::Frame;
use serde_json::Value;
use serde_json::json;

use super::findings::Finding;
use super::findings::KINDS;
use super::session::Ran;
use super::text;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The document, with a line's end.
pub(super) fn document(ran: &Ran) -> String {
    let rules: Vec<Value> = KINDS.iter().map(|kind| json!({"id": kind})).collect();
    let results: Vec<Value> = ran.findings.iter().map(result).collect();
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "pagewise guard",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": results,
        }],
    });
    format!("{document:#}\n")
}

fn result(finding: &Finding) -> Value {
    let mut result = json!({
        "ruleId": finding.kind(),
        "level": "error",
        "message": {"text": text::what(finding)},
        "locations": finding.place().and_then(location).into_iter().collect::<Vec<_>>(),
    });
    let stacks: Vec<Value> = [
        ("access or call", &finding.access),
        ("allocation", &finding.allocation),
        ("release", &finding.release),
    ]
    .into_iter()
    .filter(|(_, path)| !path.is_empty())
    .map(|(name, path)| stack(name, path))
    .collect();
    result["stacks"] = Value::Array(stacks);
    if let Some(bytes) = finding.near_text() {
        let address = format!("{:#x}", finding.fault.near_address);
        result["properties"] = json!({"nearAddress": address, "nearBytes": bytes});
    }
    result
}

fn stack(name: &str, path: &[Frame]) -> Value {
    let frames: Vec<Value> = path
        .iter()
        .map(|frame| {
            let mut place = location(frame).unwrap_or_else(|| json!({}));
            let function = frame.function.as_deref().unwrap_or("?");
            place["message"] = json!({ "text": function });
            json!({"location": place, "module": frame.module.as_deref().unwrap_or("?")})
        })
        .collect();
    json!({"message": {"text": name}, "frames": frames})
}

/// Where a frame is in the sources; `None`: it has no line.
fn location(frame: &Frame) -> Option<Value> {
    let (file, line) = (frame.file.as_deref()?, frame.line?);
    Some(json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(file)},
        "region": {"startLine": line.max(1)},
    }}))
}

/// A path as SARIF wants it: relative to the current folder where it is inside, so that hosts find it in the repository.
fn uri(file: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let inside = std::path::Path::new(file).strip_prefix(&here);
    let path = inside.map_or(file.to_owned(), |path| path.to_string_lossy().into_owned());
    let mut uri = String::with_capacity(path.len());
    if path.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into())
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_what_sarif_wants() {
        assert_eq!(uri("/nowhere/a file.c"), "file:///nowhere/a%20file.c");
        assert_eq!(uri("src/main.c"), "src/main.c");
        let here = std::env::current_dir().expect("there is one");
        assert_eq!(uri(&here.join("x.c").to_string_lossy()), "x.c");
    }
}
