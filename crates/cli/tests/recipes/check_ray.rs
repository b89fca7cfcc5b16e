//! `muster check ray` with the real Ray: a cluster that was started by hand is found and named, and that of
//! a job passes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::home::{Home, kill};
use crate::python;
use crate::ray::{PATIENCE, processes, submit};

/// A Ray node that was started by hand, in a directory of its own; its processes end with it.
struct ByHand {
    folder: PathBuf,
    port: u16,
}

impl ByHand {
    /// Starts a head of two virtual GPUs.
    fn start() -> Self {
        let folder = PathBuf::from(format!("/tmp/mt{}", std::process::id()));
        let free = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let port = free();
        let started = Self { folder, port };
        let options = [
            "start".to_owned(),
            "--head".to_owned(),
            "--num-cpus=1".to_owned(),
            "--num-gpus=2".to_owned(),
            format!("--port={port}"),
            format!("--ray-client-server-port={}", free()),
            format!("--temp-dir={}", started.folder.display()),
            "--include-dashboard=False".to_owned(),
            "--dashboard-agent-listen-port=0".to_owned(),
            "--min-worker-port=0".to_owned(),
            "--max-worker-port=0".to_owned(),
            "--disable-usage-stats".to_owned(),
        ];
        let mut command = Command::new(python());
        command.args(["-m", "ray.scripts.scripts"]).args(options);
        // The test itself may run in a job, or in a pod.
        for name in ["MUSTER_JOB_ID", "SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST", "RAY_AUTH_MODE"] {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        started
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        for pid in processes(&format!("{}/", self.folder.display())) {
            kill(pid.try_into().unwrap());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Findings of the report about subjects that hold this text.
fn findings(home: &Home, about: &str) -> Vec<(String, String)> {
    let run = home.words("check ray --json");
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let all = report["findings"].as_array().unwrap().iter();
    let all = all.map(|one| (text(one, "rule"), text(one, "evidence")));
    all.filter(|(_, evidence)| evidence.contains(about)).collect()
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn a_cluster_outside_jobs_is_found_and_that_of_a_job_passes() {
    let home = Home::with_gpus(2);
    let program =
        "say('ready', ray.get_runtime_context().gcs_address)\nwhile True:\n    time.sleep(0.1)\n";
    submit(&home, "inside", "tasks: 2\ngpus-per-task: 1", "", program);
    home.until_within(PATIENCE, "the program runs", || home.path("ready").exists());
    let by_hand = ByHand::start();
    // 1. The one by hand is named with what it holds.
    let found = findings(&home, &format!(":{} of ", by_hand.port));
    let rules: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(rules, ["ray-outside-jobs", "ray-open-to-network"], "{found:?}");
    assert!(
        found[0].1.contains(": 1 node with 1 CPU and 2 GPUs, in no job (processes "),
        "{found:?}"
    );
    assert!(found[1].1.contains("without a token: control store on "), "{found:?}");
    // 2. That of the job has nothing wrong.
    let own = home.read("ready");
    assert_eq!(findings(&home, &own), []);
    assert_eq!(findings(&home, "job 1 of Muster"), []);
    let all = home.words("check ray --all").code(1).stdout;
    assert!(
        all.lines()
            .any(|line| line.contains("ray-gpus-beyond-job") && line.contains(" Ray nodes on ")),
        "{all}"
    );
    // 3. What a baseline accepts no longer counts. Others may start clusters on this machine meanwhile.
    home.words("check ray --write-baseline accepted.txt").ok();
    let report: Value =
        serde_json::from_str(&home.words("check ray --baseline accepted.txt --json").stdout)
            .unwrap();
    let all = report["findings"].as_array().unwrap();
    let own = all
        .iter()
        .filter(|one| found.iter().any(|(_, evidence)| one["evidence"] == evidence.as_str()));
    assert_eq!(own.map(|one| one["known"] == true).collect::<Vec<_>>(), [true, true]);
    // 4. When it has ended, nothing is found.
    let address = format!(":{} of ", by_hand.port);
    drop(by_hand);
    home.until("it is gone", || findings(&home, &address).is_empty());
    home.words("cancel 1").ok();
}
