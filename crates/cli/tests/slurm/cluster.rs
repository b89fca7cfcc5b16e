//! The cluster as a test sees it: commands as one of its users with a deadline, a condition to wait
//! for, REST, and the end of a daemon. It knows nothing of what is tested.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Longest wait for what should come about by itself; far above what it takes, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// No command of Slurm takes longer, except one whose controller does not answer.
const COMMAND_SECS: &str = "30";

/// System accounts of every Debian machine, each with a group of its own name, which the cluster
/// knows as users. `nobody` is none of them: later versions of Slurm reserve that name.
#[derive(Clone, Copy, Debug)]
pub enum User {
    /// Of account vision, and of intern, whose GPUs are limited.
    Mail,
    /// Of accounts vision and language.
    Games,
    /// Of account language.
    News,
    /// Of account lab; alone of these, root can log in.
    Root,
}

impl User {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Games => "games",
            Self::News => "news",
            Self::Root => "root",
        }
    }
}

/// The running cluster.
pub struct Cluster {
    dir: PathBuf,
}

impl Cluster {
    /// The one that the test command started.
    pub fn here() -> Self {
        let dir = std::env::var_os("MUSTER_TEST_SLURM").expect("run by cargo xtask slurm test");
        Self { dir: dir.into() }
    }

    /// One line of what the cluster says of itself.
    pub fn fact(&self, name: &str) -> String {
        let facts = fs::read_to_string(self.dir.join("facts")).unwrap();
        let line = facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in: {facts}")).to_owned()
    }

    /// The folder of the stand-ins for GPUs.
    pub fn devices(&self) -> PathBuf {
        self.dir.join("dev")
    }

    /// How its controller is set up.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("etc/slurm.conf")
    }

    /// The folder that all users share, as users of a real cluster share their homes.
    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// What root's command says.
    pub fn said(&self, words: &[&str]) -> String {
        finish(Command::new("timeout").arg(COMMAND_SECS).args(words))
    }

    /// True when root's command succeeds.
    pub fn succeeds(&self, words: &[&str]) -> bool {
        Command::new("timeout").arg(COMMAND_SECS).args(words).output().unwrap().status.success()
    }

    /// What a user's command says.
    pub fn said_to(&self, user: User, words: &[&str]) -> String {
        let mut command = Command::new("timeout");
        command.arg(COMMAND_SECS).args(becoming(user)).args(words);
        finish(command.current_dir(self.work()))
    }

    /// What follows runs as a user, for as long as the longest wait.
    pub fn command_of(&self, user: User) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg((3 * PATIENCE).as_secs().to_string())
            .args(becoming(user))
            .current_dir(self.work());
        command
    }

    /// Submits a script as a user; its end takes the job with it.
    pub fn submit(&self, user: User, options: &[&str], body: &str) -> Job<'_> {
        let script = format!("#!/bin/sh\n{body}\n");
        let words =
            [&["sbatch", "--parsable", "--mem=1000"], options, &["--wrap", &script]].concat();
        Job { cluster: self, id: self.said_to(user, &words).trim().to_owned() }
    }

    /// Waits for a condition.
    pub fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        self.wait(what, PATIENCE, holds);
    }

    /// The same for what Slurm takes minutes for.
    pub fn until_patiently(&self, what: &str, holds: impl FnMut() -> bool) {
        self.wait(what, 10 * PATIENCE, holds);
    }

    fn wait(&self, what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < patience,
                "{what}: not within {patience:?}\n{}",
                self.said(&["squeue"])
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// `cargo xtask slurm VERB NAME` on this cluster.
    pub fn daemon(&self, verb: &str, name: &str) {
        finish(&mut self.xtask(verb, name));
    }

    fn xtask(&self, verb: &str, name: &str) -> Command {
        let mut command =
            Command::new(std::env::var_os("MUSTER_XTASK").expect("run by cargo xtask slurm test"));
        command.args(["slurm", verb, name]).arg(&self.dir);
        command
    }

    /// What slurmrestd knows a user by, for some minutes.
    pub fn token(&self, user: User) -> String {
        let said =
            self.said(&["scontrol", "token", &format!("username={}", user.name()), "lifespan=300"]);
        said.trim().strip_prefix("SLURM_JWT=").expect("a token").to_owned()
    }

    /// Status and body of a GET, with a user's token or without one.
    pub fn get(&self, path: &str, user: Option<User>) -> (u16, String) {
        let token = user.map_or(String::new(), |user| {
            format!(
                "X-SLURM-USER-NAME: {}\r\nX-SLURM-USER-TOKEN: {}\r\n",
                user.name(),
                self.token(user)
            )
        });
        let mut stream = TcpStream::connect(self.fact("rest")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // In one write: slurmrestd 22.05 answers 400 where a request line comes in two pieces.
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: slurm\r\nConnection: close\r\n{token}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split_whitespace().nth(1).and_then(|code| code.parse().ok());
        let (head, rest) = answer.split_once("\r\n\r\n").unwrap_or_default();
        // Some releases write a header behind the body.
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: ")?.trim().parse().ok());
        let body = rest.get(..length.unwrap_or(rest.len())).unwrap_or(rest);
        (status.unwrap_or_else(|| panic!("not HTTP: {answer}")), body.to_owned())
    }
}

/// A job that is cancelled when the test is over.
pub struct Job<'a> {
    cluster: &'a Cluster,
    id: String,
}

impl Job<'_> {
    /// One field of `scontrol show job`.
    pub fn field(&self, name: &str) -> String {
        let said = self.cluster.said(&["scontrol", "show", "job", "-o", &self.id]);
        let value =
            said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in: {said}")).to_owned()
    }

    /// Waits until Slurm says this of it.
    pub fn reaches(&self, state: &str) {
        self.cluster.until(&format!("job {} {state}", self.id), || self.field("JobState") == state);
    }

    /// What it wrote; its end comes first.
    pub fn output(&self) -> String {
        self.reaches("COMPLETED");
        let path = self.cluster.dir.join("work").join(format!("slurm-{}.out", self.id));
        fs::read_to_string(path).unwrap()
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // A job that has ended cannot be cancelled, and a controller that does not answer has
        // failed its test already.
        let _ = Command::new("timeout").args([COMMAND_SECS, "scancel", &self.id]).output();
    }
}

fn becoming(user: User) -> [&'static str; 6] {
    ["setpriv", "--clear-groups", "--reuid", user.name(), "--regid", user.name()]
}

fn finish(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// A daemon is away until this goes, also after a panic: the tests that follow find the cluster
/// whole.
pub struct Down<'a> {
    cluster: &'a Cluster,
    name: &'a str,
}

impl<'a> Down<'a> {
    /// Asks it to end: it writes its state first.
    pub fn stopped(cluster: &'a Cluster, name: &'a str) -> Self {
        cluster.daemon("stop", name);
        Self { cluster, name }
    }

    /// Ends it on the spot.
    pub fn killed(cluster: &'a Cluster, name: &'a str) -> Self {
        cluster.daemon("kill", name);
        Self { cluster, name }
    }
}

impl Drop for Down<'_> {
    fn drop(&mut self) {
        match std::thread::panicking() {
            // A second panic would end all tests and hide the first.
            true => drop(self.cluster.xtask("start", self.name).output()),
            false => self.cluster.daemon("start", self.name),
        }
    }
}
