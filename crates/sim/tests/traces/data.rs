//! Public traces: in `shared/traces` beside the repository, or where `MUSTER_TRACES` says. They are
//! too large, and not ours, to be kept in it.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure; its tests read files"
)]

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use muster_spec::{TraceFormat, TraceJob, TraceReader};

/// Returns the folder of the traces; `None`, with a note, if it does not exist.
pub fn traces() -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let dir = std::env::var_os("MUSTER_TRACES")
        .map_or_else(|| above.join("shared/traces"), PathBuf::from);
    if !dir.is_dir() {
        eprintln!("not tested: the public traces are not in {}", dir.display());
        return None;
    }
    Some(dir)
}

/// Returns the text of a compressed file.
pub fn text(file: &str) -> Option<String> {
    let path = traces()?.join(file);
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    Some(text)
}

/// Returns the text of an uncompressed file.
pub fn plain(path: &Path) -> String {
    let mut text = String::new();
    File::open(path).unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Returns the jobs of a compressed trace.
pub fn jobs(file: &str, format: TraceFormat) -> Option<Vec<TraceJob>> {
    Some(read(&text(file)?, format))
}

/// Returns the jobs of a trace, all of whose rows can be read.
pub fn read(text: &str, format: TraceFormat) -> Vec<TraceJob> {
    let mut reader = TraceReader::new(format);
    let mut jobs = Vec::new();
    for line in text.lines() {
        reader.read(line, &mut |job| jobs.push(job.unwrap())).unwrap();
    }
    jobs
}
