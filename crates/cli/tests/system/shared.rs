//! The shared daemon at its real places, in a mount namespace of its own: no daemon of a user takes
//! its place while it is away, and commands wait until it is back.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::actor::Run;
use crate::site::PATIENCE;

/// A machine with a `/var/lib` and a `/run` of its own.
struct Machine {
    dir: tempfile::TempDir,
    /// Keeps the namespace; ends when its stdin is closed.
    holder: Child,
}

impl Machine {
    fn new() -> Self {
        let script =
            "mount -t tmpfs tmpfs /var/lib && mount -t tmpfs tmpfs /run && echo ready && read end";
        let mut holder = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let stdout = holder.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut ready).unwrap();
        assert_eq!(ready, "ready\n", "needs mount namespaces");
        Self { dir: tempfile::tempdir().unwrap(), holder }
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.holder.id().to_string(), "-m", env!("CARGO_BIN_EXE_muster")])
            .args(words.split_whitespace())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    fn words(&self, words: &str) -> Run {
        Run::of(self.command(words).output().unwrap())
    }

    /// Starts the shared daemon and waits until it says that it listens.
    fn start(&self) -> Child {
        let mut serve = self.command("serve --system --virtual-gpus=2 --background");
        let mut daemon = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = [0];
        daemon.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(said, *b"1");
        daemon
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _stopped = self.words("stop-daemon --cancel");
        let _gone = self.holder.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        let _gone = self.holder.wait();
    }
}

#[test]
#[ignore = "needs root: mounts a /var/lib and a /run of its own"]
fn no_daemon_of_a_user_stands_in_for_the_shared_one() {
    let machine = Machine::new();
    let mut daemon = machine.start();
    let first = machine.words("run --wait -- true").ok();
    assert!(!first.stderr.contains("started one"), "{}", first.stderr);

    // 1. It is away: nothing else takes its place.
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let refused = machine.words("run -- true").code(3);
    assert!(
        refused.stderr.contains("the shared daemon of this machine does not answer"),
        "{}",
        refused.stderr
    );
    let refused = machine.words("serve").code(1);
    assert!(refused.stderr.contains("would own the same devices"), "{}", refused.stderr);
    assert!(!machine.dir.path().join(".local/state/muster/daemon.log").exists());

    // 2. It restarts: a command waits for it.
    let waiting =
        machine.command("ps -a").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut daemon = machine.start();
    let answered = Run::of(waiting.wait_with_output().unwrap()).ok();
    assert!(answered.stdout.contains("done"), "{}", answered.stdout);

    // 3. So does one that has been waiting for a job all along.
    let gate = machine.dir.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 5", gate.display());
    fs::write(machine.dir.path().join("job.sh"), script).unwrap();
    let job = machine.dir.path().join("job.sh").display().to_string();
    machine.words(&format!("run --name gated -- sh {job}")).ok();
    let waiting =
        machine.command("wait gated").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let mut daemon = machine.start();
    fs::write(gate, "").unwrap();
    let waited = Run::of(waiting.wait_with_output().unwrap());
    waited.code(5);

    // 4. One that was asked for owns no device, and says that it answers.
    let mut own = machine.command("serve --virtual-gpus=1").stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !machine.words("info").stderr.contains("your own daemon answers, not the shared one") {
        assert!(Instant::now() < deadline, "it does not say who answers");
    }
    machine.words("stop-daemon").ok();
    own.wait().unwrap();
    machine.words("stop-daemon").ok();
    daemon.wait().unwrap();
}
