//! Which rule an allocation matches: the stack is walked, and return addresses are compared by module and address as
//! stated in the file.
//!
//! As far as is needed, and by the unwind tables that are remembered (`interpose/src/unwind.rs`): an array of many blocks takes as
//! many walks. The compiler's unwinder takes ten times as long, and knows what these do not understand.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::MOST_FRAMES;
use pagewise_abi::plan::MOST_MODULES;
use pagewise_abi::plan::PlanFrame;
use pagewise_abi::plan::PlanModule;
use pagewise_abi::status::Total;
use pagewise_interpose as interpose;
use pagewise_interpose::LoadedModule;
use pagewise_interpose::Registers;
use pagewise_interpose::unwind;

use super::loaded::Plan;

/// Smaller allocations are looked at only while that costs less than a hundredth of the time,
const ALWAYS_LOOKED_AT: usize = 8 << 20;
const COST_SHARE: u64 = 100;
/// beyond so much: an array of 100,000 blocks that is made at once.
const FREE_NS: u64 = 20_000_000;
/// Addresses that nearly always decide, and all that are looked at.
const FEW: usize = 10;
const MANY: usize = 96;

/// A module of the plan, where it is loaded.
struct Place {
    /// Where its code begins; 0: not loaded.
    begin: AtomicUsize,
    end: AtomicUsize,
    bias: AtomicUsize,
}

static PLACES: [Place; MOST_MODULES] = [const {
    Place {
        begin: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        bias: AtomicUsize::new(0),
    }
}; MOST_MODULES];
/// Whether an allocation was not looked at.
static UNSEEN: AtomicBool = AtomicBool::new(false);
/// How often libraries were loaded when the places were found.
static LIBRARIES: AtomicU64 = AtomicU64::new(0);
/// The same, of those whose places are told.
static PLACED: AtomicU64 = AtomicU64::new(0);
/// Time taken by walks, and when the first began, ns.
static WALKED_NS: AtomicU64 = AtomicU64::new(0);
static BEGAN_NS: AtomicU64 = AtomicU64::new(0);

/// Whether all allocations were looked at so far, so that it is known which one another is.
pub(super) fn has_seen_all() -> bool {
    !UNSEEN.load(Ordering::Relaxed)
}

/// Changes with each load and unload, once the modules have been found anew.
pub(super) fn libraries() -> u64 {
    PLACED.load(Ordering::Acquire)
}

/// Finds the plan's modules in this process, if libraries have come or gone; whether they have.
pub(super) fn look_at_modules(plan: &Plan) -> bool {
    let Some(now) = interpose::libraries_ever_loaded() else {
        return false;
    };
    let before = LIBRARIES.swap(now, Ordering::Relaxed);
    if before == now {
        return false;
    }
    if before != 0 {
        unwind::forget();
    }
    let mut buffer = [0u8; 4096];
    let executable = own_path(&mut buffer);
    let mut found = [None; MOST_MODULES];
    let complete = interpose::visit_modules(&mut |module| {
        let path = if module.path.is_empty() {
            executable
        } else {
            module.path
        };
        for (index, place) in found.iter_mut().enumerate().take(plan.view.modules()) {
            let wanted = plan.view.module(index);
            if !is_meant(&wanted, &module, file_name(path)) {
                continue;
            }
            if is_same_build(&wanted, &module) {
                *place = Some((module.code, module.bias));
            } else {
                plan.status.set_bit(Total::OtherBuilds, index);
            }
        }
    });
    if !complete {
        LIBRARIES.store(0, Ordering::Relaxed);
        return true;
    }
    for (place, found) in PLACES.iter().zip(found) {
        let ((begin, end), bias) = found.unwrap_or(((0, 0), 0));
        place.bias.store(bias, Ordering::Relaxed);
        place.end.store(end, Ordering::Relaxed);
        place.begin.store(begin, Ordering::Relaxed);
    }
    PLACED.store(now, Ordering::Release);
    true
}

/// Whether it may be the plan's module: a library may be loaded by the name of a link to its file, of which only the build
/// tells.
fn is_meant(wanted: &PlanModule<'_>, module: &LoadedModule<'_>, name: &[u8]) -> bool {
    wanted.name == name || !wanted.build_id.is_empty() && is_same_build(wanted, module)
}

fn is_same_build(wanted: &PlanModule<'_>, module: &LoadedModule<'_>) -> bool {
    module.build_id.starts_with(wanted.build_id)
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// The path of the executable, without allocating.
fn own_path(buffer: &mut [u8]) -> &[u8] {
    // SAFETY: the path is a C string and the buffer valid for its length.
    let length = unsafe {
        libc::readlink(
            c"/proc/self/exe".as_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    usize::try_from(length)
        .ok()
        .and_then(|length| buffer.get(..length))
        .unwrap_or_default()
}

/// Where an address stated in a module's file is in this process.
pub(super) fn address_of(module: usize, address: u64) -> Option<usize> {
    let place = PLACES.get(module)?;
    (place.begin.load(Ordering::Relaxed) != 0).then(|| {
        place
            .bias
            .load(Ordering::Relaxed)
            .wrapping_add(address as usize)
    })
}

/// Whether all modules of some rule are in this process.
pub(super) fn is_any_rule_here(plan: &Plan) -> bool {
    let is_here = |module: u32| address_of(module as usize, 0).is_some();
    (0..plan.view.rules()).any(|index| {
        let rule = plan.view.rule(index);
        let mut frames = plan.view.frames(&rule);
        if rule.frames == 0 {
            is_here(rule.module)
        } else {
            frames.all(|frame| is_here(frame.module))
        }
    })
}

/// The rule whose path this thread's call path begins with; of several the longest.
pub(super) fn rule(plan: &Plan, bytes: usize) -> Option<usize> {
    look_at_modules(plan);
    let began_ns = interpose::now_ns();
    if bytes < ALWAYS_LOOKED_AT && is_too_costly(began_ns) {
        plan.status.add(Total::Unseen, 1);
        UNSEEN.store(true, Ordering::Relaxed);
        return None;
    }
    let mut path = Path {
        frames: [PlanFrame {
            module: 0,
            address: 0,
        }; MOST_FRAMES],
        length: 0,
        wanted: longest(plan),
    };
    path.walk();
    WALKED_NS.fetch_add(
        interpose::now_ns().saturating_sub(began_ns),
        Ordering::Relaxed,
    );
    longest_match(plan, &path.frames[..path.length])
}

/// The frames of a call path that are in modules of the plan, innermost first.
struct Path {
    frames: [PlanFrame; MOST_FRAMES],
    length: usize,
    /// No rule tells more of them apart.
    wanted: usize,
}

impl Path {
    /// This thread's.
    fn walk(&mut self) {
        let registers = interpose::capture();
        let is_done =
            self.walk_by_tables::<FEW>(registers) || self.walk_by_tables::<MANY>(registers);
        if !is_done {
            self.length = 0;
            interpose::backtrace(&mut |address| self.push(address));
        }
    }

    /// False: it goes on beyond so many addresses, or something is not understood.
    fn walk_by_tables<const ADDRESSES: usize>(&mut self, registers: Registers) -> bool {
        let mut addresses = [0; ADDRESSES];
        let walked = unwind::walk(registers, &mut addresses);
        self.length = 0;
        for &address in &addresses[..walked.frames] {
            if !self.push(address) {
                return true;
            }
        }
        walked.is_whole && walked.frames < ADDRESSES
    }

    /// False: these are enough.
    fn push(&mut self, address: usize) -> bool {
        if let Some(frame) = frame_at(address)
            && let Some(place) = self.frames.get_mut(self.length)
        {
            *place = frame;
            self.length += 1;
        }
        self.length < self.wanted
    }
}

/// Frames of the longest path of a rule about allocations.
fn longest(plan: &Plan) -> usize {
    let rules = (0..plan.view.rules()).map(|index| plan.view.rule(index));
    let rules = rules.filter(|rule| !plan.view.action(rule).is_io());
    rules.map(|rule| rule.frames as usize).max().unwrap_or(0)
}

/// The module of the plan that a return address is in, and where.
pub(super) fn frame_at(address: usize) -> Option<PlanFrame> {
    let holds = |place: &&Place| {
        let begin = place.begin.load(Ordering::Relaxed);
        // A return address behind the last call of a module is its end.
        begin != 0 && address > begin && address <= place.end.load(Ordering::Relaxed)
    };
    let index = PLACES.iter().position(|place| holds(&place))?;
    let bias = PLACES[index].bias.load(Ordering::Relaxed);
    Some(PlanFrame {
        module: index as u32,
        address: address.wrapping_sub(bias) as u64,
    })
}

fn longest_match(plan: &Plan, path: &[PlanFrame]) -> Option<usize> {
    let matches = |index: &usize| {
        let rule = plan.view.rule(*index);
        let length = rule.frames as usize;
        length > 0
            && !plan.view.action(&rule).is_io()
            && length <= path.len()
            && plan
                .view
                .frames(&rule)
                .zip(path)
                .all(|(wanted, found)| wanted == *found)
    };
    (0..plan.view.rules())
        .filter(matches)
        .max_by_key(|&index| plan.view.rule(index).frames)
        .map(|index| plan.view.rule(index).counts_as(index))
}

fn is_too_costly(now_ns: u64) -> bool {
    let began = BEGAN_NS.load(Ordering::Relaxed);
    if began == 0 {
        BEGAN_NS.store(now_ns, Ordering::Relaxed);
        return false;
    }
    let since = now_ns.saturating_sub(began);
    WALKED_NS.load(Ordering::Relaxed) > FREE_NS + since / COST_SHARE
}
