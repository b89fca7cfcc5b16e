//! Jobs as real programs print them: samples of Slurm 22.05 from a cluster of this project's own, and synthetic ones after the
//! documented shapes of later versions, which say so in their names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::fmt::Write as _;

use muster_backends::slurm::job::{self, NativeJob, SEPARATOR};
use muster_model::Time;

fn sample(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/slurm/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// What is read of each row, in one line.
fn lines(rows: &[NativeJob]) -> String {
    let mut text = String::new();
    for row in rows {
        let outcome = row.state.outcome(row.exit, row.cancelled_by.as_deref(), &row.reason);
        let outcome = outcome.map_or("-".to_owned(), |outcome| outcome.to_string());
        let gpus = (NativeJob::gpus_of(&row.tres_asked), NativeJob::gpus_of(&row.tres_held));
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
    assert_eq!((gang.id, gang.account.as_str(), gang.partition.as_str()), (1019, "vision", "batch"));
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
    assert_eq!((rows[0].array, rows[0].name.as_str(), rows[0].end), (Some(1046), "array waits | ^", None));
    assert_eq!((rows[1].array, NativeJob::gpus_of(&rows[1].tres_asked)), (None, 16));
    assert_eq!(rows[1].time_limit.unwrap().as_secs(), 36 * 3600);
}
