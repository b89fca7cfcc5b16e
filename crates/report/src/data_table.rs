//! Tables for other programs: named columns of one type each, written as CSV or as Parquet. Tables for people are in
//! `table.rs`.

mod parquet;
mod thrift;

/// Table for other programs. All columns have the same number of values, one per row.
#[derive(Clone, Debug, Default)]
pub struct DataTable {
    columns: Vec<Column>,
}

/// Column with a name of its own.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    values: Values,
}

/// Values of a column, from the first row to the last; `None` where a row has none.
#[derive(Clone, Debug)]
enum Values {
    Text(Vec<Option<String>>),
    Integers(Vec<Option<i64>>),
    Doubles(Vec<Option<f64>>),
    Booleans(Vec<Option<bool>>),
}

impl DataTable {
    /// Adds a column of text. Empty text is no value, as in CSV.
    #[must_use]
    pub fn text<'a>(
        self,
        name: impl Into<String>,
        values: impl Iterator<Item = Option<&'a str>>,
    ) -> Self {
        let given = values.map(|text| text.filter(|text| !text.is_empty()).map(str::to_owned));
        self.column(name.into(), Values::Text(given.collect()))
    }

    /// Adds a column of counts.
    #[must_use]
    pub fn counts(self, name: impl Into<String>, values: impl Iterator<Item = u64>) -> Self {
        let signed = values.map(|count| i64::try_from(count).ok());
        self.column(name.into(), Values::Integers(signed.collect()))
    }

    /// Adds a column of numbers with fractions.
    #[must_use]
    pub fn doubles(
        self,
        name: impl Into<String>,
        values: impl Iterator<Item = Option<f64>>,
    ) -> Self {
        self.column(name.into(), Values::Doubles(values.collect()))
    }

    /// Adds a column of truth values.
    #[must_use]
    pub fn booleans(self, name: impl Into<String>, values: impl Iterator<Item = bool>) -> Self {
        self.column(name.into(), Values::Booleans(values.map(Some).collect()))
    }

    fn column(mut self, name: String, values: Values) -> Self {
        self.columns.push(Column { name, values });
        debug_assert!(
            self.columns.iter().all(|column| column.values.rows() == self.rows()),
            "all columns have a value, or none, for every row"
        );
        self
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.rows())
    }

    /// Returns the table as CSV (RFC 4180) with a header. Fields without a value are empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let line =
            |fields: &mut dyn Iterator<Item = String>| fields.collect::<Vec<_>>().join(",") + "\n";
        let mut text = line(&mut self.columns.iter().map(|column| quoted(&column.name)));
        for row in 0..self.rows() {
            text += &line(&mut self.columns.iter().map(|column| column.values.field(row)));
        }
        text
    }

    /// Returns the table as a Parquet file. Every column is optional; text is UTF-8, and integers have 64 bits.
    #[must_use]
    pub fn parquet(&self) -> Vec<u8> {
        parquet::file(&self.columns, self.rows())
    }
}

impl Values {
    fn rows(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Doubles(values) => values.len(),
            Self::Booleans(values) => values.len(),
        }
    }

    /// Returns the field of CSV of a row.
    fn field(&self, row: usize) -> String {
        fn plain<T: ToString>(value: Option<T>) -> String {
            value.map_or_else(String::new, |value| value.to_string())
        }
        match self {
            Self::Text(values) => values[row].as_deref().map_or_else(String::new, quoted),
            Self::Integers(values) => plain(values[row]),
            Self::Doubles(values) => plain(values[row]),
            Self::Booleans(values) => plain(values[row]),
        }
    }
}

/// Returns a field of CSV, in quotes where that is needed (RFC 4180).
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> DataTable {
        DataTable::default()
            .text("name", ["a,b", "", "é"].into_iter().map(Some))
            .counts("jobs", [1, 300, 0].into_iter())
            .doubles("waited.mean", [Some(1.5), None, Some(-0.1)].into_iter())
            .booleans("is_partial", [true, false, true].into_iter())
    }

    #[test]
    fn csv_has_an_empty_field_where_a_row_has_no_value() {
        let expected =
            "name,jobs,waited.mean,is_partial\n\"a,b\",1,1.5,true\n,300,,false\né,0,-0.1,true\n";
        assert_eq!(table().csv(), expected);
        assert_eq!(DataTable::default().csv(), "\n");
    }

    /// The test in `python/tests` reads such files with the programs of others.
    #[test]
    fn parquet_has_the_values_of_each_column_together() {
        let file = table().parquet();
        let body = file.strip_prefix(b"PAR1").unwrap().strip_suffix(b"PAR1").unwrap();
        let (rest, length) = body.split_last_chunk::<4>().unwrap();
        let length = u32::from_le_bytes(*length) as usize;
        let (pages, footer) = rest.split_at(rest.len() - length);
        let name = [
            // A data page of 10 + 13 bytes, not compressed, with three rows.
            &[0x15, 0, 0x15, 46, 0x15, 46, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0][..],
            // Runs of one row each, with a value, without, and with one.
            &[6, 0, 0, 0, 2, 1, 2, 0, 2, 1],
            &[3, 0, 0, 0, b'a', b',', b'b', 2, 0, 0, 0, 0xc3, 0xa9],
        ]
        .concat();
        assert_eq!(&pages[..name.len()], name);
        // Three values, lowest bit first.
        assert_eq!(pages.last(), Some(&0b101));
        for column in ["name", "jobs", "waited.mean", "is_partial"] {
            let found = footer.windows(column.len()).filter(|part| *part == column.as_bytes());
            assert_eq!(found.count(), 2, "{column}: in the schema and in its chunk");
        }
    }
}
