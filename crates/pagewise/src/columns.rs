//! Tables in a terminal.

/// The first column to the left, the others to the right.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let fields = line.iter().zip(&widths).enumerate();
        let padded = fields.map(|(column, (field, width))| match column {
            0 => format!("{field:<width$}"),
            _ => format!("  {field:>width$}"),
        });
        text.push_str(padded.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}
