//! `muster verify` on a real cluster: beside a running job, and before a job's program starts.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::{SlurmCluster, User};
use crate::muster::Muster;

fn outcomes(report: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().map(|check| (text(&check["check"]), text(&check["outcome"]))).collect()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_gang_that_runs_is_looked_at_on_each_of_its_nodes() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let jobs = muster.submit(
        "name: seen\nnodes: 3\ntasks-per-node: 2\ngpus: 4\ntime: 5m\nslurm: {switches: 1}\nrun: exec sleep 300\n",
    );
    let waiting = muster.submit("name: not-yet\nhold: true\nrun: x\n");
    muster.reaches(jobs[0], "running");

    // 1. Its ranks are found once their programs run.
    let job = jobs[0].to_string();
    let mut report = Value::Null;
    cluster.until("all ranks run", || {
        report = serde_json::from_str(&muster.call(&["verify", &job, "--json"]).stdout).unwrap();
        outcomes(&report)["whole"] == "passed"
    });
    let found = outcomes(&report);
    for check in [
        "one-allocation",
        "devices",
        "closed-devices",
        "master",
        "shared-memory",
        "clocks",
        "leaf-switches",
    ] {
        assert_eq!(found[check], "passed", "{check}: {report}");
    }
    // 2. Checks without an observation did not pass.
    for check in ["strangers", "transport", "gpudirect"] {
        assert_eq!(found[check], "not-tested", "{check}: {report}");
    }
    assert_eq!(
        (report["ranks"].as_u64(), report["nodes"].as_array().map(Vec::len)),
        (Some(6), Some(3))
    );
    assert_eq!(muster.call(&["verify", &job]).code, 0);
    assert_eq!(muster.call(&["verify", &job, "--strict"]).code, 1);

    // 3. A pending job cannot be verified.
    let refused = muster.call(&["verify", &waiting[0].to_string()]);
    assert!(refused.code == 1 && refused.stderr.contains("muster explain"), "{refused:?}");
    muster.cancel(&[jobs[0], waiting[0]]);
}

/// In each of these the environment of the rank's first process is right, but its program changes
/// it.
#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn two_ranks_whose_programs_use_one_gpu_have_failed() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let reported = "CUDA_VISIBLE_DEVICES=0 sleep 300; true".to_owned();
    // The device files of this cluster have no driver; O_PATH opens them all the same.
    let device = cluster.devices().join("nvidia0");
    let open =
        format!("perl -e 'sysopen(F, \"{}\", 0x200000) or die; sleep 300'; true", device.display());
    let text = |name: &str, script: &str| {
        format!("name: {name}\ntasks: 2\ngpus-per-task: 1\ntime: 5m\nrun: |\n  {script}\n")
    };
    let jobs = muster.submit(&format!("{}---\n{}", text("told", &reported), text("open", &open)));
    for job in &jobs {
        muster.reaches(*job, "running");
        let mut report = Value::Null;
        cluster.until("its programs run", || {
            report =
                serde_json::from_str(&muster.call(&["verify", &job.to_string(), "--json"]).stdout)
                    .unwrap();
            outcomes(&report)["devices"] == "failed"
        });
        assert_eq!(outcomes(&report)["whole"], "passed", "{report}");
        let checks = report["checks"].as_array().unwrap();
        let devices = checks.iter().find(|check| check["check"] == "devices").unwrap();
        assert!(
            devices["says"].as_str().unwrap().starts_with("ranks 0 and 1 share GPU "),
            "{devices}"
        );
    }
    muster.cancel(&jobs);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_place_that_is_not_as_asked_for_ends_the_job_before_its_program_starts() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let started = |name: &str| cluster.work().join(format!("started-{name}"));
    let text = |name: &str, setup: &str| {
        format!(
            "name: {name}\nnodes: 2\ntasks-per-node: 2\ngpus: 2\ntime: 5m\nverify: true\nslurm: {{setup: '{setup}'}}\n\
             run: touch {}\n",
            started(name).display()
        )
    };
    cluster.output_as(
        User::Mail,
        &["mkdir", "-p", cluster.work().join("home-mail").to_str().unwrap()],
    );
    let jobs = muster.submit(&format!(
        "{}---\n{}",
        text("sound", "export NOTHING=1"),
        text("unsound", "export CUDA_VISIBLE_DEVICES=0")
    ));
    muster.reaches(jobs[0], "done");
    muster.reaches(jobs[1], "failed");
    let outcome = muster.job(jobs[1])["elements"][0]["outcome"].clone();
    assert_eq!(outcome["code"], 78, "{outcome}");
    assert!(started("sound").exists() && !started("unsound").exists());
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn roles_that_need_different_nodes_are_looked_at_together() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let jobs = muster.submit(
        "name: roles\nverify: true\ntime: 5m\ngroups:\n\
         - {name: trainer, nodes: 1, gpus: 2, run: exec sleep 300}\n- {name: actor, tasks: 2, cpus: 2, run: exec sleep 300}\n",
    );
    muster.reaches(jobs[0], "running");
    let job = jobs[0].to_string();
    cluster.until("all ranks run", || {
        let report: Value =
            serde_json::from_str(&muster.call(&["verify", &job, "--json"]).stdout).unwrap();
        let found = outcomes(&report);
        found["whole"] == "passed" && found["master"] == "passed"
    });
    // In Slurm they are components 0 and 1.
    let shown = muster.job(jobs[0]);
    let names = |list: &Value, key: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&shown["roles"], "name"), ["trainer", "actor"], "{shown}");
    assert_eq!(
        names(&shown["elements"][0]["tasks"], "group"),
        ["trainer", "actor", "actor"],
        "{shown}"
    );
    muster.cancel(&jobs);
}
