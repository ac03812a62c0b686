//! What the sensor costs a program in a swap storm: its CPU time per major fault with and without, in turn.
//! usage: storm_cost [--slow-swap] [--call-paths] [--empty] ROUNDS COMMAND [ARGUMENT...]   (it swaps for ever; it is killed)
//! Prints, as one JSON line, the medians in ns and the paired difference with its quartiles.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use pagewise_attribute::ElfCache;
use pagewise_attribute::ModuleTable;
use pagewise_attribute::parse_maps;
use pagewise_attribute::unwind::ProcessUnwinder;
use pagewise_attribute::unwind::UnwindCache;
use pagewise_attribute::unwind::arch::Registers;
use pagewise_collect::CopiedStack;
use pagewise_collect::Lesson;
use pagewise_collect::Observation;
use pagewise_collect::Options;
use pagewise_collect::Slot;
use pagewise_collect::SwapSensor;
use pagewise_collect::calibrate;

const WARM_UP: Duration = Duration::from_secs(5);
const SLICE: Duration = Duration::from_millis(60);
const SETTLE: Duration = Duration::from_millis(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str| {
        let given = arguments.first().is_some_and(|first| first == name);
        if given {
            arguments.remove(0);
        }
        given
    };
    let swap_is_slow = option("--slow-swap");
    let call_paths = option("--call-paths");
    let does_nothing = option("--empty");
    let rounds: usize = arguments.remove(0).parse()?;
    let layout = calibrate()?;
    let sensor = SwapSensor::load(Options {
        layout,
        base_ns: 0,
        swap_is_slow,
        memory_bytes: 0,
        zeros_are_noted: true,
        memory: true,
        io: false,
        call_paths,
        check_call_paths: false,
        does_nothing,
        enforces: false,
    })?;
    sensor.watch(std::process::id())?;
    let mut child = Command::new(&arguments[0])
        .args(&arguments[1..])
        .process_group(0)
        .spawn()?;
    let mut observer = Observer {
        sensor,
        stacks: Stacks::default(),
    };
    observer.run(WARM_UP)?;
    let (mut without, mut with, mut difference) = (vec![], vec![], vec![]);
    for round in 0..=rounds {
        observer.sensor.pause();
        let base = observer.cost_per_fault(child.id())?;
        observer.sensor.resume()?;
        let observed = observer.cost_per_fault(child.id())?;
        if round > 0 {
            without.push(base);
            with.push(observed);
            difference.push(observed - base);
        }
    }
    child.kill()?;
    child.wait()?;
    let (base, added) = (quantile(&mut without, 0.5), quantile(&mut difference, 0.5));
    println!(
        "{{\"rounds\": {rounds}, \"base_ns\": {base:.0}, \"with_ns\": {:.0}, \"added_ns\": {added:.0}, \
         \"added_q1_ns\": {:.0}, \"added_q3_ns\": {:.0}, \"fastest_added_ns\": {:.0}, \"percent\": {:.1}, \"lost\": {}}}",
        quantile(&mut with, 0.5),
        quantile(&mut difference, 0.25),
        quantile(&mut difference, 0.75),
        quantile(&mut with, 0.1) - quantile(&mut without, 0.1),
        100.0 * added / base,
        observer.sensor.totals()?.lost,
    );
    Ok(())
}

struct Observer {
    sensor: SwapSensor,
    stacks: Stacks,
}

impl Observer {
    fn run(&mut self, duration: Duration) -> Result<(), Box<dyn std::error::Error>> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            let mut lessons = Vec::new();
            self.sensor.drain(|observation| match observation {
                Observation::Process { pid, .. } => self.stacks.process(pid),
                Observation::Stack { stack, bytes } => {
                    lessons.extend(self.stacks.unwind(stack, &bytes));
                }
                _ => {}
            })?;
            lessons.iter().for_each(|lesson| self.sensor.teach(lesson));
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn cost_per_fault(&mut self, pid: u32) -> Result<f64, Box<dyn std::error::Error>> {
        self.run(SETTLE)?;
        let (faults, cpu) = (major_faults(pid)?, cpu_ns(pid)?);
        self.run(SLICE)?;
        Ok((cpu_ns(pid)? - cpu) as f64 / (major_faults(pid)? - faults) as f64)
    }
}

/// Unwinds the stacks of one process, the one that started last.
#[derive(Default)]
struct Stacks {
    pid: u32,
    unwinder: Option<ProcessUnwinder>,
    cache: UnwindCache,
}

impl Stacks {
    fn process(&mut self, pid: u32) {
        (self.pid, self.unwinder) = (pid, None);
    }

    fn unwind(&mut self, stack: CopiedStack, bytes: &[u8]) -> Option<Lesson> {
        if self.unwinder.is_none() {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).ok()?;
            let modules = ModuleTable::new(&parse_maps(&maps).ok()?, &mut ElfCache::new());
            self.unwinder = Some(ProcessUnwinder::new(Arc::new(modules)));
        }
        let (ip, sp) = (stack.instruction_pointer, stack.stack_pointer);
        let registers = Registers::new(ip, sp, stack.frame_pointer);
        let unwinder = self.unwinder.as_mut()?;
        let (_, evidence) =
            unwinder.walk_with_evidence(&registers, bytes, &stack.absent(), &mut self.cache);
        let evidence = evidence?;
        Some(Lesson {
            stack,
            slots: evidence
                .words
                .iter()
                .map(|word| Slot {
                    offset: word.address - sp,
                    is_frame_pointer: word.is_frame_pointer,
                    value: word.value,
                })
                .collect(),
            uses_frame_pointer: evidence.uses_frame_pointer,
            unreadable: evidence.beyond_copy.map(|address| address - sp),
            path: 0,
        })
    }
}

fn major_faults(pid: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    Ok(fields
        .split_whitespace()
        .nth(9)
        .ok_or("short stat")?
        .parse()?)
}

fn cpu_ns(pid: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let schedstat = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    Ok(schedstat
        .split_whitespace()
        .next()
        .ok_or("empty schedstat")?
        .parse()?)
}

fn quantile(values: &mut [f64], at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * at) as usize]
}
