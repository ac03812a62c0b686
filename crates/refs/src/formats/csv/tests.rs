//! The quick way through a line says what the careful one says.

use proptest::prelude::*;

use super::Csv;
use crate::block::Block;
use crate::cursor::Cursor;
use crate::decode::LineDecoder;

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..100_000_u64).prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        4 => prop_oneof![Just("28"), Just("2a"), Just("R"), Just("write"), Just("reads")].prop_map(str::to_owned),
        1 => prop_oneof![Just("\"7\""), Just("\"a,8\""), Just(" 5 "), Just("0x1f"), Just(""), Just("-1")]
            .prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn quickly_read_lines_are_those_read_with_care(
        lines in prop::collection::vec(prop::collection::vec(field(), 1..6), 1..8),
        carriage in 0..4_usize,
    ) {
        let mut quick = Csv::new(b"time,op,size,lbn\n", None, None).unwrap();
        let mut careful = quick.clone();
        (quick.header, careful.header) = (false, false);
        for fields in lines {
            let line = fields.join(",");
            let block = Block::of(format!("{line}{}\n1\n", ["", "", "", "\r"][carriage]).as_bytes());
            let mut cursor = Cursor::new(block.padded(), 0);
            let mut runs = Vec::new();
            let result = quick.line(&mut cursor, &mut runs);
            prop_assert_eq!(cursor.peek(), b'1', "it goes on to the next line: {}", line);
            if line.is_empty() {
                continue;
            }
            match careful.parse(line.as_bytes()) {
                Ok(run) => prop_assert_eq!((result, runs), (Ok(()), vec![run]), "{}", line),
                Err(expected) => prop_assert_eq!(result, Err(expected), "{}", line),
            }
        }
    }
}

#[test]
fn events_of_a_recording_are_no_references() {
    let head = b"time_ns,space,pid,tid,kind,address,latency_ns,object,object_kind,name\n";
    let why = Csv::new(head, None, None).unwrap_err();
    assert!(why.contains("name the recording itself"), "{why}");
}
