//! What to do at an address of code: found once in the module's unwind tables, and remembered in a word.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::WORD;
use crate::Spin;
use crate::cfi;
use crate::cfi::Base;
use crate::cfi::Rule;
use crate::visit_modules;

/// Addresses of code that are remembered at once: 2 to the power of this, at first and at last. There are more once so many were
/// looked up that half of the places may be taken, so that a program with few touches few pages.
const FIRST_BITS: u32 = 9;
const LAST_BITS: u32 = 15;
/// Modules of a process; code of others ends paths.
const MODULES: usize = 1024;

/// The rule of an address. The words are written by anybody at any time: the last says whether they belong together.
struct Known {
    address: AtomicUsize,
    rule: AtomicU64,
    check: AtomicU64,
}

static KNOWN: [Known; 1 << LAST_BITS] = [const {
    Known {
        address: AtomicUsize::new(0),
        rule: AtomicU64::new(0),
        check: AtomicU64::new(0),
    }
}; 1 << LAST_BITS];
static BITS: AtomicU32 = AtomicU32::new(FIRST_BITS);
static LOOKED_UP: AtomicUsize = AtomicUsize::new(0);

/// A module's code and the index of its unwind tables.
struct Module {
    begin: AtomicUsize,
    end: AtomicUsize,
    index: AtomicUsize,
}

static TABLES: [Module; MODULES] = [const {
    Module {
        begin: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        index: AtomicUsize::new(0),
    }
}; MODULES];
static FILLING: Spin<()> = Spin::new(());

/// All is to be found anew.
pub(super) fn forget() {
    for module in &TABLES {
        module.begin.store(0, Ordering::Release);
        module.end.store(0, Ordering::Release);
    }
    for known in &KNOWN[..1 << BITS.load(Ordering::Relaxed)] {
        known.address.store(0, Ordering::Release);
    }
}

/// In a forked child, whose only thread is not at it.
pub(super) fn after_fork() {
    FILLING.break_open();
}

/// The rule of an address of code. `None`: it is not known, or not understood.
pub(super) fn at(address: usize) -> Option<Rule> {
    let bits = BITS.load(Ordering::Relaxed);
    let known = Known::place(address, bits);
    unpack(match known.rule_of(address) {
        Some(rule) => rule,
        None => look_up(address, bits, known),
    })
}

/// The rule of an address that is not at its place, where it is from now on.
#[cold]
fn look_up(address: usize, bits: u32, place: &Known) -> u64 {
    // Where it was when there were half as many places.
    let before = Known::place(address, bits.max(FIRST_BITS + 1) - 1).rule_of(address);
    let rule = before.unwrap_or_else(|| pack(find(address)));
    place.keep(address, rule);
    let looked_up = LOOKED_UP.fetch_add(1, Ordering::Relaxed);
    if looked_up >> (bits - 1) != 0 && bits < LAST_BITS {
        BITS.fetch_max(bits + 1, Ordering::Relaxed);
    }
    rule
}

impl Known {
    fn place(address: usize, bits: u32) -> &'static Known {
        &KNOWN[address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - bits)]
    }

    fn rule_of(&self, address: usize) -> Option<u64> {
        if self.address.load(Ordering::Acquire) != address {
            return None;
        }
        let rule = self.rule.load(Ordering::Relaxed);
        (self.check.load(Ordering::Relaxed) == seal(address, rule)).then_some(rule)
    }

    fn keep(&self, address: usize, rule: u64) {
        self.rule.store(rule, Ordering::Relaxed);
        self.check.store(seal(address, rule), Ordering::Relaxed);
        self.address.store(address, Ordering::Release);
    }
}

fn seal(address: usize, rule: u64) -> u64 {
    (address as u64).rotate_left(32) ^ rule ^ 0x5eed_5eed_5eed_5eed
}

#[cold]
fn find(address: usize) -> Option<Rule> {
    let index = index_of(address).or_else(|| {
        look_at_modules();
        index_of(address)
    })?;
    // SAFETY: the index of a loaded module. Who unloads it while a thread runs its code ends otherwise, too.
    unsafe { cfi::rule(index, address) }
}

fn index_of(address: usize) -> Option<usize> {
    let module = TABLES.iter().find(|module| {
        let range = module.begin.load(Ordering::Acquire)..module.end.load(Ordering::Relaxed);
        range.contains(&address)
    })?;
    let index = module.index.load(Ordering::Relaxed);
    (index != 0).then_some(index)
}

fn look_at_modules() {
    let Some(_held) = FILLING.lock() else {
        return;
    };
    let mut places = TABLES.iter();
    visit_modules(&mut |module| {
        if module.code.0 >= module.code.1 {
            return;
        }
        if let Some(place) = places.next() {
            // Nobody finds a module in it meanwhile.
            place.end.store(0, Ordering::Relaxed);
            place.begin.store(module.code.0, Ordering::Release);
            place.index.store(module.unwind_index, Ordering::Release);
            place.end.store(module.code.1, Ordering::Release);
        }
    });
}

const OFFSET_BITS: u32 = 24;
const SMALL_BITS: u32 = 16;
const NONE: u64 = 0;
const SIGNAL: u64 = 1;
const END: u64 = 2;
const FRAME: u64 = 3;

/// A rule in a word: 2 bits what, 2 base, 1 whether each of two is saved, then offsets of 24, 16 and 16 bits, the last two
/// in words. What does not fit is as if it were not understood.
fn pack(rule: Option<Rule>) -> u64 {
    let fits = |value: i32, bits: u32| {
        let shift = i32::BITS - bits;
        (value << shift >> shift == value).then_some(u64::from(value as u32) & ((1u64 << bits) - 1))
    };
    let saved = |place: Option<i32>| match place {
        None => Some(0),
        Some(offset) if offset % WORD as i32 == 0 => {
            Some(fits(offset / WORD as i32, SMALL_BITS)? | 1 << SMALL_BITS)
        }
        Some(_) => None,
    };
    let packed = || {
        Some(match rule? {
            Rule::Signal => SIGNAL,
            Rule::End => END,
            Rule::Frame {
                base,
                offset,
                return_address,
                frame_pointer,
            } => {
                let base = match base {
                    Base::Stack => 0,
                    Base::Frame => 1,
                    Base::AtFrame => 2,
                };
                FRAME
                    | base << 2
                    | fits(offset, OFFSET_BITS)? << 4
                    | saved(return_address)? << 28
                    | saved(frame_pointer)? << 45
            }
        })
    };
    packed().unwrap_or(NONE)
}

fn unpack(word: u64) -> Option<Rule> {
    let signed = |at: u32, bits: u32| {
        let shift = i32::BITS - bits;
        ((word >> at) as i32) << shift >> shift
    };
    let saved = |at: u32| {
        (word >> (at + SMALL_BITS) & 1 == 1).then(|| signed(at, SMALL_BITS) * WORD as i32)
    };
    match word & 3 {
        SIGNAL => Some(Rule::Signal),
        END => Some(Rule::End),
        FRAME => Some(Rule::Frame {
            base: match word >> 2 & 3 {
                0 => Base::Stack,
                1 => Base::Frame,
                _ => Base::AtFrame,
            },
            offset: signed(4, OFFSET_BITS),
            return_address: saved(28),
            frame_pointer: saved(45),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_survives_its_word() {
        for rule in [
            Rule::Signal,
            Rule::End,
            Rule::Frame {
                base: Base::Stack,
                offset: 8,
                return_address: Some(-8),
                frame_pointer: None,
            },
            Rule::Frame {
                base: Base::AtFrame,
                offset: -(1 << 23),
                return_address: None,
                frame_pointer: Some(-8 * (1 << 15)),
            },
        ] {
            assert_eq!(unpack(pack(Some(rule))), Some(rule), "{rule:?}");
        }
        let too_far = Rule::Frame {
            base: Base::Frame,
            offset: 1 << 23,
            return_address: Some(-8),
            frame_pointer: None,
        };
        assert_eq!(unpack(pack(Some(too_far))), None);
        assert_eq!(unpack(pack(None)), None);
    }
}
