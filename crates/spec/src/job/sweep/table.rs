//! Points as a table: rows in a job file, or a file of them.

use std::sync::Arc;

use csv_core::{ReadFieldResult, Reader};
use muster_model::sweep::Param;
use serde_json::{Map, Value as Json};

use super::fields::MAX_VALUES;
use crate::diagnostic::{Problem, Problems};
use crate::source::Place;

/// A file of points that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTable(String);

/// Converts rows to columns; all rows have the same parameters, in any order.
pub(super) fn columns(
    rows: &[Vec<(Arc<str>, Arc<str>)>],
    place: Place,
    problems: &mut Problems,
) -> Option<Vec<Param>> {
    let first = rows.first()?;
    let mut params: Vec<Param> = first
        .iter()
        .map(|(name, _)| Param { name: Arc::clone(name), values: Vec::new() })
        .collect();
    for (number, row) in (1..).zip(rows) {
        for param in &mut params {
            let value = row.iter().find(|(name, _)| *name == param.name);
            let Some((_, value)) = value.filter(|_| row.len() == first.len()) else {
                let names: Vec<&str> = first.iter().map(|(name, _)| name.as_ref()).collect();
                problems.add(
                    Problem::new(format!(
                        "row {number} of `params` has other parameters than the first"
                    ))
                    .at(place, format!("expected {}", names.join(", "))),
                );
                return None;
            };
            param.values.push(Arc::clone(value));
        }
    }
    if params.is_empty() {
        problems.add(
            Problem::new("`params` has rows without parameters").at(place, "expected `{lr: 1e-4}`"),
        );
        return None;
    }
    Some(params)
}

/// Converts a file of points to the rows of `params`: a table with a header in CSV, or objects in JSON, as a list
/// or one per line.
///
/// # Errors
/// The text is neither, or has no row.
pub fn read_table(text: &str) -> Result<Json, BadTable> {
    let text = text.trim_start_matches('\u{feff}');
    let rows = match text.trim_start().chars().next() {
        Some('[') => serde_json::from_str(text).map_err(|error| BadTable(error.to_string()))?,
        Some('{') => lines(text)?,
        Some(_) => csv(text)?,
        None => Vec::new(),
    };
    match rows.len() {
        0 => Err(BadTable("it has no row".to_owned())),
        count if count > MAX_VALUES => Err(BadTable(format!("{count} rows; at most {MAX_VALUES}"))),
        _ => Ok(Json::Array(rows)),
    }
}

fn lines(text: &str) -> Result<Vec<Json>, BadTable> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let row = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| BadTable(format!("line {number}: {error}")))
    };
    lines.map(row).collect()
}

fn csv(text: &str) -> Result<Vec<Json>, BadTable> {
    let mut records = records(text).into_iter();
    let header = records.next().unwrap_or_default();
    let row = |(number, fields): (usize, Vec<String>)| {
        if fields.len() != header.len() {
            let wanted = header.len();
            let found = fields.len();
            return Err(BadTable(format!(
                "row {number} has {found} fields, and the header {wanted}"
            )));
        }
        let pair = |(name, value): (&String, String)| (name.trim().to_owned(), Json::String(value));
        Ok(Json::Object(header.iter().zip(fields).map(pair).collect::<Map<String, Json>>()))
    };
    (1..).zip(records).map(row).collect()
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
        let expected = json!([{ "lr": "1e-4", "name": "a, b" }, { "lr": "3e-4", "name": "c" }]);
        assert_eq!(read_table("lr, name\n1e-4,\"a, b\"\n\n3e-4,c\n").unwrap(), expected);
        assert_eq!(read_table("\u{feff}lr,name\r\n1e-4,\"a, b\"\r\n3e-4,c").unwrap(), expected);
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
