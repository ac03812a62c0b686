//! The tables of a trace.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`; addresses and sizes are bytes. A field of type
//! `Option` is a nullable column, and `None` always means unknown or not applicable.

mod events;
mod file_io;
mod looks;
mod objects;

pub use self::events::*;
pub use self::file_io::*;
pub use self::looks::*;
pub use self::objects::*;

/// Calls a macro with `field: RowType,` for every table, in the order of their files' writing.
macro_rules! with_all_tables {
    ($callback:ident) => {
        $callback! {
            events: Event,
            spaces: Space,
            allocations: Allocation,
            releases: Release,
            moves: Move,
            mappings: Mapping,
            stacks: StackFrame,
            frames: Frame,
            sites: Site,
            globals: Global,
            samples: Sample,
            region_accesses: RegionAccess,
            stalls: Stall,
            run_delays: RunDelay,
            pressure: Pressure,
            accesses: Access,
            glances: Glance,
            spot_looks: SpotLook,
            spot_glances: SpotGlance,
            write_looks: WriteLook,
            residency: Residency,
            residency_scans: ResidencyScan,
            thread_faults: ThreadFaults,
            headway: Headway,
            event_counts: EventCount,
            stall_counts: StallCount,
            given_names: GivenName,
            io_calls: IoCall,
            io_files: IoFile,
            io_cache: IoCache,
            io_sums: IoSum,
        }
    };
}
pub(crate) use with_all_tables;

macro_rules! table_names {
    ($( $field:ident: $row:ident, )*) => {
        /// The names of all tables; each is the stem of a file in the trace's folder.
        pub const TABLE_NAMES: &[&str] = &[$( stringify!($field) ),*];
    };
}
with_all_tables!(table_names);
