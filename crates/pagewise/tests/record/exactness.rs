//! The recording against what the program itself and the kernel counted.

use crate::common::command::assert_nothing_lost;
use crate::common::command::record;
use crate::common::command::report;
use crate::common::machine::Machine;
use crate::common::programs::compile_pattern;
use serde_json::Value;
use tempfile::tempdir;

const ZRAM: &str = "--memory 32M --swap zram --swap-size 512M";
const FILE: &str = "--memory 32M --swap file --swap-size 512M";

/// A recording of the yardstick beside what it counted itself.
struct Measured {
    report: Value,
    own: Value,
}

impl Measured {
    /// `None`: needs root. Asserts what holds of every such recording.
    fn run(options: &str, program: &str) -> Option<Self> {
        Self::run_with_unseen_reads(options, program, 0)
    }

    /// The same, where up to so many pages may be read without a fault of the program.
    fn run_with_unseen_reads(options: &str, program: &str, unseen: u64) -> Option<Self> {
        let machine = Machine::reserve()?;
        let folder = tempdir().expect("a folder");
        compile_pattern(folder.path());
        let mut disturbed = Vec::new();
        for _ in 0..3 {
            let options = format!("{options} -f");
            let ended = record(folder.path(), &options, program).expect_code(0);
            machine.assert_restored();
            let measured = Self {
                own: ended.json(),
                report: report(folder.path()),
            };
            measured.assert_nothing_lost();
            measured.assert_own_faults();
            measured.assert_named();
            match measured.reconciled(unseen) {
                Ok(()) => return Some(measured),
                Err(what) => disturbed.push(what),
            }
        }
        panic!("{disturbed:#?}");
    }

    fn total(&self, name: &str) -> u64 {
        let value = &self.report["summary"][name];
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{name} of {}", self.report["summary"]))
    }

    fn assert_nothing_lost(&self) {
        assert_nothing_lost(&self.report);
    }

    /// Within 1 % of the kernel's own counters over the same time. These are those of the whole machine: once in a while the kernel writes
    /// idle pages of others just then, where something pages them out (DAMON), and counts more.
    fn reconciled(&self, unseen_reads: u64) -> Result<(), String> {
        for name in ["pages_read", "pages_written", "evictions", "zero_filled"] {
            let pair = &self.report["reconciliation"][name];
            let (Some(recorded), Some(kernel)) =
                (pair["recorded"].as_u64(), pair["kernel"].as_u64())
            else {
                panic!("{name}: {pair}");
            };
            let most = kernel / 100 + 8;
            let unseen = if name == "pages_read" {
                unseen_reads
            } else {
                0
            };
            assert!(recorded <= kernel + most, "{name}: {pair}");
            if recorded + most + unseen < kernel {
                return Err(format!("{name}: {pair}"));
            }
        }
        Ok(())
    }

    /// Within 0.1 % of the major faults that the program counted.
    fn assert_own_faults(&self) {
        let own = self.own["ru_majflt"].as_u64().expect("a count");
        let expected =
            own - self.total("file_major_faults") - self.total("faults_without_exception");
        let recorded = self.total("swap_ins") - self.total("swap_cache_hits");
        // What happens after the program has counted, on its way out, is a handful.
        let most = own / 1000 + 16;
        assert!(
            recorded.abs_diff(expected) <= most,
            "{recorded} recorded, {expected} of {own} expected: {}",
            self.report["summary"]
        );
    }

    /// At least 99 % of the swap-ins lie with the arrays, by name.
    fn assert_named(&self) {
        let arrays = self.own["arrays"].as_array().expect("arrays");
        let named: u64 = arrays
            .iter()
            .map(|array| self.object(array["name"].as_str().expect("a name"))["swap_ins"].as_u64())
            .map(|count| count.expect("a count"))
            .sum();
        let all = self.total("swap_ins");
        assert!(named * 100 >= all * 99, "{named} of {all}");
    }

    fn object(&self, name: &str) -> &Value {
        let objects = self.report["objects"].as_array().expect("objects");
        let mut of_name = objects.iter().filter(|object| object["name"] == name);
        let object = of_name
            .next()
            .unwrap_or_else(|| panic!("no {name} in {objects:#?}"));
        assert!(of_name.next().is_none(), "two of {name}");
        assert!(
            object["file"]
                .as_str()
                .is_some_and(|file| file.ends_with("pattern.c")),
            "{object}"
        );
        object
    }

    /// Each array's own share, within 1 %: faults that the array's sweeps counted are those at its name.
    fn assert_shares(&self) {
        for array in self.own["arrays"].as_array().expect("arrays") {
            let own = array["major_faults"].as_u64().expect("a count");
            let object = self.object(array["name"].as_str().expect("a name"));
            let count = |name: &str| object[name].as_u64().expect("a count");
            let recorded = count("swap_ins") - count("swap_cache_hits");
            assert!(
                recorded.abs_diff(own) <= own / 100 + 64,
                "{recorded} for {array}"
            );
        }
    }
}

#[test]
fn sweeps_on_zram() {
    let Some(measured) = Measured::run(ZRAM, "./pattern") else {
        return;
    };
    measured.assert_shares();
    // The program's own pages are never zero, and are read past the swap cache; a page of its loader may be otherwise.
    for count in ["zero_filled", "swap_cache_hits"] {
        assert!(measured.total(count) < 8, "{count}: {}", measured.report);
    }
}

#[test]
fn sweeps_on_a_file() {
    let Some(measured) = Measured::run(FILE, "./pattern") else {
        return;
    };
    measured.assert_shares();
    // The kernel reads around a fault: most pages are found in the swap cache.
    assert!(
        measured.total("pages_read")
            > measured.total("swap_ins") - measured.total("swap_cache_hits")
    );
}

#[test]
fn zero_pages_are_counted_apart() {
    let Some(measured) = Measured::run(ZRAM, "./pattern --passes 2 --zero 16") else {
        return;
    };
    measured.assert_shares();
    let zero = measured.object("zero");
    let pages = 16 << 8;
    assert!(zero["zero_filled"].as_u64() >= Some(pages), "{zero}");
    assert_eq!(zero["pages_written"], 0);
}

#[test]
fn faults_in_system_calls_are_seen() {
    let Some(measured) = Measured::run(ZRAM, "./pattern --passes 2 --syscall") else {
        return;
    };
    measured.assert_shares();
}

#[test]
fn locking_reads_pages_without_an_exception() {
    let Some(measured) = Measured::run(ZRAM, "./pattern --passes 2 --mlock") else {
        return;
    };
    assert!(measured.total("faults_without_exception") > 0);
}

#[test]
fn locking_on_a_file_does_not_upset_the_counts() {
    // What is read ahead for mlock, outside of any fault, is counted by nobody but the kernel: `first` at most.
    let first = 16 << 8;
    let program = "./pattern --passes 2 --mlock";
    let Some(measured) = Measured::run_with_unseen_reads(FILE, program, first) else {
        return;
    };
    assert!(measured.total("swap_cache_hits") > 0);
}

#[test]
fn an_exec_keeps_the_recording_on_the_program() {
    let Some(machine) = Machine::reserve() else {
        return;
    };
    let folder = tempdir().expect("a folder");
    compile_pattern(folder.path());
    let script = "exec ./pattern --passes 2";
    let mut arguments = vec!["record"];
    arguments.extend(ZRAM.split(' '));
    arguments.extend(["--", "sh", "-c", script]);
    let ended = crate::common::command::run(folder.path(), &arguments).expect_code(0);
    machine.assert_restored();
    let measured = Measured {
        own: ended.json(),
        report: report(folder.path()),
    };
    measured.assert_own_faults();
    measured.assert_named();
    measured.assert_shares();
}
