//! `muster simulate` with several clusters, queue files and added nodes.

use muster_model::simulation::FleetComparison;

use crate::home::Home;

const SMALL: &str =
    "nodes:\n- name: n[1-2]\n  gpu: a100\n  gpus: 4\n  cpus: 64\n  memory: 512GiB\n";
const BIG: &str = "nodes:\n- {name: n1, gpu: a100, gpus: 8, cpus: 64, memory: 512GiB}\n";
const MIXED: &str = "nodes:\n- {name: a, gpu: h100, gpus: 8, cpus: 64, memory: 512GiB}\n- {name: b, gpu: a100, gpus: 4, cpus: 64, memory: 512GiB}\n";
/// Four jobs of four GPUs; `wide` needs a node of eight, `huge` fits no cluster.
const JOBS: &str = "id,submit,runtime,tasks,gpus,user\na,0,600,1,4,ann\nb,0,600,1,4,ann\nc,0,600,1,4,bob\nd,0,600,1,4,bob\nwide,0,600,1,8,ann\nhuge,0,60,99,1,bob\n";

fn home() -> Home {
    let home = Home::with_gpus(0);
    for (name, text) in
        [("small.yaml", SMALL), ("big.yaml", BIG), ("mixed.yaml", MIXED), ("jobs.csv", JOBS)]
    {
        home.write(name, text);
    }
    home
}

#[test]
fn added_nodes_are_a_variant_and_its_difference_is_told() {
    let home = home();
    let asked =
        "simulate --trace jobs.csv --cluster small.yaml --add-nodes 2 --scheduler muster,kube-gang";
    // 1. The figures: two jobs run at a time, or all four.
    let shown: FleetComparison = home.words(&format!("{asked} --json")).ok().json();
    let names: Vec<&str> = shown.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!((names, shown.jobs, shown.too_large), (vec!["small", "small + 2"], 4, 2));
    let rows: Vec<(&str, &str)> =
        shown.runs.iter().map(|run| (run.scheduler.as_str(), run.variant.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("muster", "small"),
            ("muster", "small + 2"),
            ("kube-gang", "small"),
            ("kube-gang", "small + 2")
        ]
    );
    let added = shown.variants[1].added.as_ref().unwrap();
    assert_eq!((added.like.as_str(), added.nodes, added.gpus), ("n2", 2, 4));
    let difference = &shown.differences[0];
    assert_eq!((difference.turnaround_secs.first, difference.turnaround_secs.here), (900.0, 600.0));
    assert_eq!((difference.waited_secs.first, difference.waited_secs.here), (300.0, 0.0));
    // The same period for both: the last instant of any run.
    let hours = difference.capacity_hours;
    assert!((hours.here - 2.0 * hours.first).abs() < 1e-9 && hours.first > 0.0, "{hours:?}");
    // 2. The sentences, on the terminal and on the page.
    let text = home.words(asked).ok().stdout;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "4 jobs of jobs.csv, the same on each variant: small: small.yaml; 2 nodes, 8 GPUs; 2 jobs do not fit",
        "small + 2: small.yaml + 2 nodes like n2, each with 4 GPUs (a100); 4 nodes, 16 GPUs; 2 jobs do not fit",
        "small + 2 instead of small, under muster: turnaround 10m (-5m), waited 0s (-5m)",
        "SCHEDULER VARIANT",
        "2 that do not fit the idle cluster of every variant",
    ] {
        assert!(flat.contains(said), "{said}: {text}");
    }
    home.words(&format!("{asked} --report-out page.html")).ok();
    assert!(home.read("page.html").contains("small + 2 instead of small, under muster"));
}

#[test]
fn clusters_and_queue_files_are_combined() {
    let home = home();
    home.write("open.yaml", "queues:\n- name: default\n");
    home.write("tight.yaml", "queues:\n- name: default\n  quota: {a100: 4}\n  borrow: 0\n");
    let asked = "simulate --trace jobs.csv --cluster small.yaml --cluster big.yaml --queues open.yaml --queues tight.yaml --scheduler muster";
    let run = home.words(&format!("{asked} --json")).ok();
    let idle = "small, tight: the quotas sum up to 4 of its 8 a100; under muster the queues leave the rest idle";
    assert!(run.stderr.contains(idle) && !run.stderr.contains("open: the quotas"), "{run:?}");
    let shown: FleetComparison = run.json();
    let names: Vec<&str> = shown.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["small, open", "small, tight", "big, open", "big, tight"]);
    // `wide` fits only the big one; it is replayed on none.
    let counts: Vec<(u64, u64)> =
        shown.variants.iter().map(|variant| (variant.too_large, variant.left_out)).collect();
    assert_eq!(counts, [(2, 0), (2, 0), (1, 1), (1, 1)]);
    assert_eq!((shown.jobs, shown.runs.len(), shown.differences.len()), (4, 4, 3));
    // One job at a time under the quota.
    assert_eq!(shown.differences[0].waited_secs.here, 900.0);
    let text = home.words(asked).ok().stdout;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // `wide` is 8 of the 8 + 4 × 4 GPUs of equally long jobs.
    for said in [
        "1 job fits, but not in every variant (33.3 % of the GPU time that fits)",
        "warning: 33.3 % of the GPU time that fits big, tight is left out",
    ] {
        assert!(flat.contains(said), "{said}: {text}");
    }
}

#[test]
fn variants_without_a_common_job_are_rejected_with_the_numbers() {
    let home = home();
    home.write("jobs.csv", "id,submit,runtime,tasks,gpus\nh,0,60,1,8\na,0,60,3,4\n");
    home.write("three.yaml", &SMALL.replace("[1-2]", "[1-3]"));
    let asked = "simulate --trace jobs.csv --cluster big.yaml --cluster three.yaml";
    let reported = home.words(asked).code(2).stderr;
    for said in ["no job fits every variant", "1 of 2 fit `big`, 1 of 2 fit `three`"] {
        assert!(reported.contains(said), "{said}: {reported}");
    }
}

#[test]
fn a_single_variant_has_neither_a_name_nor_differences() {
    let home = home();
    let asked = "simulate --trace jobs.csv --cluster small.yaml --scheduler muster --json";
    let shown: FleetComparison = home.words(asked).ok().json();
    assert!(shown.variants.is_empty() && shown.differences.is_empty());
    assert_eq!(shown.runs[0].variant, "");
    // Results of earlier versions, without these fields, are read, too.
    let mut value = serde_json::to_value(&shown).unwrap();
    for field in ["variants", "differences"] {
        value.as_object_mut().unwrap().remove(field);
    }
    value["runs"][0].as_object_mut().unwrap().remove("variant");
    assert_eq!(serde_json::from_value::<FleetComparison>(value).unwrap(), shown);
}

#[test]
fn the_kind_of_added_nodes_is_told_where_there_are_several() {
    let home = home();
    let asked = |add: &str| {
        format!(
            "simulate --trace jobs.csv --cluster mixed.yaml --add-nodes {add} --scheduler muster --json"
        )
    };
    let last = home.words(&asked("1")).ok();
    assert!(
        last.stderr.contains("mixed.yaml has several kinds of nodes: `--add-nodes 1` adds nodes like b, the last one, each with 4 GPUs (a100)"),
        "{}",
        last.stderr
    );
    let named = home.words(&asked("1xh100")).ok();
    assert!(!named.stderr.contains("several kinds"), "{}", named.stderr);
    let shown: FleetComparison = named.json();
    assert_eq!(shown.variants[1].added.as_ref().unwrap().like, "a");
    for (words, said) in [
        ("--cluster mixed.yaml --add-nodes 2xl40", "its nodes are a100:4, h100:8"),
        ("--cluster mixed.yaml --add-nodes many", "expected a number of nodes"),
        ("--cluster small.yaml --cluster small.yaml", "two variants are both `small.yaml`"),
        ("--cluster small.yaml --add-nodes 1 --at 5m", "take one cluster and one queue file"),
        ("--cluster small.yaml --cluster big.yaml --no-departures", "takes one `--cluster`"),
        ("--add-nodes 1", "--cluster"),
    ] {
        let reported = home.words(&format!("simulate --trace jobs.csv {words}")).code(2).stderr;
        assert!(reported.contains(said), "{words}: {reported}");
    }
    home.write("cpus.yaml", "nodes:\n- {name: n1, cpus: 64, memory: 512GiB}\n");
    let words = "simulate --trace jobs.csv --cluster small.yaml --cluster cpus.yaml";
    let reported = home.words(words).code(2).stderr;
    assert!(reported.contains("one has GPUs, the other has none"), "{reported}");
}
