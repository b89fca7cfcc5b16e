//! Any text as a trace, in every format: each row is a job or a complaint.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_spec::{TraceFormat, TraceReader};

fuzz_target!(|text: &str| {
    for (_, format) in TraceFormat::ALL {
        let mut reader = TraceReader::new(format);
        let mut found = |row: Result<muster_spec::TraceJob, muster_spec::RowError>| {
            if let Ok(job) = row {
                assert!(job.tasks > 0);
            }
        };
        let refused = text.lines().any(|line| reader.read(line, &mut found).is_err());
        if !refused {
            let _ = reader.finish(&mut found);
        }
    }
});
