//! What the trace means: objects, patterns, totals.
