//! Frames and call paths.

use pagewise_analyze::FaultPath;
use pagewise_analyze::ObjectFrame;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct JsonFrame<'a> {
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    module: Option<&'a str>,
    module_offset: Option<u64>,
    inlined: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct JsonFaultPath<'a> {
    swap_ins: u64,
    stall_ns: u64,
    path: Vec<JsonFrame<'a>>,
}

impl<'a> JsonFaultPath<'a> {
    pub(super) fn new(path: &'a FaultPath) -> Self {
        Self {
            swap_ins: path.swap_ins,
            stall_ns: path.stall_ns,
            path: path
                .frames
                .iter()
                .map(|frame| JsonFrame::new(frame))
                .collect(),
        }
    }
}

impl<'a> JsonFrame<'a> {
    pub(super) fn new(frame: &'a ObjectFrame) -> Self {
        Self {
            function: frame.function.as_deref(),
            file: frame.file.as_deref(),
            line: frame.line,
            module: frame.module.as_deref(),
            module_offset: frame.module_offset,
            inlined: frame.inlined,
        }
    }
}
