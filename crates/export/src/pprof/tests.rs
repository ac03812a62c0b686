//! The profile is what pprof's readers expect, and its sums are the trace's.

use std::collections::HashSet;

use prost::Message;

use super::proto::Profile;
use crate::Format;
use crate::Options;
use crate::tests::exported;
use crate::tests::trace_of;
use crate::tests::unzipped;
use crate::tests::usual_events;

fn profile() -> Profile {
    let (_folder, trace) = trace_of(&usual_events());
    let bytes = unzipped(&exported(&trace, Format::Pprof, Options::default()));
    Profile::decode(&bytes[..]).expect("a profile")
}

impl Profile {
    fn text(&self, number: i64) -> &str {
        &self.string_table[number as usize]
    }

    /// The call path of a sample, innermost first, as `function:line`.
    fn path(&self, sample: usize) -> Vec<String> {
        let ids = self.sample[sample].location_id.iter();
        let locations = ids.map(|id| &self.location[*id as usize - 1]);
        let lines = locations.flat_map(|location| &location.line);
        lines
            .map(|line| {
                let function = &self.function[line.function_id as usize - 1];
                format!("{}:{}", self.text(function.name), line.line)
            })
            .collect()
    }
}

#[test]
fn samples_have_call_paths_sums_and_the_object() {
    let profile = profile();
    let types: Vec<(&str, &str)> = profile
        .sample_type
        .iter()
        .map(|kind| (profile.text(kind.kind), profile.text(kind.unit)))
        .collect();
    assert_eq!(types, super::SAMPLE_TYPES);
    assert_eq!(profile.text(profile.default_sample_type), "stall");
    let found: Vec<(Vec<String>, &str, &[i64])> = (0..profile.sample.len())
        .map(|number| {
            let sample = &profile.sample[number];
            let object = &sample.label[0];
            assert_eq!(profile.text(object.key), "object");
            (
                profile.path(number),
                profile.text(object.text),
                &sample.value[..],
            )
        })
        .collect();
    let paths = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found,
        [
            (
                paths(&["(memory of no recorded object):0"]),
                "(memory of no recorded object)",
                &[1, 7, 0, 4096][..]
            ),
            (
                paths(&["new_grid:12", "setup<[u8; 4]>:31", "main:40"]),
                "grid (sweep.c:12)",
                &[4, 200, 1, 4 * 4096]
            ),
            (
                paths(&["table, \"big\":0"]),
                "table, \"big\"",
                &[1, 20, 1, 4096]
            ),
        ]
    );
    assert_eq!(profile.duration_nanos, 3_000_000_000);
    assert_eq!(profile.time_nanos, 1_700_000_000_000_000_000);
    assert_eq!(profile.text(profile.mapping[0].filename), "/usr/bin/sweep");
}

/// What `CheckValid` of github.com/google/pprof/profile demands.
#[test]
fn every_reference_leads_somewhere() {
    let profile = profile();
    assert_eq!(profile.string_table[0], "");
    let texts = &profile.string_table;
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len());
    let numbered = |ids: Vec<u64>| assert!(ids.iter().zip(1..).all(|(&id, number)| id == number));
    numbered(
        profile
            .location
            .iter()
            .map(|location| location.id)
            .collect(),
    );
    numbered(
        profile
            .function
            .iter()
            .map(|function| function.id)
            .collect(),
    );
    numbered(profile.mapping.iter().map(|mapping| mapping.id).collect());
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), profile.sample_type.len());
        let known = 1..=profile.location.len() as u64;
        assert!(!sample.location_id.is_empty());
        assert!(sample.location_id.iter().all(|id| known.contains(id)));
    }
    for location in &profile.location {
        assert!(location.mapping_id <= profile.mapping.len() as u64);
        let known = 1..=profile.function.len() as u64;
        assert!(
            location
                .line
                .iter()
                .all(|line| known.contains(&line.function_id))
        );
    }
}
