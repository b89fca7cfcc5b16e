//! Tables in text: a header that names the columns, then a row a line. Columns are found by name,
//! in whatever order they stand; those that nobody asks for are passed over. It knows no format.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::TraceJob;
use super::names::Names;
use super::value::given;

/// What makes a job of a row; `None` where the row is a part of another job.
pub(super) type ReadRow = fn(&Row<'_>, &mut Names) -> Result<Option<TraceJob>, String>;

/// How the tables of a format are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Between fields.
    pub(super) separator: u8,
    /// Columns that are read, in the order of [`Row::fields`]; a table may have them in another
    /// one.
    pub(super) columns: &'static [&'static str],
    /// Columns without which nothing can be read.
    pub(super) needed: &'static [&'static str],
    /// What makes a job of a row.
    pub(super) read: ReadRow,
}

/// A table that is being read.
#[derive(Clone, Debug)]
pub(super) struct Table {
    layout: Layout,
    splitter: Splitter,
    /// What every field of a row is, among the columns of the layout; `None` for those that nobody
    /// asks for.
    header: Option<Vec<Option<usize>>>,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A column is missing: nothing can be read.
    Column(&'static str),
    /// One row.
    Row(String),
}

impl Table {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, splitter: Splitter::new(layout.separator), header: None }
    }

    /// The next line.
    pub(super) fn read(
        &mut self,
        text: &str,
        names: &mut Names,
    ) -> Result<Option<TraceJob>, Wrong> {
        if text.starts_with('#') || text.chars().all(char::is_whitespace) {
            return Ok(None);
        }
        let Some(header) = &self.header else {
            self.header = Some(self.header_of(text)?);
            return Ok(None);
        };
        let (mut count, mut row) =
            (0, Row { columns: self.layout.columns, texts: [None; MAX_COLUMNS] });
        let each = |field| {
            if let Some(Some(column)) = header.get(count) {
                row.texts[*column] = given(field);
            }
            count += 1;
        };
        self.splitter.split(text, each).map_err(Wrong::Row)?;
        if count != header.len() {
            return Err(Wrong::Row(format!(
                "{count} fields where the header has {}",
                header.len()
            )));
        }
        (self.layout.read)(&row, names).map_err(Wrong::Row)
    }

    /// Where the columns of a table go. Of two with one name, the first counts.
    fn header_of(&mut self, text: &str) -> Result<Vec<Option<usize>>, Wrong> {
        let mut names = Vec::new();
        self.splitter.split(text, |name| names.push(name.trim())).map_err(Wrong::Row)?;
        let Layout { columns, needed, .. } = self.layout;
        if let Some(name) = needed.iter().find(|name| !names.contains(name)) {
            return Err(Wrong::Column(name));
        }
        let first = |at| !names[..at].contains(&names[at]);
        let column =
            |at| columns.iter().position(|column| *column == names[at]).filter(|_| first(at));
        Ok((0..names.len()).map(column).collect())
    }
}

/// No format reads more columns than this.
const MAX_COLUMNS: usize = 20;

/// A row, by the columns of the layout.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    columns: &'static [&'static str],
    texts: [Option<&'a str>; MAX_COLUMNS],
}

impl<'a> Row<'a> {
    /// The fields of all columns, in the order of the layout. There must be `N` of them.
    pub(super) fn fields<const N: usize>(&self) -> [Field<'a>; N] {
        debug_assert_eq!(self.columns.len(), N, "a layout has as many columns as its reader takes");
        std::array::from_fn(|at| Field { name: self.columns[at], text: self.texts[at] })
    }
}

/// A field and the column that it stands in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    name: &'static str,
    /// `None` where there is no such column or nothing in it.
    pub(super) text: Option<&'a str>,
}

impl<'a> Field<'a> {
    /// A field that cannot be missing.
    pub(super) fn needed(self) -> Result<&'a str, String> {
        self.text.ok_or_else(|| format!("`{}` is missing", self.name))
    }

    /// A field as `read` reads it.
    pub(super) fn value<T>(
        self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| self.bad(what))
    }

    /// A field as `read` reads it, that cannot be missing.
    pub(super) fn needed_value<T>(
        self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        read(self.needed()?).ok_or_else(|| self.bad(what))
    }

    fn bad(self, what: &str) -> String {
        format!("`{}` is `{}`, not {what}", self.name, shown(self.text.unwrap_or_default()))
    }
}

/// So much of a field as a message can take.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    cut.escape_debug().to_string()
}

/// What some write before everything else, and nobody means.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Splits one line after the other.
#[derive(Clone, Debug)]
struct Splitter {
    separator: u8,
    reader: Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Splitter {
    /// With commas, fields may be in quotes; other separators, as `sacct` writes them, have none.
    fn new(separator: u8) -> Self {
        let reader = ReaderBuilder::new().delimiter(separator).quoting(separator == b',').build();
        Self { separator, reader, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Hands every field of a line to `each`; none of a line that cannot be split.
    fn split<'t>(&'t mut self, text: &'t str, mut each: impl FnMut(&'t str)) -> Result<(), String> {
        // Most lines have nothing in them that is not as it seems. All bytes are looked at without
        // a way out of the loop, which the compiler makes sixteen at a time of.
        let quote = if self.separator == b',' { b'"' } else { b'\n' };
        let is_special = |byte| (byte == quote) | (byte == b'\r') | (byte == b'\n');
        let has_special = text.bytes().fold(false, |found, byte| found | is_special(byte));
        if has_special || text.starts_with(BYTE_ORDER_MARK) {
            return self.split_special(text, each);
        }
        let (separator, mut start) = (self.separator, 0);
        for (at, byte) in text.as_bytes().iter().enumerate() {
            if *byte == separator {
                each(&text[start..at]);
                start = at + 1;
            }
        }
        each(&text[start..]);
        Ok(())
    }

    fn split_special<'t>(
        &'t mut self,
        text: &str,
        mut each: impl FnMut(&'t str),
    ) -> Result<(), String> {
        // No field grows, and there are at most as many as separators allow.
        let separators = text.bytes().filter(|byte| *byte == self.separator).count();
        self.bytes.resize(text.len() + 1, 0);
        self.ends.resize(separators + 2, 0);
        self.reader.reset();
        let (row, _, bytes, ends) =
            self.reader.read_record(text.as_bytes(), &mut self.bytes, &mut self.ends);
        if row != ReadRecordResult::InputEmpty {
            return Err("a line end in the middle of the line".to_owned());
        }
        let (row, _, more_bytes, more) =
            self.reader.read_record(b"\n", &mut self.bytes[bytes..], &mut self.ends[ends..]);
        if row != ReadRecordResult::Record {
            return Err("a quote is not closed on its line".to_owned());
        }
        let plain = std::str::from_utf8(&self.bytes[..bytes + more_bytes])
            .map_err(|_| "not text".to_owned())?;
        let mut start = 0;
        for end in &self.ends[..ends + more] {
            each(&plain[start..*end]);
            start = *end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(separator: u8, text: &str) -> Result<Vec<String>, String> {
        let mut splitter = Splitter::new(separator);
        // The second time shows that nothing is left of the first.
        let _ = splitter.split("\"a,b", |_| {});
        let mut fields = Vec::new();
        splitter.split(text, |field| fields.push(field.to_owned()))?;
        Ok(fields)
    }

    #[test]
    fn lines_are_split_as_rfc_4180_has_it() {
        assert_eq!(split(b',', "a,,\"b,\"\"c\"\"\",é").unwrap(), ["a", "", "b,\"c\"", "é"]);
        assert_eq!(split(b'|', "1|say \"hi|").unwrap(), ["1", "say \"hi", ""]);
        assert_eq!(split(b',', "a,\"b").unwrap_err(), "a quote is not closed on its line");
        assert_eq!(split(b',', "a\rb").unwrap_err(), "a line end in the middle of the line");
        assert_eq!(split(b'|', "a\nb").unwrap_err(), "a line end in the middle of the line");
        assert_eq!(split(b',', "\u{feff}a,b\u{feff}").unwrap(), ["a", "b\u{feff}"]);
        assert_eq!(split(b',', " a ,é,").unwrap(), [" a ", "é", ""]);
        // Longer than what is looked at together, with what is special at its end.
        assert_eq!(
            split(b',', &format!("{},\"é\"", "a".repeat(40))).unwrap(),
            ["a".repeat(40).as_str(), "é"]
        );
    }

    #[test]
    fn columns_are_found_by_name() {
        let read: ReadRow = |row, _| {
            let [a, b, z] = row.fields();
            let count = b.needed_value("a number", super::super::value::count)?;
            Err(format!("{:?} {count} {:?}", a.text, z.text))
        };
        let layout = Layout { separator: b',', columns: &["a", "b", "z"], needed: &["b"], read };
        let mut table = Table::new(layout);
        assert_eq!(table.read(" a , x,b", &mut Names::new()), Ok(None));
        let mut row = |text| match table.read(text, &mut Names::new()) {
            Err(Wrong::Row(message)) => message,
            other => format!("{other:?}"),
        };
        assert_eq!(row("1,,8.0"), "Some(\"1\") 8 None");
        assert_eq!(row("1,,"), "`b` is missing");
        assert_eq!(row("1,,x"), "`b` is `x`, not a number");
        assert_eq!(row("1,2"), "2 fields where the header has 3");
        assert_eq!(row(""), "Ok(None)");
        assert_eq!(row(" \u{a0}\t"), "Ok(None)");
        assert_eq!(row("#1,,8"), "Ok(None)");
        assert_eq!(row(" None ,, \u{a0}8\u{a0}"), "None 8 None");
        assert_eq!(row("\" é, f \",NaN,\"8\""), "Some(\"é, f\") 8 None");
        assert_eq!(row("1,\"2,8"), "a quote is not closed on its line");
        // Of two columns with one name the first counts.
        let mut table = Table::new(layout);
        assert_eq!(table.read("z,b,y,b,a,z", &mut Names::new()), Ok(None));
        let twice = table.read("4,5,6,7,8,9", &mut Names::new());
        assert_eq!(twice, Err(Wrong::Row("Some(\"8\") 5 Some(\"4\")".to_owned())));
        let mut table = Table::new(layout);
        assert_eq!(table.read("a,c", &mut Names::new()), Err(Wrong::Column("b")));
    }
}
