//! Finds jobs of a trace that have the id of an earlier one. Keeps 16 bytes per job and no ids, since a trace may be
//! larger than memory; drops no job.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{TraceFormat, TraceJob};

/// Jobs with the id of an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DuplicateIds {
    /// Number of these jobs.
    pub jobs: u64,
    /// Line of the first of them, from 1; 0 without any.
    pub first_line: u64,
}

/// Ids of the jobs that were read.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenIds {
    /// Hash of the id and line of each job. Two ids of a million share a hash of 64 bits with a probability of 3 in
    /// 10⁸.
    hashes: Vec<(u64, u64)>,
}

impl SeenIds {
    /// Adds a job that was complete with this line.
    pub(super) fn add(&mut self, format: TraceFormat, job: &TraceJob, line: u64) {
        let mut hasher = DefaultHasher::new();
        job.id.hash(&mut hasher);
        // The attempts of a requeued job of Slurm have one number, and each its own submission.
        if matches!(format, TraceFormat::Sacct | TraceFormat::SacctJson) {
            job.submit.hash(&mut hasher);
        }
        self.hashes.push((hasher.finish(), line));
    }

    /// Returns the jobs with the id of one before them.
    pub(super) fn duplicates(&mut self) -> DuplicateIds {
        self.hashes.sort_unstable();
        let again = self.hashes.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        again.fold(DuplicateIds::default(), |DuplicateIds { jobs, first_line }, pair| {
            let line = pair[1].1;
            DuplicateIds {
                jobs: jobs + 1,
                first_line: if jobs == 0 { line } else { first_line.min(line) },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceReader;

    #[test]
    fn ids_that_are_there_twice_are_counted_and_attempts_of_slurm_are_not() {
        let check = |format, text: &str, jobs, first_line| {
            let mut reader = TraceReader::new(format);
            for line in text.lines() {
                reader.read(line, &mut |row| assert!(row.is_ok(), "{row:?}")).unwrap();
            }
            reader.finish(&mut |_| {}).unwrap();
            assert_eq!(reader.duplicate_ids(), DuplicateIds { jobs, first_line }, "{text}");
        };
        let csv = "id,submit,runtime\n";
        check(TraceFormat::Csv, &format!("{csv}a,0,1\nb,0,1\n"), 0, 0);
        check(TraceFormat::Csv, &format!("{csv}b,0,1\na,0,1\nb,5,1\nb,9,1\na,0,1\n"), 3, 4);
        // Jobs without an id have their numbers.
        check(TraceFormat::Csv, &format!("{csv},0,1\n,0,1\n"), 0, 0);
        let sacct = "JobID|State|Submit|Elapsed\n";
        let attempt = |submit| format!("7|REQUEUED|2026-03-01T{submit}:00:00|01:00\n");
        check(TraceFormat::Sacct, &format!("{sacct}{}{}", attempt("09"), attempt("10")), 0, 0);
        check(TraceFormat::Sacct, &format!("{sacct}{}{}", attempt("09"), attempt("09")), 1, 3);
        let pod = r#"{"kind":"Pod","metadata":{"name":"a","namespace":"n","creationTimestamp":"2026-03-01T09:00:00Z"},"spec":{}}"#;
        check(TraceFormat::Kubernetes, &format!("{{\"items\":[{pod},\n{pod}]}}"), 1, 2);
    }
}
