//! Calls of `muster --on slurm` as a user of the cluster, with their output.

use std::process::{Command, Output};
use std::sync::Once;

use serde_json::Value;

use crate::cluster::{SlurmCluster, User};

/// User of the cluster on a login node.
pub struct Muster<'a> {
    pub cluster: &'a SlurmCluster,
    user: User,
    home: String,
}

/// Exit code and output of a call.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

impl<'a> Muster<'a> {
    pub fn of(cluster: &'a SlurmCluster, user: User) -> Self {
        // Other users may have no access to the build directory.
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            std::fs::copy(env!("CARGO_BIN_EXE_muster"), cluster.work().join("muster")).unwrap();
        });
        let home = cluster.work().join(format!("home-{}", user.name()));
        cluster.output_as(user, &["mkdir", "-p", home.to_str().unwrap()]);
        Self { cluster, user, home: home.to_string_lossy().into_owned() }
    }

    /// Returns a command of this user, without running it.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_under(&[], words)
    }

    /// Runs a command and kills it after a time.
    pub fn killed_after(&self, millis: u64, words: &[&str]) -> CommandOutput {
        let secs = format!("{}.{:03}", millis / 1000, millis % 1000);
        let mut command = self.command_under(&["timeout", "--signal=KILL", &secs], words);
        CommandOutput::of(&command.output().unwrap())
    }

    fn command_under(&self, before: &[&str], words: &[&str]) -> Command {
        let mut command = self.program(before);
        command.arg(self.cluster.work().join("muster")).args(words);
        command
    }

    /// Returns a command that runs another program in the environment of this user.
    pub fn program(&self, words: &[&str]) -> Command {
        let mut command = self.cluster.command_of(self.user);
        command.args(["env", "-u", "MUSTER_HOME", "-u", "XDG_STATE_HOME", "MUSTER_ON=slurm"]);
        command.arg(format!("HOME={}", self.home)).args(words);
        command
    }

    pub fn call(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::of(&self.command(words).output().unwrap())
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn output(&self, words: &[&str]) -> String {
        let said = self.call(words);
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
        said.stdout
    }

    pub fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.output(&[words, &["--json"]].concat())).unwrap()
    }

    /// Submits a job file; returns the numbers of its jobs.
    pub fn submit(&self, text: &str) -> Vec<u64> {
        let file = self.cluster.work().join(format!("job-{:016x}.yaml", fxhash(text)));
        std::fs::write(&file, text).unwrap();
        let answer = self.json(&["run", file.to_str().unwrap()]);
        answer["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_u64().unwrap()).collect()
    }

    /// Returns a job from `show`.
    pub fn job(&self, job: u64) -> Value {
        self.json(&["show", &job.to_string()])["job"].clone()
    }

    pub fn state(&self, job: u64) -> String {
        self.job(job)["state"].as_str().unwrap().to_owned()
    }

    /// Waits until a job has a state.
    pub fn reaches(&self, job: u64, state: &str) {
        self.cluster.until(&format!("job {job} {state}"), || self.state(job) == state);
    }

    pub fn cancel(&self, jobs: &[u64]) {
        for job in jobs {
            let _ = self.call(&["cancel", &job.to_string()]);
        }
    }
}

/// Cancels the user's jobs after a failed test, so that they do not disturb the next one.
impl Drop for Muster<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A second panic would end all tests and hide the first.
            let _ = self.cluster.succeeds(&["scancel", "--user", self.user.name()]);
        }
    }
}

/// Returns a name for a text.
fn fxhash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
