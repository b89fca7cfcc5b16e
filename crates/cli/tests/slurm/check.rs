//! `muster check slurm` against the real cluster.

use std::process::{Command, Output};

/// Findings that the test cluster has on purpose: its state is in a temporary directory, and short
/// times make tests fast.
const EXPECTED: [&str; 4] =
    ["state-lost-at-reboot", "controller-is-root", "no-health-check", "no-time-to-save"];

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn probe_jobs_prove_what_no_configuration_does() {
    let output = muster(&["check", "slurm", "--prove", "--json"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let probes = report["probes"].as_array().unwrap();
    let outcomes: Vec<(&str, &str)> = probes
        .iter()
        .map(|probe| (probe["probe"].as_str().unwrap(), probe["outcome"].as_str().unwrap()))
        .collect();
    let expected = ["one-gpu-sees-one", "gpu-seconds-recorded", "gang-on-one-leaf"]
        .map(|probe| (probe, "passed"));
    assert_eq!(outcomes, expected, "{probes:#?}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn muster(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster")).args(words).output().unwrap()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_running_cluster_is_asked_and_its_files_are_found() {
    let output = muster(&["check", "slurm", "--json"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let rules = |list: &str| -> Vec<String> {
        let list = report[list].as_array().unwrap();
        list.iter().map(|entry| entry["rule"].as_str().unwrap().to_owned()).collect()
    };
    let failed = rules("findings");
    let passed = rules("passed");
    for rule in EXPECTED {
        assert!(failed.iter().any(|found| found == rule), "{rule}: {failed:?}");
    }
    // Properties that the cluster was set up for pass, and are known from all of its sources.
    for rule in [
        "gpus-not-accounted",
        "gpus-not-billed",
        "limits-not-enforced",
        "devices-not-constrained",
        "gres-count-differs",
        "topology-without-nodes",
        "preempt-without-grace",
        "requeued-jobs-wait",
    ] {
        assert!(passed.iter().any(|found| found == rule), "{rule}: {said}");
    }
    let state = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|found| found["rule"] == EXPECTED[0])
        .unwrap();
    assert!(state["place"]["source"].as_str().unwrap().ends_with("slurm.conf"), "{state}");
}
