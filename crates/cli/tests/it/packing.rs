//! `muster simulate --no-departures`, and the command of the published runs, if the public traces
//! are available.

use std::path::{Path, PathBuf};

use muster_model::simulation::PackingComparison;
use serde_json::Value;

use crate::home::Home;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\na,16000,65536,2,T4\nb,16000,65536,2,T4\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nhalf,1000,1024,1,500,\n\
                    pair,1000,1024,2,1000,T4\nold,1000,1024,1,1000,P100\n";
const ORDER: &str = "half\nhalf-tuned-0\npair\nold\n";

fn home() -> Home {
    let home = Home::new();
    home.write("nodes.csv", NODES);
    home.write("pods.csv", PODS);
    home.write("order.txt", ORDER);
    home
}

const ASKED: &str = "simulate --cluster nodes.csv --trace pods.csv --no-departures";

#[test]
fn a_cluster_is_filled_in_the_order_that_is_given() {
    let home = home();
    let asked =
        format!("{ASKED} --arrival-order order.txt --scheduler fragmentation,spread,gpu-packing");
    let shown: PackingComparison = home.words(&format!("{asked} --json")).ok().json();
    assert_eq!((shown.nodes, shown.gpus, shown.arrivals, shown.bad_rows), (2, 4, 4, 0));
    let runs: Vec<_> = shown
        .runs
        .iter()
        .map(|run| (run.scheduler.as_str(), run.is_engine, run.placed, run.turned_away))
        .collect();
    let expected =
        [("fragmentation", true, 3, 1), ("spread", true, 2, 2), ("gpu-packing", false, 3, 1)];
    assert_eq!(runs, expected, "shares apart leave no pair; nobody has a P100");
    // 0.5 + 0.5 + 2 + 1 of 4 were asked for.
    let run = &shown.runs[0];
    assert_eq!((run.gpu_allocation_percent.len(), run.fragmentation_ratio.len()), (101, 101));
    assert_eq!((run.gpu_allocation_percent[75], run.gpu_allocation_percent[100]), (75.0, 75.0));
    assert!(!run.is_partial && !home.path("m").exists());

    let text = home.words(&asked).ok().stdout;
    assert!(
        text.starts_with("nodes.csv (2 nodes, 4 GPUs); 4 pods of pods.csv arrive, none leaves\n"),
        "{text}"
    );
    assert!(text.contains("SCHEDULER      PLACED  TURNED AWAY"), "{text}");
    // Without an order, as in the list; without schedulers, those of the engine that the paper has.
    let shown: PackingComparison = home.words(&format!("{ASKED} --json")).ok().json();
    let names: Vec<&str> = shown.runs.iter().map(|run| run.scheduler.as_str()).collect();
    assert_eq!((shown.arrivals, names), (3, vec!["best-fit", "fragmentation"]));
}

#[test]
fn json_keeps_to_its_schema() {
    let home = home();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/schema/packing-comparison.schema.json");
    let published: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&published).unwrap();
    let printed: Value = home.words(&format!("{ASKED} --json")).ok().json();
    assert!(schema.is_valid(&printed), "{printed}");
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let home = home();
    home.write("empty.csv", "sn,cpu_milli,memory_mib,gpu,model\n");
    home.write("twice.csv", &format!("{NODES}a,1,1,1,T4\n"));
    home.write("bad.csv", &format!("{NODES}c,1\n"));
    home.write("stray.txt", "half\nnobody\n");
    for (words, said, hint) in [
        ("--no-departures --trace pods.csv", "--cluster", ""),
        (
            "--cluster nodes.csv --trace pods.csv",
            "no job of the trace can run",
            "`--no-departures`",
        ),
        ("--cluster nodes.csv --trace pods.csv --no-departures --procs 8", "--procs", ""),
        (
            "--cluster nodes.csv --trace pods.csv --no-departures --scheduler easy",
            "`--scheduler easy`",
            "gpu-packing",
        ),
        ("--trace pods.csv --procs 8 --scheduler random", "`--scheduler random`", "easy-sjf"),
        ("--cluster empty.csv --trace pods.csv --no-departures", "no node", "sn,cpu_milli"),
        (
            "--cluster twice.csv --trace pods.csv --no-departures",
            "two nodes are called a",
            "different names",
        ),
        (
            "--cluster bad.csv --trace pods.csv --no-departures --strict",
            "line 4: 2 columns of 5",
            "--strict",
        ),
        (
            "--cluster nodes.csv --trace pods.csv --no-departures --arrival-order stray.txt",
            "`nobody` is not a pod",
            "-tuned-",
        ),
    ] {
        let reported = home.words(&format!("simulate {words}")).code(2).stderr;
        assert!(reported.contains(said) && reported.contains(hint), "{words}: {reported}");
    }
    let warned = home.words("simulate --cluster bad.csv --trace pods.csv --no-departures").ok();
    assert!(warned.stderr.contains("the first is line 4: 2 columns of 5"), "{}", warned.stderr);
}

/// The rule and the five seeds are tested in `muster-sim`; this is the command, with one of them.
#[test]
fn the_command_of_the_published_runs() {
    let beside: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "..", "shared", "traces"].iter().collect();
    let openb = std::env::var_os("MUSTER_TRACES").map_or(beside, PathBuf::from).join("openb");
    if !openb.is_dir() {
        eprintln!("not tested: the public traces are not in {}", openb.display());
        return;
    }
    let file = |name: &str| openb.join(name).display().to_string();
    let shown: PackingComparison = Home::new()
        .muster(&[
            "simulate",
            "--cluster",
            &file("openb_node_list_gpu_node.csv"),
            "--trace",
            &file("openb_pod_list_default.csv.gz"),
            "--arrival-order",
            &file("arrival-order/default-tune1.3-seed42.txt.gz"),
            "--no-departures",
            "--scheduler",
            "fragmentation",
            "--json",
        ])
        .ok()
        .json();
    assert_eq!((shown.nodes, shown.gpus, shown.arrivals), (1_213, 6_212, 10_866));
    let allocated = shown.runs[0].gpu_allocation_percent[130];
    assert!((95.2..95.7).contains(&allocated), "{allocated}, published 95.29");
}
