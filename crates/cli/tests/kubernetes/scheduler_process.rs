//! `muster scheduler` on the test cluster, with exactly the rights of the manifests that
//! `muster init kubernetes` prints.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{KubernetesCluster, success};

/// Longest wait for a log line, or an end; a lease of a killed process lasts 15 seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks whether the process runs.
const LOOK: Duration = Duration::from_millis(100);

/// Running scheduler process; it ends, and gives its lease back, when this is dropped. As the pods of a
/// Deployment it is started again when it ends with an error: on a machine that stands still for ten
/// seconds it loses its lease.
pub struct SchedulerProcess {
    /// `None` once it is to end for good.
    child: Arc<Mutex<Option<Child>>>,
    dir: tempfile::TempDir,
}

impl SchedulerProcess {
    /// Installs the rights, and starts a process that waits for the lease.
    pub fn start(cluster: &KubernetesCluster) -> Self {
        Self::start_with(cluster, &[], &[])
    }

    /// Does the same with options of the manifests, and of the program.
    pub fn start_with(cluster: &KubernetesCluster, manifests: &[&str], options: &[&str]) -> Self {
        let program = env!("CARGO_BIN_EXE_muster");
        let words = [&["init", "kubernetes", "--image", "none"], manifests].concat();
        let manifests = success(&words, &Command::new(program).args(&words).output().unwrap());
        // The processes of this test take the place of those of the Deployment.
        let is_deployment = |document: &&str| document.contains("kind: Deployment");
        let manifests: Vec<&str> =
            manifests.split("---\n").filter(|document| !is_deployment(document)).collect();
        let words = ["apply", "--filename=-"];
        success(&words, &cluster.kubectl_with(&words, &manifests.join("---\n")));
        for plural in ["queues", "advancereservations"] {
            let name = format!("{plural}.muster.run");
            if manifests.iter().any(|document| document.contains(&format!("\"{name}\""))) {
                let definition = format!("customresourcedefinition/{name}");
                cluster.wait(&definition, "condition=Established");
            }
        }
        let words = ["kubeconfig", "muster-system/muster-scheduler"];
        let kubeconfig = success(&words, &cluster.xtask(&words));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
        let mut command = Command::new(program);
        command
            .arg("scheduler")
            .args(options)
            .env("KUBECONFIG", dir.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stderr(
                File::options().append(true).create(true).open(dir.path().join("log")).unwrap(),
            );
        let child = Arc::new(Mutex::new(Some(command.spawn().unwrap())));
        let kept = Arc::clone(&child);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(LOOK);
                let mut child = kept.lock().unwrap();
                let Some(running) = &mut *child else { return };
                if running.try_wait().unwrap().is_some_and(|status| !status.success()) {
                    *running = command.spawn().unwrap();
                }
            }
        });
        Self { child, dir }
    }

    /// Starts a process, and waits until it schedules.
    pub fn active(cluster: &KubernetesCluster) -> Self {
        Self::active_with(cluster, &[])
    }

    /// Starts a process with further options, and waits until it schedules.
    pub fn active_with(cluster: &KubernetesCluster, options: &[&str]) -> Self {
        let process = Self::start_with(cluster, &[], options);
        process.waits_for_line("the cluster is listed");
        process
    }

    /// Starts a process with the queues of Kueue, and the rights for them, and waits until it schedules.
    pub fn active_with_kueue(cluster: &KubernetesCluster) -> Self {
        let option = ["--queues-from=kueue"];
        let process = Self::start_with(cluster, &option, &option);
        process.waits_for_line("the cluster is listed");
        process
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Returns the answer to a request, with its head. The process listens at the first free port.
    pub fn http(&self, path: &str) -> String {
        self.waits_for_line("serving http://");
        let log = self.log();
        let (_, served) = log.rsplit_once("serving http://").unwrap();
        let mut stream = TcpStream::connect(served.split('/').next().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Waits until the process has logged a line with this text.
    pub fn waits_for_line(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < PATIENCE, "no line with {text:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the process as a debugger or a full machine does, or lets it go on.
    pub fn pause(&self, is_paused: bool) {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        let child = self.child.lock().unwrap();
        kill_process(Pid::from_child(child.as_ref().unwrap()), signal).unwrap();
    }

    /// Kills the process for good. It has no time to give its lease back.
    pub fn kill(self) {
        let mut child = self.child.lock().unwrap().take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            if child.try_wait().is_ok_and(|ended| ended.is_none()) {
                // It may end by itself in between.
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            }
            let status = child.wait();
            assert!(status.is_ok() || std::thread::panicking());
        }
        if std::thread::panicking() {
            eprintln!("the scheduler's log:\n{}", self.log());
        }
    }
}
