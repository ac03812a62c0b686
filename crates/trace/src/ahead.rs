//! Batches that another thread decodes.

use std::panic::resume_unwind;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::channel;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::thread::JoinHandle;

use arrow_array::RecordBatch;

use crate::error::Result;
use crate::rows::Batches;

/// How many batches wait at most: enough that neither waits for the other's single slow one.
const AHEAD: usize = 8;

/// The receiving end.
pub(crate) struct Ahead {
    batches: Receiver<Result<RecordBatch>>,
    rows_left: u64,
    /// `None` after the end.
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Hands batches to a thread of their own; gives them back as they are if there can be none.
    pub(crate) fn of(batches: Batches) -> Batches {
        let rows_left = batches.rows_left();
        let (give, take) = channel::<Batches>();
        let (sender, receiver) = sync_channel(AHEAD);
        let decode = move || {
            let Ok(mut batches) = take.recv() else { return };
            while let Some(batch) = batches.next() {
                // Nobody listens any more: the reader was dropped.
                if sender.send(batch).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("decode".to_owned());
        match thread.spawn(decode) {
            Ok(thread) => match give.send(batches) {
                Ok(()) => Batches::Ahead(Self {
                    batches: receiver,
                    rows_left,
                    thread: Some(thread),
                }),
                Err(unsent) => unsent.0,
            },
            Err(_) => batches,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Result<RecordBatch>> {
        let Ok(batch) = self.batches.recv() else {
            // The sender is gone after the last batch, or after an error, which it has sent; or it has panicked, and
            // nobody would know that rows are missing.
            if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                resume_unwind(panic);
            }
            return None;
        };
        if let Ok(batch) = &batch {
            self.rows_left = self.rows_left.saturating_sub(batch.num_rows() as u64);
        }
        Some(batch)
    }

    pub(crate) fn rows_left(&self) -> u64 {
        self.rows_left
    }
}

#[cfg(test)]
mod tests {
    use crate::meta::Meta;
    use crate::tables::Event;
    use crate::tables::EventKind;
    use crate::trace::Trace;
    use crate::writer::Overwrite;
    use crate::writer::TraceWriter;

    const EVENTS: u64 = 100_000;

    fn scatter(number: u64) -> u64 {
        let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    fn trace() -> (tempfile::TempDir, Trace) {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("trace");
        let mut writer =
            TraceWriter::create(&dir, Meta::default(), Overwrite::Refuse).expect("a trace");
        for time_ns in 0..EVENTS {
            let event = Event {
                time_ns: time_ns * 977 % 100_003,
                space: 1,
                tid: Some(7),
                kind: EventKind::SwapIn,
                // Not compressible, so that there is something to decode.
                address: scatter(time_ns) & !4095,
                latency_ns: Some(time_ns % 1013),
                stack: None,
            };
            writer.events.push(event).expect("pushed");
        }
        writer.close().expect("closed");
        let trace = Trace::open(&dir).expect("opened");
        (folder, trace)
    }

    #[test]
    fn the_rows_are_the_same() {
        let (_folder, trace) = trace();
        let ahead = trace.events().expect("readable").read_ahead();
        assert_eq!(ahead.size_hint().1, Some(EVENTS as usize + 1));
        let plain = trace.events().expect("readable");
        assert!(ahead.map(Result::unwrap).eq(plain.map(Result::unwrap)));
    }

    #[test]
    fn it_may_be_left_in_the_middle() {
        let (_folder, trace) = trace();
        let mut rows = trace.events().expect("readable").read_ahead();
        assert!(rows.next().is_some_and(|row| row.is_ok()));
        drop(rows);
    }
}
