//! Test home: a directory, environment and daemon for one test. The daemon is stopped at the end,
//! also if the test fails.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use muster_api::types::{DaemonInfo, JobDetail, JobList, SubmitResponse};
use muster_model::view::{JobState, JobView};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

/// Longest wait for a condition; far more than needed, for busy machines.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub struct Home {
    dir: tempfile::TempDir,
    /// Process id of the last daemon that answered, to kill it if it does not exit.
    daemon: Cell<Option<u32>>,
    /// Ends when the daemon that this test started itself is gone with all its threads.
    reaper: RefCell<Option<JoinHandle<()>>>,
}

/// Result of a run of the binary.
#[derive(Debug)]
pub struct HomeRun {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl HomeRun {
    /// Returns the result of a finished process.
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Fails the test unless the exit code is this one.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless it succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Returns stdout parsed as JSON.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(self) -> T {
        let run = self.ok();
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}:\n{}", run.stdout))
    }
}

impl Home {
    /// Returns a home without a daemon.
    pub fn new() -> Self {
        let home = Self {
            dir: tempfile::tempdir().unwrap(),
            daemon: Cell::new(None),
            reaper: RefCell::new(None),
        };
        fs::create_dir(home.path("home")).unwrap();
        home
    }

    /// Returns a home with a daemon of `count` simulated GPUs.
    pub fn with_gpus(count: u32) -> Self {
        let home = Self::new();
        home.start_daemon(Some(count));
        home
    }

    /// Returns a path in the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file in the home.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Reads a file of the home; empty if it does not exist.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns a command for the binary, with a clean environment.
    pub fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("MUSTER_HOME", self.path("m"))
            .env("TZ", "UTC")
            .env("LANG", "C.UTF-8")
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn muster(&self, args: &[impl AsRef<OsStr>]) -> HomeRun {
        let run = HomeRun::of(self.command(args).output().unwrap());
        if self.daemon.get().is_none() {
            self.remember();
        }
        run
    }

    /// Runs the binary with arguments separated by blanks.
    pub fn words(&self, words: &str) -> HomeRun {
        self.muster(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs the binary with text on stdin.
    pub fn with_stdin(&self, args: &[&str], text: &str) -> HomeRun {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses its arguments ends before it reads.
        let _is_read = child.stdin.take().unwrap().write_all(text.as_bytes());
        let run = HomeRun::of(child.wait_with_output().unwrap());
        self.remember();
        run
    }

    /// Starts the binary with its output piped.
    pub fn spawn(&self, args: &[impl AsRef<OsStr>]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts a daemon and waits until it listens. Retries while the state is locked: if a daemon
    /// is killed while it starts a task, that child briefly inherits its lock.
    pub fn start_daemon(&self, gpus: Option<u32>) {
        self.until("a daemon listens", || match self.try_daemon(gpus) {
            Ok(()) => true,
            Err(said) if said.contains("another daemon uses this state") => false,
            Err(said) => panic!("{said}\n{}", self.read("m/daemon.log")),
        });
    }

    /// Starts a daemon with terminal signals ignored, as by `nohup` and by `&` in a script.
    pub fn start_daemon_deaf(&self) {
        let plain = self.command(&["serve".to_owned(), "--background".to_owned()]);
        let mut deaf = Command::new("sh");
        deaf.args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"]);
        deaf.arg(plain.get_program()).args(plain.get_args());
        let own = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
        deaf.env_clear().envs(own).current_dir(self.dir.path()).stdin(Stdio::null());
        self.daemon_of(deaf).unwrap();
    }

    fn try_daemon(&self, gpus: Option<u32>) -> Result<(), String> {
        let mut args = vec!["serve".to_owned(), "--background".to_owned()];
        args.extend(gpus.map(|count| format!("--virtual-gpus={count}")));
        self.daemon_of(self.command(&args))
    }

    fn daemon_of(&self, mut command: Command) -> Result<(), String> {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut said = vec![0];
        stdout.read_exact(&mut said).unwrap();
        if said != b"1" {
            stdout.read_to_end(&mut said).unwrap();
            child.wait().unwrap();
            return Err(String::from_utf8_lossy(&said).into_owned());
        }
        self.daemon.set(Some(child.id()));
        let reap = move || drop(child.wait());
        *self.reaper.borrow_mut() = Some(std::thread::spawn(reap));
        Ok(())
    }

    fn remember(&self) {
        if let Ok(output) = self.command(&["info"]).output()
            && let Ok(info) = serde_json::from_slice::<DaemonInfo>(&output.stdout)
        {
            self.daemon.set(Some(info.pid));
        }
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    pub fn kill_daemon(&self) {
        kill(self.daemon.get().unwrap());
        self.reaper.borrow_mut().take().unwrap().join().unwrap();
    }

    /// Resets the peak memory of the daemon, and returns the memory in use in bytes.
    pub fn reset_peak(&self) -> u64 {
        fs::write(format!("/proc/{}/clear_refs", self.daemon.get().unwrap()), "5").unwrap();
        self.peak_bytes()
    }

    /// Returns the peak memory of the daemon since the reset, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.daemon.get().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Submits a command and returns the job's number.
    pub fn run(&self, options: &str, command: &[&str]) -> u64 {
        let mut args: Vec<&str> = vec!["run", "--json"];
        args.extend(options.split_whitespace());
        args.push("--");
        args.extend(command);
        let response: SubmitResponse = self.muster(&args).json();
        assert_eq!(response.jobs.len(), 1);
        response.jobs[0].job.0
    }

    /// Submits a shell script and returns the job's number.
    pub fn sh(&self, options: &str, script: &str) -> u64 {
        self.run(options, &["sh", "-c", script])
    }

    /// Returns the view of a job.
    pub fn job(&self, job: u64) -> JobView {
        self.words(&format!("show {job} --json")).json::<JobDetail>().job
    }

    /// Returns all jobs, including ended ones.
    pub fn jobs(&self) -> Vec<JobView> {
        self.words("ps -a --json").json::<JobList>().jobs
    }

    /// Waits until a job is in a state.
    pub fn until_state(&self, job: u64, state: JobState) {
        self.until(&format!("job {job} is {}", state.word()), || self.job(job).state == state);
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        self.until_within(PATIENCE, what, condition);
    }

    /// Waits until a condition holds, for no longer than a time.
    #[track_caller]
    pub fn until_within(&self, patience: Duration, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + patience;
        while !condition() {
            assert!(
                Instant::now() < deadline,
                "{what}: not within {patience:?}\n{}",
                self.read("m/daemon.log")
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Returns a shell command that waits for a file of the home, by which a test holds a job until
    /// [`Home::open`].
    pub fn gate(&self, name: &str) -> String {
        format!("while [ ! -e {} ]; do sleep 0.02; done", self.path(name).display())
    }

    /// Opens a gate, so that the jobs waiting at it continue.
    pub fn open(&self, name: &str) {
        self.write(name, "");
    }

    /// Returns the pids of this home's processes whose command line contains a word.
    pub fn pids_of(&self, word: &str) -> Vec<u32> {
        let home = self.dir.path().to_str().unwrap().to_owned();
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(word) && (line.contains(&home) || in_environment(*pid, &home))
        })
        .collect()
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let stopped = self.command(&["stop-daemon", "--cancel"]).output();
        let code = stopped.ok().and_then(|output| output.status.code());
        // Code 3 means that no daemon runs. Any other failure means that it hangs, and the test has
        // failed anyway.
        if !matches!(code, Some(0 | 3))
            && let Some(pid) = self.daemon.get().filter(|pid| alive(*pid))
        {
            kill(pid);
        }
        // Kill supervisors that a killed daemon left behind, with their tasks.
        if code != Some(0) {
            for pid in self.pids_of("") {
                kill(pid);
            }
        }
    }
}

fn in_environment(pid: u32, home: &str) -> bool {
    let wanted = format!("MUSTER_HOME={home}/m");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes())
}

/// Sends SIGKILL to a process that this test started.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Returns whether a process runs; a zombie does not.
pub fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
        .unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|state| state != "Z")
}
