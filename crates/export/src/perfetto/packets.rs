//! Writing packets: one sequence, whose texts are numbered and written once.

use std::collections::HashMap;
use std::io;
use std::io::Write;

use prost::Message;

use super::proto::Data;
use super::proto::InternedData;
use super::proto::InternedText;
use super::proto::NEEDS_STATE;
use super::proto::STATE_CLEARED;
use super::proto::Trace;
use super::proto::TracePacket;

/// Any number but 0, which means none.
const SEQUENCE: u32 = 1;

/// Texts of one kind, numbered from 1.
#[derive(Default)]
struct Texts {
    numbers: HashMap<String, u64>,
    /// Not written yet.
    new: Vec<InternedText>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.to_owned(), number);
        self.new.push(InternedText {
            iid: Some(number),
            text: Some(text.to_owned()),
        });
        number
    }
}

/// Writes packets one by one.
pub(crate) struct Packets<'out, W: Write> {
    out: &'out mut W,
    buffer: Vec<u8>,
    categories: Texts,
    names: Texts,
    annotation_names: Texts,
    annotation_texts: Texts,
    begun: bool,
}

impl<'out, W: Write> Packets<'out, W> {
    pub(crate) fn new(out: &'out mut W) -> Self {
        Packets {
            out,
            buffer: Vec::new(),
            categories: Texts::default(),
            names: Texts::default(),
            annotation_names: Texts::default(),
            annotation_texts: Texts::default(),
            begun: false,
        }
    }

    /// The number of a category, to be used in the next packet or later; so the next three.
    pub(crate) fn category(&mut self, text: &str) -> u64 {
        self.categories.number(text)
    }

    pub(crate) fn name(&mut self, text: &str) -> u64 {
        self.names.number(text)
    }

    pub(crate) fn annotation_name(&mut self, text: &str) -> u64 {
        self.annotation_names.number(text)
    }

    pub(crate) fn annotation_text(&mut self, text: &str) -> u64 {
        self.annotation_texts.number(text)
    }

    pub(crate) fn write(&mut self, timestamp: Option<u64>, data: Data) -> io::Result<()> {
        let flags = if self.begun {
            NEEDS_STATE
        } else {
            STATE_CLEARED | NEEDS_STATE
        };
        self.begun = true;
        let packet = TracePacket {
            timestamp,
            trusted_packet_sequence_id: Some(SEQUENCE),
            interned_data: self.new_texts(),
            sequence_flags: Some(flags),
            data: Some(data),
        };
        self.buffer.clear();
        let trace = Trace {
            packet: vec![packet],
        };
        // A vector takes all there is.
        trace.encode(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    fn new_texts(&mut self) -> Option<InternedData> {
        let texts = InternedData {
            event_categories: std::mem::take(&mut self.categories.new),
            event_names: std::mem::take(&mut self.names.new),
            debug_annotation_names: std::mem::take(&mut self.annotation_names.new),
            debug_annotation_string_values: std::mem::take(&mut self.annotation_texts.new),
        };
        (texts != InternedData::default()).then_some(texts)
    }
}
