//! Conformance tests of the backends as a user sees them: the same job file and the same
//! subcommands give the same result on this machine and on Slurm. Each test is run for both, so it
//! must not depend on the backend.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

/// Backend under test: the local daemon or Slurm.
pub trait JobPlace {
    /// Runs a command line; returns exit code, stdout and stderr.
    fn call(&self, words: &[&str]) -> (i32, String, String);
    /// Returns a folder that jobs may write to.
    fn folder(&self) -> PathBuf;
    /// Returns the fields of a job that takes all GPUs.
    fn all_of_it(&self) -> &'static str;
    /// Waits until a condition holds.
    fn until(&self, what: &str, holds: &mut dyn FnMut() -> bool);
}

/// Defines a test for each function; `$place` is an expression for the backend.
macro_rules! conformance {
    ($place:expr $(, $attribute:meta)?) => {
        $crate::conform::conformance!(@ $place, ($($attribute)?);
            an_exit_code_is_passed_on, the_first_failed_rank_ends_the_gang_with_its_code, every_rank_knows_its_place, ranks_see_devices_of_their_own,
            a_gang_starts_whole_or_waits, an_array_runs_each_of_its_indices, what_depends_waits_and_does_not_run_after_a_failure,
            what_is_held_waits_for_its_release, what_is_cancelled_ends_as_cancelled, many_jobs_are_selected_alike_by_every_verb,
            a_name_is_the_newest_job_that_has_it, a_job_has_its_own_environment_and_directory,
            roles_are_one_gang, what_cannot_be_is_refused_before_anything_is_done, the_other_verbs_answer,
            a_program_in_a_shell_is_asked_to_save_and_the_shell_survives
        );
    };
    (@ $place:expr, $attributes:tt; $($name:ident),*) => {
        $($crate::conform::conformance!(one $place, $attributes, $name);)*
    };
    (one $place:expr, (), $name:ident) => {
        #[test]
        fn $name() {
            $crate::conform::$name(&$place);
        }
    };
    (one $place:expr, ($attribute:meta), $name:ident) => {
        #[test]
        #[$attribute]
        fn $name() {
            $crate::conform::$name(&$place);
        }
    };
}
pub(crate) use conformance;

// ---- helpers ----

fn said(place: &dyn JobPlace, words: &[&str]) -> String {
    let (code, stdout, stderr) = place.call(words);
    assert_eq!(code, 0, "{words:?}: {stdout}{stderr}");
    stdout
}

fn json(place: &dyn JobPlace, words: &[&str]) -> Value {
    serde_json::from_str(&said(place, &[words, &["--json"]].concat())).unwrap()
}

/// Submits the text of a file; returns the numbers of its jobs.
fn submit(place: &dyn JobPlace, text: &str) -> Vec<u64> {
    let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap();
    let file = place.folder().join(format!("{name}.yaml"));
    std::fs::write(&file, text).unwrap();
    let answer = json(place, &["run", file.to_str().unwrap()]);
    answer["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_u64().unwrap()).collect()
}

fn job(place: &dyn JobPlace, number: u64) -> Value {
    json(place, &["show", &number.to_string()])["job"].clone()
}

fn reaches(place: &dyn JobPlace, number: u64, state: &str) {
    place.until(&format!("job {number} is {state}"), &mut || job(place, number)["state"] == state);
}

/// Returns the exit code of `muster wait`.
fn waited(place: &dyn JobPlace, number: u64) -> i32 {
    place.call(&["wait", &number.to_string()]).0
}

fn log(place: &dyn JobPlace, number: u64, rank: u32) -> String {
    said(place, &["logs", &number.to_string(), "-r", &rank.to_string()])
}

fn cancel(place: &dyn JobPlace, numbers: &[u64]) {
    for number in numbers {
        said(place, &["cancel", &number.to_string()]);
    }
}

// ---- tests ----

pub fn an_exit_code_is_passed_on(place: &dyn JobPlace) {
    let well = submit(place, "name: well\nrun: echo it went well\n")[0];
    let badly = submit(place, "name: badly\nrun: echo it did not >&2; exit 3\n")[0];
    assert_eq!(waited(place, well), 0);
    assert_eq!(waited(place, badly), 3);
    assert_eq!(
        (&job(place, well)["state"], &job(place, badly)["state"]),
        (&"done".into(), &"failed".into())
    );
    assert_eq!(log(place, well, 0), "it went well\n");
    assert_eq!(log(place, badly, 0), "it did not\n");
}

pub fn the_first_failed_rank_ends_the_gang_with_its_code(place: &dyn JobPlace) {
    let run = "if [ $RANK = 1 ]; then exit 3; fi; exec sleep 300";
    let number = submit(place, &format!("name: one-fails\ntasks: 2\ntime: 5m\nrun: {run}\n"))[0];
    assert_eq!(waited(place, number), 3);
    assert_eq!(job(place, number)["state"], "failed");
}

pub fn every_rank_knows_its_place(place: &dyn JobPlace) {
    let run = "echo $RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK $MUSTER_TASK ${MASTER_ADDR:+addr} ${MASTER_PORT:+port}";
    let number = submit(place, &format!("name: ranks\ntasks: 4\nrun: {run}\n"))[0];
    assert_eq!(waited(place, number), 0);
    let mut masters = BTreeSet::new();
    for rank in 0..4 {
        let text = log(place, number, rank);
        let words: Vec<&str> = text.split_whitespace().collect();
        let [own, world, local, node, task, master @ ..] = words.as_slice() else {
            panic!("{text}")
        };
        assert_eq!(
            (*own, *world, *task),
            (rank.to_string().as_str(), "4", rank.to_string().as_str()),
            "{text}"
        );
        assert!(
            local.parse::<u32>().unwrap() <= rank && node.parse::<u32>().unwrap() <= rank,
            "{text}"
        );
        masters.insert(master.join(" "));
    }
    assert_eq!(masters, BTreeSet::from(["addr port".to_owned()]));
}

pub fn ranks_see_devices_of_their_own(place: &dyn JobPlace) {
    let text =
        "name: devices\nnodes: 1\ntasks-per-node: 4\ngpus: 8\nrun: echo $CUDA_VISIBLE_DEVICES\n";
    let number = submit(place, text)[0];
    let none = submit(place, "name: no-device\nrun: 'echo \"[$CUDA_VISIBLE_DEVICES]\"'\n")[0];
    assert_eq!((waited(place, number), waited(place, none)), (0, 0));
    let mut seen = BTreeSet::new();
    for rank in 0..4 {
        let text = log(place, number, rank);
        let own: Vec<&str> = text.trim().split(',').collect();
        assert_eq!(own.len(), 2, "rank {rank}: {text}");
        assert!(
            own.iter().all(|device| seen.insert((*device).to_owned())),
            "rank {rank} shares: {text}"
        );
    }
    assert_eq!(log(place, none, 0), "[]\n");
}

pub fn a_gang_starts_whole_or_waits(place: &dyn JobPlace) {
    let gate = place.folder().join("first-may-end");
    let first = submit(
        place,
        &format!(
            "name: first\n{}\ntime: 5m\nrun: until [ -e {} ]; do sleep 0.1; done\n",
            place.all_of_it(),
            gate.display()
        ),
    )[0];
    reaches(place, first, "running");
    let second = submit(
        place,
        &format!("name: second\n{}\ntime: 5m\nrun: echo started\n", place.all_of_it()),
    )[0];
    // 1. No rank of it runs, and `explain` says why.
    reaches(place, second, "pending");
    let mut explained = Value::Null;
    place.until("it is said why", &mut || {
        explained = json(place, &["explain", &second.to_string()])["explanation"].clone();
        explained["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty())
            && explained["holders"].as_array().is_some_and(|holders| !holders.is_empty())
    });
    assert_eq!(explained["holders"][0]["element"]["job"], first, "{explained}");
    assert_eq!(
        job(place, second)["elements"].as_array().map_or(0, |elements| {
            elements.iter().flat_map(|element| element["tasks"].as_array().unwrap()).count()
        }),
        0
    );
    // 2. All ranks run once enough GPUs are free.
    std::fs::write(gate, "").unwrap();
    assert_eq!((waited(place, first), waited(place, second)), (0, 0));
    assert_eq!(log(place, second, 0), "started\n");
}

pub fn an_array_runs_each_of_its_indices(place: &dyn JobPlace) {
    for (written, indices) in [("3-9:2%2", [3, 5, 7, 9]), ("1,4,7-8%2", [1, 4, 7, 8])] {
        let out = place.folder().join(format!("indices-from-{}", indices[0]));
        let text = format!(
            "name: indices\narray: {written}\n\
             run: echo $MUSTER_ARRAY_INDEX > {}-$MUSTER_ARRAY_INDEX; test $MUSTER_ARRAY_INDEX != 7\n",
            out.display()
        );
        let number = submit(place, &text)[0];
        // One of them fails, and the whole with it.
        assert_eq!(waited(place, number), 1);
        for index in 0..=9 {
            let path = format!("{}-{index}", out.display());
            assert_eq!(std::fs::exists(&path).unwrap(), indices.contains(&index), "{path}");
        }
        let view = job(place, number);
        let counts = ["total", "succeeded", "failed"].map(|name| view["array"][name].as_u64());
        assert_eq!(counts, [Some(4), Some(3), Some(1)], "{view}");
        let table = said(place, &["show", &number.to_string(), "--elements", "--all"]);
        let rows = |word: &str| table.lines().filter(|line| line.contains(word)).count();
        assert_eq!((rows("done"), rows("failed")), (3, 1), "{table}");
        // Of all elements: each has written nothing.
        assert_eq!(said(place, &["logs", &number.to_string()]), "");
        for (index, is_there) in [(7, true), (6, false)] {
            let (code, _, said) = place.call(&["logs", &format!("{number}[{index}]")]);
            assert_eq!(code == 0, is_there, "{index}: {said}");
        }
    }
}

pub fn what_depends_waits_and_does_not_run_after_a_failure(place: &dyn JobPlace) {
    let order = place.folder().join("order");
    let echo = |name: &str| format!("echo {name} >> {}", order.display());
    let text = format!(
        "name: prepare\nrun: sleep 1; {}\n---\nname: train\nafter: prepare\nrun: {}\n---\nname: broken\nrun: exit 1\n---\n\
         name: never\nafter: broken\nrun: {}\n---\nname: anyway\nafter: [afterany:broken, train]\nrun: {}\n",
        echo("prepare"),
        echo("train"),
        echo("never"),
        echo("anyway")
    );
    let numbers = submit(place, &text);
    assert_eq!(waited(place, numbers[4]), 0);
    assert_ne!(waited(place, numbers[3]), 0);
    assert_eq!(std::fs::read_to_string(order).unwrap(), "prepare\ntrain\nanyway\n");
}

pub fn what_is_held_waits_for_its_release(place: &dyn JobPlace) {
    let number = submit(place, "name: held\nhold: true\nrun: echo released\n")[0];
    assert_eq!(job(place, number)["state"], "held");
    said(place, &["release", &number.to_string()]);
    assert_eq!(waited(place, number), 0);
    assert_eq!(log(place, number, 0), "released\n");
}

pub fn what_is_cancelled_ends_as_cancelled(place: &dyn JobPlace) {
    let runs = submit(place, "name: runs\ntime: 5m\nrun: exec sleep 300\n")[0];
    let waits = submit(place, "name: waits\nhold: true\nrun: exec sleep 300\n")[0];
    reaches(place, runs, "running");
    cancel(place, &[runs, waits]);
    assert_eq!((waited(place, runs), waited(place, waits)), (130, 130));
    assert_eq!(job(place, waits)["state"], "cancelled");
    // Once is enough, and twice is no error.
    let again = said(place, &["cancel", &runs.to_string()]);
    assert!(again.contains("had already ended: cancelled"), "{again}");
}

/// Returns the numbers of the jobs that a subcommand acted on, or would act on.
fn acted(place: &dyn JobPlace, words: &[&str]) -> Vec<u64> {
    let rows = json(place, words);
    rows.as_array().unwrap().iter().map(|row| row["job"].as_u64().unwrap()).collect()
}

pub fn many_jobs_are_selected_alike_by_every_verb(place: &dyn JobPlace) {
    let held =
        |name: &str| submit(place, &format!("name: {name}\nhold: true\nrun: exec sleep 300\n"))[0];
    let sweep = [held("sel-sweep-1"), held("sel-sweep-2"), held("sel-sweep-3")];
    let other = held("sel-other");
    let run = submit(place, "name: sel-runs\ntime: 5m\nrun: exec sleep 300\n")[0];
    reaches(place, run, "running");
    let [first, last] = [sweep[0], sweep[2]].map(|number| number.to_string());

    // 1. Names, states and ranges find the same jobs for each verb; a dry run changes nothing.
    for verb in ["cancel", "hold", "release", "requeue"] {
        let found = |words: &[&str]| acted(place, &[&[verb, "--dry-run"], words].concat());
        assert_eq!(found(&["--name", "sel-sweep-*"]), sweep, "{verb}");
        assert_eq!(found(&["--name", "sel-sweep-?", &last]), [sweep[2]], "{verb}");
        assert_eq!(found(&[&format!("{first}-{last}"), "--state", "held"]), sweep, "{verb}");
        assert_eq!(found(&["--name", "sel-*", "--state", "running"]), [run], "{verb}");
        assert_eq!(found(&["--name", "no-such-*"]), [0u64; 0], "{verb}");
    }
    assert_eq!(job(place, sweep[0])["state"], "held");

    // 2. A refusal for one job does not affect the others.
    let number = other.to_string();
    let (code, stdout, stderr) = place.call(&["cancel", &number, "987654", &first]);
    assert_eq!(code, 4, "{stdout}{stderr}");
    assert!(stdout.contains(&format!("{number}: cancelled")), "{stdout}");
    assert!(stdout.contains(&format!("{first}: cancelled")), "{stdout}");
    assert!(stderr.contains("987654: "), "{stderr}");

    // 3. A pattern does not select jobs that have ended.
    assert_eq!(acted(place, &["cancel", "--name", "sel-*", "--yes"]), [sweep[1], sweep[2], run]);
    for number in [sweep[0], sweep[1], sweep[2], other, run] {
        assert_eq!(waited(place, number), 130, "{number}");
    }
    assert_eq!(acted(place, &["cancel", "--name", "sel-*"]), [0u64; 0]);
    // 4. An empty selection is an error and does not mean all jobs.
    let (code, ..) = place.call(&["cancel"]);
    assert_eq!(code, 2);
}

pub fn a_name_is_the_newest_job_that_has_it(place: &dyn JobPlace) {
    let [first, second] =
        ["1", "2"].map(|text| submit(place, &format!("name: twice\nrun: echo {text}\n"))[0]);
    assert_eq!((waited(place, first), waited(place, second)), (0, 0));
    assert_eq!(said(place, &["logs", "twice"]), "2\n");
    // A job that has not ended takes precedence over all that have.
    let third = submit(place, "name: twice\nhold: true\nrun: echo 3\n")[0];
    assert_eq!(json(place, &["show", "twice"])["job"]["job"], third);
    let fourth = submit(place, "name: twice\nhold: true\nrun: echo 4\n")[0];
    let (code, _, stderr) = place.call(&["show", "twice"]);
    assert_eq!(code, 4, "{stderr}");
    let (_, words) = stderr.lines().next().unwrap().split_once("several jobs: ").unwrap();
    let named: Vec<Value> =
        words.split(", ").map(|word| json(place, &["show", word])["job"]["job"].clone()).collect();
    assert_eq!(
        BTreeSet::from_iter(named.iter().filter_map(Value::as_u64)),
        BTreeSet::from([third, fourth])
    );
    cancel(place, &[third, fourth]);
    assert_eq!(json(place, &["show", "twice"])["job"]["job"], fourth);
}

pub fn a_job_has_its_own_environment_and_directory(place: &dyn JobPlace) {
    let dir = place.folder();
    let text = format!(
        "name: own\nworkdir: {}\nenv: {{GREETING: \"it's \\\"here\\\"\", NCCL_DEBUG: INFO}}\nrun: echo \"$GREETING $NCCL_DEBUG $(pwd)\"\n",
        dir.display()
    );
    let number = submit(place, &text)[0];
    assert_eq!(waited(place, number), 0);
    assert_eq!(log(place, number, 0), format!("it's \"here\" INFO {}\n", dir.display()));
}

pub fn roles_are_one_gang(place: &dyn JobPlace) {
    let text = "name: roles\ngroups:\n- {name: trainer, tasks: 1, gpus-per-task: 2, run: 'echo $MUSTER_GROUP $RANK $WORLD_SIZE'}\n\
                - {name: actor, tasks: 2, cpus: 1, run: 'echo $MUSTER_GROUP $RANK $WORLD_SIZE'}\n";
    let number = submit(place, text)[0];
    assert_eq!(waited(place, number), 0);
    let logs = [0, 1, 2].map(|rank| log(place, number, rank));
    assert_eq!(logs, ["trainer 0 3\n", "actor 1 3\n", "actor 2 3\n"]);
}

pub fn what_cannot_be_is_refused_before_anything_is_done(place: &dyn JobPlace) {
    let file = place.folder().join("wrong.yaml");
    std::fs::write(&file, "name: wrong\ngpsu: 8\nrun: x\n").unwrap();
    let (code, _, stderr) = place.call(&["run", file.to_str().unwrap()]);
    assert!(code == 2 && stderr.contains("gpus"), "{code}: {stderr}");
    let (code, ..) = place.call(&["show", "987654"]);
    assert_eq!(code, 4);
    let (code, ..) = place.call(&["logs", "no-such-job"]);
    assert_eq!(code, 4);
}

pub fn the_other_verbs_answer(place: &dyn JobPlace) {
    let nodes = json(place, &["nodes"]);
    assert!(!nodes["nodes"].as_array().unwrap().is_empty(), "{nodes}");
    assert!(!json(place, &["queues"])["queues"].as_array().unwrap().is_empty());
    json(place, &["usage"]);
    let number = submit(place, "name: dry\nhold: true\nrun: x\n")[0];
    let listed = json(place, &["ps"]);
    let row = listed["jobs"].as_array().unwrap().iter().find(|job| job["job"] == number);
    assert_eq!(row.unwrap()["name"], "dry", "{listed}");
    said(place, &["run", "--dry-run", "--", "true"]);
    cancel(place, &[number]);
}

/// The job has the documented form: a shell runs the program and does not handle the signal.
pub fn a_program_in_a_shell_is_asked_to_save_and_the_shell_survives(place: &dyn JobPlace) {
    let gate = place.folder().join("may-end");
    let program = place.folder().join("saves.sh");
    let up = place.folder().join("saves-is-up");
    let text = format!(
        "trap 'echo step 7 > \"$MUSTER_CHECKPOINT_FILE\"' USR1\n: > {}\nuntil [ -e {} ]; do sleep 0.1; done\nexit 5\n",
        up.display(),
        gate.display()
    );
    std::fs::write(&program, text).unwrap();
    let job = format!(
        "name: wrapped\ntime: 10m\ncheckpoint: {{grace: 60s}}\nrun: |\n  sh {}\n  code=$?\n  echo the program ended\n  exit $code\n",
        program.display()
    );
    let number = submit(place, &job)[0];
    place.until("the program runs", &mut || up.exists());
    let saved = said(place, &["checkpoint", &number.to_string(), "--wait"]);
    assert!(saved.contains("saved its progress (step 7)"), "{saved}");
    assert_eq!(job_state(place, number), "running");
    assert_eq!(log(place, number, 0), "");
    std::fs::write(gate, "").unwrap();
    assert_eq!(waited(place, number), 5);
    assert_eq!(log(place, number, 0), "the program ended\n");
}

fn job_state(place: &dyn JobPlace, number: u64) -> String {
    job(place, number)["state"].as_str().unwrap().to_owned()
}
