//! Tables in text: a header that names the columns, then a row a line. Columns are found by name, in whatever order they stand;
//! those that nobody asks for are passed over. It knows no format.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::TraceJob;
use super::value::given;

/// What makes a job of a row; `None` where the row is a part of another job.
pub(super) type ReadRow = fn(&Row<'_>) -> Result<Option<TraceJob>, String>;

/// How the tables of a format are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Between fields.
    pub(super) separator: u8,
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
    header: Option<Vec<String>>,
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
    pub(super) fn read(&mut self, text: &str) -> Result<Option<TraceJob>, Wrong> {
        if text.trim().is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let fields = self.splitter.split(text).map_err(Wrong::Row)?;
        let Some(header) = &self.header else {
            let header: Vec<String> = fields.iter().map(|field| field.trim().to_owned()).collect();
            let missing = self.layout.needed.iter().find(|name| !header.iter().any(|column| column == *name));
            if let Some(name) = missing {
                return Err(Wrong::Column(name));
            }
            self.header = Some(header);
            return Ok(None);
        };
        if fields.len() != header.len() {
            let message = format!("{} fields where the header has {}", fields.len(), header.len());
            return Err(Wrong::Row(message));
        }
        (self.layout.read)(&Row { header, fields }).map_err(Wrong::Row)
    }
}

/// A row, by the names of its columns.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    header: &'a [String],
    fields: Vec<&'a str>,
}

impl Row<'_> {
    /// A field, unless there is no such column or nothing in it.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let at = self.header.iter().position(|column| column == name)?;
        given(self.fields[at])
    }

    /// A field that cannot be missing.
    pub(super) fn needed(&self, name: &str) -> Result<&str, String> {
        self.text(name).ok_or_else(|| format!("`{name}` is missing"))
    }

    /// A field as `read` reads it.
    pub(super) fn value<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let bad = || format!("`{name}` is `{}`, not {what}", shown(text));
        read(text).map(Some).ok_or_else(bad)
    }

    /// A field as `read` reads it, that cannot be missing.
    pub(super) fn needed_value<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        self.value(name, what, read)?.ok_or_else(|| format!("`{name}` is missing"))
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

    fn split<'t>(&'t mut self, text: &'t str) -> Result<Vec<&'t str>, String> {
        // Most lines have nothing in them that is not as it seems.
        let is_quoted = self.separator == b',' && text.contains('"');
        if !is_quoted && self.separator.is_ascii() && !text.contains(['\r', '\n', BYTE_ORDER_MARK]) {
            return Ok(text.split(char::from(self.separator)).collect());
        }
        // No field grows, and there are at most as many as separators allow.
        let separators = text.bytes().filter(|byte| *byte == self.separator).count();
        self.bytes.resize(text.len() + 1, 0);
        self.ends.resize(separators + 2, 0);
        self.reader.reset();
        let (row, _, bytes, ends) = self.reader.read_record(text.as_bytes(), &mut self.bytes, &mut self.ends);
        if row != ReadRecordResult::InputEmpty {
            return Err("a line end in the middle of the line".to_owned());
        }
        let (row, _, _, more) =
            self.reader.read_record(b"\n", &mut self.bytes[bytes..], &mut self.ends[ends..]);
        if row != ReadRecordResult::Record {
            return Err("a quote is not closed on its line".to_owned());
        }
        let mut start = 0;
        let field = |end: &usize| {
            let field = self.bytes.get(start..*end).and_then(|bytes| std::str::from_utf8(bytes).ok());
            start = *end;
            field.ok_or_else(|| "not text".to_owned())
        };
        self.ends[..ends + more].iter().map(field).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(separator: u8, text: &str) -> Result<Vec<String>, String> {
        let mut splitter = Splitter::new(separator);
        // The second time shows that nothing is left of the first.
        let _ = splitter.split("\"a,b");
        splitter.split(text).map(|fields| fields.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn lines_are_split_as_rfc_4180_has_it() {
        assert_eq!(split(b',', "a,,\"b,\"\"c\"\"\",é").unwrap(), ["a", "", "b,\"c\"", "é"]);
        assert_eq!(split(b'|', "1|say \"hi|").unwrap(), ["1", "say \"hi", ""]);
        assert_eq!(split(b',', "a,\"b").unwrap_err(), "a quote is not closed on its line");
        assert_eq!(split(b',', "a\rb").unwrap_err(), "a line end in the middle of the line");
    }

    #[test]
    fn columns_are_found_by_name() {
        let read: ReadRow = |row| {
            let count = row.needed_value("b", "a number", super::super::value::count)?;
            Err(format!("{:?} {count} {:?}", row.text("a"), row.text("z")))
        };
        let mut table = Table::new(Layout { separator: b',', needed: &["b"], read });
        assert_eq!(table.read(" a , x,b"), Ok(None));
        let mut row = |text| match table.read(text) {
            Err(Wrong::Row(message)) => message,
            other => format!("{other:?}"),
        };
        assert_eq!(row("1,,8.0"), "Some(\"1\") 8 None");
        assert_eq!(row("1,,"), "`b` is missing");
        assert_eq!(row("1,,x"), "`b` is `x`, not a number");
        assert_eq!(row("1,2"), "2 fields where the header has 3");
        assert_eq!(row(""), "Ok(None)");
        let mut table = Table::new(Layout { separator: b',', needed: &["b"], read });
        assert_eq!(table.read("a,c"), Err(Wrong::Column("b")));
    }
}
