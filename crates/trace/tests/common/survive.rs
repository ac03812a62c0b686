//! Reading whatever it is: errors or rows, never a panic.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;

use pagewise_trace::*;

/// Enough to pass all that a small file holds; a damaged one may claim any number of equal rows.
const ROWS: usize = 100_000;

/// Opens and reads a trace by every way there is. Returns how many rows there were and how many errors.
pub(crate) fn read_all(dir: &Path) -> (u64, u64) {
    let mut seen = (0, 0);
    match Trace::open(dir) {
        Err(error) => check_error(&error, dir, &mut seen),
        Ok(trace) => read_tables(&trace, dir, &mut seen),
    }
    // Last, as it changes the files.
    match recover(dir) {
        Err(error) => check_error(&error, dir, &mut seen),
        Ok(_) => {
            if let Ok(trace) = Trace::open(dir) {
                read_tables(&trace, dir, &mut seen);
            }
        }
    }
    seen
}

fn read_tables(trace: &Trace, dir: &Path, seen: &mut (u64, u64)) {
    macro_rules! read {
        ($($row:ident),*) => { $( read_table::<$row>(trace, dir, seen); )* };
    }
    read!(
        Event,
        Stall,
        RunDelay,
        Pressure,
        Access,
        Glance,
        WriteLook,
        Space,
        Allocation,
        Release,
        Move,
        Mapping,
        StackFrame,
        Frame,
        Site,
        Global,
        Sample,
        RegionAccess
    );
}

fn read_table<T: Row>(trace: &Trace, dir: &Path, seen: &mut (u64, u64)) {
    match trace.rows::<T>() {
        Err(error) => check_error(&error, dir, seen),
        Ok(rows) => {
            for row in rows.take(ROWS) {
                match row {
                    Ok(_) => seen.0 += 1,
                    Err(error) => check_error(&error, dir, seen),
                }
            }
        }
    }
}

/// An error names a file of the trace, on one line.
fn check_error(error: &TraceError, dir: &Path, seen: &mut (u64, u64)) {
    let text = error.to_string();
    assert!(text.contains(dir.to_str().unwrap()), "{text}");
    assert!(!text.contains('\n') && text.len() < 2_000, "{text}");
    seen.1 += 1;
}

/// As [`read_all`]; a panic becomes its message.
pub(crate) fn try_read_all(dir: &Path) -> Result<(u64, u64), String> {
    catch_unwind(AssertUnwindSafe(|| read_all(dir))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
            .unwrap_or_else(|| "unknown reason".to_owned())
    })
}
