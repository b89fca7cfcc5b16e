//! The program by which pods fetch a repository, run on this machine with a repository in a folder.

use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = include_str!("../../../kubernetes/src/render/fetch.sh");

/// Runs git in a folder; returns what it prints.
fn git(folder: &Path, words: &[&str]) -> String {
    let identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
    let output =
        Command::new("git").args(identity).args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes a repository with two commits, of which the first has the tag `v1`, and a branch `side`.
fn repository(folder: &Path) {
    git(folder, &["init", "--quiet", "--initial-branch=main", "."]);
    let commit = |text: &str| {
        std::fs::write(folder.join("net.txt"), text).unwrap();
        git(folder, &["add", "net.txt"]);
        git(folder, &["commit", "--quiet", "--message", text]);
    };
    commit("first");
    git(folder, &["tag", "--annotate", "--message", "one", "v1"]);
    git(folder, &["checkout", "--quiet", "-b", "side"]);
    commit("side");
    git(folder, &["checkout", "--quiet", "main"]);
    commit("second");
}

/// Fetches a version into a new folder, as a container does.
fn fetch(repository: &Path, reference: &str, target: &Path) -> Output {
    let url = format!("file://{}", repository.display());
    // The pauses between tries would only slow the test down.
    let program = format!("sleep() {{ :; }}\n{PROGRAM}");
    let words = ["-c", &program, "git", &url, reference, target.to_str().unwrap()];
    Command::new("sh").args(words).output().unwrap()
}

#[test]
fn a_branch_a_tag_or_a_commit_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    repository(&source);
    let first = git(&source, &["rev-parse", "v1^{commit}"]);
    for (reference, text) in [
        ("HEAD", "second"),
        ("main", "second"),
        ("side", "side"),
        ("v1", "first"),
        (first.as_str(), "first"),
        (&first[..10], "first"),
    ] {
        let target = dir.path().join(reference);
        let output = fetch(&source, reference, &target);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{reference}: {stderr}");
        assert_eq!(std::fs::read_to_string(target.join("net.txt")).unwrap(), text, "{reference}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.trim_end().ends_with(text), "{reference}: {said}");
    }
    let output = fetch(&source, "none", &dir.path().join("none"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("none of file://") && stderr.contains("cannot be fetched"), "{stderr}");
}
