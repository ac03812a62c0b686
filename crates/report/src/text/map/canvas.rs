//! Points as characters.

use super::Style;

/// What there is to draw with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// Braille patterns, two dots wide and four high; else ASCII, one mark to a character.
    pub(super) dots: bool,
    pub(super) edge: char,
    pub(super) corner: char,
    pub(super) line: char,
    pub(super) tick: char,
}

impl Marks {
    pub(super) fn of(style: Style) -> Self {
        match style.unicode {
            true => Self {
                dots: true,
                edge: '│',
                corner: '└',
                line: '─',
                tick: '┬',
            },
            false => Self {
                dots: false,
                edge: '|',
                corner: '+',
                line: '-',
                tick: '+',
            },
        }
    }

    /// Points side by side and above each other in a character.
    fn in_character(self) -> (usize, usize) {
        if self.dots { (2, 4) } else { (1, 1) }
    }
}

pub(super) struct Canvas {
    marks: Marks,
    columns: usize,
    rows: usize,
    /// How many points lie in each, row by row.
    counts: Vec<u32>,
}

impl Canvas {
    pub(super) fn new(columns: usize, rows: usize, marks: Marks) -> Self {
        let (wide, high) = marks.in_character();
        Self {
            marks,
            columns,
            rows,
            counts: vec![0; columns * wide * rows * high],
        }
    }

    /// Marks a point; both from 0 to 1.
    pub(super) fn mark(&mut self, right: f64, down: f64) {
        let (wide, high) = self.marks.in_character();
        let (width, height) = (self.columns * wide, self.rows * high);
        let at = |share: f64, of: usize| ((share * of as f64) as usize).min(of - 1);
        let count = &mut self.counts[at(down, height) * width + at(right, width)];
        *count = count.saturating_add(1);
    }

    pub(super) fn rows(&self) -> Vec<String> {
        let most = self.counts.iter().copied().max().unwrap_or(0);
        (0..self.rows)
            .map(|row| {
                let cells = (0..self.columns).map(|column| match self.marks.dots {
                    true => self.dots(row, column),
                    false => shade(self.counts[row * self.columns + column], most),
                });
                cells.collect()
            })
            .collect()
    }

    /// Unicode's braille patterns: U+2800 and a bit for each dot, the lowest row having come later than the others.
    fn dots(&self, row: usize, column: usize) -> char {
        const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let width = 2 * self.columns;
        let mut bits = 0;
        for (down, pair) in BITS.iter().enumerate() {
            for (right, bit) in pair.iter().enumerate() {
                if self.counts[(4 * row + down) * width + 2 * column + right] > 0 {
                    bits |= bit;
                }
            }
        }
        match bits {
            0 => ' ',
            _ => char::from_u32(0x2800 + bits).unwrap_or('?'),
        }
    }
}

fn shade(count: u32, most: u32) -> char {
    match count {
        0 => ' ',
        _ if u64::from(count) * 2 >= u64::from(most) => '#',
        _ if u64::from(count) * 4 >= u64::from(most) => '+',
        _ if u64::from(count) * 8 >= u64::from(most) => ':',
        _ => '.',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(unicode: bool) -> Style {
        Style {
            width: 80,
            color: false,
            unicode,
            objects: 1,
            library_frames: false,
            whole_paths: false,
        }
    }

    #[test]
    fn a_line_is_a_line() {
        let mut canvas = Canvas::new(4, 2, Marks::of(style(true)));
        for step in 0..8 {
            canvas.mark(f64::from(step) / 8.0, f64::from(step) / 8.0);
        }
        assert_eq!(canvas.rows(), ["⠑⢄  ", "  ⠑⢄"]);
    }

    #[test]
    fn in_ascii_more_is_darker() {
        let mut canvas = Canvas::new(5, 1, Marks::of(style(false)));
        for (column, number) in [(0, 1), (1, 2), (2, 4), (3, 16)] {
            (0..number).for_each(|_| canvas.mark(f64::from(column) / 5.0, 0.0));
        }
        assert_eq!(canvas.rows(), [".:+# "]);
        canvas.mark(1.0, 1.0);
        assert_eq!(canvas.rows(), [".:+#."], "the end is inside");
    }
}
