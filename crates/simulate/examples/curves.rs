//! Compares a sampled curve of LRU with the exact one and prints one line of JSON.
//! usage: curves FILE RATE
//!
//! Times are of decoded references; `decode_ns` tells what reading the file took.

mod common;

use std::env;
use std::error::Error;
use std::path::Path;

use common::cpu_ns;
use pagewise_simulate::Curve;
use pagewise_simulate::CurveBuilder;
use pagewise_simulate::Reference;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, rate] = arguments.as_slice() else {
        return Err("usage: curves FILE RATE".into());
    };
    let begin = cpu_ns();
    let mut trace = Vec::new();
    common::read(Path::new(file), |references| {
        trace.extend_from_slice(references)
    })?;
    let decode_ns = cpu_ns() - begin;
    let (exact, exact_ns) = curve(&trace, 1.0);
    let (sampled, sampled_ns) = curve(&trace, rate.parse()?);
    let mut errors = 0.0;
    let mut stated = 0.0;
    for percent in 1..=100 {
        let frames = (exact.footprint() * percent / 100).max(1);
        let ratio = |curve: &Curve| curve.outcome(frames).miss_ratio().unwrap_or(0.0);
        errors += (ratio(&exact) - ratio(&sampled)).abs() / 100.0;
        stated += sampled.standard_error(frames).unwrap_or(0.0) / 100.0;
    }
    println!(
        "{{\"decode_ns\": {decode_ns}, \"exact_ns\": {exact_ns}, \"sampled_ns\": {sampled_ns}, \
         \"mean_absolute_error\": {errors:.5}, \"stated_error\": {stated:.5}}}"
    );
    Ok(())
}

fn curve(trace: &[Reference], rate: f64) -> (Curve, u64) {
    let begin = cpu_ns();
    let mut builder = CurveBuilder::new(rate, 0, None);
    builder.feed(trace);
    let curve = builder.finish();
    (curve, cpu_ns() - begin)
}
