//! Text tables with aligned columns: the first to the left, the others to the right.

/// One line per row, columns as wide as their widest cell.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let fill = " ".repeat(widths[column] - cell.chars().count());
            if column == 0 { format!("{cell}{fill}") } else { format!("{fill}{cell}") }
        });
        text.push_str(format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end());
        text.push('\n');
    }
    text
}
