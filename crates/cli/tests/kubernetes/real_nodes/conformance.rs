//! The suite of subcommands that every place to run passes, on Kubernetes with Muster's scheduler, as
//! far as Kubernetes has the same: docs/kubernetes.md lists the differences.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::target::{KubernetesTarget, run, submit};
use crate::cluster::{KubernetesCluster, success, until};
use crate::conform::{JobPlace, conformance};

conformance!(
    @ KubernetesTarget::new(), (ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test");
    an_exit_code_is_passed_on, the_first_failed_rank_ends_the_gang_with_its_code, every_rank_knows_its_place,
    an_array_runs_each_of_its_indices, a_job_has_its_own_environment_and_directory, what_is_held_waits_for_its_release,
    what_is_cancelled_ends_as_cancelled, a_name_is_the_newest_job_that_has_it,
    what_cannot_be_is_refused_before_anything_is_done, the_other_verbs_answer,
    a_program_in_a_shell_is_asked_to_save_and_the_shell_survives
);

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gang_waits_whole_and_is_explained_by_its_name() {
    let place = KubernetesTarget::new();
    let ok = |words: &[&str]| place.ok(words);
    let gate = place.folder().join("may-end");
    let all = place.all_of_it();
    let wait = format!("until [ -e {} ]; do usleep 50000; done", gate.display());
    submit(&place, &format!("name: first\n{all}\ntime: 10m\nrun: {wait}\n"));
    until("first runs", || ok(&["ps"]).contains("running"));
    submit(&place, &format!("name: second\n{all}\nrun: echo started\n"));
    // 1. The list says what it waits for, and `explain` who holds it.
    until("ps says why second waits", || {
        let listed = ok(&["ps"]);
        listed.lines().any(|line| line.contains("second") && line.contains("8 GPUs"))
    });
    let explained = ok(&["explain", "second"]);
    assert!(explained.contains("first-"), "{explained}");
    let (code, _, stderr) = place.call(&["logs", "second"]);
    assert!(code == 4 && stderr.contains("has not started"), "{code}: {stderr}");
    // 2. What is cancelled makes room, and is listed as cancelled by its user.
    ok(&["cancel", "first"]);
    assert_eq!(place.call(&["wait", "first"]).0, 130);
    assert_eq!(place.call(&["wait", "second"]).0, 0);
    assert_eq!(ok(&["logs", "second"]), "0: started\n1: started\n");
    let listed = ok(&["ps", "-a"]);
    assert!(listed.contains("cancelled"), "{listed}");
    assert!(ok(&["cancel", "first"]).contains("had already ended: cancelled"));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_service_answers_is_scaled_and_ends_when_cancelled() {
    let place = KubernetesTarget::new();
    let ok = |words: &[&str]| place.ok(words);
    let job = "name: web\nkind: service\nreplicas: 2\nport: 8000\ngrace: 1s\nrun: |\n  echo serving on $PORT\n  while true; do echo hello | nc -l -p $PORT; done\n";
    submit(&place, job);
    let ready = |count: u32| {
        let shown: Value = serde_json::from_str(&ok(&["show", "web", "--json"])).unwrap();
        shown["job"]["service"]["ready"] == count && shown["job"]["state"] == "running"
    };
    until("two replicas answer", || ready(2));
    assert_eq!(ok(&["logs", "web[1]"]), "serving on 8000\n");
    // The test cluster has no proxy for the address of the Service, which has both replicas.
    let slices = place.namespace.objects("endpointslices", "kubernetes.io/service-name");
    let endpoints = slices[0]["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 2, "{slices:?}");
    let address = endpoints[0]["addresses"][0].as_str().unwrap();
    let ask = format!(
        "name: ask\ntime: 2m\nrun: until nc -w 2 {address} 8000 < /dev/null; do usleep 100000; done\n"
    );
    submit(&place, &ask);
    assert_eq!(place.call(&["wait", "ask"]).0, 0);
    assert!(ok(&["logs", "ask"]).contains("hello"));
    assert_eq!(ok(&["attach", "web[0]", "--", "echo", "beside it"]), "beside it\n");
    ok(&["scale", "web", "1"]);
    until("one replica is left", || ready(1));
    assert!(ok(&["ps"]).contains("1 of 1 ready"), "{}", ok(&["ps"]));
    ok(&["cancel", "web"]);
    until("its objects are gone", || {
        let is_gone = |kind| {
            place
                .namespace
                .objects(kind, "muster.run/job")
                .iter()
                .all(|object| !object["metadata"]["name"].as_str().unwrap().starts_with("web-"))
        };
        is_gone("deployments") && is_gone("services")
    });
}

/// A job whose dependency failed does not end by itself on Kubernetes: it says that it never starts.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn documents_of_a_file_wait_for_each_other() {
    let place = KubernetesTarget::new();
    let order = place.folder().join("order");
    let echo = |name: &str| format!("echo {name} >> {}", order.display());
    let text = format!(
        "name: prepare\nrun: sleep 1; {}\n---\nname: train\nafter: prepare\nrun: {}\n---\n\
         name: broken\nrun: exit 1\n---\nname: never\nafter: broken\nrun: {}\n---\n\
         name: anyway\nafter: [afterany:broken, train]\nrun: {}\n",
        echo("prepare"),
        echo("train"),
        echo("never"),
        echo("anyway")
    );
    submit(&place, &text);
    assert_eq!(place.call(&["wait", "anyway"]).0, 0);
    let explained = || place.call(&["explain", "never"]).1;
    until("it says that it never starts", || explained().contains("never starts"));
    assert_eq!(fs::read_to_string(&order).unwrap(), "prepare\ntrain\nanyway\n");
    // By its name, also after it has ended.
    let file = place.folder().join("later.yaml");
    fs::write(&file, format!("name: later\nrun: {}\n", echo("later"))).unwrap();
    let (code, stdout, stderr) = place.call(&["run", file.to_str().unwrap(), "--after", "train"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(place.call(&["wait", "later"]).0, 0);
}

/// Numbers are in no order on Kubernetes, so there are no ranges of them.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn many_jobs_are_selected_by_patterns_and_states() {
    let place = KubernetesTarget::new();
    for name in ["sweep-1", "sweep-2", "other"] {
        submit(&place, &format!("name: {name}\nhold: true\nrun: 'true'\n"));
    }
    let selected = |words: &[&str]| {
        let (code, stdout, stderr) = place.call(words);
        assert_eq!(code, 0, "{words:?}: {stdout}{stderr}");
        let names =
            stdout.lines().map(|line| line.split('-').next().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(selected(&["cancel", "--name", "sweep-*", "--dry-run"]).len(), 2);
    assert_eq!(selected(&["release", "--state", "held", "--dry-run"]).len(), 3);
    assert_eq!(selected(&["cancel", "--name", "sweep-?", "--yes"]), ["sweep", "sweep"]);
    assert_eq!(selected(&["cancel", "--state", "held", "--dry-run"]), ["other"]);
    let (code, stdout, stderr) = place.call(&["cancel", "other", "no-such"]);
    assert!(code == 4 && stdout.is_empty(), "{code}: {stdout}{stderr}");
    let (code, ..) = place.call(&["cancel"]);
    assert_eq!(code, 2, "an empty selection does not mean all");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn errors_of_a_job_are_told_with_the_next_step() {
    let place = KubernetesTarget::new();
    // 1. An image that does not exist keeps the job from starting.
    submit(&place, "name: no-image\nrun: true\nkubernetes: {image: 'localhost/no-such:1'}\n");
    until("the list names the image", || {
        let (_, listed, _) = place.call(&["ps"]);
        listed.contains("check the name of the image")
    });
    // 2. A namespace that does not exist, and roles without JobSet, are refused before anything is made.
    let (code, _, stderr) =
        run(&place, "name: lost\nrun: true\nkubernetes: {namespace: no-such}\n");
    assert!(code == 4 && stderr.contains("no-such"), "{code}: {stderr}");
    let roles = "name: roles\ngroups: [{name: a, tasks: 1, run: 'true'}, {name: b, tasks: 1, run: 'true'}]\n";
    let (code, _, stderr) = run(&place, roles);
    assert!(code == 1 && stderr.contains("JobSet"), "{code}: {stderr}");
    assert!(place.namespace.objects("services", "muster.run/job").is_empty());
}

/// Returns the checks of a report with their outcomes and texts.
fn verified(place: &KubernetesTarget, job: &str) -> (i32, Vec<(String, String, String)>) {
    let (code, stdout, stderr) = place.call(&["verify", job, "--json"]);
    let report: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    let text = |check: &Value, field: &str| check[field].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    let row = |check: &Value| (text(check, "check"), text(check, "outcome"), text(check, "says"));
    (code, checks.map(row).collect())
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_running_gang_is_verified_and_starts_again() {
    let place = KubernetesTarget::new();
    let ok = |words: &[&str]| place.ok(words);
    let folder = place.folder();
    let gate = folder.join("may-end");
    let starts = folder.join("starts");
    let all = place.all_of_it();
    let run = format!(
        "{all}\ntasks-per-node: 2\ntime: 10m\ngrace: 1s\nrun: |\n  echo $RANK >> {}\n  until [ -e {} ]; do usleep 50000; done\n",
        starts.display(),
        gate.display()
    );
    let started = || fs::read_to_string(&starts).unwrap_or_default().lines().count();
    submit(&place, &format!("name: train\n{run}"));
    until("all ranks run", || started() == 4 && ok(&["ps"]).contains("running"));
    // 1. It is whole, and each rank has the GPUs of its container.
    let (code, checks) = verified(&place, "train");
    let outcome = |id: &str| {
        let check = checks.iter().find(|(check, ..)| check == id).unwrap();
        (check.1.as_str(), check.2.as_str())
    };
    assert_eq!(outcome("whole"), ("passed", "4 ranks on 2 nodes"), "{checks:?}");
    assert_eq!(outcome("devices"), ("passed", "8 GPUs, each of one rank"), "{checks:?}");
    assert_eq!(outcome("shared-memory").0, "passed", "{checks:?}");
    assert_eq!(outcome("leaf-switches"), ("passed", "2 nodes below 1 leaf switch"), "{checks:?}");
    assert_eq!(outcome("transport").0, "not-tested", "{checks:?}");
    assert_eq!(code, 0, "{checks:?}");
    // 2. Its ranks start again, on the same terms.
    assert!(ok(&["requeue", "train"]).contains("requeued"));
    until("all ranks run again", || started() == 8 && ok(&["ps"]).contains("running"));
    // 3. It is charged, from the start of its present pods: a time of Kubernetes has whole seconds.
    until("its GPU time is that of its namespace", || {
        let used: Value = serde_json::from_str(&ok(&["usage", "--json"])).unwrap();
        let mut rows = used["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["user"] == place.namespace.name()).unwrap();
        row["jobs"] == 1 && row["gpu_secs"].as_u64().unwrap() > 0
    });
    fs::write(&gate, "").unwrap();
    assert_eq!(place.call(&["wait", "train"]).0, 0);
    let (code, _, stderr) = place.call(&["requeue", "train"]);
    assert!(code == 1 && stderr.contains("had already ended"), "{code}: {stderr}");
    // 4. A setting that leaves a rank one of its two GPUs is found.
    fs::remove_file(&gate).unwrap();
    submit(&place, &format!("name: blind\nenv: {{CUDA_VISIBLE_DEVICES: '0'}}\n{run}"));
    until("it runs", || started() == 12 && ok(&["ps"]).contains("running"));
    let (code, checks) = verified(&place, "blind");
    let devices = checks.iter().find(|(check, ..)| check == "devices").unwrap();
    assert_eq!((code, devices.1.as_str()), (1, "failed"), "{checks:?}");
    ok(&["cancel", "blind"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_folder_is_sent_with_a_job() {
    let place = KubernetesTarget::new();
    let code = place.folder().join("code");
    fs::create_dir_all(code.join("model/.git")).unwrap();
    fs::write(code.join("model/net.txt"), "layers").unwrap();
    fs::write(code.join("model/.git/config"), "x").unwrap();
    fs::write(code.join("train.sh"), "#!/bin/sh\ncat model/net.txt\necho 1 > progress\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(code.join("train.sh"), executable).unwrap();
    let all = place.all_of_it();
    // It runs in the folder with the files, which the tasks of a pod share, and can write there.
    let job = format!(
        "name: sent\n{all}\ntasks-per-node: 2\nrun: ./train.sh && pwd && ls -a model\nkubernetes: {{send: code}}\n"
    );
    submit(&place, &job);
    assert_eq!(place.call(&["wait", "sent"]).0, 0, "{}", place.ok(&["show", "sent"]));
    for rank in ["0", "3"] {
        let said = place.ok(&["logs", "sent", "-r", rank]);
        assert_eq!(said, "layers/workdir\n.\n..\nnet.txt\n");
    }
    // The object with the files goes with the job.
    let files = || place.namespace.objects("configmaps", "muster.run/job");
    assert_eq!(files().len(), 1);
    let name = files()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let cluster = KubernetesCluster::here();
    cluster.kubectl(&["delete", "job", &name, "--namespace", place.namespace.name()]);
    until("the files are deleted, too", || files().is_empty());
    // What cannot be sent is told before anything is made.
    fs::write(code.join("weights.bin"), vec![0; 2_000_000]).unwrap();
    let (code, _, stderr) = run(&place, &job);
    assert!(code == 1 && stderr.contains("weights.bin with 2000 kB"), "{code}: {stderr}");
    let (code, _, stderr) = run(&place, &job.replace("send: code", "send: cod"));
    assert!(code == 1 && stderr.contains("cannot read"), "{code}: {stderr}");
    assert!(files().is_empty());
}

/// Server of the repositories of a folder, at the address at which pods reach this machine.
struct GitServer(Child);

impl GitServer {
    const ADDRESS: &str = "10.99.0.1";

    fn start(folder: &Path) -> Self {
        let base = format!("--base-path={}", folder.display());
        let listen = format!("--listen={}", Self::ADDRESS);
        let words = ["daemon", "--reuseaddr", "--export-all", &base, &listen];
        let server = Self(Command::new("git").args(words).spawn().unwrap());
        until("the server listens", || TcpStream::connect((Self::ADDRESS, 9418)).is_ok());
        server
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        // git starts the server as a process of its own, which ends on this signal.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_repository_is_fetched_for_a_job() {
    let place = KubernetesTarget::new();
    let source = place.folder().join("train");
    fs::create_dir(&source).unwrap();
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
        let output =
            Command::new("git").args(identity).args(words).current_dir(&source).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "."]);
    fs::write(source.join("net.txt"), "layers").unwrap();
    git(&["add", "net.txt"]);
    git(&["commit", "--quiet", "--message", "layers"]);
    let commit = git(&["rev-parse", "HEAD"]);
    fs::write(source.join("net.txt"), "other").unwrap();
    git(&["commit", "--quiet", "--all", "--message", "other"]);
    let server = GitServer::start(&place.folder());
    let cluster = KubernetesCluster::here();
    let words = ["image", "localhost/git:1", "/usr/bin/git"];
    success(&words, &cluster.xtask(&words));

    // The tasks of all pods run in the folder with the files, and can write there.
    let all = place.all_of_it();
    let url = format!("url: 'git://{}/train', image: 'localhost/git:1'", GitServer::ADDRESS);
    let job = |name: &str, reference: &str| {
        format!(
            "name: {name}\n{all}\ntasks-per-node: 2\nrun: cat net.txt && pwd && touch progress\n\
             kubernetes: {{git: {{{url}, ref: {reference}}}}}\n"
        )
    };
    submit(&place, &job("cloned", &commit));
    assert_eq!(place.call(&["wait", "cloned"]).0, 0, "{}", place.ok(&["show", "cloned"]));
    for rank in ["0", "3"] {
        assert_eq!(place.ok(&["logs", "cloned", "-r", rank]), "layers/workdir\n");
    }
    // What cannot be fetched, or not with this image, is in the log.
    submit(&place, &job("missing", "none"));
    assert_eq!(place.call(&["wait", "missing"]).0, 1);
    let said = place.ok(&["logs", "missing"]);
    assert!(said.contains("none of git://") && said.contains("cannot be fetched"), "{said}");
    submit(&place, &job("without", "none").replace(", image: 'localhost/git:1'", ""));
    assert_eq!(place.call(&["wait", "without"]).0, 127);
    let said = place.ok(&["logs", "without"]);
    assert!(said.contains("the image has no git"), "{said}");
    drop(server);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gpu_model_is_found_by_the_labels_of_nodes() {
    let place = KubernetesTarget::new();
    let cluster = KubernetesCluster::here();
    // All nodes of the test cluster have such a label.
    let label = |product: &str| {
        let label = format!("nvidia.com/gpu.product={product}");
        cluster.kubectl(&["label", "--overwrite", "node", "node1", &label]);
    };
    let on = |model: &str| format!("name: model\ngpus: 1\ngpu: {model}\nrun: 'true'\n");
    label("NVIDIA-L40S");
    let (code, _, stderr) = run(&place, &on("b200"));
    submit(&place, &on("h100"));
    let ended = place.call(&["wait", "model"]).0;
    let shown: Value = serde_json::from_str(&place.ok(&["show", "model", "--json"])).unwrap();
    label("NVIDIA-H100-80GB-HBM3");
    assert!(code == 1 && stderr.contains("models of its nodes: h100, l40s"), "{code}: {stderr}");
    assert_eq!(ended, 0);
    assert_eq!(shown["job"]["elements"][0]["tasks"][0]["node"], "node2", "{shown}");
}

/// Submits a job whose program runs these commands, then waits for the file `may-end`, and writes a line
/// to `up` once it does.
fn submit_with_handler(place: &KubernetesTarget, name: &str, fields: &str, commands: &str) {
    let folder = place.folder();
    let program = folder.join(format!("{name}.sh"));
    let text = format!(
        "{commands}\necho up >> {}\nuntil [ -e {} ]; do usleep 50000; done\n",
        folder.join(format!("{name}-up")).display(),
        folder.join("may-end").display()
    );
    fs::write(&program, text).unwrap();
    let run = format!("run: |\n  sh {}\n  echo ended with $?\n", program.display());
    submit(place, &format!("name: {name}\ntime: 10m\ngrace: 1s\n{fields}\n{run}"));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gang_saves_on_request() {
    let place = KubernetesTarget::new();
    let up = |name: &str| {
        let path = place.folder().join(format!("{name}-up"));
        fs::read_to_string(path).unwrap_or_default().lines().count()
    };
    let asked = |words: &[&str], code: i32, text: &str| {
        let (ended, stdout, stderr) = place.call(&[&["checkpoint"][..], words].concat());
        assert!(
            ended == code && (stdout.clone() + &stderr).contains(text),
            "{words:?}: {ended}: {stdout}{stderr}"
        );
    };
    let saves = "trap 'echo step $RANK > $MUSTER_CHECKPOINT_FILE' USR1";
    let gang = format!("{}\ncheckpoint: {{grace: 60s, by: all}}", place.all_of_it());
    submit_with_handler(&place, "gang", &gang, saves);
    submit_with_handler(&place, "deaf", "checkpoint: {grace: 3s}", "true");
    submit_with_handler(&place, "silent", "checkpoint: {grace: 3s}", "trap : USR1");
    submit_with_handler(
        &place,
        "leaves",
        "checkpoint: {signal: USR2, grace: 60s}",
        "trap 'exit 3' USR2",
    );
    submit_with_handler(&place, "plain", "", saves);
    until("all of them run", || {
        ["gang", "deaf", "silent", "leaves", "plain"].map(up) == [2, 1, 1, 1, 1]
            && place.ok(&["ps"]).matches(" running ").count() == 5
    });
    // 1. Every rank acknowledges, more than once, and the shells around the programs go on.
    asked(&["gang"], 0, "checkpoint requested");
    for _ in 0..2 {
        asked(&["gang", "--wait"], 0, "saved its progress (step ");
    }
    // 2. Without a handler, without an acknowledgement, and with an end in its place.
    asked(&["deaf", "--wait"], 124, "no process of it handles SIGUSR1");
    asked(&["silent", "--wait"], 124, "did not acknowledge in time");
    asked(&["leaves", "--wait"], 1, "ended before it acknowledged");
    assert_eq!(place.call(&["wait", "leaves"]).0, 0);
    assert_eq!(place.ok(&["logs", "leaves"]), "ended with 3\n");
    // 3. What cannot be asked says why.
    asked(&["plain"], 1, "has no checkpoint signal");
    asked(&["gang", "--saved", "step 9"], 1, "acknowledge a checkpoint themselves");
    asked(&["leaves"], 1, "has ended");
    asked(&["nowhere"], 4, "nowhere");
    fs::write(place.folder().join("may-end"), "").unwrap();
    for name in ["gang", "deaf", "silent", "plain"] {
        assert_eq!(place.call(&["wait", name]).0, 0, "{name}");
        assert_eq!(place.ok(&["logs", name, "-r", "0"]), "ended with 0\n", "{name}");
    }
}
