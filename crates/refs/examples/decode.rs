//! How fast a trace is decoded: `decode TRACE [FORMAT]`. Prints references, pages, processor seconds and references a
//! processor second (of all threads, decompression included).

use std::path::Path;
use std::time::Instant;

use pagewise_refs::Options;
use pagewise_refs::Reader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: decode TRACE [FORMAT]")?;
    let format = arguments.next().map(|name| name.parse()).transpose()?;
    let options = Options {
        format,
        ..Options::default()
    };
    let wall = Instant::now();
    let before = processor_seconds()?;
    let mut reader = Reader::open(Path::new(&path), &options)?;
    while reader.next_chunk()?.is_some() {}
    let seconds = processor_seconds()? - before;
    println!(
        "{} {} references, {} pages, {:.1} ms wall, {:.1} ms processor, {:.1} M/s",
        reader.format(),
        reader.references(),
        reader.pages(),
        wall.elapsed().as_secs_f64() * 1e3,
        seconds * 1e3,
        reader.references() as f64 / seconds / 1e6
    );
    Ok(())
}

/// Processor time of this process, its threads that have ended included.
fn processor_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
