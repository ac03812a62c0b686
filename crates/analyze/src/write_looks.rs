//! Whose pages were written: looks at pages that had come back from swap.

use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::spaces::Spaces;
use crate::tallies::Tallies;

/// Adds them to what is counted of each object; goes through `spaces` once more. A page that several objects share counts as the one's that
/// holds its first byte.
pub(crate) fn count(
    trace: &Trace,
    spaces: &mut Spaces,
    tallies: &mut Tallies,
) -> Result<(), TraceError> {
    let mut looks = trace.write_looks()?.peekable();
    if looks.peek().is_none() {
        return Ok(());
    }
    spaces.rewind();
    for look in looks {
        let look = look?;
        spaces.advance(look.time_ns);
        let (object, _) = spaces.find_run(look.space, look.address);
        let tally = tallies.object(object);
        tally.counts.add_look(&look);
        tally.watch.look(&look);
    }
    Ok(())
}
