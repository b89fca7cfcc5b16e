//! Traces as they are handed in: whatever stands in them is a job, a bad row or a refusal, and
//! never a panic.

use muster_spec::{RowError, TRACE_HEADER, TraceFormat, TraceJob, TraceReader, write_trace_job};
use proptest::prelude::*;

type TraceRows = Vec<Result<TraceJob, RowError>>;

fn read(format: TraceFormat, text: &str) -> TraceRows {
    let mut rows = Vec::new();
    let mut reader = TraceReader::new(format);
    for line in text.lines() {
        if reader.read(line, &mut |row| rows.push(row)).is_err() {
            return rows;
        }
    }
    let _ = reader.finish(&mut |row| rows.push(row));
    rows
}

/// A header that fits, and what may stand in a row: values that are nearly right.
fn table(header: &'static str, separator: &'static str) -> impl Strategy<Value = String> {
    let columns = header.split(separator).count();
    let value = prop_oneof![
        "[0-9]{1,12}",
        "[0-9]{1,9}\\.[0-9]{0,4}",
        "-?[0-9]e[0-9]{1,3}",
        Just(String::new()),
        Just("2026-02-29 10:00:00".to_owned()),
        Just("2024-02-29T10:00:00+08:00".to_owned()),
        Just("COMPLETED".to_owned()),
        Just("9-99:99:99".to_owned()),
        Just("cpu=4,gres/gpu:a=99999999,node=0,mem=9999999999G".to_owned()),
        ".{0,12}",
    ];
    prop::collection::vec(prop::collection::vec(value, columns), 0..6).prop_map(move |rows| {
        let rows: Vec<String> = rows.iter().map(|row| row.join(separator)).collect();
        format!("{header}\n{}\n", rows.join("\n"))
    })
}

proptest! {
    #[test]
    fn arbitrary_text_is_read_or_refused(text in "(?s).{0,300}") {
        for (_, format) in TraceFormat::ALL {
            read(format, &text);
        }
        let head: Vec<&str> = text.lines().collect();
        let _ = TraceFormat::detect(&head);
    }

    #[test]
    fn arbitrary_brackets_are_read_or_refused(text in "[\\[\\]{}\"\\\\,:a\n]{0,200}") {
        for (_, format) in TraceFormat::ALL {
            read(format, &text);
        }
    }

    #[test]
    fn rows_that_are_nearly_right_are_read_or_counted(
        own in table("id,submit,runtime,requested,tasks,cpus,memory,gpus,gpu_share,models,user,queue,ended,priority,started", ","),
        helios in table("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue", ","),
        sacct in table("JobID|State|Submit|Start|Elapsed|Timelimit|NNodes|NCPUS|ReqTRES|AllocTRES", "|"),
    ) {
        for (format, text) in [(TraceFormat::Csv, own), (TraceFormat::Helios, helios), (TraceFormat::Sacct, sacct)] {
            for job in read(format, &text).into_iter().flatten() {
                prop_assert!(job.tasks > 0);
                // What was read can be written, and read again: the id of a job without one is its
                // number.
                let again = read(TraceFormat::Csv, &format!("{TRACE_HEADER}{}", write_trace_job(&job)));
                prop_assert_eq!(again, [Ok(job)]);
            }
        }
    }
}
