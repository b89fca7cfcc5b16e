//! Files of points: tables and rows in JSON, as `params` of a job file.

use csv_core::{ReadFieldResult, Reader};
use serde_json::Value as Json;

use super::fields::MAX_VALUES;

/// A file of points that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTable(String);

/// Converts a file of points to `params` of a job file: a table with a header in CSV, or objects in JSON, as a list or
/// one per line. A table stays a list of lists, so that its columns keep their order.
///
/// # Errors
/// The text is neither, has no row, or more than a job may have.
pub fn read_table(text: &str) -> Result<Json, BadTable> {
    let text = text.trim_start_matches('\u{feff}');
    let rows = match text.trim_start().chars().next() {
        Some('[') => serde_json::from_str(text).map_err(|error| BadTable(error.to_string()))?,
        Some('{') => lines(text)?,
        Some(_) => return csv(text),
        None => Vec::new(),
    };
    checked(rows.len())?;
    Ok(Json::Array(rows))
}

/// Refuses a number of rows that no job may have.
fn checked(rows: usize) -> Result<(), BadTable> {
    match rows {
        0 => Err(BadTable("it has no row".to_owned())),
        count if count > MAX_VALUES => Err(BadTable(format!("{count} rows; at most {MAX_VALUES}"))),
        _ => Ok(()),
    }
}

fn lines(text: &str) -> Result<Vec<Json>, BadTable> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let row = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| BadTable(format!("line {number}: {error}")))
    };
    lines.map(row).collect()
}

fn csv(text: &str) -> Result<Json, BadTable> {
    let records = records(text);
    checked(records.len().saturating_sub(1))?;
    let wanted = records.first().map_or(0, Vec::len);
    let mut lengths = records.iter().map(Vec::len).enumerate();
    if let Some((number, found)) = lengths.find(|(_, length)| *length != wanted) {
        return Err(BadTable(format!("row {number} has {found} fields, and the header {wanted}")));
    }
    Ok(records
        .into_iter()
        .map(|fields| fields.into_iter().map(Json::String).collect::<Json>())
        .collect())
}

/// Splits a table into the fields of its records; empty lines are none.
fn records(text: &str) -> Vec<Vec<String>> {
    let mut reader = Reader::new();
    let mut rest = text.as_bytes();
    let mut records = Vec::new();
    let mut record: Vec<String> = Vec::new();
    let mut field: Vec<u8> = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let (result, read, written) = reader.read_field(rest, &mut buffer);
        rest = &rest[read..];
        field.extend_from_slice(&buffer[..written]);
        match result {
            ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
            ReadFieldResult::Field { record_end } => {
                record.push(String::from_utf8_lossy(&field).trim().to_owned());
                field.clear();
                if record_end {
                    records.push(std::mem::take(&mut record));
                }
            }
            ReadFieldResult::End => return records,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_and_objects_are_rows() {
        let expected = json!([["name", "lr"], ["a, b", "1e-4"], ["c", "3e-4"]]);
        assert_eq!(read_table("name, lr\n\"a, b\",1e-4\n\nc,3e-4\n").unwrap(), expected);
        assert_eq!(read_table("\u{feff}name,lr\r\n\"a, b\",1e-4\r\nc,3e-4").unwrap(), expected);
        let expected = json!([{ "lr": "1e-4", "name": "a, b" }, { "lr": "3e-4", "name": "c" }]);
        let lines = "{\"lr\": \"1e-4\", \"name\": \"a, b\"}\n{\"lr\": \"3e-4\", \"name\": \"c\"}\n";
        assert_eq!(read_table(lines).unwrap(), expected);
        assert_eq!(read_table(&expected.to_string()).unwrap(), expected);
    }

    #[test]
    fn bad_tables_are_named() {
        let refused = |text| read_table(text).unwrap_err().to_string();
        assert_eq!(refused("lr,layers\n1\n"), "row 1 has 1 fields, and the header 2");
        assert_eq!(refused("lr\n"), "it has no row");
        assert_eq!(refused("  "), "it has no row");
        assert!(
            refused("{\"a\": 1}\n{\n").starts_with("line 2: "),
            "{}",
            refused("{\"a\": 1}\n{\n")
        );
    }
}
