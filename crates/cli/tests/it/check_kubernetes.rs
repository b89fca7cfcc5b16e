//! `muster check kubernetes` on files. The rules are tested in `muster-doctor`, the API server in
//! `tests/kubernetes/check.rs`.

use serde_json::{Value, json};

use crate::home::{Home, HomeRun};

/// Returns a pod of the gang `train`, on the default scheduler.
fn pod(name: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "ml", "name": name, "creationTimestamp": "2026-11-20T11:00:00Z",
            "labels": {"scheduling.x-k8s.io/pod-group": "train"},
        },
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "main",
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
            }],
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T12:00:00Z"}]},
    })
}

/// A home with a folder of files, as `kubectl get -o json` prints them.
fn site() -> Home {
    let home = Home::new();
    std::fs::create_dir(home.path("dump")).unwrap();
    let list =
        |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    home.write(
        "dump/pods.json",
        &list(vec![pod("train-0", Some("n1")), pod("train-1", Some("n2"))]),
    );
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "ml", "name": "train"}, "spec": {"minMember": 2},
    });
    home.write("dump/podgroups.scheduling.x-k8s.io.json", &list(vec![group]));
    home.write("dump/deployments.json", &list(Vec::new()));
    home
}

fn rules(run: &HomeRun, list: &str) -> Vec<String> {
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
    let outcomes = report[list].as_array().unwrap();
    outcomes.iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_folder_of_files_is_judged_and_what_is_not_in_it_is_not_tested() {
    let home = site();
    let run = home.words("check kubernetes dump --json").code(1);
    assert_eq!(rules(&run, "findings"), ["gang-on-default-scheduler"]);
    assert!(rules(&run, "passed").contains(&"gang-scheduler-not-used".to_owned()));
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let schema: Value = home.words("schema check-report").json();
    let schema = jsonschema::validator_for(&schema).unwrap();
    schema.validate(&report).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report["subject"], "kubernetes");
    let all = home.words("check kubernetes dump --all").code(1).stdout;
    let needs = |line: &str| {
        line.contains("gang-crash-multiplies")
            && line.contains("`kubectl get jobsets.jobset.x-k8s.io -A -o json`")
    };
    assert!(all.lines().any(needs), "{all}");
}

#[test]
fn the_text_has_evidence_and_cure() {
    let home = site();
    // The number of rules changes with each new one.
    let text = home.words("check kubernetes dump").code(1).stdout;
    let (summary, rest) = text.split_once('\n').unwrap();
    assert!(summary.starts_with("kubernetes: 1 rule failed (1 high), "), "{summary}");
    insta::assert_snapshot!(rest);
}

#[test]
fn one_text_on_stdin_serves_as_well() {
    let home = site();
    let items = json!({"apiVersion": "v1", "kind": "List", "items": [pod("train-0", Some("n1"))]});
    let run = home.with_stdin(&["check", "kubernetes", "-", "--json"], &items.to_string()).ok();
    assert_eq!(rules(&run, "findings"), [""; 0]);
    assert!(rules(&run, "not_tested").contains(&"gang-on-default-scheduler".to_owned()));
}

#[test]
fn the_output_of_cluster_info_dump_is_read() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("dump/ml")).unwrap();
    let mut item = pod("train-0", Some("n1"));
    item.as_object_mut().unwrap().remove("kind");
    item.as_object_mut().unwrap().remove("apiVersion");
    let pods = json!({"apiVersion": "v1", "kind": "PodList", "items": [item]});
    home.write("dump/ml/pods.json", &pods.to_string());
    home.write("dump/nodes.json", r#"{"apiVersion": "v1", "kind": "NodeList", "items": []}"#);
    home.write("dump/ml/logs.txt", "no JSON\n");
    let run = home.words("check kubernetes dump --json").ok();
    assert!(rules(&run, "passed").contains(&"small-pods-spread".to_owned()), "{}", run.stdout);
}

#[test]
fn baseline_and_sarif_are_those_of_every_check() {
    let home = site();
    home.words("check kubernetes dump --write-baseline accepted.txt").ok();
    let again = home.words("check kubernetes dump --baseline accepted.txt").ok().stdout;
    assert!(
        again.starts_with("kubernetes: nothing wrong was found, 1 finding in the baseline"),
        "{again}"
    );
    let log: Value =
        serde_json::from_str(&home.words("check kubernetes dump --format sarif").code(1).stdout)
            .unwrap();
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "muster check kubernetes");
    assert_eq!(run["results"][0]["ruleId"], "gang-on-default-scheduler");
}

#[test]
fn rules_are_listed_and_explained() {
    let home = Home::new();
    let list = home.words("check kubernetes --rules").ok().stdout;
    assert!(
        list.lines().any(|line| line.starts_with("gang-half-running ") && line.contains(" high "))
    );
    let said = home.words("check kubernetes --explain gang-half-running").ok().stdout;
    assert!(said.contains("https://kubernetes.io/"), "{said}");
    let unknown = home.words("check kubernetes --explain no-backfill").code(2).stderr;
    assert!(unknown.contains("`muster check kubernetes --rules`"), "{unknown}");
}

#[test]
fn mistakes_are_said_with_the_next_step() {
    let home = site();
    home.write("letter.json", "dear all,\n");
    home.write("broken.json", "{\"kind\": \n");
    home.write("other.json", "{}\n");
    std::fs::create_dir(home.path("empty")).unwrap();
    for (words, said) in [
        ("check kubernetes missing", "cannot read missing"),
        ("check kubernetes letter.json", "letter.json holds no object of Kubernetes"),
        ("check kubernetes broken.json", "broken.json is not JSON"),
        ("check kubernetes other.json", "other.json holds no object of Kubernetes"),
        ("check kubernetes empty", "empty contains no file with objects"),
        ("check kubernetes dump --context x", "cannot be used with"),
        ("check kubernetes dump --save x", "cannot be used with"),
    ] {
        let stderr = home.words(words).code(2).stderr;
        assert!(stderr.contains(said), "{words}: {stderr}");
    }
}
