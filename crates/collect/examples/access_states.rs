//! Does the walk see what is in the page tables? Puts memory of its own into known states, walks its own page tables and
//! compares each page. Prints `PASS ...`, or what is wrong and exits with 1.
//! usage: access_states [--accessed]
//!
//! With `--accessed`, accessed bits too: emulated processors do not set them again after they were cleared.

use std::process::ExitCode;

use pagewise_collect::access::clear_accessed;

#[path = "../tests/states/mod.rs"]
mod states;

fn main() -> ExitCode {
    let accessed = std::env::args().any(|argument| argument == "--accessed");
    match check(accessed) {
        Ok(text) => {
            println!("PASS {text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("FAIL {text}");
            ExitCode::FAILURE
        }
    }
}

fn check(accessed: bool) -> Result<String, String> {
    let mut walker = states::Walker::new()?;
    let mut told = vec![states::page_states(&mut walker)?];
    told.push(states::huge_pages(&mut walker)?);
    told.push(states::holes(&mut walker)?);
    if accessed {
        told.push(states::accessed_pages(&mut walker, || {
            clear_accessed(std::process::id()).map_err(|error| error.to_string())
        })?);
    }
    Ok(told.join(", "))
}
