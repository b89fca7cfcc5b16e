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
    fn lines(&self, space: usize, context: RenderContext) -> Vec<String> {
        let mut lines = wrap(&self.text, space);
        if lines.len() > LAST_LINES {
            let rest = lines.split_off(LAST_LINES - 1).join(" ");
            lines.push(rest);
        }
        lines.iter().map(|line| context.paint(self.ink, &shorten(line, space))).collect()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::inked(text, Ink::Plain)
    }
}

/// A column as it is declared, with its cell of each row.
#[derive(Clone, Debug)]
struct Column {
    heading: Cell,
    align: Align,
    /// Place in the order in which columns are left out on a narrow terminal; `None` to keep it.
    dropped: Option<u8>,
    cells: Vec<Cell>,
    /// Characters of the widest cell, heading included; 0 if every cell is empty.
    width: usize,
}

/// Rows under headings: one column after the other, each declared with the text of its cells. A
/// column that is empty in every row is left out; the last column wraps into what the terminal has
/// left for it. Without any heading, the line of headings is left out.
#[derive(Clone, Debug)]
pub struct Table<'r, R> {
    rows: &'r [R],
    columns: Vec<Column>,
    indent: usize,
}

impl<'r, R> Table<'r, R> {
    /// Returns a table of these rows, without columns.
    #[must_use]
    pub fn of(rows: &'r [R]) -> Self {
        Self { rows, columns: Vec::new(), indent: 0 }
    }

    /// Adds a column of words.
    #[must_use]
    pub fn left<C: Into<Cell>>(self, heading: &str, cell: impl FnMut(&'r R) -> C) -> Self {
        self.column(heading, Align::Left, cell)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn right<C: Into<Cell>>(self, heading: &str, cell: impl FnMut(&'r R) -> C) -> Self {
        self.column(heading, Align::Right, cell)
    }

    /// Adds a column whose alignment is data.
    #[must_use]
    pub fn column<C: Into<Cell>>(
        mut self,
        heading: &str,
        align: Align,
        mut cell: impl FnMut(&'r R) -> C,
    ) -> Self {
        let cells: Vec<Cell> = self.rows.iter().map(|row| cell(row).into()).collect();
        let width = match cells.iter().map(Cell::width).max() {
            None | Some(0) => 0,
            Some(width) => width.max(columns(heading)),
        };
        let heading = Cell::inked(heading, Ink::Strong);
        self.columns.push(Column { heading, align, dropped: None, cells, width });
        self
    }

    /// Marks the column added last to be left out while the last column of the table would get less
    /// than `LAST_GOOD_WIDTH`; columns of a lower order first.
    #[must_use]
    pub fn dropped(mut self, order: u8) -> Self {
        if let Some(column) = self.columns.last_mut() {
            column.dropped = Some(order);
        }
        self
    }

    /// Moves the table right by this many blanks.
    #[must_use]
    pub fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// Returns the characters of its longest line if nothing is shortened.
    pub(crate) fn width(&self) -> usize {
        let shown = self.columns.iter().map(|column| column.width).filter(|width| *width > 0);
        let width = shown.map(|width| width + GAP).sum::<usize>();
        self.indent + width.saturating_sub(GAP)
    }

    /// Returns the table as text. Measures every cell a fixed number of times: the cost grows with
    /// the number of cells.
    #[must_use]
    pub fn render(&self, context: RenderContext) -> String {
        // 1. Which columns, how wide.
        let widths = self.fitted(self.without_dropped(context), context);
        let shown: Vec<(&Column, usize)> =
            self.columns.iter().zip(widths).filter(|(_, width)| *width > 0).collect();
        let Some((&(last, last_width), others)) = shown.split_last() else {
            return String::new();
        };
        let before: usize =
            self.indent + others.iter().map(|(_, width)| width + GAP).sum::<usize>();
        let space = context
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(before).max(LAST_MIN_WIDTH));

        // 2. Rows.
        let mut text = String::new();
        let headings = shown.iter().any(|(column, _)| column.heading.width() > 0).then_some(None);
        for row in headings.into_iter().chain((0..self.rows.len()).map(Some)) {
            let mut line = " ".repeat(self.indent);
            for (column, width) in others {
                line.push_str(&column.cell(row).padded(*width, column.align, context));
                line.push_str(&" ".repeat(GAP));
            }
            let cell = last.cell(row);
            if cell.width() <= space {
                line.push_str(&cell.padded(last_width.min(space), last.align, context));
            } else {
                line.push_str(&cell.lines(space, context).join(&format!("\n{:before$}", "")));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the widths with 0 for the columns that are left out on a terminal of this width.
    fn without_dropped(&self, context: RenderContext) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        let Some(space) = context.width else { return widths };
        let Some(last) = widths.iter().rposition(|width| *width > 0) else { return widths };
        let mut dropped: Vec<(u8, usize)> = (0..last)
            .filter_map(|place| self.columns[place].dropped.map(|order| (order, place)))
            .collect();
        dropped.sort_unstable();
        for (_, place) in dropped {
            let shown = widths[..last].iter().filter(|width| **width > 0);
            let others: usize = shown.map(|width| width + GAP).sum();
            if space >= self.indent + others + LAST_GOOD_WIDTH {
                break;
            }
            widths[place] = 0;
        }
        widths
    }

    /// Narrows the columns before the last, the widest first, until the last one has its smallest
    /// width. On a terminal that is still too narrow, lines are longer than it is wide.
    fn fitted(&self, mut widths: Vec<usize>, context: RenderContext) -> Vec<usize> {
        let Some(last) = widths.iter().rposition(|width| *width > 0) else { return widths };
        let Some(space) = context.width else { return widths };
        let shown = widths[..last].iter().filter(|width| **width > 0).count();
        let space =
            space.saturating_sub(self.indent + GAP * shown + widths[last].min(LAST_MIN_WIDTH));
        let mut over = widths[..last].iter().sum::<usize>().saturating_sub(space);
        while over > 0 {
            let widest = (0..last).max_by_key(|column| widths[*column]);
            let Some(widest) = widest.filter(|column| widths[*column] > MIN_WIDTH) else { break };
            widths[widest] -= 1;
            over -= 1;
        }
        widths
    }
}

impl Column {
    /// Returns the cell of a row, or the heading.
    fn cell(&self, row: Option<usize>) -> &Cell {
        row.map_or(&self.heading, |row| &self.cells[row])
    }
}

/// A table without headings: a column of labels, and lines of text beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels {
    /// Blanks before each label.
    pub(crate) indent: usize,
    /// Characters of a label and of the blanks after it.
    pub(crate) width: usize,
    /// Emphasis of the labels.
    pub(crate) ink: Ink,
}

impl Labels {
    /// Returns a label with lines beside it. A longer label moves its first line.
    pub(crate) fn lines<T: AsRef<str>>(
        self,
        label: &str,
        lines: impl IntoIterator<Item = T>,
        context: RenderContext,
    ) -> String {
        let mut text = String::new();
        for (place, line) in lines.into_iter().enumerate() {
            let label = if place == 0 { label } else { "" };
            let row = [
                &" ".repeat(self.indent),
                &context.paint(self.ink, label),
                &" ".repeat(self.width.saturating_sub(columns(label))),
                line.as_ref(),
            ];
            text.push_str(row.concat().trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns a label with text beside it, wrapped to lines of `width` characters in all, but to
    /// no fewer than `least` for the text.
    pub(crate) fn wrapped(
        self,
        label: &str,
        says: &str,
        width: usize,
        least: usize,
        context: RenderContext,
    ) -> String {
        let space = width.saturating_sub(self.indent + self.width).max(least);
        self.lines(label, wrap(says, space), context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [[&str; 4]; 2] =
        [["1", "left", "", "a rather long remark on the first"], ["10", "a\tb", "", ""]];

    fn sample() -> Table<'static, [&'static str; 4]> {
        Table::of(&ROWS)
            .right("N", |row| row[0])
            .left("NAME", |row| row[1])
            .left("GONE", |row| row[2])
            .left("NOTE", |row| row[3])
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
        assert_eq!(Table::of(&[""; 0]).left("A", |row| *row).render(RenderContext::plain()), "");
    }
}
