//! Tables for people.

use comfy_table::{CellAlignment, Table, presets};

/// A table without lines; all columns but the first `n_left` hold numbers, which end where the others end.
pub(super) fn table(header: &[&str], n_left: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(n_left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
