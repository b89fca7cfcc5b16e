//! Reads public traces: beside the repository, or where `MUSTER_TRACES` says.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use muster_spec::{TraceFormat, TraceJob, TraceReader};

/// Returns the jobs of a compressed trace, named by its path below the public traces; `None` if it does not exist.
pub fn jobs(path: &str, format: TraceFormat) -> Option<Vec<TraceJob>> {
    let beside = || {
        let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
        above.map(|above| above.join("shared/traces"))
    };
    let dir = std::env::var_os("MUSTER_TRACES").map(PathBuf::from).or_else(beside)?;
    let file = File::open(dir.join(path)).ok()?;
    let mut text = String::new();
    MultiGzDecoder::new(file).read_to_string(&mut text).expect("the trace is compressed text");
    let mut reader = TraceReader::new(format);
    let mut jobs = Vec::new();
    for line in text.lines() {
        let read = reader.read(line, &mut |job| jobs.extend(job.ok()));
        read.expect("the trace has this format");
    }
    Some(jobs)
}
