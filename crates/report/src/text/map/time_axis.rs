//! Time to the right.

use super::Marks;
use crate::units::duration;

/// Columns from one label to the next, at least.
const APART: usize = 12;

pub(super) struct TimeAxis {
    first_ns: u64,
    span_ns: u64,
    /// What is 0 on the axis.
    begin_ns: u64,
    columns: usize,
}

impl TimeAxis {
    pub(super) fn new(first_ns: u64, last_ns: u64, begin_ns: u64, columns: usize) -> Self {
        Self {
            first_ns,
            span_ns: (last_ns - first_ns).max(1),
            begin_ns,
            columns,
        }
    }

    /// 0 at the left to 1 at the right.
    pub(super) fn place(&self, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.first_ns) as f64 / self.span_ns as f64
    }

    pub(super) fn column_ns(&self) -> u64 {
        self.span_ns / self.columns as u64
    }

    /// The axis, and its labels below.
    pub(super) fn lines(&self, marks: Marks) -> [String; 2] {
        let mut axis: Vec<char> = vec![marks.line; self.columns];
        let mut labels = String::new();
        for (column, label) in self.ticks() {
            // Under its tick, as far as there is room.
            let at = column.min(self.columns.saturating_sub(label.len()));
            if at < labels.len() + usize::from(!labels.is_empty()) {
                continue;
            }
            axis[column] = marks.tick;
            labels.push_str(&" ".repeat(at - labels.len()));
            labels.push_str(&label);
        }
        let axis: String = axis.into_iter().collect();
        [format!("{}{axis}", marks.corner), format!(" {labels}")]
    }

    /// Round times, and the columns they are in.
    fn ticks(&self) -> Vec<(usize, String)> {
        let step = round_up(self.column_ns().saturating_mul(APART as u64));
        let from = self.first_ns.saturating_sub(self.begin_ns);
        let Some(first) = from.checked_next_multiple_of(step) else {
            return Vec::new(); // no trace is that old
        };
        let ticks = (0..).map(|number| first.saturating_add(step.saturating_mul(number)));
        ticks
            .take_while(|tick| tick - from <= self.span_ns)
            .take(self.columns)
            .map(|tick| {
                let share = (tick - from) as f64 / self.span_ns as f64;
                let column = ((share * self.columns as f64) as usize).min(self.columns - 1);
                (column, duration(tick))
            })
            .collect()
    }
}

/// The next of 1, 2, 5, 10, 20, ...
fn round_up(ns: u64) -> u64 {
    let mut unit = 1u64;
    loop {
        for digit in [1, 2, 5] {
            let step = unit.saturating_mul(digit);
            if step >= ns || step > u64::MAX / 10 {
                return step;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_round_and_do_not_touch() {
        let marks = Marks {
            dots: false,
            edge: '|',
            corner: '+',
            line: '-',
            tick: 'v',
        };
        let begin = 5_000_000_000;
        let axis = TimeAxis::new(begin + 300_000_000, begin + 8_300_000_000, begin, 60);
        let [line, labels] = axis.lines(marks);
        assert_eq!(
            line,
            "+------------v--------------v--------------v--------------v-----"[..61]
        );
        assert_eq!(
            labels,
            "             2.0 s          4.0 s          6.0 s        8.0 s"
        );
        assert_eq!(axis.column_ns(), 133_333_333);
    }

    #[test]
    fn a_moment_has_an_axis_too() {
        let marks = Marks {
            dots: false,
            edge: '|',
            corner: '+',
            line: '-',
            tick: 'v',
        };
        for (first, last) in [(7, 7), (0, 1), (0, u64::MAX), (u64::MAX - 1, u64::MAX)] {
            let axis = TimeAxis::new(first, last, 0, 20);
            assert_eq!(axis.lines(marks)[0].len(), 21);
            assert_eq!(axis.place(first), 0.0);
        }
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([1, 3, 11, 999, 5000].map(round_up), [1, 5, 20, 1000, 5000]);
        assert!(round_up(u64::MAX) > 1 << 60);
    }
}
