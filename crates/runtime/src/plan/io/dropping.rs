//! What the calls of a rule brought into the page cache is dropped behind them, and nothing else. `None` as in `hints.rs`.

use std::ops::Range;
use std::sync::atomic::Ordering;

use pagewise_abi::status::OfIo;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_interpose as interpose;
use pagewise_interpose::page_cache;

use super::At;
use super::Call;
use super::Request;
use super::behind;
use super::behind::Behind;
use super::behind::CHUNK;
use super::behind::GRANULE;
use super::behind::WRITE_LAG;
use super::hints::Hinted;
use super::hints::PAGE;
use super::runs::Run;
use super::withdraw;

/// Pages that must have been dropped in vain until a hint is withdrawn.
const IN_VAIN: u64 = 8 * CHUNK / PAGE;

impl Hinted<'_> {
    /// What is cached already, before the call or the kernel's reading ahead brings more.
    pub(super) fn look_ahead(&mut self, call: &mut Call) -> Option<()> {
        let descriptor = call.request.descriptor;
        let reads_ahead = self.reads_ahead(call.request.is_write);
        let offset = match (call.request.at, self.file.runs.cursor(self.rule)) {
            (At::Offset(offset), _) => offset,
            // Where a cursor is may be asked seldom: unless it was moved, it is where it was left.
            (At::Cursor, Some(left)) => left,
            (At::Cursor | At::Buffer, _) => self.offset(call)?,
        };
        let Some(number) = self.run_at(offset, &call.request)? else {
            return Some(());
        };
        let behind = &self.file.runs.at(number).behind;
        let range = behind.unseen_before(call.request.bytes.max(1), reads_ahead);
        if !range.is_empty() {
            self.require_same(descriptor)?;
            self.look_at(descriptor, number, range);
        }
        call.offset = Some(offset);
        call.run = Some(number);
        Some(())
    }

    /// The run that a call goes on with, or begins; none if too many are under way.
    fn run_at(&mut self, offset: u64, request: &Request) -> Option<Option<usize>> {
        let is_cursor = !matches!(request.at, At::Offset(_));
        if let Some(number) = self.file.runs.going_on_at(offset, self.rule) {
            if is_cursor {
                self.file.runs.has_cursor(number);
            }
            return Some(Some(number));
        }
        let thread = interpose::thread_id();
        let Some(number) = self.file.runs.place_for(self.rule, thread, is_cursor) else {
            return Some(None);
        };
        self.require_same(request.descriptor)?;
        self.drop_rest(request.descriptor, number);
        let run = Run::new(offset, self.rule, thread, request.is_write, is_cursor);
        self.file.runs.begin(number, run);
        Some(Some(number))
    }

    fn look_at(&mut self, descriptor: i32, number: usize, range: Range<u64>) {
        let cached = |range: Range<u64>| page_cache::cached_pages(descriptor, range);
        let behind = &mut self.file.runs.at(number).behind;
        match cached(range.clone()) {
            Ok(0) => return behind.is_clear(&range),
            Ok(_) => {}
            Err(errno) => {
                // It may have come to be another user's.
                *behind = Behind::NONE;
                self.file.cache_errno = errno;
                self.plan.status.refused_io(self.rule, errno);
                self.plan.status.add_to_io(self.rule, OfIo::Hintless, 1);
                return;
            }
        }
        for chunk in behind.numbers(&range) {
            let start = chunk * CHUNK;
            let all = cached(start..start + CHUNK).unwrap_or(u64::MAX);
            let granules = match all {
                0 => 0,
                _ if all >= CHUNK / PAGE => u32::MAX,
                _ => (0..32).fold(0, |bits, granule| {
                    let at = start + granule * GRANULE;
                    let is_cached = cached(at..at + GRANULE).unwrap_or(1) > 0;
                    bits | u32::from(is_cached) << granule
                }),
            };
            behind.set_others(chunk, granules);
        }
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
            self.require_same(descriptor)?;
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
        let rule = self.rule;
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
            self.drop_chunk(descriptor, (chunk, others), rule);
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

    /// Begins to write what was just written, so that it is clean when it is dropped.
    fn write_back(&mut self, descriptor: i32, number: usize) {
        let behind = &mut self.file.runs.at(number).behind;
        let end = behind.end() / CHUNK * CHUNK;
        if behind.written < end {
            let range = behind.written..end;
            behind.written = end;
            if let Err(errno) = page_cache::write_back(descriptor, range) {
                self.plan.status.refused_io(self.rule, errno);
            }
        }
    }

    /// The run is over: all that it brought in is dropped.
    pub(super) fn drop_rest(&mut self, descriptor: i32, number: usize) {
        let Run { rule, is_write, .. } = *self.file.runs.at(number);
        let reads_ahead = self.reads_ahead(is_write);
        while let Some((chunk, others)) = self.file.runs.at(number).behind.take_rest(reads_ahead) {
            self.drop_chunk(descriptor, (chunk, others), rule);
        }
    }

    fn drop_chunk(&mut self, descriptor: i32, (chunk, others): (u64, u32), rule: usize) {
        let status = &self.plan.status;
        status.add_to_io(
            rule,
            OfIo::Theirs,
            u64::from(others.count_ones()) * (GRANULE / PAGE),
        );
        for part in behind::own_parts(chunk, others) {
            let before = page_cache::cached_pages(descriptor, part.clone()).unwrap_or(0);
            if before == 0 || !self.advise(descriptor, part.clone(), page_cache::DONT_NEED) {
                continue;
            }
            let left = page_cache::cached_pages(descriptor, part).unwrap_or(0);
            status.add_to_io(rule, OfIo::Stayed, left);
            status.add_to_io(rule, OfIo::Gone, before.saturating_sub(left));
        }
        self.withdraw_if_in_vain(rule);
    }

    pub(super) fn look_what_is_left(&mut self, call: &Call, bytes: u64) -> Option<()> {
        // A look at one call of every 2 MiB or so.
        let At::Offset(offset) = call.request.at else {
            return Some(());
        };
        let is_due = (offset + bytes) / CHUNK > offset / CHUNK;
        if is_due && !call.request.is_write && bytes >= PAGE {
            let range = offset..offset + bytes;
            let left = page_cache::cached_pages(call.request.descriptor, range).unwrap_or(0);
            let status = &self.plan.status;
            status.add_to_io(self.rule, OfIo::Stayed, left);
            status.add_to_io(self.rule, OfIo::Gone, (bytes / PAGE).saturating_sub(left));
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
