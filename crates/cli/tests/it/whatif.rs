//! `muster whatif` with a running daemon.

use muster_model::SiteSnapshot;
use muster_model::simulation::WhatIf;
use muster_model::view::JobState;
use serde_json::Value;

use crate::home::Home;

/// Four GPUs: one job holds three, another waits for two.
fn contended() -> (Home, u64, u64) {
    let home = Home::with_gpus(4);
    let gate = home.gate("go");
    let holds = home.sh("--gpus 3 --time 1h --name secret-run", &gate);
    home.until_state(holds, JobState::Running);
    let waits = home.run("--gpus 2 --time 1h", &["true"]);
    (home, holds, waits)
}

#[test]
fn a_job_that_waits_would_start_at_once_with_another_node() {
    let (home, _, waits) = contended();
    let answer: WhatIf = home.words("whatif --add-nodes 1 --json").json();
    assert_eq!(answer.changes, ["add 1 node, each with 4 GPUs (virtual)"]);
    let [job] = &answer.waiting[..] else { panic!("{answer:?}") };
    assert_eq!((job.job.0, job.name.as_str(), job.elements), (waits, "true", 1));
    let hour_ms = 3_600_000;
    let as_it_is = job.as_it_is.first.unwrap();
    assert!(
        as_it_is.0 > answer.taken.0 + hour_ms / 2,
        "not before the other reaches its limit: {answer:?}"
    );
    assert_eq!(job.changed.first, Some(answer.taken));
    assert!(!answer.is_partial);

    let text = home.words("whatif --add-nodes 1").ok().stdout;
    assert!(text.contains("what if: add 1 node, each with 4 GPUs (virtual)"), "{text}");
    assert!(
        text.contains("with the change 1 of 1 job starts sooner and 0 later; 1 at once"),
        "{text}"
    );
    assert_eq!(home.job(waits).state, JobState::Pending, "nothing has changed");
}

#[test]
fn a_snapshot_has_no_names_and_gives_the_same_answer_as_the_daemon() {
    let (home, holds, waits) = contended();
    let file = home.path("site.json");
    let file = file.to_str().unwrap();
    home.muster(&["whatif", "--snapshot-out", file]).ok();
    let text = home.read("site.json");
    let user = home.job(holds).user;
    let node =
        home.words("nodes --json").json::<Value>()["nodes"][0]["name"].as_str().unwrap().to_owned();
    for name in ["secret-run", "go", user.as_str(), &node] {
        assert!(!text.contains(&format!("\"{name}\"")), "{name} is named: {text}");
    }
    let snapshot: SiteSnapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(snapshot.past.len(), 1, "what runs counts as far as it has come: {text}");
    assert!(!snapshot.past[0].is_over);

    home.kill_daemon();
    let answer: WhatIf =
        home.muster(&["whatif", "--snapshot", file, "--add-nodes", "1", "--json"]).json();
    let [job] = &answer.waiting[..] else { panic!("{answer:?}") };
    assert_eq!((job.job.0, job.user.as_str(), job.name.as_str()), (waits, "user-1", ""));
    assert_eq!(job.changed.first, Some(answer.taken));
    assert_eq!(answer.taken, snapshot.taken);
}

#[test]
fn another_quota_and_another_queue_file_are_tried_without_being_set() {
    let home = Home::with_gpus(4);
    let queues = "queues: [{name: research, quota: {virtual: 2}, borrow: 0}, {name: prod, quota: {virtual: 2}, borrow: 0}]";
    home.muster(&["queues", "--set", home.write("q.yaml", queues).to_str().unwrap()]).ok();
    let waits = home.run("--gpus 2 --time 1h --queue research --hold", &["true"]);
    let gate = home.gate("go");
    let holds = home.sh("--gpus 2 --time 1h --queue research", &gate);
    home.until_state(holds, JobState::Running);
    home.words(&format!("release {waits}")).ok();

    let quota: WhatIf = home.words("whatif --quota research=4 --quota prod=0 --json").json();
    assert_eq!(quota.waiting[0].changed.first, Some(quota.taken), "{quota:?}");
    let file = home.write("wide.yaml", "queues: [{name: research}, {name: prod}]");
    let file: WhatIf =
        home.muster(&["whatif", "--queues", file.to_str().unwrap(), "--json"]).json();
    assert_eq!(file.waiting[0].changed.first, Some(file.taken), "{file:?}");
    // More of a resource that is not short does not help, and the answer shows the actual reason.
    let node = home.words("whatif --add-nodes 1").ok().stdout;
    assert!(
        node.contains("0 of 1 job start sooner") && node.contains("quota of research"),
        "{node}"
    );
}

/// On a cluster of Slurm: two jobs of four GPUs for an hour, submitted together, on four GPUs.
#[test]
fn a_dump_is_asked_without_a_daemon() {
    let home = Home::new();
    home.write(
        "cluster.yaml",
        "nodes:\n- {name: n1, gpu: a100, gpus: 4, cpus: 64, memory: 512GiB}\n",
    );
    let job = |id, start| {
        format!(
            "{id}|ann|gpu|COMPLETED|1700000000|{start}|01:00:00|02:00:00|1|8|cpu=8,gres/gpu=4|cpu=8,gres/gpu=4,node=1\n"
        )
    };
    let header = "JobID|User|Partition|State|Submit|Start|Elapsed|Timelimit|NNodes|AllocCPUS|ReqTRES|AllocTRES\n";
    let jobs = [job(1, 1_700_000_000u64), job(2, 1_700_007_200)].concat();
    home.write("sacct.txt", &format!("{header}{jobs}"));
    let asked = "whatif --trace sacct.txt --cluster cluster.yaml";
    let answer: WhatIf = home.words(&format!("{asked} --add-nodes 1 --json")).json();
    assert_eq!(answer.changes, ["add 1 node, each with 4 GPUs (a100)"]);
    let past = answer.past.unwrap();
    assert_eq!((past.trace.as_deref(), past.runs, past.replayed), (Some("sacct.txt"), 2, 2));
    assert_eq!((past.first_starts, past.first_start_secs.mean), (2, 3600.0));
    let waits = (past.as_it_is.waited_secs.mean, past.changed.waited_secs.mean);
    assert_eq!(waits, (1800.0, 0.0), "one of two waits an hour");

    let text = home.words(&format!("{asked} --add-nodes 1")).ok().stdout;
    for part in [
        "what if: add 1 node, each with 4 GPUs (a100)\n\npending jobs are not covered: a trace",
        "2 jobs of sacct.txt, replayed by Muster's scheduler from an idle site:\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let waited = text.lines().find(|line| line.starts_with("waited in all")).unwrap();
    let words: Vec<&str> = waited.split_whitespace().collect();
    assert!(words.ends_with(&["30m", "0s"]), "{waited:?}");
    assert!(!home.path("m").exists(), "no daemon was started");

    // Another queue file: the first has the queues as they are.
    home.write("now.yaml", "queues: [{name: gpu, quota: {a100: 4}}, {name: other}]");
    home.write("none.yaml", "queues: [{name: gpu, quota: {a100: 2}, borrow: 0}, {name: other}]");
    let queues = format!("{asked} --queues now.yaml");
    let answer: WhatIf = home.words(&format!("{queues} --queues none.yaml --json")).json();
    assert_eq!(answer.past.unwrap().changed.refused, 2);
    let none = home.words(&queues).code(2).stderr;
    assert!(
        none.contains("no change is given") && none.contains("the first `--queues` has"),
        "{none}"
    );
    let three = home.words(&format!("{queues} --queues none.yaml --queues now.yaml")).code(2);
    assert!(three.stderr.contains("`--queues now.yaml` is one too many"), "{}", three.stderr);
    // Nodes that the quotas do not cover stay idle, and that is said.
    home.write("tight.yaml", "queues: [{name: gpu, quota: {a100: 4}, borrow: 0}]");
    let tight = home.words(&format!("{asked} --queues tight.yaml --add-nodes 1")).ok();
    assert!(tight.stderr.contains("the quotas sum up to 4 of its 8 a100"), "{}", tight.stderr);
    assert!(
        home.words("whatif --trace sacct.txt --add-nodes 1").code(2).stderr.contains("--cluster")
    );
}

#[test]
fn mistakes_are_told_with_what_would_be_right() {
    let (home, ..) = contended();
    let said = |args: &[&str], code: i32, words: &str| {
        let said = home.muster(args).code(code).stderr;
        assert!(said.contains(words), "{args:?}: {said}");
    };
    said(&["whatif"], 2, "no change is given");
    said(
        &["whatif", "--quota", "reserch=4"],
        2,
        "there is no queue `reserch`; the queues are default",
    );
    said(&["whatif", "--quota", "default"], 2, "research=16");
    said(&["whatif", "--add-nodes", "x"], 2, "2xh100:8");
    said(&["whatif", "--add-nodes", "4000000000"], 2, "up to 100000");
    said(&["whatif", "--add-nodes", "1xh100:4000000000"], 2, "up to 128 GPUs");
    said(&["whatif", "--quota", "default=h10:4"], 2, "name a GPU model; the models are virtual");
    let gone = ["whatif", "--remove-nodes", "1", "--remove-nodes", "1"];
    said(&gone, 2, "the site has too few such nodes: 0 in service");
    said(&["whatif", "--remove-nodes", "2"], 2, "the site has too few such nodes: 1 in service");
    said(&["whatif", "--queues", "/nowhere.yaml"], 2, "/nowhere.yaml");
    let file = home.write("no.json", "{\"version\": 1}");
    said(
        &["whatif", "--snapshot", file.to_str().unwrap(), "--add-nodes", "1"],
        2,
        "is not a snapshot",
    );
    home.kill_daemon();
    said(&["whatif", "--add-nodes", "1"], 3, "no daemon is running");
    said(&["whatif", "--add-nodes", "1"], 3, "hint: past jobs need no daemon: `--trace jobs.txt");
}

/// Regression test: as a tree of JSON values the snapshot took sixty kilobytes per pending job.
#[test]
fn a_snapshot_takes_memory_in_proportion_to_the_state() {
    const JOBS: u64 = 3_000;
    const BYTES_PER_JOB: u64 = 8 << 10;
    // What a request may take by itself: buffers, a connection to the store.
    const BYTES: u64 = 16 << 20;
    let home = Home::with_gpus(4);
    let jobs: Vec<String> = (0..JOBS)
        .map(|nth| format!("{{name: j{nth}, gpus: 1, hold: true, time: 1h, run: 'true'}}"))
        .collect();
    for some in jobs.chunks(1000) {
        let file = home.write("jobs.yaml", &some.join("\n---\n"));
        home.muster(&["run", file.to_str().unwrap()]).ok();
    }
    let before = home.reset_peak();
    let out = home.path("site.json");
    home.muster(&["whatif", "--snapshot-out", out.to_str().unwrap()]).ok();
    let grown = home.peak_bytes() - before;
    assert!(grown < BYTES + JOBS * BYTES_PER_JOB, "{grown} bytes for {JOBS} jobs");
    let snapshot: SiteSnapshot = serde_json::from_str(&home.read("site.json")).unwrap();
    let state: Value = serde_json::from_str(snapshot.state.get()).unwrap();
    assert_eq!(state["jobs"].as_object().unwrap().len() as u64, JOBS);
}
