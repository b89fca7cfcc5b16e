//! Files of points: a job file names one in `params`, and its rows are sent with the job.

use std::fs;
use std::path::Path;

use anyhow::Result;
use muster_spec::ParsedJob;
use serde_json::{Map, Value};

use crate::exit::Failure;

/// Largest file of points, in bytes.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Most bytes of its rows as they are sent with the job: a request takes 2 MiB.
const MAX_SENT_BYTES: usize = 3 << 19;

/// Adds the points of the file that a job file names in `params` to the fields. Without one, changes nothing.
pub fn read_points(
    documents: &[ParsedJob],
    job_file: Option<&str>,
    fields: &mut Map<String, Value>,
) -> Result<()> {
    let Some(named) = documents.iter().find_map(ParsedJob::params_file) else {
        return Ok(());
    };
    if documents.len() > 1 {
        return Err(Failure::usage(format!("the parameters in `{named}` cannot be read"))
            .hint("a file of parameters needs a job file with one job, submitted alone")
            .into());
    }
    let folder = job_file.map(Path::new).and_then(Path::parent).unwrap_or(Path::new(""));
    let path = folder.join(named);
    let refused = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let size = fs::metadata(&path).map_err(|error| refused(error.to_string()))?.len();
    if size > MAX_FILE_BYTES {
        return Err(refused(format!("{size} bytes; at most {MAX_FILE_BYTES}")).into());
    }
    let text = fs::read_to_string(&path).map_err(|error| refused(error.to_string()))?;
    let rows = muster_spec::read_table(&text).map_err(|error| refused(error.to_string()))?;
    let size = rows.to_string().len();
    if size > MAX_SENT_BYTES {
        let refusal = refused(format!("its rows take {size} bytes; at most {MAX_SENT_BYTES}"));
        return Err(refusal.hint("submit it in parts, or let the program read the file").into());
    }
    fields.insert("params".to_owned(), rows);
    Ok(())
}

/// Reads the jobs of a text, with the points of the file that it names.
///
/// # Errors
/// Everything that is wrong with the text, or with that file.
pub fn parse(
    source: &str,
    job_file: Option<&str>,
    mut fields: Map<String, Value>,
) -> Result<Vec<ParsedJob>> {
    let documents = muster_spec::parse(source, job_file, &fields).map_err(Failure::from)?;
    if documents.iter().all(|document| document.params_file().is_none()) {
        return Ok(documents);
    }
    read_points(&documents, job_file, &mut fields)?;
    Ok(muster_spec::parse(source, job_file, &fields).map_err(Failure::from)?)
}
