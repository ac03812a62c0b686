//! How files were used, on the page: from recordings made by hand.

use pagewise_analyze::analyze;
use pagewise_analyze::file_io::analyze_file_io;
use pagewise_report::html;
use pagewise_trace::Frame;
use pagewise_trace::IoCall;
use pagewise_trace::IoCallKind;
use pagewise_trace::IoDirection;
use pagewise_trace::IoFile;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::Trace;
use pagewise_trace::TraceWriter;
use serde_json::Value;

const HOSTILE: &str = "</script><img src=x onerror=alert(2)>\"'&";

fn page_of(sensor: &str, fill: impl FnOnce(&mut TraceWriter)) -> String {
    let mut meta = Meta::default();
    meta.sensors.insert("io".to_owned(), sensor.to_owned());
    page_with(meta, fill)
}

fn page_with(meta: Meta, fill: impl FnOnce(&mut TraceWriter)) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("trace");
    let mut writer = TraceWriter::create(&dir, meta, Overwrite::Refuse).expect("a trace");
    fill(&mut writer);
    writer.close().expect("closed");
    let trace = Trace::open(&dir).expect("opened");
    let findings = analyze(&trace).expect("analysed");
    let io = analyze_file_io(&trace).expect("analysed");
    let mut out = Vec::new();
    html::write(&trace, findings, io.as_ref(), &[], &mut out).expect("written");
    String::from_utf8(out).expect("UTF-8")
}

fn model(page: &str) -> Value {
    let begin = page.find("id=\"model\">").expect("a model") + "id=\"model\">".len();
    let end = begin + page[begin..].find("</script>").expect("its end");
    serde_json::from_str(&page[begin..end]).expect("JSON")
}

/// A scan of 16 pages, and as many reads of a page here and there.
fn scan_and_look_up(writer: &mut TraceWriter, name: &str) {
    for (stack, function) in [(10, name), (11, "look_up")] {
        let frame = Frame {
            stack,
            depth: 0,
            inline_index: 0,
            function: Some(function.to_owned()),
            file: Some("program.c".to_owned()),
            line: Some(stack),
            module: Some("/opt/program".to_owned()),
            inlined: false,
        };
        writer.frames.push(frame).expect("pushed");
    }
    let file = IoFile {
        time_ns: 0,
        file: 1,
        space: 1,
        major: 8,
        minor: 1,
        inode: 4,
        generation: 0,
        bytes: 64 << 10,
        filesystem: "ext4".to_owned(),
        path: Some(format!("/data/{name}")),
        unlinked: false,
    };
    writer.io_files.push(file).expect("pushed");
    for number in 0..16u64 {
        for (stack, page) in [(10, number), (11, number * 7 % 4)] {
            let call = IoCall {
                time_ns: 1000 + number * 10 + u64::from(stack),
                space: 1,
                tid: stack,
                call: IoCallKind::Pread,
                direction: IoDirection::Read,
                file: Some(1),
                direct: false,
                offset: Some(page * 4096),
                bytes: Some(4096),
                error: None,
                latency_ns: 2000,
                cached_bytes: Some(0),
                ahead_bytes: Some(0),
                stack: Some(stack),
            };
            writer.io_calls.push(call).expect("pushed");
        }
    }
}

#[test]
fn contexts_and_files_are_there_without_scripts() {
    let page = page_of("on", |writer| scan_and_look_up(writer, "scan"));
    let text = page.split("<script").next().expect("the body");
    for expected in [
        "32 calls read 128 KiB and wrote 0 B, 1 files, by 2 call paths.",
        "read by scan (program.c:10)",
        "<td>SEQUENTIAL</td>",
        "runs of 16.0 calls",
        "They want different things. read by scan 64 KiB: SEQUENTIAL; read by look_up 64 KiB: RANDOM WILLNEED",
        "<title>4.0 KiB from 0 B: 20 KiB read</title>",
    ] {
        assert!(page.contains(expected), "{expected}: {text}");
    }
    assert_eq!(page.matches("<rect class=\"read\"").count(), 16);
    assert_eq!(page.matches("<rect class=\"written\"").count(), 0);
    let io = &model(&page)["io"];
    assert_eq!(io["paths"].as_array().map(Vec::len), Some(2));
    let sum = |key: &str| -> u64 {
        let paths = io["paths"].as_array().expect("paths").iter();
        paths
            .map(|path| path[key].as_u64().expect("a number"))
            .sum()
    };
    assert_eq!((sum("bytes"), sum("latency_ns")), (128 << 10, 64_000));
}

#[test]
fn hostile_names_of_files_and_functions_stay_text() {
    let page = page_of("on", |writer| scan_and_look_up(writer, HOSTILE));
    assert!(!page.contains("<img"), "a name became markup");
    assert!(page.contains("/data/&lt;/script&gt;&lt;img"));
    assert_eq!(model(&page)["io"]["frames"][0]["name"], HOSTILE);
}

#[test]
fn who_else_pages_out_is_told() {
    let seen = "DAMON (kdamond.0) pages out what was hardly used for 60 s";
    let mut meta = Meta::default();
    meta.host.page_out = Some(vec![seen.to_owned()]);
    let page = page_with(meta, |_| {});
    assert!(page.contains(&format!("<li class=\"loss\">{seen}: evictions,")));
}

#[test]
fn what_was_not_recorded_has_no_section() {
    let page = page_of("off", |_| {});
    assert!(!page.contains("id=\"io-section\"") && model(&page)["io"].is_null());
    let page = page_of("on", |_| {});
    assert!(page.contains("No regular file was read or written."));
    assert!(model(&page)["io"].is_null());
}
