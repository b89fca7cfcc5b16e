//! `muster usage` of a period.

use muster_api::types::UsageReport;

use crate::home::Home;

#[test]
fn a_period_counts_what_held_gpus_and_what_was_lost() {
    let home = Home::with_gpus(4);
    home.words("run --wait --gpus 2 --name good -- sleep 0.3").ok();
    home.words("run --wait --gpus 1 --name bad -- sh -c sleep${IFS}0.3;exit${IFS}3").code(3);
    home.words("run --wait --array 0-2 --gpus 1 --name many -- true").ok();
    let report: UsageReport = home.words("usage --since 1h --by job --json").json();
    let rows: Vec<_> =
        report.rows.iter().map(|row| (row.name.as_deref().unwrap_or(""), row.attempts)).collect();
    let mut sorted = rows.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [("bad", 1), ("good", 1), ("many", 3)]);
    let csv = home.words("usage --by job,queue --csv --price 3600").ok().stdout;
    let good = csv.lines().find(|line| line.contains("good")).unwrap();
    let fields: Vec<&str> = good.split(',').collect();
    assert_eq!(fields[..5], ["", "default", "1", "good", "1"], "{csv}");
    assert_eq!(fields.len(), 11, "{csv}");
    // The load of virtual GPUs is never known.
    assert_eq!(fields[6..8], ["", "0.000"], "{csv}");
    assert!(report.rows.iter().all(|row| row.used_gpu_secs.is_none()), "{report:?}");
    let table = home.words("usage --by job").ok().stdout;
    assert!(
        table.starts_with("JOB") && table.trim_end().lines().last().unwrap().starts_with("all")
    );
    // Nothing had run before the daemon started.
    let before = home.words("usage --since 30d --until 1d").ok();
    assert_eq!((before.stdout.as_str(), before.stderr.contains("nothing held")), ("", true));
    // A job that runs counts, and has its name.
    let gate = home.gate("go");
    home.sh("--gpus 1 --name runs", &gate);
    home.until("its row", || home.words("usage --by job").ok().stdout.contains("runs"));
    home.open("go");
}

#[test]
fn mistakes_in_a_period_are_named() {
    let home = Home::with_gpus(1);
    home.words("run --wait -- true").ok();
    for (words, says) in [
        ("usage --by team", "expected user, queue or job"),
        ("usage --since 1h --until 2h", "the period ends before it begins"),
        ("usage --price free", "expected an amount"),
        ("usage --csv --json", "cannot be used with"),
    ] {
        let refused = home.words(words).code(2).stderr;
        assert!(refused.contains(says), "{words}: {refused}");
    }
}
