//! Changes that `explain` suggests on a real Slurm: the job starts once they are applied. Also the
//! selection of array elements.

use serde_json::json;

use crate::cluster::{SlurmCluster, User};
use crate::muster::Muster;

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_that_is_changed_as_explain_says_starts_at_once() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let text = |name: &str, nodes: u32| {
        format!("name: {name}\nnodes: {nodes}\ngpus: 8\ntime: 10m\nrun: exec sleep 300\n")
    };
    let holds = muster.submit(&text("holds", 6))[0];
    muster.reaches(holds, "running");
    let waits = muster.submit(&text("waits", 4))[0];
    cluster.until("Slurm says why", || muster.job(waits)["native"]["reason"] == "Resources");

    let explained = muster.json(&["explain", &waits.to_string()]);
    assert_eq!(
        explained["explanation"]["sooner"],
        json!([{ "kind": "nodes", "nodes": 2 }]),
        "{explained}"
    );
    // Nothing is suggested for a job that is restricted to some nodes.
    let bound = muster.submit(&format!("{}slurm: {{nodelist: node1}}\n", text("bound", 4)))[0];
    let explained = muster.json(&["explain", &bound.to_string()]);
    assert_eq!(explained["explanation"]["sooner"], json!([]), "{explained}");
    muster.cancel(&[waits, bound]);
    let smaller = muster.submit(&text("smaller", 2))[0];
    muster.reaches(smaller, "running");
    muster.cancel(&[holds, smaller]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_that_a_limit_keeps_starts_at_once_as_small_as_explain_says() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    // The QOS limits a user to 16 GPUs.
    let text = |name: &str, nodes: u32, gpus: u32| {
        format!(
            "name: {name}\nnodes: {nodes}\ngpus: {gpus}\ntime: 10m\nrun: exec sleep 300\nslurm: {{qos: capped}}\n"
        )
    };
    let holds = muster.submit(&text("holds", 1, 6))[0];
    muster.reaches(holds, "running");
    let waits = muster.submit(&text("waits", 3, 4))[0];
    cluster
        .until("Slurm says why", || muster.job(waits)["native"]["reason"] == "QOSMaxGRESPerUser");

    let explained = muster.json(&["explain", &waits.to_string()]);
    let expected = json!([
        { "kind": "nodes", "nodes": 2 },
        { "kind": "gpus_per_task", "gpus": 3, "per_node": 3 }
    ]);
    assert_eq!(explained["explanation"]["sooner"], expected, "{explained}");
    muster.cancel(&[waits]);
    for (nodes, gpus) in [(2, 4), (3, 3)] {
        let smaller = muster.submit(&text("smaller", nodes, gpus))[0];
        muster.reaches(smaller, "running");
        muster.cancel(&[smaller]);
    }
    muster.cancel(&[holds]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_as_short_as_explain_says_starts_before_those_before_it() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let text = |name: &str, nodes: u32, minutes: u64| {
        format!("name: {name}\nnodes: {nodes}\ngpus: 8\ntime: {minutes}m\nrun: exec sleep 300\n")
    };
    let holds = muster.submit(&text("holds", 6, 10))[0];
    muster.reaches(holds, "running");
    let first = muster.submit(&text("first", 8, 5))[0];
    cluster.until("Slurm has planned it", || !muster.job(first)["eta"].is_null());
    let waits = muster.submit(&text("waits", 2, 30))[0];
    cluster.until("Slurm says why", || muster.job(waits)["native"]["reason"] == "Priority");

    let explained = muster.json(&["explain", &waits.to_string()]);
    assert_eq!(explained["explanation"]["position"], json!([2, 2]), "{explained}");
    let changes = explained["explanation"]["sooner"].as_array().unwrap();
    let [change] = changes.as_slice() else { panic!("{explained}") };
    assert_eq!(change["kind"], "time_limit", "{explained}");
    let minutes = change["limit"].as_u64().unwrap() / 60_000;
    assert!((6..10).contains(&minutes), "{explained}");
    // A request that the partition never allows is reduced to its limit, and to the GPUs that are
    // free beside the jobs before it.
    let huge = muster.submit(&text("huge", 9, 5))[0];
    match why_it_never_runs(&muster, huge).as_str() {
        "PartitionNodeLimit" => {
            let explained = muster.json(&["explain", &huge.to_string()]);
            let two = json!([{ "kind": "nodes", "nodes": 2 }]);
            assert_eq!(explained["explanation"]["sooner"], two, "{explained}");
        }
        _ => is_explained_as_failed(&muster, huge),
    }
    muster.cancel(&[huge]);
    muster.cancel(&[waits]);
    let shorter = muster.submit(&text("shorter", 2, minutes))[0];
    muster.reaches(shorter, "running");
    muster.cancel(&[holds, first, shorter]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_that_no_node_can_take_says_how_far_the_closest_is_from_it() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let huge = muster.submit("name: huge\ngpus: 9\ntime: 5m\nrun: 'true'\n")[0];
    assert_eq!(why_it_never_runs(&muster, huge), "BadConstraints");
    is_explained_as_failed(&muster, huge);
    let explained = muster.output(&["explain", &huge.to_string()]);
    assert!(
        explained.contains("needs a node with 9 free GPUs; 0 of 8 have that now"),
        "{explained}"
    );
}

/// Waits until Slurm reports that a job can never run; some releases leave it pending for that
/// reason, others fail it.
fn why_it_never_runs(muster: &Muster<'_>, job: u64) -> String {
    let mut reason = String::new();
    muster.cluster.until("Slurm says why", || {
        reason = muster.job(job)["native"]["reason"].as_str().unwrap_or_default().to_owned();
        ["PartitionNodeLimit", "BadConstraints"].contains(&reason.as_str())
    });
    reason
}

fn is_explained_as_failed(muster: &Muster<'_>, job: u64) {
    muster.reaches(job, "failed");
    let explained = muster.output(&["explain", &job.to_string()]);
    assert!(explained.starts_with("huge failed: BadConstraints\n"), "{explained}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn an_element_is_the_one_that_is_named_and_one_that_is_not_there_is_said() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let array = muster.submit("name: few\narray: 0-2%1\ntime: 5m\nrun: exec sleep 300\n")[0];
    muster.reaches(array, "running");
    let single = muster.submit("name: one\ntime: 5m\nrun: exec sleep 300\n")[0];
    for job in [format!("{array}[7]"), format!("{single}[3]")] {
        for verb in ["show", "cancel", "explain", "wait", "hold"] {
            let said = muster.call(&[verb, &job]);
            assert_eq!(said.code, 4, "{verb} {job}: {said:?}");
            assert!(said.stderr.contains("has no element"), "{verb} {job}: {said:?}");
        }
    }
    // The first has ended, and the others are running or pending.
    let first = format!("{array}[0]");
    muster.output(&["cancel", &first]);
    let waited = muster.call(&["wait", &first]);
    assert!(waited.stdout.contains("cancelled") && waited.code != 0, "{waited:?}");
    assert_eq!(muster.json(&["explain", &first])["explanation"]["state"], "cancelled");
    assert_ne!(muster.job(array)["state"], "cancelled");
    muster.cancel(&[array, single]);
    // An ended element has its own exit code.
    let fails = muster
        .submit("name: fails\narray: 0-1\ntime: 5m\nrun: exit $((5 + MUSTER_ARRAY_INDEX))\n")[0];
    let waited = muster.call(&["wait", &format!("{fails}[1]")]);
    assert_eq!(waited.code, 6, "{waited:?}");
}
