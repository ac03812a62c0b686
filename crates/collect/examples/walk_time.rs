//! How long a walk of a process's page tables takes: processor time for each region of 2 MiB, ns, median of so many walks.
//! usage: walk_time PID [WALKS]

use std::time::Duration;

use pagewise_collect::AccessSensor;
use pagewise_collect::access::Pages;
use pagewise_collect::access::pages_in;
use pagewise_collect::calibrate;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let pid = words
        .get(1)
        .ok_or("usage: walk_time PID [WALKS]")?
        .parse()?;
    let walks: usize = words.get(2).map_or(Ok(11), |text| text.parse())?;
    let mut sensor = AccessSensor::load(calibrate()?)?;
    sensor.leave_out_zero_page();
    let pages = Pages::open(pid)?.ok_or("it has ended")?;
    let (mut took, mut regions, mut resident) = (Vec::new(), 0, 0);
    for _ in 0..walks {
        (regions, resident) = (0, 0);
        let began = processor_time();
        sensor.walk(&pages, |region| {
            regions += 1;
            resident += u64::from(pages_in(&region.resident));
        })?;
        took.push((processor_time() - began).as_nanos() as u64);
    }
    took.sort_unstable();
    println!(
        "{} ns a region; {regions} regions, {resident} pages in memory",
        took[took.len() / 2] / regions.max(1)
    );
    Ok(())
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
