//! Text tables with aligned columns.

use crate::RenderContext;
use crate::style::{Ink, clean, columns, shorten, wrap};

/// Number of blanks between columns.
const GAP: usize = 2;
/// Lines that the last column may take on a terminal before it is shortened.
const LAST_LINES: usize = 2;
/// Smallest width of the last column, even on a narrower terminal.
const LAST_MIN_WIDTH: usize = 10;
/// Smallest width of the other columns.
const MIN_WIDTH: usize = 4;
/// If the last column would get less than this, dispensable columns are left out.
const LAST_GOOD_WIDTH: usize = 24;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At the left, for words.
    Left,
    /// At the right, for numbers.
    Right,
}

/// One field of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    ink: Ink,
}

impl Cell {
    /// Returns a cell with text in an ink. Control characters are replaced.
    #[must_use]
    pub fn inked(text: impl AsRef<str>, ink: Ink) -> Self {
        Self { text: clean(text.as_ref()).into_owned(), ink }
    }

    fn width(&self) -> usize {
        columns(&self.text)
    }

    fn padded(&self, width: usize, align: Align, context: RenderContext) -> String {
        let own = self.width();
        let pad = " ".repeat(width.saturating_sub(own));
        let body = if own > width {
            context.paint(self.ink, &shorten(&self.text, width))
        } else {
            context.paint(self.ink, &self.text)
        };
        match align {
            Align::Right => pad + &body,
            Align::Left => body + &pad,
        }
    }

    /// Returns the text in lines of at most `room` characters, at most [`LAST_LINES`] of them.
    fn lines(&self, room: usize, context: RenderContext) -> Vec<String> {
        let mut lines = wrap(&self.text, room);
        if lines.len() > LAST_LINES {
            let rest = lines.split_off(LAST_LINES - 1).join(" ");
            lines.push(rest);
        }
        lines.iter().map(|line| context.paint(self.ink, &shorten(line, room))).collect()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::inked(text, Ink::Plain)
    }
}

/// Rows under headings. A column that is empty in every row is left out; the last column wraps into
/// what the terminal has left for it.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
    /// Columns that are left out on a narrow terminal, in this order.
    spare: Vec<usize>,
}

impl Table {
    /// Returns an empty table with these headings.
    #[must_use]
    pub fn new<T: AsRef<str>>(columns: &[(T, Align)]) -> Self {
        let columns =
            columns.iter().map(|(heading, align)| (heading.as_ref().to_owned(), *align)).collect();
        Self { columns, rows: Vec::new(), indent: 0, spare: Vec::new() }
    }

    /// Moves the table right by this many blanks.
    #[must_use]
    pub fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// Marks the columns with these headings to be left out, in this order, while the last column
    /// would get less than `LAST_GOOD_WIDTH`.
    pub fn leave_out_first(&mut self, headings: &[&str]) {
        let at = |heading: &&str| self.columns.iter().position(|(known, _)| known == heading);
        self.spare = headings.iter().filter_map(at).collect();
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Returns the table as text. Measures every cell a fixed number of times: the cost grows with
    /// the number of cells.
    #[must_use]
    pub fn render(&self, context: RenderContext) -> String {
        // 1. Which columns, how wide; each cell is measured once for that.
        let widths = self.fitted(self.without_spared(self.widths(), context), context);
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|&column| widths[column] > 0).collect();
        let Some((&last, others)) = shown.split_last() else {
            return String::new();
        };
        let before: usize =
            self.indent + others.iter().map(|&column| widths[column] + GAP).sum::<usize>();
        let room = context
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(before).max(LAST_MIN_WIDTH));

        // 2. Rows.
        let headings: Vec<Cell> =
            self.columns.iter().map(|(heading, _)| Cell::inked(heading, Ink::Strong)).collect();
        let empty = Cell::default();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = " ".repeat(self.indent);
            for &column in others {
                let cell = row.get(column).unwrap_or(&empty);
                line.push_str(&cell.padded(widths[column], self.columns[column].1, context));
                line.push_str(&" ".repeat(GAP));
            }
            let cell = row.get(last).unwrap_or(&empty);
            if cell.width() <= room {
                line.push_str(&cell.padded(widths[last].min(room), self.columns[last].1, context));
            } else {
                line.push_str(&cell.lines(room, context).join(&format!("\n{:before$}", "")));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the widths with 0 for the columns that are left out on a terminal of this width.
    fn without_spared(&self, mut widths: Vec<usize>, context: RenderContext) -> Vec<usize> {
        let Some(room) = context.width else { return widths };
        let Some(last) = widths.iter().rposition(|width| *width > 0) else { return widths };
        for &spared in self.spare.iter().filter(|&&spared| spared != last) {
            let shown = widths[..last].iter().filter(|width| **width > 0);
            let others: usize = shown.map(|width| width + GAP).sum();
            if room >= self.indent + others + LAST_GOOD_WIDTH {
                break;
            }
            widths[spared] = 0;
        }
        widths
    }

    /// Narrows the columns before the last, the widest first, until the last one has its smallest
    /// width. On a terminal that is still too narrow, lines are longer than it is wide.
    fn fitted(&self, mut widths: Vec<usize>, context: RenderContext) -> Vec<usize> {
        let Some(last) = widths.iter().rposition(|width| *width > 0) else { return widths };
        let Some(room) = context.width else { return widths };
        let shown = widths[..last].iter().filter(|width| **width > 0).count();
        let room =
            room.saturating_sub(self.indent + GAP * shown + widths[last].min(LAST_MIN_WIDTH));
        let mut over = widths[..last].iter().sum::<usize>().saturating_sub(room);
        while over > 0 {
            let widest = (0..last).max_by_key(|column| widths[*column]);
            let Some(widest) = widest.filter(|column| widths[*column] > MIN_WIDTH) else { break };
            widths[widest] -= 1;
            over -= 1;
        }
        widths
    }

    /// Returns the width of each column; 0 where every row is empty.
    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        for (width, (heading, _)) in
            widths.iter_mut().zip(&self.columns).filter(|(width, _)| **width > 0)
        {
            *width = columns(heading).max(*width);
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&[
            ("N", Align::Right),
            ("NAME", Align::Left),
            ("GONE", Align::Left),
            ("NOTE", Align::Left),
        ]);
        table.row(vec![
            "1".into(),
            "left".into(),
            "".into(),
            "a rather long remark on the first".into(),
        ]);
        table.row(vec!["10".into(), "a\tb".into()]);
        table
    }

    #[test]
    fn columns_line_up_and_empty_ones_disappear() {
        insta::assert_snapshot!(sample().render(RenderContext::plain()), @r"
         N  NAME  NOTE
         1  left  a rather long remark on the first
        10  a?b
        ");
    }

    #[test]
    fn the_last_column_takes_two_lines_of_what_is_left() {
        let text = sample().indented(2).render(RenderContext::plain().with_width(26));
        assert!(
            text.lines().all(|line| line.chars().count() <= 26 && line.trim_end() == line),
            "{text}"
        );
        insta::assert_snapshot!(text, @r"
         N  NAME  NOTE
         1  left  a rather long
                  remark on the…
        10  a?b
        ");
    }

    #[test]
    fn a_table_without_rows_is_no_text() {
        assert_eq!(Table::new(&[("A", Align::Left)]).render(RenderContext::plain()), "");
    }
}
