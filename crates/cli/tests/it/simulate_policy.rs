//! `muster simulate --scheduler exec:COMMAND`: policies of users in a process of their own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_model::simulation::{FleetComparison, FleetEvent, FleetEventKind};

use crate::home::Home;

/// Nodes with one GPU each.
const SINGLE: &str = "nodes:\n- {name: 'n[01-10]', gpu: a100, gpus: 1, cpus: 8, memory: 64GiB}\n";

/// Sixty jobs of 1 to 10 GPUs with overestimated limits, under a load that makes most of them wait.
fn jobs() -> String {
    let mut text = "id,submit,runtime,requested,tasks,gpus,user\n".to_owned();
    let mut draw = 12_345u64;
    let mut below = |most: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % most
    };
    let mut submit = 0;
    for job in 0..60 {
        submit += below(120);
        let runtime = 30 + below(600);
        let limit = runtime + below(900);
        let tasks = [1, 1, 2, 3, 5, 8, 10][below(7) as usize];
        text += &format!("{job},{submit},{runtime},{limit},{tasks},1,ann\n");
    }
    text
}

#[test]
fn easy_in_python_gives_the_schedule_of_the_engine() {
    // The path of the binary under test.
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("not tested: there is no python3");
        return;
    }
    let home = Home::with_gpus(0);
    home.write("single.yaml", SINGLE);
    home.write("jobs.csv", &jobs());
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/easy_policy.py");
    home.write("easy.py", &std::fs::read_to_string(example).unwrap());
    // 1. The engine, on ten identical processors.
    let asked = "simulate --trace jobs.csv --procs 10 --scheduler easy --schedule-out easy.csv";
    home.words(asked).ok();
    let schedule = home.read("easy.csv");
    let rows = schedule.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
    let engine: BTreeMap<String, u64> =
        rows.map(|row| (row[0].to_owned(), row[3].parse().unwrap())).collect();
    // 2. The example, on ten nodes with one GPU.
    let policy = "exec:python3 easy.py";
    let mut words = vec!["simulate", "--trace", "jobs.csv", "--cluster", "single.yaml"];
    words.extend(["--scheduler", policy, "--events-out", "events.jsonl", "--json"]);
    let shown: FleetComparison = home.muster(&words).ok().json();
    assert_eq!((shown.runs[0].scheduler.as_str(), shown.runs[0].ended), (policy, 60));
    let began = home
        .read("events.jsonl")
        .lines()
        .filter_map(|line| {
            let FleetEvent { at_ms, what } = serde_json::from_str(line).unwrap();
            match what {
                FleetEventKind::Began { job } => Some((job, at_ms / 1000)),
                _ => None,
            }
        })
        .collect::<BTreeMap<_, _>>();
    // 3. Every start is the same, and most jobs wait, some of them passed by later ones.
    assert_eq!(began, engine);
    assert!(shown.runs[0].waited_secs.p50 > 0.0, "{:?}", shown.runs[0].waited_secs);
}

/// Nodes with several GPUs, on which the CPUs can be fewer than the GPUs.
const SEVERAL: &str = "nodes:\n- {name: 'n[1-3]', gpu: a100, gpus: 4, cpus: 8, memory: 64GiB}\n";

#[test]
fn easy_in_python_fits_jobs_node_by_node() {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("not tested: there is no python3");
        return;
    }
    let home = Home::with_gpus(0);
    home.write("several.yaml", SEVERAL);
    // Twelve GPUs are enough in total for jobs of which the tasks, or their CPUs, fit no node at
    // that time.
    let mut text = "id,submit,runtime,requested,tasks,gpus,cpus,user\n".to_owned();
    for job in 0..60u64 {
        let (tasks, gpus, cpus) =
            [(1, 3, 1), (2, 2, 4), (1, 1, 8), (3, 1, 5), (1, 4, 2), (1, 0, 6)][job as usize % 6];
        let submit = job * 40;
        let limit = 100 + job % 7 * 90;
        text += &format!("{job},{submit},{},{limit},{tasks},{gpus},{cpus},ann\n", limit - 50);
    }
    home.write("jobs.csv", &text);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/easy_policy.py");
    home.write("easy.py", &std::fs::read_to_string(example).unwrap());
    let mut words = vec!["simulate", "--trace", "jobs.csv", "--cluster", "several.yaml"];
    words.extend(["--scheduler", "exec:python3 easy.py", "--json"]);
    let shown: FleetComparison = home.muster(&words).ok().json();
    assert_eq!(shown.runs[0].ended, 60);
    assert!(shown.runs[0].waited_secs.p50 > 0.0, "{:?}", shown.runs[0].waited_secs);
}

/// Runs a policy that answers each state with the next of these lines, and then with nothing.
fn answered(lines: &[&str]) -> (i32, String) {
    let home = Home::with_gpus(0);
    home.write("single.yaml", SINGLE);
    home.write(
        "jobs.csv",
        "id,submit,runtime,requested,tasks,gpus\na,0,60,60,2,1\nb,10,60,60,1,1\n",
    );
    let says = lines.iter().map(|line| format!("read state; echo '{line}'\n")).collect::<String>();
    home.write("policy.sh", &format!("{says}while read state; do echo '{{}}'; done\n"));
    let mut words = vec!["simulate", "--trace", "jobs.csv", "--cluster", "single.yaml"];
    words.extend(["--scheduler", "exec:sh policy.sh"]);
    let run = home.muster(&words);
    (run.code, run.stdout + &run.stderr)
}

#[test]
fn starts_are_packed_or_placed_as_the_policy_says() {
    for start in [
        r#"{"start": [{"job": 0}]}"#,
        r#"{"start": [{"job": 0, "tasks": [{"node": "n03"}, {"node": "n07", "devices": [0]}]}], "wake_ms": 5000}"#,
    ] {
        let (code, text) = answered(&[start, r#"{"start": [{"job": 1}]}"#]);
        // With a wake-up, the second answer is given before the second job has arrived.
        let is_early = start.contains("wake_ms");
        assert_eq!(code == 0, !is_early, "{text}");
        assert!(!is_early || text.contains("there is no job 1"), "{text}");
    }
}

#[test]
fn wrong_answers_are_quoted() {
    let check = |line: &str, said: &str| {
        let (code, text) = answered(&[line]);
        assert!(code != 0 && text.contains(said), "{line}: {text}");
        assert!(text.contains(&format!("`{line}`")), "{line}: {text}");
    };
    check("hello", "wrote `hello`, which is not an answer");
    check(r#"{"begin": []}"#, "unknown field `begin`");
    check(r#"{"start": [{"job": 7}]}"#, "there is no job 7");
    check(r#"{"start": [{"job": 0}, {"job": 0}]}"#, "job 0 runs already");
    let on = |places: &str| format!(r#"{{"start": [{{"job": 0, "tasks": [{places}]}}]}}"#);
    check(&on(r#"{"node": "n01"}"#), "job 0 has 2 tasks, not 1");
    check(&on(r#"{"node": "n01"}, {"node": "n01"}"#), "task 1 of job 0 does not fit on node n01");
    check(&on(r#"{"node": "n01"}, {"node": "x"}"#), "there is no node x");
    check(&on(r#"{"node": "n01"}, {"node": "n02", "devices": [1]}"#), "node n02 has no GPU 1");
    check(r#"{"wake_ms": 0}"#, "wake_ms 0 is not after now_ms 0");
}

#[test]
fn a_policy_that_ends_or_is_silent_is_told() {
    let home = Home::with_gpus(0);
    home.write("single.yaml", SINGLE);
    home.write("jobs.csv", &jobs());
    let failed = |command: &str, said: &str| {
        let scheduler = format!("exec:{command}");
        let mut words = vec!["simulate", "--trace", "jobs.csv", "--cluster", "single.yaml"];
        // Only what is silent needs its time to be short.
        let timeout = if command.starts_with("sleep") { "300ms" } else { "60s" };
        words.extend(["--exec-timeout", timeout, "--scheduler", &scheduler]);
        let run = home.muster(&words);
        assert!(run.code != 0 && run.stderr.contains(said), "{command}: {}", run.stderr);
    };
    failed("false", "`false` ended (exit status: 1) without an answer");
    failed("sleep 600", "`sleep 600` did not answer within 300ms");
    failed("sleep 600", "did it end its line and flush its output?");
    failed("read state; printf '{}\\n{}\\n'; sleep 600", "wrote more than one line for a state");
    failed("while true; do echo '{}'; done", "wrote more than one line for a state");
    let long = "read state; head -c 17000000 /dev/zero | tr '\\0' x; sleep 600";
    failed(long, "wrote a line of more than 16 MiB: `xxx");
    failed("no-such-program", "without an answer");
    // Names of schedulers are still checked, and a policy needs a cluster.
    let reported = home.words("simulate --trace jobs.csv --procs 4 --scheduler exec:false").code(2);
    assert!(reported.stderr.contains("another kind of simulation"), "{}", reported.stderr);
    let reported = home.words("simulate --trace jobs.csv --cluster single.yaml --scheduler exec:");
    assert!(reported.code(2).stderr.contains("exec:"));
}

#[test]
fn a_command_may_be_any_shell_text_and_gets_the_seed() {
    let home = Home::with_gpus(0);
    home.write("single.yaml", SINGLE);
    home.write("jobs.csv", "id,submit,runtime,requested,tasks,gpus\na,0,60,60,1,1\n");
    std::fs::create_dir(home.path("dir")).unwrap();
    home.write(
        "dir/policy.sh",
        "while read state; do echo '{\"start\": [{\"job\": 0}]}'; read state; echo '{}'; done\n",
    );
    for command in [
        "cd dir && sh policy.sh",
        "A=1 sh dir/policy.sh",
        "test $MUSTER_SEED = 7 && sh dir/policy.sh",
    ] {
        let scheduler = format!("exec:{command}");
        let mut words = vec!["simulate", "--trace", "jobs.csv", "--cluster", "single.yaml"];
        words.extend(["--seed", "7", "--scheduler", &scheduler, "--json"]);
        let shown: FleetComparison = home.muster(&words).ok().json();
        assert_eq!(shown.runs[0].ended, 1, "{command}");
    }
}

#[test]
fn processes_of_a_policy_end_with_the_run() {
    let home = Home::with_gpus(0);
    home.write("single.yaml", SINGLE);
    home.write("jobs.csv", "id,submit,runtime,requested,tasks,gpus\na,0,60,60,1,1\n");
    // The shell ends at once; the process that it started has its output.
    let policy = "exec:sleep 600 & echo $! > pid; echo hello";
    let mut words = vec!["simulate", "--trace", "jobs.csv", "--cluster", "single.yaml"];
    words.extend(["--scheduler", policy]);
    assert_ne!(home.muster(&words).code, 0);
    let pid = home.read("pid");
    let stat = format!("/proc/{}/stat", pid.trim());
    // A zombie, if nothing reaps it here, has ended, too.
    let runs = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    home.until("the process has ended", || !runs());
}

#[test]
fn an_interrupt_does_not_wait_for_an_answer() {
    let home = Home::with_gpus(0);
    home.write("single.yaml", SINGLE);
    home.write("jobs.csv", &jobs());
    let policy = "exec:read state; echo '{}'; read state; touch asked; sleep 600";
    let mut words = vec!["simulate", "--trace", "jobs.csv", "--cluster", "single.yaml"];
    words.extend(["--exec-timeout", "10m", "--scheduler", policy]);
    let run = home.spawn(&words);
    home.until("the policy is asked twice", || home.path("asked").exists());
    let began = Instant::now();
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let reported = String::from_utf8(output.stdout).unwrap();
    assert!(reported.contains("was interrupted (*): of 60 jobs "), "{reported}");
}

#[test]
fn a_policy_that_fails_does_not_take_the_other_results_with_it() {
    let home = Home::with_gpus(0);
    home.write("single.yaml", SINGLE);
    home.write("jobs.csv", &jobs());
    let words = ["simulate", "--trace", "jobs.csv", "--cluster", "single.yaml"];
    let run = home.muster(&[&words[..], &["--scheduler", "muster,exec:false"]].concat());
    assert!(run.code != 0 && run.stderr.contains("`false` ended"), "{}", run.stderr);
    assert!(run.stdout.contains("muster") && !run.stdout.contains("exec:false"), "{}", run.stdout);
}
