//! Completion in zsh and fish, installed by the commands of docs/cli.md in an empty home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_model::view::JobState;

use crate::home::{Home, PATIENCE};
use crate::pty::Typist;

/// The lines of docs/cli.md that name a file of the shell.
fn documented(marks: &[&str]) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let docs = fs::read_to_string(docs).unwrap();
    let (_, section) = docs.split_once("## `muster completions`").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let (_, examples) = section.split_once("Examples:").unwrap();
    let lines: Vec<&str> = examples
        .lines()
        .map(str::trim)
        .filter(|line| marks.iter().any(|mark| line.contains(mark)))
        .collect();
    assert!(lines.len() > 1, "{examples}");
    lines.join("\n")
}

/// A shell at a terminal, in a home where the documented lines were typed; and jobs: 1 has ended, 2
/// to 12 are held.
fn shell(home: &Home, shell: &str, marks: &[&str]) -> Typist {
    // A wrapper records each call of muster, then runs it.
    let bin = home.path("bin");
    fs::create_dir(&bin).unwrap();
    let wrapper = format!(
        "#!/bin/sh\n[ \"$1\" = __names ] || echo \"$*\" >> {}\nexec {} \"$@\"\n",
        home.path("called").display(),
        env!("CARGO_BIN_EXE_muster")
    );
    fs::write(bin.join("muster"), wrapper).unwrap();
    fs::set_permissions(bin.join("muster"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let command = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env_clear().env("PATH", &path).env("HOME", home.path("home"));
        command
            .env("MUSTER_HOME", home.path("m"))
            .env("LANG", "C.UTF-8")
            .current_dir(home.path("home"));
        command
    };

    let ended = home.run("--name sweep-old", &["true"]);
    home.until_state(ended, JobState::Done);
    home.run("--hold --name train", &["true"]);
    home.run("--hold --name sweep-one", &["true"]);
    for _ in 4..=12 {
        home.run("--hold --name other", &["true"]);
    }
    let lines = documented(marks);
    let done = command(shell, &["-c", &lines]).output().unwrap();
    assert!(done.status.success(), "{lines}: {done:?}");
    // The terminal is its controlling one, as a login makes it: a shell waits for that.
    Typist::of(command("setsid", &["--ctty", "--wait", shell, "-i"]), 30, 100)
}

/// Types a line, in which Tab completes, and waits until what it became is called.
#[track_caller]
fn becomes(home: &Home, typist: &mut Typist, typed: &str, called: &str) {
    typist.keys(&format!("{typed}\r"));
    let deadline = Instant::now() + PATIENCE;
    while !home.read("called").lines().any(|line| line == called) {
        assert!(
            Instant::now() < deadline,
            "{typed:?} does not become {called:?}:\n{}",
            typist.seen()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn completes(home: &Home, mut typist: Typist) {
    // 1. Verbs and options.
    becomes(home, &mut typist, "muster expl\ttrain", "explain train");
    becomes(home, &mut typist, "muster queues --js\t", "queues --json");
    // 2. Jobs by name; one that has ended where that makes sense.
    becomes(home, &mut typist, "muster explain tr\t --json", "explain train --json");
    becomes(home, &mut typist, "muster hold sw\t", "hold sweep-one");
    becomes(home, &mut typist, "muster show sweep-ol\t", "show sweep-old");
    // 3. And by number: of 1, 10, 11 and 12 the last three are left where what has ended is not
    //    offered.
    home.words("cancel 10-11").ok();
    becomes(home, &mut typist, "muster release 1\t", "release 12");
}

#[test]
#[ignore = "needs zsh: `cargo xtask programs` installs it"]
fn zsh_completes_verbs_and_jobs() {
    let home = Home::with_gpus(1);
    completes(&home, shell(&home, "zsh", &["/.zfunc", ".zshrc"]));
}

#[test]
#[ignore = "needs fish: `cargo xtask programs` installs it"]
fn fish_completes_verbs_and_jobs() {
    let home = Home::with_gpus(1);
    completes(&home, shell(&home, "fish", &[".config/fish"]));
}
