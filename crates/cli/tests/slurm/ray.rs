//! Jobs of kind `ray` with the real Ray: one cluster per allocation, which ends with its program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{SlurmCluster, User};
use crate::muster::Muster;
use crate::ray_outputs::{ASK, OUTPUTS, SERVE_AT};

/// Program of two actors with a GPU each, which save when the job is cancelled.
const PROGRAM: &str = r#"import json, os, signal, sys, time
import ray
ray.init(log_to_driver=False)
@ray.remote(num_gpus=1)
class Worker:
    def seen(self):
        return [os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("RANK"), os.environ.get("SLURM_PROCID")]
    def save(self, name):
        open(name, "w").close()
workers = [Worker.remote() for _ in range(2)]
seen = ray.get([worker.seen.remote() for worker in workers])
def stop(*_):
    ray.get([worker.save.remote(f"{FOLDER}/saved-{nth}") for nth, worker in enumerate(workers)])
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
with open(f"{FOLDER}/new", "w") as file:
    json.dump({"nodes": len(ray.nodes()), "gpus": ray.cluster_resources()["GPU"], "seen": seen}, file)
os.rename(f"{FOLDER}/new", f"{FOLDER}/seen")
while not os.path.exists(f"{FOLDER}/end"):
    time.sleep(0.1)
sys.exit(7)
"#;

/// Submits a job of two nodes; returns its number, and the folder that its program writes to.
fn submit(muster: &Muster<'_>, name: &str) -> (u64, PathBuf) {
    let python = std::env::var("MUSTER_TEST_PYTHON").expect("`cargo xtask slurm test` sets it");
    let folder = muster.cluster.work().join(name);
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("program.py");
    std::fs::write(&program, format!("FOLDER = {:?}\n{PROGRAM}", folder.display().to_string()))
        .unwrap();
    let text = format!(
        "name: {name}\nkind: ray\nnodes: 2\ngpus: 1\nmemory: 3GB\ntime: 15m\ngrace: 60s\nray: {{python: {python}}}\n\
         run: {python} {}\n",
        program.display()
    );
    (muster.submit(&text)[0], folder)
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_ray_cluster_is_one_job_and_ends_with_the_code_of_its_program() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Root);
    let (job, folder) = submit(&muster, "ray-ends");
    let log = || muster.call(&["logs", &job.to_string()]);
    cluster.until_patiently("the program runs", || {
        assert_ne!(muster.state(job), "failed", "{:?}", log());
        folder.join("seen").exists()
    });
    let seen = std::fs::read_to_string(folder.join("seen")).unwrap();
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!((&seen["nodes"], &seen["gpus"]), (&2.into(), &2.0.into()), "{seen}");
    for actor in seen["seen"].as_array().unwrap() {
        assert!(actor[0].is_string() && actor[1].is_null(), "{seen}");
    }
    let status = muster.output(&["ray", "status", &job.to_string()]);
    assert!(status.contains(": 2 Ray nodes; 2 of 2 GPUs and 2 of 4 CPUs are in use\n"), "{status}");
    assert_eq!(answer_of_dashboard(&muster, job), "success");
    std::fs::write(folder.join("end"), "").unwrap();
    assert_eq!(muster.call(&["wait", &job.to_string()]).code, 7, "{:?}", log());
}

/// Asks the dashboard on the job's node, through a tunnel, whether Ray is well. The answer ends without a new line.
fn answer_of_dashboard(muster: &Muster<'_>, job: u64) -> String {
    let mut command = muster.command(&["ray", "dashboard", &job.to_string()]);
    let mut tunnel = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tunnel.stdout.take().unwrap()).lines();
    let url = lines.next().unwrap().unwrap();
    let mut connection = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    connection.write_all(b"GET /api/gcs_healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    while !answer.ends_with("success") {
        let mut bytes = [0; 4096];
        let count = connection.read(&mut bytes).unwrap();
        assert!(count > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    // The command is `timeout`, which passes the signal on.
    kill_process(Pid::from_child(&tunnel), Signal::TERM).unwrap();
    tunnel.wait().unwrap();
    answer.rsplit_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn actors_save_before_a_cancelled_ray_job_ends() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Root);
    let (job, folder) = submit(&muster, "ray-saves");
    cluster.until_patiently("the program runs", || folder.join("seen").exists());
    muster.output(&["cancel", &job.to_string()]);
    muster.reaches(job, "cancelled");
    let saved = || folder.join("saved-0").exists() && folder.join("saved-1").exists();
    cluster.until("both actors have saved", saved);
}

/// Submits an example as it is, but for the interpreter and its memory.
fn submit_example(muster: &Muster<'_>, name: &str) -> u64 {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(format!("examples/{name}.yaml"))).unwrap();
    let python = std::env::var("MUSTER_TEST_PYTHON").expect("`cargo xtask slurm test` sets it");
    let run = format!("run: {python} examples");
    assert!(text.contains("run: python3 examples"), "{text}");
    let text = text.replace("run: python3 examples", &run);
    let more = format!(
        "workdir: {}\nmemory: 3GB\nenv: {{STORAGE: {}}}\nray: {{python: {python}}}\n",
        root.canonicalize().unwrap().display(),
        muster.cluster.work().join(name).display()
    );
    muster.submit(&format!("{text}{more}"))[0]
}

/// Ray Core, Tune, Train and Data end by themselves; Serve answers until its job is cancelled.
#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn the_examples_for_rays_libraries_run() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Root);
    for (name, expected) in OUTPUTS {
        let job = submit_example(&muster, name);
        // A loaded machine needs longer for Ray than one command may take.
        let has_ended = |state: &str| ["done", "failed", "cancelled"].contains(&state);
        cluster.until_patiently(name, || has_ended(&muster.state(job)));
        let code = muster.call(&["wait", &job.to_string()]).code;
        let log = muster.output(&["logs", &job.to_string()]);
        assert_eq!(code, 0, "{name}: {log}");
        assert!(log.contains(expected), "{name}: {expected}\n{log}");
    }
    let job = submit_example(&muster, "ray-serve").to_string();
    let address = || {
        let log = muster.call(&["logs", &job]).stdout;
        let address = log.lines().find_map(|line| line.split_once(SERVE_AT));
        address.map(|(_, address)| address.trim().to_owned())
    };
    cluster.until_patiently("it serves", || address().is_some());
    // The node has a network of its own.
    let ask = ["ray", "submit", &job, "--", "python", "-c", ASK, &address().unwrap()];
    assert!(muster.output(&ask).contains("{\"answer\":42}"));
    muster.output(&["cancel", &job]);
    muster.reaches(job.parse().unwrap(), "cancelled");
}

/// An allocation cannot grow: the node that the second actor needs is a job of its own, which ends with the
/// cluster, in the QOS that `muster init ray` makes for such nodes.
#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_ray_cluster_grows_by_further_jobs() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Root);
    let python = std::env::var("MUSTER_TEST_PYTHON").expect("`cargo xtask slurm test` sets it");
    let folder = cluster.work().join("ray-grows");
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("program.py");
    std::fs::write(&program, format!("FOLDER = {:?}\n{PROGRAM}", folder.display().to_string()))
        .unwrap();
    let files = folder.join("files");
    let nodes = folder.join("cluster.yaml");
    std::fs::write(&nodes, "nodes: [{name: 'node[1-2]', gpus: 8, gpu: h100}]\n").unwrap();
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["init", "ray", "--on", "slurm", "--cluster"])
        .args([nodes.as_os_str(), "-o".as_ref(), files.as_os_str()])
        .status();
    assert!(made.unwrap().success());
    for _ in 0..2 {
        cluster.output(&["sh", files.join("growth.sh").to_str().unwrap()]);
    }
    let text = format!(
        "name: ray-grows\nkind: ray\ntasks: 1..2\ngpus-per-task: 1\nmemory: 3GB\ntime: 15m\nray: {{python: {python}}}\n\
         env: {{SBATCH_QOS: ray-growth}}\n\
         run: {python} {}\n",
        program.display()
    );
    let job = muster.submit(&text)[0];
    let log = || muster.call(&["logs", &job.to_string()]);
    cluster.until_patiently("the program has both actors", || {
        assert_ne!(muster.state(job), "failed", "{:?}", log());
        folder.join("seen").exists()
    });
    let seen = std::fs::read_to_string(folder.join("seen")).unwrap();
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!((&seen["nodes"], &seen["gpus"]), (&2.into(), &2.0.into()));
    let name = format!("ray-grows-{job}-nodes");
    let listed = || muster.output(&["ps", "--all", "--json", "--name", &name]);
    let further: serde_json::Value = serde_json::from_str(&listed()).unwrap();
    assert_eq!(further["jobs"].as_array().unwrap().len(), 1, "{further}");
    let qos = cluster.output(&["squeue", "-h", "-o", "%j %q"]);
    let quality = |name: &str| qos.lines().any(|line| line == name);
    assert!(quality(&format!("{name} ray-growth")) && quality("ray-grows normal"), "{qos}");
    std::fs::write(folder.join("end"), "").unwrap();
    cluster.until_patiently("the job ends", || muster.state(job) == "failed");
    assert_eq!(muster.call(&["wait", &job.to_string()]).code, 7);
    cluster.until_patiently("the further node ends", || {
        let further: serde_json::Value = serde_json::from_str(&listed()).unwrap();
        further["jobs"][0]["state"] == "done"
    });
}
