//! Text tables: a header that names the columns, then one row per line. Columns are found by name,
//! in any order; others are ignored. Independent of the trace formats.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::TraceJob;
use super::names::NameCache;
use super::value::given;

/// Reader of a row, which returns a job, or `None` if the row is part of another job.
pub(super) type ReadRow = fn(&CsvRow<'_>, &mut NameCache) -> Result<Option<TraceJob>, String>;

/// Layout of the tables of a format.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsvLayout {
    /// Separator between two fields.
    pub(super) separator: u8,
    /// Columns that are read, in the order of [`CsvRow::fields`]; a table may have another order.
    pub(super) columns: &'static [&'static str],
    /// Columns that must be present.
    pub(super) needed: &'static [&'static str],
    /// Reader of a row.
    pub(super) read: ReadRow,
}

/// A table that is being read.
#[derive(Clone, Debug)]
pub(super) struct CsvTable {
    layout: CsvLayout,
    splitter: Splitter,
    /// Column of the layout for every field of a row; `None` for ignored fields.
    header: Option<Vec<Option<usize>>>,
}

/// Problem of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TableError {
    /// A required column is missing: nothing can be read.
    Column(&'static str),
    /// One row cannot be read.
    Row(String),
}

impl CsvTable {
    pub(super) fn new(layout: CsvLayout) -> Self {
        Self { layout, splitter: Splitter::new(layout.separator), header: None }
    }

    /// Reads the next line.
    pub(super) fn read(
        &mut self,
        text: &str,
        names: &mut NameCache,
    ) -> Result<Option<TraceJob>, TableError> {
        if text.starts_with('#') || text.chars().all(char::is_whitespace) {
            return Ok(None);
        }
        let Some(header) = &self.header else {
            self.header = Some(self.header_of(text)?);
            return Ok(None);
        };
        let mut count = 0;
        let mut row = CsvRow { columns: self.layout.columns, texts: [None; MAX_COLUMNS] };
        let each = |field| {
            if let Some(Some(column)) = header.get(count) {
                row.texts[*column] = given(field);
            }
            count += 1;
        };
        self.splitter.split(text, each).map_err(TableError::Row)?;
        if count != header.len() {
            return Err(TableError::Row(format!(
                "{count} fields where the header has {}",
                header.len()
            )));
        }
        (self.layout.read)(&row, names).map_err(TableError::Row)
    }

    /// Maps the columns of a table to those of the layout. Of two with the same name, the first
    /// counts.
    fn header_of(&mut self, text: &str) -> Result<Vec<Option<usize>>, TableError> {
        let mut names = Vec::new();
        self.splitter.split(text, |name| names.push(name.trim())).map_err(TableError::Row)?;
        let CsvLayout { columns, needed, .. } = self.layout;
        if let Some(name) = needed.iter().find(|name| !names.contains(name)) {
            return Err(TableError::Column(name));
        }
        let first = |at| !names[..at].contains(&names[at]);
        let column =
            |at| columns.iter().position(|column| *column == names[at]).filter(|_| first(at));
        Ok((0..names.len()).map(column).collect())
    }
}

/// Most columns that a format reads.
const MAX_COLUMNS: usize = 20;

/// A row, by the columns of the layout.
#[derive(Clone, Debug)]
pub(super) struct CsvRow<'a> {
    columns: &'static [&'static str],
    texts: [Option<&'a str>; MAX_COLUMNS],
}

impl<'a> CsvRow<'a> {
    /// Returns the fields of all columns, in the order of the layout. There must be `N` of them.
    pub(super) fn fields<const N: usize>(&self) -> [CsvField<'a>; N] {
        debug_assert_eq!(self.columns.len(), N, "a layout has as many columns as its reader takes");
        std::array::from_fn(|at| CsvField { name: self.columns[at], text: self.texts[at] })
    }
}

/// A field and its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsvField<'a> {
    name: &'static str,
    /// Text of the field; `None` if there is no such column or it is empty.
    pub(super) text: Option<&'a str>,
}

impl<'a> CsvField<'a> {
    /// Returns the text of a required field.
    pub(super) fn needed(self) -> Result<&'a str, String> {
        self.text.ok_or_else(|| format!("`{}` is missing", self.name))
    }

    /// Returns a field as parsed by `read`.
    pub(super) fn value<T>(
        self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| self.bad(what))
    }

    /// Returns a required field as parsed by `read`.
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

/// Returns a field for a message: at most 40 characters, escaped.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    cut.escape_debug().to_string()
}

/// Byte order mark that some programs write at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Splits lines, one after the other.
#[derive(Clone, Debug)]
struct Splitter {
    separator: u8,
    reader: Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Splitter {
    /// Returns a splitter. With commas, fields may be in quotes; with other separators, as `sacct`
    /// writes them, there are none.
    fn new(separator: u8) -> Self {
        let reader = ReaderBuilder::new().delimiter(separator).quoting(separator == b',').build();
        Self { separator, reader, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Passes every field of a line to `each`; none of a line that cannot be split.
    fn split<'t>(&'t mut self, text: &'t str, mut each: impl FnMut(&'t str)) -> Result<(), String> {
        // Most lines have no special characters. All bytes are checked without an early exit, so
        // that the compiler can vectorise the loop.
        let quote = if self.separator == b',' { b'"' } else { b'\n' };
        let is_special = |byte| (byte == quote) | (byte == b'\r') | (byte == b'\n');
        let has_special = text.bytes().fold(false, |found, byte| found | is_special(byte));
        if has_special || text.starts_with(BYTE_ORDER_MARK) {
            return self.split_special(text, each);
        }
        let separator = self.separator;
        let mut start = 0;
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
        // Longer than a vector, with a special character at its end.
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
        let layout = CsvLayout { separator: b',', columns: &["a", "b", "z"], needed: &["b"], read };
        let mut table = CsvTable::new(layout);
        assert_eq!(table.read(" a , x,b", &mut NameCache::new()), Ok(None));
        let mut row = |text| match table.read(text, &mut NameCache::new()) {
            Err(TableError::Row(message)) => message,
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
        let mut table = CsvTable::new(layout);
        assert_eq!(table.read("z,b,y,b,a,z", &mut NameCache::new()), Ok(None));
        let twice = table.read("4,5,6,7,8,9", &mut NameCache::new());
        assert_eq!(twice, Err(TableError::Row("Some(\"8\") 5 Some(\"4\")".to_owned())));
        let mut table = CsvTable::new(layout);
        assert_eq!(table.read("a,c", &mut NameCache::new()), Err(TableError::Column("b")));
    }
}
