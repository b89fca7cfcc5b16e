//! Aligned columns. Knows nothing of what is in them.

use crate::style::{Ink, Style, clean, shorten, wrap};

/// Blanks between columns.
const GAP: usize = 2;
/// Lines that the last column may take on a terminal before it is shortened.
const LAST_LINES: usize = 2;
/// The last column never gets less, however narrow the terminal.
const LAST_MIN_WIDTH: usize = 12;

/// How a column lines up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// One field of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    ink: Ink,
}

impl Cell {
    /// Text in an ink. Control characters are defused.
    #[must_use]
    pub fn inked(text: impl AsRef<str>, ink: Ink) -> Self {
        Self { text: clean(text.as_ref()).into_owned(), ink }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn padded(&self, width: usize, align: Align, style: &Style) -> String {
        let pad = " ".repeat(width.saturating_sub(self.width()));
        let body = style.paint(self.ink, &self.text);
        match align {
            Align::Right => pad + &body,
            Align::Left => body + &pad,
        }
    }

    /// The text in lines of at most `room` characters, at most [`LAST_LINES`] of them.
    fn lines(&self, room: usize, style: &Style) -> Vec<String> {
        let mut lines = wrap(&self.text, room);
        if lines.len() > LAST_LINES {
            let rest = lines.split_off(LAST_LINES - 1).join(" ");
            lines.push(rest);
        }
        lines.iter().map(|line| style.paint(self.ink, &shorten(line, room))).collect()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::inked(text, Ink::Plain)
    }
}

/// Rows under headings. A column that is empty in every row is left out; the last column wraps into what the
/// terminal has left for it.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new<T: AsRef<str>>(columns: &[(T, Align)]) -> Self {
        let columns = columns.iter().map(|(heading, align)| (heading.as_ref().to_owned(), *align)).collect();
        Self { columns, rows: Vec::new(), indent: 0 }
    }

    /// Moves the table right by this many blanks.
    #[must_use]
    pub fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text.
    #[must_use]
    pub fn render(&self, style: &Style) -> String {
        // 1. Which columns, how wide.
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|&column| {
                self.rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.width() > 0))
            })
            .collect();
        let Some((&last, others)) = shown.split_last() else {
            return String::new();
        };
        let before: usize =
            self.indent + others.iter().map(|&column| self.width(column) + GAP).sum::<usize>();
        let last_width = self.width(last);
        let room = style.width.map_or(usize::MAX, |width| width.saturating_sub(before).max(LAST_MIN_WIDTH));

        // 2. Rows.
        let headings: Vec<Cell> =
            self.columns.iter().map(|(heading, _)| Cell::inked(heading, Ink::Strong)).collect();
        let empty = Cell::default();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = " ".repeat(self.indent);
            for &column in others {
                let cell = row.get(column).unwrap_or(&empty);
                line.push_str(&cell.padded(self.width(column), self.columns[column].1, style));
                line.push_str(&" ".repeat(GAP));
            }
            let cell = row.get(last).unwrap_or(&empty);
            if cell.width() <= room {
                line.push_str(&cell.padded(last_width.min(room), self.columns[last].1, style));
            } else {
                line.push_str(&cell.lines(room, style).join(&format!("\n{:before$}", "")));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let heading = self.columns[column].0.chars().count();
        self.rows.iter().filter_map(|row| row.get(column)).map(Cell::width).fold(heading, usize::max)
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
        table.row(vec!["1".into(), "left".into(), "".into(), "a rather long remark on the first".into()]);
        table.row(vec!["10".into(), "a\tb".into()]);
        table
    }

    #[test]
    fn columns_line_up_and_empty_ones_disappear() {
        insta::assert_snapshot!(sample().render(&Style::plain()), @r"
         N  NAME  NOTE
         1  left  a rather long remark on the first
        10  a?b
        ");
    }

    #[test]
    fn the_last_column_takes_two_lines_of_what_is_left() {
        let text = sample().indented(2).render(&Style::plain().with_width(26));
        assert!(text.lines().all(|line| line.chars().count() <= 26 && line.trim_end() == line), "{text}");
        insta::assert_snapshot!(text, @r"
         N  NAME  NOTE
         1  left  a rather long
                  remark on the…
        10  a?b
        ");
    }

    #[test]
    fn a_table_without_rows_is_no_text() {
        assert_eq!(Table::new(&[("A", Align::Left)]).render(&Style::plain()), "");
    }
}
