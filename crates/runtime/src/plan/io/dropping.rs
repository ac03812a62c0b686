//! What the calls of a rule brought into the page cache is dropped behind them, and nothing else. `None` as in `hints.rs`.

use std::ops::Range;
use std::sync::atomic::Ordering;

use pagewise_abi::plan::MOST_RULES;
use pagewise_abi::regret::Drop;
use pagewise_abi::regret::Regret;
use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_interpose as interpose;
use pagewise_interpose::Spin;
use pagewise_interpose::page_cache;

use super::At;
use super::Call;
use super::Request;
use super::behind;
use super::behind::CHUNK;
use super::behind::GRANULE;
use super::behind::WRITE_LAG;
use super::hints::Hinted;
use super::hints::PAGE;
use super::is_withdrawn;
use super::runs::Aside;
use super::runs::Run;
use super::runs::Runs;
use super::sending::Sending;
use super::withdraw;

/// Pages that must have been dropped in vain until a hint is withdrawn.
const IN_VAIN: u64 = 8 * CHUNK / PAGE;

/// At most so much of what waits is sent at once, if the disk keeps up: else a chunk.
const MOST_SENT: u64 = 4 * CHUNK;
/// What was sent is in time if it is on the disk before so much more was written.
const IN_TIME: u64 = 4 * CHUNK;

static SENDING: [Spin<Sending>; MOST_RULES] = [const { Spin::new(Sending::NONE) }; MOST_RULES];

/// What was dropped of all files.
static REGRET: Spin<Regret> = Spin::new(Regret::NONE);

/// A forked child: another thread of the parent may have held it.
pub(super) fn forget() {
    REGRET.break_open();
    for sending in &SENDING {
        sending.break_open();
        // Nor does it come to its end, if one was under way there.
        if let Some(mut sending) = sending.lock() {
            *sending = Sending::NONE;
        }
    }
}

impl Hinted<'_> {
    /// What is cached already, before the call or the kernel's reading ahead brings more.
    pub(super) fn look_ahead(&mut self, call: &mut Call) -> Option<()> {
        let descriptor = call.request.descriptor;
        let reads_ahead = self.reads_ahead(call.request.is_write);
        let offset = self.offset(call)?;
        let Some((number, first)) = self.run_at(offset, &call.request)? else {
            return Some(());
        };
        let run = self.file.runs.at(number);
        let end = run.behind.end();
        let mut range = run.behind.unseen_before(call.request.bytes, reads_ahead);
        // Nothing is read behind the end of a file, as long as it has not grown.
        if !run.is_write && end < self.file.known_bytes {
            let whole = self.file.known_bytes.next_multiple_of(CHUNK);
            range.end = range.end.min(whole);
        }
        if !range.is_empty() {
            let length = self.file.length_if_still(descriptor)?;
            self.file.known_bytes = length;
            self.look_at(descriptor, number, range, length);
        }
        let run = self.file.runs.at(number);
        // Already there, but by a call of this rule.
        if let Some(own) = first.or(run.aside()).filter(|own| own.is_clear) {
            run.behind.set_own(&own.granules());
        }
        call.run = Some(number);
        Some(())
    }

    /// The run that a call goes on with, or begins; none if it goes elsewhere for the moment, or too many are under way. Of one that
    /// begins, also the small call before.
    fn run_at(&mut self, offset: u64, request: &Request) -> Option<Option<(usize, Option<Aside>)>> {
        let is_cursor = !matches!(request.at, At::Offset(_));
        if let Some(number) = self.file.runs.going_on_at(offset, self.rule) {
            if is_cursor {
                self.file.runs.has_cursor(number);
            }
            return Some(Some((number, None)));
        }
        let thread = interpose::thread_id();
        let Some(number) = self.file.runs.place_for(self.rule, thread, is_cursor) else {
            return Some(None);
        };
        let run = self.file.runs.at(number);
        let is_small = (1..GRANULE).contains(&request.bytes);
        let mut first = None;
        if is_small && run.is_own(self.rule, thread, is_cursor) {
            first = run.aside_before(offset);
            if first.is_none() {
                self.go_aside(number, offset, request)?;
                return Some(None);
            }
        }
        self.require_same(request.descriptor)?;
        if first.is_some() {
            // It is the new run's from now on.
            self.file.runs.at(number).take_aside();
        }
        self.drop_rest(request.descriptor, number);
        let begin = first.map_or(offset, |first| first.start);
        let mut run = Run::new(begin, self.rule, thread, request.is_write, is_cursor);
        run.behind.reach(offset);
        self.file.runs.begin(number, run);
        Some(Some((number, first)))
    }

    /// A small call goes elsewhere: the run is waited for still. What the one before it brought in is dropped.
    fn go_aside(&mut self, number: usize, offset: u64, request: &Request) -> Option<()> {
        let mut aside = Aside {
            start: offset,
            end: offset.saturating_add(request.bytes),
            is_clear: false,
        };
        aside.is_clear = match page_cache::cached_pages(request.descriptor, aside.granules()) {
            Ok(cached) => cached == 0,
            Err(errno) => {
                self.cannot_look(self.rule, errno);
                return Some(());
            }
        };
        let before = self.file.runs.at(number).put_aside(aside);
        if let Some(before) = before.filter(|before| before.is_clear) {
            self.require_same(request.descriptor)?;
            self.drop_aside(request.descriptor, number, before);
        }
        Some(())
    }

    /// Looks which granules of a range are cached, of a file of so many bytes.
    fn look_at(&mut self, descriptor: i32, number: usize, range: Range<u64>, length: u64) {
        let cached = |range: Range<u64>| page_cache::cached_pages(descriptor, range);
        let Run {
            behind, is_write, ..
        } = self.file.runs.at(number);
        let is_write = *is_write;
        let in_range = match cached(range.clone()) {
            Ok(0) => return behind.is_clear(&range),
            Ok(pages) => pages,
            // It may have come to be another user's.
            Err(errno) => return self.cannot_look(self.rule, errno),
        };
        for chunk in behind.numbers(&range) {
            let start = chunk * CHUNK;
            let within = start..(start + CHUNK).min(length).max(start);
            let all = match range == (start..start + CHUNK) {
                true => in_range,
                false => cached(start..start + CHUNK).unwrap_or(u64::MAX),
            };
            let granules = (within.end - start).div_ceil(GRANULE);
            let is_all = all >= (within.end - start).div_ceil(PAGE);
            let bits = match all {
                0 => 0,
                _ if is_all && !is_write => u32::MAX,
                // What it will write behind the file's end is its own.
                _ if is_all => ((1u64 << granules) - 1) as u32,
                _ => (0..granules).fold(0, |bits, granule| {
                    let at = start + granule * GRANULE;
                    let is_cached = cached(at..at + GRANULE).unwrap_or(1) > 0;
                    bits | u32::from(is_cached) << granule
                }),
            };
            behind.set_others(chunk, bits);
        }
    }

    /// The kernel does not tell what is cached of the file: nothing of it is dropped.
    fn cannot_look(&mut self, rule: usize, errno: i32) {
        self.file.runs = Runs::NONE;
        self.file.cache_errno = errno;
        self.plan.status.refused_io(rule, errno);
        self.plan.status.add_to_io(rule, OfIo::Hintless, 1);
    }

    pub(super) fn drop_behind(&mut self, call: &Call, bytes: u64) -> Option<()> {
        let descriptor = call.request.descriptor;
        let Some((number, offset)) = call.run.zip(call.offset) else {
            return Some(());
        };
        if !self.is_still_run(number, call.request.at) {
            return Some(());
        }
        if bytes == 0 && !call.request.is_write {
            // Its end: whoever goes on reading begins anew.
            if !self.file.runs.at(number).leaves_nothing() {
                self.require_same(descriptor)?;
            }
            self.drop_rest(descriptor, number);
            return Some(());
        }
        let mut end = offset + bytes;
        let is_due = end / CHUNK > offset / CHUNK;
        if call.request.at != At::Offset(offset) && (is_due || call.request.at == At::Buffer) {
            let real = page_cache::position(descriptor)?;
            let behind = &self.file.runs.at(number).behind;
            if !behind.goes_on_at(real.saturating_sub(bytes)) {
                // The cursor was moved meanwhile.
                self.place.is_moved.store(true, Ordering::Relaxed);
                self.require_same(descriptor)?;
                self.drop_rest(descriptor, number);
                self.file.runs.at(number).behind.start_at(real);
                return Some(());
            }
            end = real;
        }
        self.file.runs.at(number).behind.reach(end);
        if !is_due && call.request.at != At::Buffer {
            return Some(());
        }
        let lag = if call.request.is_write { CHUNK } else { 0 };
        let mut is_same = None;
        if call.request.is_write {
            is_same = Some(self.require_same(descriptor)?);
            self.write_back(descriptor, number);
        }
        while let Some(range) = self.file.runs.at(number).behind.passed(lag) {
            if call.request.is_write && !self.is_clean(descriptor, number, range) {
                break; // It is looked at again later.
            }
            let Some((chunk, others)) = self.file.runs.at(number).behind.take_passed(lag) else {
                break;
            };
            if is_same.is_none() {
                is_same = Some(self.require_same(descriptor)?);
            }
            self.drop_chunk(descriptor, number, (chunk, others));
        }
        Some(())
    }

    /// Whether a call's run is still where the call had it: meanwhile another thread may have gone on, or begun one there. A cursor is
    /// asked where it is.
    fn is_still_run(&mut self, number: usize, at: At) -> bool {
        let run = self.file.runs.at(number);
        run.behind.is_any()
            && run.rule == self.rule
            && match at {
                At::Offset(offset) => run.behind.goes_on_at(offset),
                At::Cursor | At::Buffer => true,
            }
    }

    /// Whether what was written there is on the disk, so that it can be dropped; or cannot be waited for any longer. Where the kernel
    /// does not tell, it should be by then.
    fn is_clean(&mut self, descriptor: i32, number: usize, range: Range<u64>) -> bool {
        let behind = &self.file.runs.at(number).behind;
        behind.is_crowded()
            || match page_cache::unclean_pages(descriptor, range) {
                Ok(pages) => pages == 0,
                Err(_) => behind.passed(WRITE_LAG).is_some(),
            }
    }

    /// Sends what was just written to the disk, so that it is clean when it is dropped, as fast as the disk takes it.
    fn write_back(&mut self, descriptor: i32, number: usize) {
        let run = self.file.runs.at(number);
        let end = run.behind.end() / CHUNK * CHUNK;
        if run.behind.written >= end {
            return;
        }
        let Some(mut sending) = SENDING[self.rule].lock() else {
            return;
        };
        if let Some(sent) = run.sent() {
            // Where the kernel does not tell, it is taken to be there.
            if page_cache::unclean_pages(descriptor, sent.clone()).unwrap_or(0) > 0 {
                if !run.is_late && end.saturating_sub(sent.end) >= IN_TIME {
                    run.is_late = true;
                    sending.late();
                }
                return;
            }
            sending.clean(!run.is_late);
            run.forget_sent();
        }
        let most = match sending.is_proven() {
            true => MOST_SENT,
            false => CHUNK,
        };
        if !sending.begins(interpose::now_ns()) {
            return;
        }
        // The disk is not to be waited for with the lock held.
        drop(sending);
        // What lies further back is left to the kernel.
        let range = run.behind.written.max(end.saturating_sub(most))..end;
        run.behind.written = end;
        run.has_sent(&range);
        if let Err(errno) = page_cache::write_back(descriptor, range) {
            self.plan.status.refused_io(self.rule, errno);
        }
    }

    /// The run is over: all that it brought in is dropped.
    pub(super) fn drop_rest(&mut self, descriptor: i32, number: usize) {
        let run = self.file.runs.at(number);
        if run.sent().is_some()
            && let Some(mut sending) = SENDING[run.rule].lock()
        {
            sending.given_up();
        }
        run.forget_sent();
        let is_write = run.is_write;
        if let Some(aside) = run.take_aside().filter(|aside| aside.is_clear) {
            self.drop_aside(descriptor, number, aside);
        }
        let reads_ahead = self.reads_ahead(is_write);
        while let Some((chunk, others)) = self.file.runs.at(number).behind.take_rest(reads_ahead) {
            self.drop_chunk(descriptor, number, (chunk, others));
        }
    }

    /// The pages of a small call that went elsewhere: what is next to them may have come to be others' since.
    fn drop_aside(&mut self, descriptor: i32, number: usize, aside: Aside) {
        let pages = aside.start / PAGE * PAGE..aside.end.next_multiple_of(PAGE);
        let chunk = aside.start / CHUNK;
        self.drop_parts(descriptor, number, std::iter::once(pages), (chunk, 0));
    }

    fn drop_chunk(&mut self, descriptor: i32, number: usize, (chunk, others): (u64, u32)) {
        let run = *self.file.runs.at(number);
        if is_withdrawn(run.rule) {
            return;
        }
        // Not what would follow the file's end.
        let start = chunk * CHUNK;
        let there = self
            .file
            .known_bytes
            .max(run.behind.end())
            .saturating_sub(start);
        let theirs = u64::from(others.count_ones()) * (GRANULE / PAGE);
        let theirs = theirs.min(there.div_ceil(PAGE));
        self.plan.status.add_to_io(run.rule, OfIo::Theirs, theirs);
        let touched = run.behind.touched(chunk) & !others;
        let parts = behind::own_parts(chunk, others);
        self.drop_parts(descriptor, number, parts, (chunk, touched));
    }

    /// Drops parts of a chunk, of which the program has read or written these granules as a whole.
    fn drop_parts(
        &mut self,
        descriptor: i32,
        number: usize,
        parts: impl Iterator<Item = Range<u64>>,
        (chunk, touched): (u64, u32),
    ) {
        let &mut Run { rule, is_write, .. } = self.file.runs.at(number);
        if is_withdrawn(rule) {
            return;
        }
        let mut gone = 0;
        let status = &self.plan.status;
        for part in parts {
            let before = match page_cache::cached_pages(descriptor, part.clone()) {
                Ok(before) => before,
                // Of one that is open for writing only, where a mapping has to tell, that shows only once the file has grown.
                Err(errno) => return self.cannot_look(rule, errno),
            };
            if before == 0 {
                continue;
            }
            // To drop what the disk has not taken yet would only have it written at once, and the program wait for that (mm/fadvise.c,
            // 6.12). Nor is it a sign that the hint does nothing: a slow disk gets there.
            let unwritten = match is_write {
                true => page_cache::unclean_pages(descriptor, part.clone()).unwrap_or(0),
                false => 0,
            };
            if unwritten > 0 {
                status.add_to_io(rule, OfIo::Unwritten, unwritten);
                continue;
            }
            if !self.advise(descriptor, part.clone(), page_cache::DONT_NEED) {
                continue;
            }
            let left = page_cache::cached_pages(descriptor, part).unwrap_or(0);
            status.add_to_io(rule, OfIo::Stayed, left);
            gone += before.saturating_sub(left);
        }
        status.add_to_io(rule, OfIo::Gone, gone);
        self.withdraw_if_in_vain(rule);
        if gone > 0 {
            self.withdraw_if_missed(Drop {
                rule,
                file: self.file.identity,
                chunk,
                granules: touched,
                again_percent: self.plan.view.rule(rule).again_percent.into(),
                is_written: is_write,
            });
        }
    }

    fn withdraw_if_missed(&self, drop: Drop) {
        let memory_bytes = match self.plan.view.sizes().limit_bytes {
            0 => interpose::system::memory_bytes().unwrap_or(u64::MAX),
            limit => limit,
        };
        let missed = REGRET.lock();
        let missed = missed.and_then(|mut regret| regret.dropped(drop, memory_bytes));
        if let Some(missed) = missed {
            let pages = missed.bytes / PAGE;
            self.plan.status.add_to_io(missed.rule, OfIo::Missed, pages);
            if missed.is_harm {
                withdraw(self.plan, missed.rule, WhyWithdrawn::Missed);
            }
        }
    }

    pub(super) fn look_what_is_left(&mut self, call: &Call, bytes: u64) -> Option<()> {
        self.file.unlooked += bytes;
        // A look at one call of every 2 MiB or so.
        if self.file.unlooked < CHUNK || call.request.is_write || bytes < PAGE {
            return Some(());
        }
        self.file.unlooked = 0;
        let end = match call.request.at {
            At::Offset(offset) => offset.saturating_add(bytes),
            At::Cursor | At::Buffer => page_cache::position(call.request.descriptor)?,
        };
        let range = end.saturating_sub(bytes)..end;
        if let Ok(left) = page_cache::cached_pages(call.request.descriptor, range) {
            let status = &self.plan.status;
            status.add_to_io(self.rule, OfIo::Stayed, left);
            status.add_to_io(self.rule, OfIo::Gone, (bytes / PAGE).saturating_sub(left));
            self.withdraw_if_in_vain(self.rule);
        }
        Some(())
    }

    fn withdraw_if_in_vain(&self, rule: usize) {
        let status = &self.plan.status;
        let (gone, stayed) = (
            status.of_io(rule, OfIo::Gone),
            status.of_io(rule, OfIo::Stayed),
        );
        if stayed >= IN_VAIN && gone < stayed / 16 {
            withdraw(self.plan, rule, WhyWithdrawn::NoEffect);
        }
    }

    /// Whether the kernel reads ahead of the calls, as far as it was told otherwise.
    fn reads_ahead(&self, is_write: bool) -> bool {
        !is_write && i32::from(self.place.told.load(Ordering::Relaxed)) != page_cache::RANDOM
    }
}
