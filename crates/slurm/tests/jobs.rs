//! Jobs as printed by Slurm: samples of Slurm 22.05 from a cluster of this project, and synthetic
//! ones in the documented formats of later versions, which have `synthetic` or `documented` in
//! their names.

#![allow(clippy::disallowed_methods, reason = "the crate is pure; its tests read the samples")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::fmt::Write as _;

use muster_model::Time;
use muster_slurm::job::{self, NativeJob, SEPARATOR};

fn sample(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Formats the parsed fields of each job on one line.
fn lines(rows: &[NativeJob]) -> String {
    let mut text = String::new();
    for row in rows {
        let outcome = row.state.outcome(row.exit, row.cancelled_by.as_deref(), &row.reason);
        let outcome = outcome.map_or("-".to_owned(), |outcome| outcome.to_string());
        let gpus = (
            muster_slurm::tres::gpus(&row.tres_requested),
            muster_slurm::tres::gpus(&row.tres_allocated),
        );
        let _ = writeln!(
            text,
            "{} {:?} {} {} {} {} x{} gpus {gpus:?} {:?} limit {:?} {}",
            row.job(),
            row.array_tasks,
            row.name,
            row.state.state(row.is_held()).word(),
            row.reason,
            row.nodes,
            row.tasks,
            row.gres_by_node,
            row.time_limit.map(|limit| limit.to_string()),
            outcome,
        );
    }
    text
}

#[test]
fn squeue_json_of_22_05() {
    let value = serde_json::from_str(&sample("squeue-22.05.json")).unwrap();
    let rows = job::from_json(&value).unwrap();
    insta::assert_snapshot!(lines(&rows));
    let gang = rows.iter().find(|row| row.name == "gang-2x8").unwrap();
    assert_eq!(
        (gang.id, gang.account.as_str(), gang.partition.as_str()),
        (1019, "vision", "batch")
    );
    assert_eq!(gang.muster_id(), Some("gang-2x8"));
    assert_eq!(gang.start, Some(Time(1_795_370_656_000)));
}

#[test]
fn sacct_lines_of_22_05() {
    let rows = job::from_sacct(&sample("sacct-22.05.txt"));
    insta::assert_snapshot!(lines(&rows));
}

#[test]
fn squeue_json_after_the_documented_shape_of_24_11() {
    let value = serde_json::from_str(&sample("squeue-v0.0.42-synthetic.json")).unwrap();
    let rows = job::from_json(&value).unwrap();
    insta::assert_snapshot!(lines(&rows));
    assert_eq!((rows[0].restarts, rows[0].priority), (1, 4971));
    assert_eq!(rows[1].exit.code, 3);
}

/// JSON format of one Slurm version.
#[derive(Clone, Copy)]
struct SlurmJsonFormat {
    data_parser: &'static str,
    /// Numbers are `{set, infinite, number}`.
    has_wrapped_numbers: bool,
    /// Times are `{set, infinite, number}`.
    has_wrapped_times: bool,
    /// States are lists of words.
    has_state_list: bool,
    /// Name of the field with the signal number, where an exit code is not the raw status of
    /// wait(2).
    signal: Option<&'static str>,
}

/// Returns synthetic jobs in the format of that version: one running on two nodes, and one that
/// failed with 3, the third of an array with a time limit of 24 hours.
fn synthetic(shape: SlurmJsonFormat) -> serde_json::Value {
    use serde_json::json;
    let wrapped = |number: u64| json!({ "set": true, "infinite": false, "number": number });
    let number =
        |number: u64| if shape.has_wrapped_numbers { wrapped(number) } else { json!(number) };
    let time = |secs: u64| if shape.has_wrapped_times { wrapped(secs) } else { json!(secs) };
    let state = |word: &str| if shape.has_state_list { json!([word]) } else { json!(word) };
    let exit = |code: u64| match shape.signal {
        None => number(code << 8),
        Some(signal) => {
            json!({ "return_code": wrapped(code), "signal": { signal: { "set": false, "infinite": false, "number": 0 } } })
        }
    };
    let job = |id: u64, word: &str, code: u64| {
        json!({
            "job_id": id, "array_job_id": number(70), "array_task_id": number(id - 70), "array_task_string": "",
            "het_job_id": number(0), "het_job_offset": number(0), "name": "train", "user_name": "ada",
            "account": "vision", "partition": "gpu", "qos": "normal", "job_state": state(word),
            "state_reason": "None", "comment": "muster:ab12", "submit_time": time(1_795_370_642),
            "start_time": time(1_795_370_656), "end_time": time(1_795_371_856), "time_limit": number(1440),
            "nodes": "node[1-2]", "node_count": number(2), "tasks": number(2), "cpus": number(16),
            "tres_req_str": "cpu=16,gres/gpu=16", "tres_alloc_str": "cpu=16,gres/gpu=16",
            "gres_detail": ["gpu:h100:8(IDX:0-7)", "gpu:h100:8(IDX:0-7)"], "exit_code": exit(code),
            "restart_cnt": 1, "priority": number(4971), "dependency": "", "current_working_directory": "/work",
        })
    };
    json!({ "meta": { "plugin": { "data_parser": shape.data_parser } }, "jobs": [job(73, "RUNNING", 0), job(74, "FAILED", 3)] })
}

/// Formats according to src/plugins/data_parser/*/parsers.c (PARSER_ARRAY(JOB_INFO),
/// PROCESS_EXIT_CODE) of the branches 23.02 to 26.05, and src/plugins/openapi/v0.0.37 and v0.0.38
/// before. None of these samples was printed by such a Slurm.
#[test]
fn the_same_synthetic_job_is_read_from_the_documented_shapes_of_21_08_to_26_05() {
    let shape = |data_parser, has_wrapped_numbers, has_wrapped_times, has_state_list, signal| {
        SlurmJsonFormat {
            data_parser,
            has_wrapped_numbers,
            has_wrapped_times,
            has_state_list,
            signal,
        }
    };
    let shapes = [
        shape("v0.0.37 of 21.08, v0.0.38 of 22.05", false, false, false, None),
        shape("v0.0.39 of 23.02", true, false, false, None),
        shape("v0.0.40 of 23.11", true, true, true, Some("signal_id")),
        shape("v0.0.41 of 24.05 to v0.0.45 of 26.05", true, true, true, Some("id")),
    ];
    let first = job::from_json(&synthetic(shapes[0])).unwrap();
    assert_eq!(
        lines(&first),
        "70 \"3\" train running None node[1-2] x2 gpus (16, 16) [\"gpu:h100:8(IDX:0-7)\", \"gpu:h100:8(IDX:0-7)\"] limit Some(\"1d\") -\n\
         70 \"4\" train failed None node[1-2] x2 gpus (16, 16) [\"gpu:h100:8(IDX:0-7)\", \"gpu:h100:8(IDX:0-7)\"] limit Some(\"1d\") exited with 3\n"
    );
    assert_eq!(
        (first[0].priority, first[0].restarts, first[0].start),
        (4971, 1, Some(Time(1_795_370_656_000)))
    );
    for shape in &shapes[1..] {
        assert_eq!(job::from_json(&synthetic(*shape)).unwrap(), first, "{}", shape.data_parser);
    }
}

/// Output of 20.11: `squeue --json` came with 21.08.
#[test]
fn squeue_lines_where_there_is_no_json() {
    let fields = [
        "1046",
        "1046",
        "0-199%50",
        "array waits | ^",
        "games",
        "vision",
        "batch",
        "normal",
        "PENDING",
        "Priority",
        "muster:ab",
        "1795370667",
        "1795383240",
        "N/A",
        "30:00",
        "",
        "1",
        "1",
        "3534",
        "(null)",
        "/work",
        "gres:gpu:h100:8",
    ];
    let array = fields.join(&SEPARATOR.to_string());
    let fields = [
        "12",
        "12",
        "N/A",
        "train",
        "ada",
        "vision",
        "batch",
        "normal",
        "RUNNING",
        "None",
        "(null)",
        "1795370667",
        "1795370700",
        "1795370900",
        "1-12:00:00",
        "node[1-2]",
        "2",
        "16",
        "35",
        "(null)",
        "/work",
        "gres:gpu:8",
    ];
    let one = fields.join(&SEPARATOR.to_string());
    let rows = job::from_squeue(&format!("{array}\n{one}\nsomething else\n"));
    assert_eq!(rows.len(), 2, "a line that is none is passed over");
    assert_eq!(
        (rows[0].array, rows[0].name.as_str(), rows[0].end),
        (Some(1046), "array waits | ^", None)
    );
    assert_eq!((rows[1].array, muster_slurm::tres::gpus(&rows[1].tres_requested)), (None, 16));
    assert_eq!(rows[1].time_limit.unwrap().as_secs(), 36 * 3600);
}
