//! The shared daemon with its real paths, in a mount namespace of its own: while it is down, no
//! user's daemon replaces it, and commands wait until it is back.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::actor::SiteRun;
use crate::site::PATIENCE;

/// Mount namespace with its own `/var/lib` and `/run`.
struct SharedMachine {
    dir: tempfile::TempDir,
    /// Keeps the namespace; ends when its stdin is closed.
    holder: Child,
}

impl SharedMachine {
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

    fn words(&self, words: &str) -> SiteRun {
        SiteRun::of(self.command(words).output().unwrap())
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

impl Drop for SharedMachine {
    fn drop(&mut self) {
        let _stopped = self.words("stop-daemon --cancel");
        let _gone = self.holder.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        let _gone = self.holder.wait();
    }
}

#[test]
#[ignore = "needs root: mounts a /var/lib and a /run of its own"]
fn no_daemon_of_a_user_stands_in_for_the_shared_one() {
    let machine = SharedMachine::new();
    let mut daemon = machine.start();
    let first = machine.words("run --wait -- true").ok();
    assert!(!first.stderr.contains("started one"), "{}", first.stderr);

    // 1. While it is down, no other daemon replaces it.
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let refused = machine.words("run -- true").code(3);
    assert!(
        refused.stderr.contains("the shared daemon of this machine does not answer"),
        "{}",
        refused.stderr
    );
    let refused = machine.words("serve").code(1);
    assert!(refused.stderr.contains("would allocate the same devices"), "{}", refused.stderr);
    assert!(!machine.dir.path().join(".local/state/muster/daemon.log").exists());

    // 2. It restarts: a command waits for it.
    let waiting =
        machine.command("ps -a").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut daemon = machine.start();
    let answered = SiteRun::of(waiting.wait_with_output().unwrap()).ok();
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
    let waited = SiteRun::of(waiting.wait_with_output().unwrap());
    waited.code(5);

    // 4. A daemon that the user starts explicitly has no real device, and a note says that it is
    //    used.
    let mut own = machine.command("serve --virtual-gpus=1").stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !machine.words("info").stderr.contains("using your own daemon, not the shared one") {
        assert!(Instant::now() < deadline, "no note that the own daemon is used");
    }
    machine.words("stop-daemon").ok();
    own.wait().unwrap();
    machine.words("stop-daemon").ok();
    daemon.wait().unwrap();
}
