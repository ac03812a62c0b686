extern crate std;

use std::vec;

use super::*;

const FAULT: Fault = Fault {
    pid: 1,
    tid: 2,
    kind: FaultKind::UseAfterFree,
    access: Access::Write,
    access_bytes: Some(4),
    address: 5,
    object: Some(Object {
        address: 6,
        bytes: 7,
        is_freed: true,
        family: Family::NewArray,
    }),
    given_to: Family::New,
    first_frame_is_exact: true,
    threads: [8, 9],
    leaked: [10, 11],
    function: *b"read\0\0\0\0\0\0\0\0\0\0\0\0",
    near_address: 12,
};

fn encoded(fault: &Fault) -> vec::Vec<u8> {
    let paths: [&[u64]; 3] = [&[1, 2, 3], &[], &[u64::MAX]];
    let mut bytes = vec![0; Fault::wire_bytes(&paths, b"near")];
    fault.encode(&mut bytes, &paths, b"near");
    bytes
}

#[test]
fn a_fault_survives_the_wire() {
    let bytes = encoded(&FAULT);
    let Ok(GuardRecord::Fault(read)) = decode(&bytes, FAULT_KIND) else {
        panic!("no fault")
    };
    assert_eq!(read.fault, FAULT);
    let frames = |index: usize| read.paths[index].iter().collect::<vec::Vec<_>>();
    assert_eq!(frames(0), [1, 2, 3]);
    assert_eq!(frames(1), []);
    assert_eq!(frames(2), [u64::MAX]);
    assert_eq!(read.near, b"near");
    let bare = Fault {
        object: None,
        access_bytes: None,
        ..FAULT
    };
    let bytes = encoded(&bare);
    assert!(
        matches!(decode(&bytes, FAULT_KIND), Ok(GuardRecord::Fault(read)) if read.fault == bare)
    );
}

#[test]
fn a_summary_survives_the_wire() {
    let summary = Summary {
        pid: 1,
        has_guard_regions: true,
        allocations: 2,
        sizes: core::array::from_fn(|index| index as u64),
        paths: 9,
        left_out: 10,
        reused_early: 11,
        compaction: Compaction::Refused,
        compaction_errno: 1,
        compacted_objects: 11,
        compacted_bytes: 12,
        store_bytes: 13,
        compactions: 14,
        restores: 15,
        resident_bytes: 16,
        compacted_sizes: core::array::from_fn(|index| 20 + index as u64),
        ..Summary::default()
    };
    let mut bytes = [0; Summary::WIRE_BYTES];
    summary.encode(&mut bytes);
    assert_eq!(
        decode(&bytes, SUMMARY_KIND),
        Ok(GuardRecord::Summary(summary))
    );
}

#[test]
fn what_is_cut_or_out_of_range_is_refused() {
    let bytes = encoded(&FAULT);
    for length in 0..bytes.len() - 7 {
        assert!(decode(&bytes[..length], FAULT_KIND).is_err(), "{length}");
    }
    // Kind, access, families, frames, bytes near.
    for at in [16, 17, 20, 21, 8 + 88, 8 + 91] {
        let mut wrong = bytes.clone();
        wrong[at] = 0xff;
        assert_eq!(
            decode(&wrong, FAULT_KIND),
            Err(RecordError::Content),
            "{at}"
        );
    }
    assert_eq!(decode(&[0; 64], SUMMARY_KIND), Err(RecordError::Length));
    assert_eq!(decode(&bytes, 9), Err(RecordError::Content));
}
