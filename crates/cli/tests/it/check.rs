//! `muster check slurm` on files. The rules are tested in `muster-doctor`.

use serde_json::Value;

use crate::home::{Home, HomeRun};

const SLURM: &str = "\
ClusterName=c
GresTypes=gpu
SchedulerType=sched/builtin
Include more.conf
NodeName=n[1-2] Gres=gpu:h100:8 RealMemory=1000000
PartitionName=p Nodes=n[1-2] MaxTime=UNLIMITED DefaultTime=1:00:00
";

/// A home with a folder of configuration.
fn site() -> Home {
    let home = Home::new();
    std::fs::create_dir(home.path("etc")).unwrap();
    home.write("etc/slurm.conf", SLURM);
    home.write("etc/more.conf", "KillWait=1\n");
    home.write("etc/gres.conf", "NodeName=n[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-3]\n");
    home
}

fn rules(run: &HomeRun) -> Vec<String> {
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_folder_is_read_with_what_it_includes_and_findings_name_their_line() {
    let home = site();
    let text = home.words("check slurm --conf etc").code(1).stdout;
    for line in [
        "high    small jobs wait behind large ones  [no-backfill]",
        "  found  SchedulerType=sched/builtin (etc/slurm.conf:3)",
        "  found  KillWait=1 (etc/more.conf:1)",
        "  found  n1 and 1 more: 8 GPUs in slurm.conf, 4 in gres.conf (etc/slurm.conf:5)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("devices-not-constrained"), "{text}");
    let all = home.words("check slurm --conf etc --all").code(1).stdout;
    let needed = |line: &str| {
        line.contains("devices-not-constrained") && line.ends_with("`scontrol show config`")
    };
    assert!(all.lines().any(needed), "{all}");
}

#[test]
fn json_keeps_to_its_schema_and_sarif_names_lines() {
    let home = site();
    let run = home.words("check slurm --conf etc --json").code(1);
    let schema: Value = home.words("schema check-report").json();
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    jsonschema::validator_for(&schema)
        .unwrap()
        .validate(&report)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report["subject"], "slurm");
    assert!(rules(&run).contains(&"gres-count-differs".to_owned()));

    let run = home.words("check slurm --conf etc --format sarif").code(1);
    let log: Value = serde_json::from_str(&run.stdout).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), report["findings"].as_array().unwrap().len());
    let backfill = results.iter().find(|result| result["ruleId"] == "no-backfill").unwrap();
    let place = &backfill["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&"etc/slurm.conf".into(), &3.into())
    );
}

#[test]
fn what_the_baseline_holds_no_longer_counts() {
    let home = site();
    let run = home.words("check slurm --conf etc --write-baseline accepted.txt").ok();
    assert!(
        run.stderr.contains("findings written; --baseline accepts them from now on"),
        "{}",
        run.stderr
    );
    let again = home.words("check slurm --conf etc --baseline accepted.txt --fail-on low").ok();
    assert!(again.stdout.starts_with("slurm: nothing wrong was found, "), "{}", again.stdout);
    // A finding stays the same if its line moves or its value changes; a new finding counts.
    home.write("etc/slurm.conf", &format!("# moved\n{SLURM}SlurmdTimeout=0\n"));
    let new = home.words("check slurm --conf etc --baseline accepted.txt").code(1).stdout;
    assert!(new.starts_with("slurm: 1 rule failed (1 medium), "), "{new}");
    assert!(new.contains("[dead-nodes-not-seen]"), "{new}");
    home.words("check slurm --conf etc --baseline accepted.txt --fail-on high").ok();
}

#[test]
fn nodes_of_kubernetes_come_from_a_pipe() {
    let home = site();
    let run = home.with_stdin(
        &["check", "slurm", "--conf", "etc", "--json", "--kubernetes-nodes", "-"],
        "node/n2\n",
    );
    assert!(rules(&run.code(1)).contains(&"nodes-also-in-kubernetes".to_owned()));
    let run = home.with_stdin(
        &["check", "slurm", "--conf", "etc", "--json", "--kubernetes-nodes", "-"],
        "node/k2\n",
    );
    assert!(!rules(&run.code(1)).contains(&"nodes-also-in-kubernetes".to_owned()));
    home.with_stdin(&["check", "slurm", "--conf", "etc", "--kubernetes-nodes", "-"], "{}").code(2);
}

#[test]
fn rules_are_listed_and_explained() {
    let home = Home::new();
    let list = home.words("check slurm --rules").ok().stdout;
    assert!(list.lines().count() >= 35, "{list}");
    assert!(
        list.lines().any(|line| line.starts_with("no-backfill ") && line.contains(" high ")),
        "{list}"
    );
    let said = home.words("check slurm --explain no-backfill").ok().stdout;
    assert!(said.contains("slurm.conf(5), SchedulerType"), "{said}");
    let unknown = home.words("check slurm --explain no-such-rule").code(2).stderr;
    assert!(unknown.contains("--rules"), "{unknown}");
}

#[test]
fn mistakes_are_said_with_the_next_step() {
    let home = site();
    home.write("accepted.txt", "no-backfill\n");
    home.write("letter.txt", "dear all,\n");
    std::fs::create_dir(home.path("empty")).unwrap();
    for (words, said) in [
        ("check slurm --conf missing", "cannot read missing"),
        ("check slurm --conf letter.txt", "letter.txt is not a known file of Slurm"),
        ("check slurm --conf empty", "empty contains no known file of Slurm"),
        (
            "check slurm --conf etc --baseline accepted.txt",
            "accepted.txt:1 does not start with a fingerprint",
        ),
        ("check slurm --conf etc --json --format sarif", "cannot be used with"),
    ] {
        let stderr = home.words(words).code(2).stderr;
        assert!(stderr.contains(said), "{words}: {stderr}");
    }
}

#[test]
fn without_slurm_the_next_step_is_offered() {
    let home = Home::new();
    let output =
        home.command(&["check", "slurm"]).env("PATH", home.path("empty")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("scontrol is not installed here") && stderr.contains("--conf"),
        "{stderr}"
    );
}
