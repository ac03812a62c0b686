//! The formats and what may be chosen about them, by the names they have on the command line.

use std::fmt;
use std::str::FromStr;

/// A choice out of a few named values.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $choice:ident: $what:literal { $( $(#[$value_meta:meta])* $value:ident = $name:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice { $( $(#[$value_meta])* $value, )* }

        impl $choice {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$( Self::$value ),*];

            /// The word for it on the command line.
            pub fn name(self) -> &'static str {
                match self { $( Self::$value => $name ),* }
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl FromStr for $choice {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|value| value.name() == text);
                found.ok_or_else(|| {
                    let names: Vec<&str> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!(concat!("no ", $what, " {:?}: there are {}"), text, names.join(", "))
                })
            }
        }
    };
}

named! {
    /// What an export is written for.
    pub enum Format: "format" {
        /// Perfetto's trace: a timeline by process and thread.
        Perfetto = "perfetto",
        /// pprof's profile: sums by call path.
        Pprof = "pprof",
        /// Collapsed stacks: input of flame graphs.
        Folded = "folded",
        /// Each event as a line of text.
        Csv = "csv",
        /// Each event as a row of one table.
        Parquet = "parquet",
    }
}

impl Format {
    /// The name a file of it usually has.
    pub fn default_file_name(self) -> &'static str {
        match self {
            Self::Perfetto => "pagewise.perfetto-trace",
            Self::Pprof => "pagewise.pb.gz",
            Self::Folded => "pagewise.folded",
            Self::Csv => "pagewise.csv",
            Self::Parquet => "pagewise.parquet",
        }
    }

    /// Whether it may be shown on a terminal.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Folded | Self::Csv)
    }
}

named! {
    /// What the numbers of a flame graph count.
    pub enum Weight: "weight" {
        /// Faults that found a swap entry.
        SwapIns = "swap_ins",
        /// Time spent in them, ns.
        StallNs = "stall_ns",
        /// Pages that left memory.
        Evictions = "evictions",
        /// Bytes that calls on files read or wrote.
        IoBytes = "io_bytes",
        /// Time that these calls took, ns.
        IoNs = "io_ns",
    }
}

impl Weight {
    /// Whether it counts calls on files, which have no objects.
    pub fn is_of_io(self) -> bool {
        matches!(self, Self::IoBytes | Self::IoNs)
    }
}

named! {
    /// Whose call path a sum is given to.
    pub enum CallPathOf: "call path" {
        /// Of the allocation that made the object.
        Allocation = "allocation",
        /// Of the fault.
        Fault = "fault",
    }
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a flame graph's numbers count.
    pub weight: Weight,
    /// Whose call paths a profile or flame graph shows.
    pub call_path_of: CallPathOf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            weight: Weight::SwapIns,
            call_path_of: CallPathOf::Allocation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused_with_the_choice() {
        for &format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        let refusal = "Perfetto".parse::<Format>().expect_err("refused");
        assert_eq!(
            refusal,
            "no format \"Perfetto\": there are perfetto, pprof, folded, csv, parquet"
        );
    }
}
