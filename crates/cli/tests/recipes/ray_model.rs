//! The model of Ray in `muster simulate` beside the real Ray, on one contention of placement groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::home::Home;
use crate::ray::submit;

/// Placement groups: name, seconds of the submission and of the work, and bundles of one GPU. `all` waits for all
/// eight GPUs; `passes` and `fits` come later and start before it. Nothing depends on whose timer is first: whenever
/// GPUs become free, at most one group fits. Seconds lie between all events, for machines that are busy.
const GROUPS: [(&str, u32, u32, u32); 5] = [
    ("first", 0, 10, 5),
    ("all", 1, 5, 8),
    ("passes", 2, 25, 3),
    ("waits", 3, 10, 5),
    ("fits", 15, 5, 4),
];

/// Creates the groups at their times, and writes the names of those that are placed at each start.
const PROGRAM: &str = r#"import threading
from ray.util.placement_group import placement_group, remove_placement_group
zero, lock, placed, starts = time.monotonic(), threading.Lock(), set(), {}
def run(name, submit, runtime, bundles):
    time.sleep(max(zero + submit - time.monotonic(), 0))
    group = placement_group([{"GPU": 1}] * bundles)
    ray.get(group.ready())
    with lock:
        placed.add(name)
        starts[name] = [len(starts), sorted(placed)]
    time.sleep(runtime)
    with lock:
        placed.remove(name)
        remove_placement_group(group)
threads = [threading.Thread(target=run, args=group) for group in json.loads(sys.argv[1])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
say("starts", json.dumps(starts))
"#;

/// Order of the starts, and the groups that are placed at each.
type Starts = BTreeMap<String, (usize, Vec<String>)>;

/// Returns the schedule of the model.
fn modelled(home: &Home) -> Starts {
    let rows: Vec<String> = GROUPS
        .iter()
        .map(|(name, submit, runtime, bundles)| format!("{name},{submit},{runtime},{bundles},1\n"))
        .collect();
    home.write("trace.csv", &format!("id,submit,runtime,tasks,gpus\n{}", rows.concat()));
    home.write("cluster.yaml", "nodes: [{name: n, cpus: 64, memory: 64GiB, gpus: 8, gpu: h100}]\n");
    let out = "--events-out events.jsonl";
    home.words(&format!("simulate --trace trace.csv --cluster cluster.yaml --scheduler ray {out}"))
        .ok();
    let mut starts = Starts::new();
    let mut placed = BTreeSet::new();
    for line in home.read("events.jsonl").lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = event["job"].as_str().unwrap().to_owned();
        match event["what"].as_str().unwrap() {
            "began" => {
                placed.insert(name.clone());
                starts.insert(name, (starts.len(), placed.iter().cloned().collect()));
            }
            "ended" => drop(placed.remove(&name)),
            _ => {}
        }
    }
    starts
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn placement_groups_start_in_the_order_of_the_model() {
    let home = Home::with_gpus(8);
    let expected = modelled(&home);
    assert_eq!(expected.len(), GROUPS.len(), "{expected:?}");
    assert_eq!(expected["all"].0, 4, "it starts last: {expected:?}");
    let groups = serde_json::to_string(&GROUPS).unwrap();
    let program = PROGRAM.replace("sys.argv[1]", &format!("'{groups}'"));
    submit(&home, "groups", "tasks: 1\ngpus-per-task: 8", "", &program);
    home.words("wait 1").ok();
    let seen: Starts = serde_json::from_str(&home.read("starts")).unwrap();
    assert_eq!(seen, expected);
}
