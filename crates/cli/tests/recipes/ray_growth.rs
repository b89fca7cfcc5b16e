//! Ray clusters that grow and shrink while their program runs, and those that wait for programs, with the real
//! Ray.

use std::fs;

use muster_model::view::{JobState, JobView};

use crate::home::Home;
use crate::python;
use crate::ray::{PATIENCE, node_folders, nothing_runs_in, submit};

/// Waits for a condition while a job runs; its end before that fails the test with what it printed.
fn until(home: &Home, job: u64, what: &str, done: impl Fn() -> bool) {
    home.until_within(PATIENCE, what, || {
        let is_done = done();
        let state = home.job(job).state;
        let is_over = matches!(state, JobState::Failed | JobState::Done | JobState::Cancelled);
        assert!(is_done || !is_over, "{what}: {}", home.words(&format!("logs {job}")).stdout);
        is_done
    });
}

/// Returns the jobs of further nodes of job 1.
fn further(home: &Home) -> Vec<JobView> {
    let list: serde_json::Value = home.words("ps --all --json").json();
    let jobs: Vec<JobView> = serde_json::from_value(list["jobs"].clone()).unwrap();
    jobs.into_iter().filter(|job| job.name.ends_with("-1-nodes")).collect()
}

/// A placement group gets the nodes that it lacks as one gang; they leave when it is gone. One that needs
/// more than the range allows asks for nothing.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn a_cluster_grows_for_a_group_and_shrinks_again() {
    let home = Home::with_gpus(3);
    let program = r#"from ray.util.placement_group import placement_group, remove_placement_group
large = placement_group([{"GPU": 1}] * 5, strategy="STRICT_SPREAD", name="large")
say("large", "")
while not os.path.exists("go"):
    time.sleep(0.1)
remove_placement_group(large)
group = placement_group([{"GPU": 1}] * 3, strategy="STRICT_SPREAD", name="three")
ray.get(group.ready())
say("three", str(len(nodes())))
while not os.path.exists("shrink"):
    time.sleep(0.1)
remove_placement_group(group)
while len(nodes()) > 1:
    time.sleep(0.5)
sys.exit(7)
"#;
    let fields = "tasks: 1..3\ngpus-per-task: 1";
    submit(&home, "grows", fields, "idle: 4s", program);
    until(&home, 1, "the large group waits", || home.path("large").exists());
    // The state API learns of it a moment later.
    until(&home, 1, "the reason is told", || {
        let said = home.words("explain grows").ok().stdout;
        said.contains("placement group `large` (STRICT_SPREAD) can never be placed")
            && said.contains("at most 2 further nodes may be asked for, but they would not help")
    });
    home.write("go", "");
    until(&home, 1, "the group is placed", || home.path("three").exists());
    assert_eq!(home.read("three"), "3");
    // Nothing was asked for the large one.
    let asked = further(&home);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].state, asked[0].tasks), (JobState::Running, 2));
    let folders: Vec<_> = node_folders(&home).into_iter().map(|(folder, _)| folder).collect();
    assert_eq!(folders.len(), 3);
    home.write("shrink", "");
    home.words("wait 1").code(7);
    home.until_within(PATIENCE, "the nodes have left", || {
        further(&home).iter().all(|job| job.state == JobState::Done)
    });
    nothing_runs_in(&folders);
}

/// Under a running search the cluster grows from one node to three, loses the two to another job, and no trial
/// is lost.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn no_trial_is_lost_when_nodes_come_and_go() {
    let home = Home::with_gpus(3);
    let program = r#"from ray import tune
def trial(config):
    begun = time.time()
    while time.time() < begun + config["secs"] and not os.path.exists(config["end"]):
        time.sleep(0.2)
    tune.report({"loss": config["x"]})
def watch(_):
    say("nodes", str(len(nodes())))
class Watch(tune.Callback):
    def on_step_begin(self, iteration, trials, **info):
        watch(None)
    def on_step_end(self, iteration, trials, **info):
        watch(None)
tuner = tune.Tuner(
    tune.with_resources(trial, {"gpu": 1, "cpu": 0}),
    param_space={"x": tune.grid_search(list(range(6))), "secs": 20, "end": os.path.abspath("end")},
    run_config=tune.RunConfig(storage_path=os.path.abspath("saved"), verbose=0, callbacks=[Watch()],
        failure_config=tune.FailureConfig(max_failures=-1)),
)
results = tuner.fit()
say("results", json.dumps(sorted(one.metrics["loss"] for one in results if not one.error)))
"#;
    let fields = "tasks: 1..3\ngpus-per-task: 1\ngrace: 20s";
    submit(&home, "search", fields, "idle: 4s", program);
    let nodes = |count: &str| {
        let count = count.to_owned();
        let home = &home;
        move || fs::read_to_string(home.path("nodes")).is_ok_and(|text| text == count)
    };
    until(&home, 1, "the cluster has three nodes", nodes("3"));
    // Another job needs the two.
    home.write(
        "other.yaml",
        "name: other\ngpus: 2\nrun: while [ ! -e gone ]; do sleep 0.1; done\n",
    );
    let other: serde_json::Value = home.words("run other.yaml --json").json();
    let other = other["jobs"][0]["job"].as_u64().unwrap();
    until(&home, 1, "the other job runs", || home.job(other).state == JobState::Running);
    until(&home, 1, "the cluster has one node", nodes("1"));
    home.write("gone", "");
    home.write("end", "");
    home.words("wait 1").ok();
    assert_eq!(home.read("results"), "[0, 1, 2, 3, 4, 5]");
    home.until_within(PATIENCE, "no further node waits or runs", || {
        further(&home).iter().all(|job| matches!(job.state, JobState::Done | JobState::Cancelled))
    });
}

/// A cluster without a program runs those that are submitted to it, and ends when none has for some time.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn a_cluster_without_a_program_serves_others_and_ends_when_idle() {
    let home = Home::with_gpus(2);
    let python = python();
    home.write(
        "lab.yaml",
        &format!(
            "name: lab\nkind: ray\ntasks: 2\ngpus-per-task: 1\nray: {{python: {}, idle: 25s}}\n",
            python.display()
        ),
    );
    home.words("run lab.yaml").ok();
    home.until_state(1, JobState::Running);
    let code = "import ray, sys; ray.init(log_to_driver=False); sys.exit(int(ray.cluster_resources()['GPU']) + 3)";
    // The head answers a moment after the job runs.
    home.until_within(PATIENCE, "the cluster runs a program", || {
        home.muster(&["ray", "submit", "lab", "--", "python", "-c", code]).code == 5
    });
    let folders: Vec<_> = node_folders(&home).into_iter().map(|(folder, _)| folder).collect();
    assert_eq!(folders.len(), 2);
    home.words("wait 1").ok();
    let log = home.words("logs 1").ok().stdout;
    assert!(log.contains("no driver has run for 25s: the cluster ends"), "{log}");
    nothing_runs_in(&folders);
}

/// Nodes whose cluster has ended meanwhile end as well; those that lack its secret are told so.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn nodes_of_a_cluster_that_has_ended_end() {
    let home = Home::with_gpus(1);
    let join = format!(
        "kind: ray\nname: late\ngpus: 1\nray: {{python: {}, join: \"127.0.0.1:9\"}}\n",
        python().display()
    );
    home.write("late.yaml", &join);
    home.words("run late.yaml -e RAY_AUTH_TOKEN=abc").ok();
    home.words("wait 1").ok();
    let log = home.words("logs 1").ok().stdout;
    assert!(log.contains("the cluster at 127.0.0.1:9 has ended"), "{log}");
    home.words("run late.yaml").ok();
    home.words("wait 2").code(125);
    let log = home.words("logs 2").ok().stdout;
    assert!(log.contains("RAY_AUTH_TOKEN"), "{log}");
}
