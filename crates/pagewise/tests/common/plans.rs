//! Plans for programs that are compiled here.

use std::fs;
use std::path::Path;

use pagewise_plan::Frame;
use pagewise_plan::Memory;
use pagewise_plan::ModuleFile;
use pagewise_plan::Plan;
use pagewise_plan::Program;
use pagewise_plan::Rule;

/// Bytes of a function's code that are searched for a call.
const MOST_CODE: u64 = 128;

/// Writes `plan.toml` for a program, beside it.
pub(crate) fn write_plan(program: &Path, rules: Vec<Rule>) {
    let file = ModuleFile::read(program).expect("an ELF file");
    let plan = Plan {
        program: Program {
            executable: program.display().to_string(),
            build_id: file.build_id().map(str::to_owned),
            arguments: Vec::new(),
            modules: Vec::new(),
        },
        memory: Memory {
            bytes: 1 << 30,
            peak_bytes: None,
            lock_bytes: None,
            fresh: None,
            prezero_rate: None,
        },
        rules,
        curve: Vec::new(),
        headway: Vec::new(),
        files: Vec::new(),
    };
    let text = plan.to_toml().expect("a plan");
    fs::write(program.with_file_name("plan.toml"), text).expect("written");
}

/// The return address of the first call in a function.
pub(crate) fn call_in(file: &ModuleFile, function: &str) -> Frame {
    let is_start = |frame: &Frame| frame.function == Some((function.to_owned(), 1));
    let start = (0..0x10000)
        .filter_map(|address| file.frame(address))
        .find(is_start);
    let start = start.expect("it is there").module_offset - 1;
    let at = |offset| Frame {
        module: file.name().to_owned(),
        build_id: None,
        function: Some((function.to_owned(), offset)),
        module_offset: start + offset,
    };
    let mut calls = (5..MOST_CODE)
        .map(at)
        .filter(|frame| file.resolve(frame).is_ok());
    calls.next().expect("it calls")
}
