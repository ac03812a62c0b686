//! Over the whole program: what is no longer read ahead in vain may pay for dropping what is hardly used again.
//!
//! A context that is dropped behind leaves memory free, and what was used again while it was still cached has to be read once more. Where
//! reading ahead less spares more than that, the program reads no more than without any advice, and memory is free besides.

use super::class::Advice;
use super::class::Class;
use super::class::Thresholds;
use super::context::IoContext;
use super::context::Use;

/// Gives contexts that are hardly used again the advice to drop, those first that free most for what it costs.
pub(crate) fn drop_what_is_paid_for(contexts: &mut [IoContext], thresholds: &Thresholds) {
    if thresholds.memory_bytes.is_none() {
        return;
    }
    let mut spared: u64 = contexts.iter().filter_map(spared_bytes).sum();
    let mut candidates: Vec<(u64, &mut IoContext)> = contexts
        .iter_mut()
        .filter_map(|context| Some((cost(context, thresholds)?, context)))
        .collect();
    candidates.sort_by(|(cost, context), (other_cost, other)| {
        let per_byte = |cost: u64, bytes: u64| cost as f64 / bytes.max(1) as f64;
        per_byte(*cost, context.bytes).total_cmp(&per_byte(*other_cost, other.bytes))
    });
    for (cost, context) in candidates {
        let Some(left) = spared.checked_sub(cost) else {
            return;
        };
        spared = left;
        context.advice = Advice::DropBehind;
    }
}

/// What was read ahead and gone before it was used, less what is dropped and read once more.
fn spared_bytes(context: &IoContext) -> Option<u64> {
    let used = context.reuse?.again_cached_bytes?;
    let unused = context.unused_ahead_bytes?;
    let is_dropped = matches!(
        context.advice,
        Advice::RandomDropBehind | Advice::DropBehind
    );
    is_dropped.then(|| unused.saturating_sub(used))
}

/// What dropping it would have to be read again. `None`: it is not to be dropped for this.
fn cost(context: &IoContext, thresholds: &Thresholds) -> Option<u64> {
    let reuse = context.reuse?;
    let is_large = context.mean_bytes()? >= thresholds.large_call_bytes;
    let again_bytes = reuse.again_cached_bytes?;
    let is_cheap = reuse.again_cached_share()? <= thresholds.paid_for_share;
    let in_order = context.classes.first() == Some(&Class::Sequential);
    let is_free = matches!(
        context.advice,
        Advice::Keep | Advice::KeepResident | Advice::Sequential
    );
    (context.does == Use::Read && is_large && is_cheap && in_order && is_free)
        .then_some(again_bytes)
}
