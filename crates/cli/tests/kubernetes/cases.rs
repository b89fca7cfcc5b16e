//! Cases that the suites of other schedulers test, in our own words: each file of `cases/` has some,
//! and all are played beside each other, on nodes, in queues and in namespaces of their own.
//! `MUSTER_TEST_CASES` names a part of the names of those to play.

mod case;
mod expect;
mod objects;
mod yaml;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, success, until};
use crate::scheduler_process::SchedulerProcess;
use case::{Case, Step};
use expect::Seen;
use objects::{CASE, Snapshot};

/// Folder of the files of cases, each about one idea.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubernetes/cases");

/// Page with what differs on purpose.
const DIFFERENCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kubernetes-cases.md");

/// Longest time of a step; what a gang says changes at most every ten seconds.
const STEP: Duration = Duration::from_secs(60);

/// A case that is being played.
struct Player<'a> {
    case: &'a Case,
    /// Index of the present step.
    step: usize,
    since: Instant,
    end: Option<Result<(), String>>,
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn what_other_suites_test_holds_here_or_is_listed() {
    let mut cases = read_cases();
    check_differences(&cases);
    let wanted = std::env::var("MUSTER_TEST_CASES").unwrap_or_default();
    cases.retain(|case| case.name.contains(&wanted));
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active_with(
        &cluster,
        &["--level", "block=block", "--level", "rack=rack"],
    );
    let start = Instant::now();
    let cleanup = Cleanup(&cluster);
    let mut setup = objects::classes();
    setup.extend(cases.iter().flat_map(Case::setup));
    send(&cluster, &["create"], setup);
    wait_for_setup(&cluster, &cases);
    let ends = play(&cluster, &cases);
    println!("{} cases in {} s", cases.len(), start.elapsed().as_secs());
    drop(cleanup);
    let failed: Vec<&String> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:#?}", failed.len(), cases.len());
}

/// Reads all cases, by name.
fn read_cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for entry in std::fs::read_dir(FILES).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let Value::Array(list) = yaml::read(&file, &text) else { panic!("{file} is no list") };
        for one in list {
            let name = one["name"].to_string();
            let case: Case = serde_json::from_value(one)
                .unwrap_or_else(|error| panic!("{file}: {name}: {error}"));
            let suites = ["kube-scheduler", "kueue", "kai", "volcano", "muster"];
            let suite = case.from.split(':').next().unwrap_or_default();
            assert!(suite.split(", ").all(|one| suites.contains(&one)), "{name}: {suite}");
            assert!(!case.steps.is_empty(), "{name} has no steps");
            cases.push(case);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in cases.windows(2) {
        assert_ne!(pair[0].name, pair[1].name);
    }
    cases
}

/// Fails unless the page lists exactly the cases in which Muster does something else.
fn check_differences(cases: &[Case]) {
    let page = std::fs::read_to_string(DIFFERENCES).unwrap();
    let rows: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let suites = case.from.split(':').next().unwrap_or_default();
            let differs = case.differs.as_ref()?;
            Some(format!("| {} | {suites} | {differs} |", case.name))
        })
        .collect();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(listed, rows, "{DIFFERENCES} should have the rows\n{}", rows.join("\n"));
}

/// Waits until the queues are in force, and the controllers have made the accounts without which pods
/// are refused.
fn wait_for_setup(cluster: &KubernetesCluster, cases: &[Case]) {
    let expected: usize = cases.iter().map(|case| case.queues.len().max(1)).sum();
    until("the queues are in force", || {
        let (snapshot, _) = look(cluster);
        let is_ready = |one: &&Value| one["status"]["conditions"][0]["status"] == "True";
        let queues = snapshot.values().flatten().filter(|one| one["kind"] == "Queue");
        queues.filter(is_ready).count() == expected
    });
    until("every namespace has its account", || {
        let list = cluster.get(&["serviceaccounts", "--all-namespaces"]);
        let accounts = list["items"].as_array().into_iter().flatten();
        let made: BTreeSet<&str> =
            accounts.filter_map(|one| one["metadata"]["namespace"].as_str()).collect();
        cases.iter().all(|case| made.contains(case.name.as_str()))
    });
}

/// Plays all cases beside each other; returns the result of each.
fn play(cluster: &KubernetesCluster, cases: &[Case]) -> Vec<Result<(), String>> {
    let now = Instant::now();
    let mut players: Vec<Player> =
        cases.iter().map(|case| Player { case, step: 0, since: now, end: None }).collect();
    let mut due: Vec<usize> = (0..players.len()).collect();
    loop {
        let steps: Vec<(&Case, &Step)> = due
            .iter()
            .map(|at| (players[*at].case, &players[*at].case.steps[players[*at].step]))
            .collect();
        carry_out(cluster, &steps);
        for at in due.drain(..) {
            players[at].since = Instant::now();
        }
        let (snapshot, nodes) = look(cluster);
        for (at, player) in players.iter_mut().enumerate().filter(|(_, one)| one.end.is_none()) {
            let objects = snapshot.get(&player.case.name).map_or(&[][..], Vec::as_slice);
            let seen = Seen { case: player.case, objects, nodes: &nodes };
            if player.look(&seen) {
                due.push(at);
            }
        }
        if players.iter().all(|player| player.end.is_some()) {
            return players.into_iter().filter_map(|player| player.end).collect();
        }
    }
}

impl Player<'_> {
    /// Compares the cluster with the present step; returns true if the next one follows.
    fn look(&mut self, seen: &Seen) -> bool {
        match seen.check(&self.case.steps[self.step].expect) {
            Ok(()) => {
                self.step += 1;
                if self.step < self.case.steps.len() {
                    return true;
                }
                self.end = Some(Ok(()));
            }
            Err(text) if self.since.elapsed() > STEP => {
                self.end = Some(Err(format!("{}, step {}: {text}", self.case.name, self.step + 1)));
            }
            Err(_) => {}
        }
        false
    }
}

/// Makes the changes of steps, with few commands for all of them.
fn carry_out(cluster: &KubernetesCluster, steps: &[(&Case, &Step)]) {
    for (case, step) in steps {
        let of_case = ["--namespace", case.name.as_str()];
        let run = |words: &[&str]| drop(cluster.kubectl(&[words, &of_case].concat()));
        let selector = |name: &String| format!("--selector={}={name}", objects::ITEM);
        for (object, patch) in &step.patch {
            let object = case.with_full_name(object);
            let mut words = vec!["patch", &object, "--type=merge"];
            words.extend(patch.get("status").map(|_| "--subresource=status"));
            let patch = format!("--patch={patch}");
            run(&[&words[..], &[&patch]].concat());
        }
        for pod in step.finish.iter().flat_map(|name| case.pod_names(name)) {
            // As a kubelet reports it.
            let patch = r#"--patch={"status":{"phase":"Succeeded"}}"#;
            run(&["patch", "pod", &pod, "--subresource=status", "--type=merge", patch]);
        }
        for name in &step.delete {
            run(&["delete", "pods", &selector(name), "--wait=false"]);
        }
        for object in &step.remove {
            run(&["delete", &case.with_full_name(object), "--wait=false"]);
        }
    }
    let queues = |(case, step): &(&Case, &Step)| {
        step.queues.iter().map(|(name, spec)| case.queue(name, spec)).collect::<Vec<_>>()
    };
    send(cluster, &["apply"], steps.iter().flat_map(queues).collect());
    send(cluster, &["create"], steps.iter().flat_map(|(case, step)| case.made_by(step)).collect());
}

impl Case {
    /// Returns an object as kubectl names it; nodes, queues and the namespace have the case in
    /// their names.
    fn with_full_name(&self, object: &str) -> String {
        match object.split_once('/') {
            Some(("node", name)) => format!("node/{}", self.full_name(name)),
            Some(("queue", name)) => format!("queues.muster.run/{}", self.queue_name(name)),
            None if object == "namespace" => format!("namespace/{}", self.name),
            _ => object.to_owned(),
        }
    }
}

/// Sends objects to the API server with one command.
fn send(cluster: &KubernetesCluster, words: &[&str], objects: Vec<Value>) {
    if objects.is_empty() {
        return;
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let words = [words, &["--filename=-"]].concat();
    success(&words, &cluster.kubectl_with(&words, &list.to_string()));
}

/// Returns the objects of each case, and the nodes of all.
fn look(cluster: &KubernetesCluster) -> (Snapshot, Vec<Value>) {
    let mut list =
        cluster.get(&["pods,queues.muster.run,jobs,nodes", "--all-namespaces", "--selector", CASE]);
    let Value::Array(items) = list["items"].take() else { return Default::default() };
    let (nodes, rest): (Vec<Value>, _) = items.into_iter().partition(|one| one["kind"] == "Node");
    let mut snapshot = Snapshot::new();
    for object in rest {
        let case = object["metadata"]["labels"][CASE].as_str().unwrap_or_default().to_owned();
        snapshot.entry(case).or_default().push(object);
    }
    (snapshot, nodes)
}

/// Deletes the objects of all cases when dropped: the tests that follow count nodes.
struct Cleanup<'a>(&'a KubernetesCluster);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let of_all = ["--selector", CASE];
        let delete = |words: &[&str]| {
            let words = [&["delete", "--wait=false"], words, &of_all].concat();
            self.0.kubectl_with(&words, "");
        };
        delete(&["pods", "--all-namespaces", "--force", "--grace-period=0"]);
        delete(&[
            "nodes,queues.muster.run,priorityclasses,persistentvolumes,storageclasses,namespaces",
        ]);
    }
}
