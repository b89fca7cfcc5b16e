//! Jobs of kind `ray` with the real Ray: one cluster per job, of exactly its GPUs, that ends with its
//! program, whatever ends it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_model::payload::{RayTask, TaskCommand};
use muster_model::view::JobState;
use rustix::process::{Pid, Signal, kill_process};

use crate::home::Home;
use crate::python;

/// Beginning of each program: joins the cluster, and writes the directories of its nodes to a file.
const BEGIN: &str = r#"import json, os, signal, sys, time
import ray
ray.init(log_to_driver=False)
def say(name, what):
    with open("new-" + name, "w") as file:
        file.write(what)
    os.rename("new-" + name, name)
def nodes():
    return [node for node in ray.nodes() if node["Alive"]]
@ray.remote(num_gpus=1)
class Worker:
    def seen(self):
        return [os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("RANK")]
    def save(self, name):
        open(name, "w").close()
    def folder(self):
        return os.path.realpath(ray._private.worker.global_worker.node.get_session_dir_path())
"#;

/// Longest wait: the start of two nodes takes a minute where the machine is busy.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Submits a job of kind `ray` whose program is in Python; `fields` are further lines of the job file, and
/// `ray` further options of Ray.
pub fn submit(home: &Home, name: &str, fields: &str, ray: &str, program: &str) {
    home.write(&format!("{name}.py"), &format!("{BEGIN}{program}"));
    let python = python();
    let python = python.display();
    let folder = home.path(".");
    home.write(
        &format!("{name}.yaml"),
        &format!(
            "name: {name}\nkind: ray\ntime: 15m\nworkdir: {}\nray: {{python: {python}, {ray}}}\n\
             run: {python} {name}.py\n{fields}\n",
            folder.display()
        ),
    );
    home.words(&format!("run {name}.yaml")).ok();
}

/// Directories of the nodes of this home's jobs, and the pids of the launchers that own them.
pub fn node_folders(home: &Home) -> Vec<(PathBuf, i32)> {
    let variable = format!("HOME={}", home.path("home").display());
    let is_own = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let entries = fs::read_dir("/tmp").unwrap().filter_map(Result::ok);
    let owner = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        let (pid, _) = name.strip_prefix("mr")?.split_once('-')?;
        Some((path, pid.parse().ok().filter(|pid| is_own(*pid))?))
    };
    entries.filter_map(|entry| owner(entry.path())).collect()
}

/// Pids of the processes with a text in their command lines.
pub fn processes(text: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let says = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(says).collect()
}

/// Fails the test if a process of a node is left.
pub fn nothing_runs_in(folders: &[PathBuf]) {
    for folder in folders {
        let left = processes(folder.to_str().unwrap());
        assert!(left.is_empty(), "{}: {left:?}", folder.display());
    }
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn a_cluster_has_the_gpus_of_its_job_and_ends_with_the_code_of_its_program() {
    let home = Home::with_gpus(4);
    let groups =
        "groups: [{name: head, gpus-per-task: 0}, {name: worker, tasks: 2, gpus-per-task: 2}]";
    submit(
        &home,
        "whole",
        groups,
        "",
        r#"workers = [Worker.remote() for _ in range(4)]
say("seen", json.dumps({
    "gpus": ray.cluster_resources().get("GPU"), "cpus": ray.cluster_resources().get("CPU"), "nodes": len(nodes()),
    "workers": ray.get([worker.seen.remote() for worker in workers]), "token": len(os.environ["RAY_AUTH_TOKEN"]),
    "folder": ray.get(workers[0].folder.remote()),
}))
sys.exit(7)
"#,
    );
    home.words("wait 1").code(7);
    let seen: serde_json::Value = serde_json::from_str(&home.read("seen")).unwrap();
    assert_eq!(
        (&seen["nodes"], &seen["gpus"], &seen["cpus"]),
        (&3.into(), &4.0.into(), &7.0.into())
    );
    let mut devices: Vec<String> =
        seen["workers"].as_array().unwrap().iter().map(|one| one[0].to_string()).collect();
    devices.sort();
    assert_eq!(devices, ["\"0\"", "\"1\"", "\"2\"", "\"3\""], "{seen}");
    assert!(seen["workers"].as_array().unwrap().iter().all(|one| one[1].is_null()), "{seen}");
    assert_eq!(seen["token"], 32);
    let folder = Path::new(seen["folder"].as_str().unwrap());
    assert!(folder.starts_with("/tmp") && !folder.exists(), "{seen}");
    nothing_runs_in(&[folder.to_owned()]);
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn actors_save_when_asked_and_when_the_job_is_cancelled() {
    let home = Home::with_gpus(2);
    // A shell that dies of SIGTERM is between the launcher and the program.
    submit(
        &home,
        "saves",
        "tasks: 2\ngpus-per-task: 1\ngrace: 60s\ncheckpoint: {grace: 1m}\nenv: {LC_ALL: C}",
        "",
        r#"workers = [Worker.remote() for _ in range(2)]
ray.get([worker.seen.remote() for worker in workers])
def save(name):
    ray.get([worker.save.remote(f"{name}-{nth}") for nth, worker in enumerate(workers)])
def on_checkpoint(*_):
    save("asked")
    with open(os.environ["MUSTER_CHECKPOINT_FILE"], "w") as file:
        file.write("step 3\n")
def on_stop(*_):
    save("stopped")
    sys.exit(0)
signal.signal(signal.SIGUSR1, on_checkpoint)
signal.signal(signal.SIGTERM, on_stop)
say("ready", "")
while True:
    time.sleep(0.1)
"#,
    );
    home.until_within(PATIENCE, "the program runs", || home.path("ready").exists());
    let folders: Vec<PathBuf> = node_folders(&home).into_iter().map(|(folder, _)| folder).collect();
    let said = home.words("checkpoint 1 --wait").ok().stdout;
    assert!(said.starts_with("1: saved its progress (step 3)"), "{said}");
    assert!(home.path("asked-0").exists() && home.path("asked-1").exists());
    assert_eq!(home.job(1).state, JobState::Running);
    home.words("cancel 1").ok();
    home.until_within(PATIENCE, "it ends", || home.job(1).state == JobState::Cancelled);
    assert!(home.path("stopped-0").exists() && home.path("stopped-1").exists());
    nothing_runs_in(&folders);
}

/// Two drivers with five actors each on eight GPUs wait for each other for ever on one cluster; as two
/// jobs, one after the other runs whole.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn two_jobs_of_five_actors_on_eight_gpus_run_one_after_the_other() {
    let home = Home::with_gpus(8);
    let gate = home.path("go");
    for name in ["first", "second"] {
        let program = format!(
            r#"workers = [Worker.remote() for _ in range(5)]
ray.get([worker.seen.remote() for worker in workers])
say("{name}", str(len(nodes())))
while not os.path.exists("{}"):
    time.sleep(0.1)
"#,
            gate.display()
        );
        submit(&home, name, "tasks: 1\ngpus-per-task: 5", "", &program);
    }
    home.until_within(PATIENCE, "the first one has its actors", || home.path("first").exists());
    let second = home.job(2);
    assert_eq!(second.state, JobState::Pending);
    home.write("go", "");
    home.words("wait 1 2").ok();
    assert_eq!((home.read("first"), home.read("second")), ("1".to_owned(), "1".to_owned()));
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn two_clusters_on_one_machine_do_not_meet() {
    let home = Home::with_gpus(2);
    for (name, other) in [("left", "right"), ("right", "left")] {
        let program = format!(
            r#"say("{name}", str(len(nodes())) + " " + str(ray.cluster_resources()["GPU"]))
while not os.path.exists("{other}"):
    time.sleep(0.1)
"#
        );
        submit(&home, name, "tasks: 1\ngpus-per-task: 1", "", &program);
    }
    home.words("wait 1 2").ok();
    assert_eq!((home.read("left"), home.read("right")), ("1 1.0".to_owned(), "1 1.0".to_owned()));
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn what_is_wrong_is_said_with_the_next_step() {
    let home = Home::with_gpus(1);
    let python = python().display().to_string();
    let newer = format!("{python}, version: 2.9.0");
    let cases = [
        ("/usr/bin/python3", "'true'", 125, "/usr/bin/python3 has no Ray"),
        (&newer, "'true'", 125, "has Ray 2.60.0, and the job needs 2.9.0"),
        ("no-such-python", "'true'", 127, "no-such-python"),
        (&python, "[no-such-program]", 127, "there is no program `no-such-program`"),
    ];
    for (job, (ray, run, code, expected)) in (1..).zip(cases) {
        let text = format!("kind: ray\nname: wrong\ngpus: 1\nray: {{python: {ray}}}\nrun: {run}\n");
        home.write("wrong.yaml", &text);
        home.words("run wrong.yaml").ok();
        let ended = home.words(&format!("wait {job}")).code;
        let log = home.words(&format!("logs {job}")).stdout;
        assert!(log.contains(expected), "{expected}\n{log}");
        assert_eq!(ended, code, "{log}");
    }
}

/// Part of a program that asks a task for its runtime environment.
const ASK: &str = "\
@ray.remote
def task():
    import shipped
    return [os.environ['MODEL'], shipped.WHERE]
model, where = ray.get(task.remote())
asked = f\"{os.environ['MODEL']} {model} {'working_dir_files' in where}\"
";

/// Programs, and their tasks on the cluster, have the variables and the modules of the job's runtime environment; so
/// has a program that is started beside it.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn tasks_have_the_runtime_environment_of_the_job() {
    let home = Home::with_gpus(1);
    fs::create_dir(home.path("code")).unwrap();
    home.write("code/shipped.py", "WHERE = __file__\n");
    home.write(
        "ask.py",
        &format!("import os, ray\nray.init(log_to_driver=False)\n{ASK}print(asked)\n"),
    );
    let fields = "tasks: 1\ngpus-per-task: 1";
    let env = "runtime-env: {working_dir: code, env_vars: {MODEL: it's 7B}}";
    let until_end = "while not os.path.exists('end'):\n    time.sleep(0.1)\n";
    submit(&home, "env", fields, env, &format!("{ASK}say('asked', asked)\n{until_end}"));
    home.until_within(PATIENCE, "the program has asked", || home.path("asked").exists());
    assert_eq!(home.read("asked"), "it's 7B it's 7B True");
    let path = home.path("ask.py");
    let said = home.muster(&["ray", "submit", "env", "--", "python", path.to_str().unwrap()]).ok();
    assert!(said.stdout.contains("it's 7B it's 7B True"), "{said:?}");
    home.write("end", "");
    home.words("wait 1").ok();
}

/// Starts the launcher of a task by itself, as on a machine where the port is not Muster's alone.
fn launcher(home: &Home, rank: u32, port: u16) -> Command {
    let task = RayTask { python: python().display().to_string(), ..RayTask::new(None) };
    let task = TaskCommand::Ray(Box::new(task));
    home.write("launcher.py", &muster_ray::program(&task, false).text());
    let mut command = Command::new(python());
    command.arg(home.path("launcher.py")).env("RANK", rank.to_string());
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    command.env("RAY_AUTH_TOKEN", "0123456789abcdef0123456789abcdef").stderr(Stdio::piped());
    command
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn a_port_in_use_and_a_head_that_does_not_answer_are_named() {
    let home = Home::new();
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = launcher(&home, 0, port).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains(&format!("ray: port {port} of "))
            && said.contains("is used by another program"),
        "{said}"
    );
    drop(taken);
    // The port is free again: a worker waits for a head there, and says so after 30 s.
    let mut worker = launcher(&home, 1, port).spawn().unwrap();
    let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(
        line.starts_with(&format!("ray: the head at 127.0.0.1:{port} did not answer on ")),
        "{line}"
    );
    assert!(line.ends_with("; waiting up to 300s"), "{line}");
    kill_process(Pid::from_child(&worker), Signal::TERM).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(143));
}

/// A job that is cancelled while its cluster starts ends without running its program.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn a_job_that_is_cancelled_while_it_starts_does_not_run_its_program() {
    let home = Home::with_gpus(1);
    submit(&home, "early", "tasks: 1\ngpus-per-task: 1\ngrace: 60s", "", "say('ran', '')\n");
    home.until_within(PATIENCE, "Ray starts", || {
        let nodes = node_folders(&home);
        nodes.iter().any(|(folder, _)| !processes(folder.to_str().unwrap()).is_empty())
    });
    let folders: Vec<PathBuf> = node_folders(&home).into_iter().map(|(folder, _)| folder).collect();
    home.words("cancel 1").ok();
    home.until_within(PATIENCE, "it ends", || home.job(1).state == JobState::Cancelled);
    assert!(!home.path("ran").exists());
    nothing_runs_in(&folders);
    assert!(folders.iter().all(|folder| !folder.exists()));
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn status_says_why_parts_wait_and_submit_joins() {
    let home = Home::with_gpus(2);
    let program = r#"from ray.util.placement_group import placement_group
workers = [Worker.remote() for _ in range(2)]
ray.get([worker.seen.remote() for worker in workers])
third = Worker.remote()
pair = placement_group([{"GPU": 1}] * 2, strategy="STRICT_SPREAD", name="pair")
large = placement_group([{"GPU": 8}], name="large")
say("ready", "")
while True:
    time.sleep(0.1)
"#;
    submit(&home, "waits", "tasks: 1\ngpus-per-task: 2", "", program);
    home.until_within(PATIENCE, "the program waits", || home.path("ready").exists());
    let said = |text: &str| home.words("ray status waits").ok().stdout.contains(text);
    // The state API learns of tasks and actors a moment later.
    home.until_within(PATIENCE, "the actor is told", || {
        said("\n  actor `Worker` waits for 1 GPU and 1 CPU; 2 of 2 GPUs and 2 of 3 CPUs are in use\n")
    });
    assert!(said("waits: 1 Ray node; 2 of 2 GPUs and 2 of 3 CPUs are in use\n"));
    assert!(said(
        "placement group `pair` (STRICT_SPREAD) can never be placed: it needs 2 bundles of 1 GPU; the cluster has one node with 2 GPUs and 3 CPUs\n"
    ));
    assert!(said("placement group `large` (PACK) can never be placed: it needs 8 GPUs; "));
    assert!(said(" holds GPUs with some actors while others of its own wait"));
    let report: serde_json::Value = home.words("ray status 1 --json").json();
    assert_eq!(report["waiting"].as_array().unwrap().len(), 4, "{report}");
    // Another program joins the same cluster; its exit code is passed on.
    let code = "import ray, sys; ray.init(log_to_driver=False); sys.exit(int(ray.cluster_resources()['GPU']) + 3)";
    home.muster(&["ray", "submit", "waits", "--", "python", "-c", code]).code(5);
    // A job without a cluster has none to look into.
    home.words("cancel 1").ok();
    home.words("run --name plain -- sleep 600").ok();
    home.until_state(2, JobState::Running);
    let failed = home.words("ray status plain").code(1);
    assert!(failed.stderr.contains("the Ray cluster of plain did not answer"), "{failed:?}");
    home.words("cancel 2").ok();
}
