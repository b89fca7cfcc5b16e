//! User of the test site: runs the binary as a given user, with that user's own directory and
//! nothing of root's.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use muster_api::types::{JobDetail, SubmitResponse};
use muster_model::view::{JobState, JobView};
use serde::de::DeserializeOwned;

use crate::site::SharedSite;

/// An entry of the user database.
#[derive(Clone, Debug)]
pub struct UnixAccount {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

impl UnixAccount {
    /// Two accounts that are there already: the user database of the machine is left alone. Debian
    /// and its kin, Fedora and Alpine all have some of these; they own no files and run nothing.
    pub fn two() -> [Self; 2] {
        let database = fs::read_to_string("/etc/passwd").unwrap();
        let find = |name: &&str| {
            let line = database.lines().find(|line| line.split(':').next() == Some(*name))?;
            let field = |n: usize| line.split(':').nth(n)?.parse().ok();
            Some(Self { name: (*name).to_owned(), uid: field(2)?, gid: field(3)? })
        };
        let mut found = ["games", "bin", "daemon", "news", "nobody"].iter().filter_map(find);
        [found.next().unwrap(), found.next().unwrap()]
    }
}

/// A user of a site.
#[derive(Clone, Copy)]
pub struct SiteUser<'a> {
    pub site: &'a SharedSite,
    pub account: &'a UnixAccount,
}

/// Result of a run of the binary.
#[derive(Debug)]
pub struct SiteRun {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl SiteRun {
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

    /// Returns stdout and stderr.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl SiteUser<'_> {
    /// Returns the user's own directory.
    pub fn home(&self) -> PathBuf {
        match self.account.uid {
            0 => PathBuf::from("/"),
            _ => self.site.home(self.account),
        }
    }

    /// Runs a program as this user, in the user's directory.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        // Dropping root's supplementary groups comes with `uid`.
        command.uid(self.account.uid).gid(self.account.gid);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home())
            .env("MUSTER_SOCKET", self.site.socket())
            .env("TZ", "UTC")
            .env("LANG", "C.UTF-8")
            .current_dir(self.home())
            .stdin(Stdio::null());
        command
    }

    /// Returns a command for the binary as this user.
    pub fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.program(self.site.binary());
        command.args(args);
        command
    }

    /// Runs the binary to its end.
    pub fn muster(&self, args: &[impl AsRef<OsStr>]) -> SiteRun {
        SiteRun::of(self.command(args).output().unwrap())
    }

    /// Runs the binary with arguments separated by blanks.
    pub fn words(&self, words: &str) -> SiteRun {
        self.muster(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs a shell script as this user, outside of Muster.
    pub fn shell(&self, script: &str) -> SiteRun {
        SiteRun::of(self.program("/bin/sh").arg("-c").arg(script).output().unwrap())
    }

    /// Returns the command that submits a script, so that its environment can be extended.
    pub fn submission(&self, options: &str, script: &str) -> Command {
        let mut args = vec!["run", "--json"];
        args.extend(options.split_whitespace());
        args.extend(["--", "sh", "-c", script]);
        self.command(&args)
    }

    /// Submits a script and returns the job's number.
    #[track_caller]
    pub fn submit(&self, options: &str, script: &str) -> u64 {
        number(self.submission(options, script))
    }

    /// Submits a script, waits until it has succeeded, and returns its output.
    #[track_caller]
    pub fn output_of(&self, options: &str, script: &str) -> String {
        let job = self.submit(options, script);
        self.result(job)
    }

    /// Waits until a job has succeeded, and returns its output.
    #[track_caller]
    pub fn result(&self, job: u64) -> String {
        let ended = self.words(&format!("wait {job}"));
        let said = self.words(&format!("logs {job}"));
        assert_eq!(ended.code, 0, "{}\n{}", ended.text(), said.text());
        said.ok().stdout
    }

    /// Returns the view of a job for this user.
    #[track_caller]
    pub fn show(&self, job: u64) -> JobDetail {
        self.words(&format!("show {job} --json")).json()
    }

    /// Waits until a job is in a state.
    #[track_caller]
    pub fn until_state(&self, job: u64, state: JobState) -> JobView {
        self.site
            .until(&format!("job {job} is {}", state.word()), || self.show(job).job.state == state);
        self.show(job).job
    }

    /// Writes a file in the user's directory, as the user.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home().join(name);
        let file = self
            .program("/bin/sh")
            .args(["-c", "cat > \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn();
        let mut child = file.unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        path
    }

    /// Reads a file of the user's directory; empty if it does not exist.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home().join(name)).unwrap_or_default()
    }

    /// Returns a shell command that waits for a file of the user's directory, by which a test holds
    /// a job until it opens the gate.
    pub fn gate(&self, name: &str) -> String {
        format!("while [ ! -e {} ]; do sleep 0.02; done", self.home().join(name).display())
    }
}

/// Runs a submission and returns the job's number.
#[track_caller]
pub fn number(mut submission: Command) -> u64 {
    let response: SubmitResponse = SiteRun::of(submission.output().unwrap()).json();
    assert_eq!(response.jobs.len(), 1);
    response.jobs[0].job.0
}
