//! Help, manual pages and completions, and that docs/cli.md is up to date.

use std::path::Path;

use crate::home::Home;

#[test]
fn the_document_of_the_command_line_is_up_to_date() {
    let home = Home::new();
    let made = home.words("__docs").ok().stdout;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == kept,
        "docs/cli.md is not what `muster __docs` prints; write it anew: muster __docs > docs/cli.md"
    );
    for verb in ["muster run", "muster stop-daemon", "muster nodes drain", "muster attach"] {
        assert!(made.contains(&format!("# `{verb}`\n")), "{verb}");
    }
    assert!(made.lines().all(|line| line.trim_end() == line && !line.contains('\t')));
}

#[test]
fn the_document_of_the_rules_is_up_to_date() {
    let made = Home::new().words("__docs check").ok().stdout;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/check.md");
    assert!(
        made == std::fs::read_to_string(&path).unwrap_or_default(),
        "docs/check.md is not what the rules say; write it anew: cargo xtask gen"
    );
}

#[test]
fn completions_and_manual_pages_exist() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.words(&format!("completions {shell}")).ok().stdout;
        assert!(script.contains("stop-daemon"), "{shell}");
    }
    let page = home.words("man").ok().stdout;
    assert!(page.starts_with(".") && page.contains("muster"));
    home.words("man --dir pages").ok();
    assert!(home.read("pages/muster-run.1").contains("gpus\\-per\\-task"));
}

#[test]
fn every_verb_has_help_in_both_lengths() {
    let home = Home::new();
    let verbs = [
        "run",
        "ps",
        "top",
        "ui",
        "show",
        "logs",
        "attach",
        "cancel",
        "hold",
        "release",
        "requeue",
        "scale",
        "wait",
        "explain",
        "queues",
        "usage",
        "nodes",
        "advise",
        "compare",
        "check",
        "inventory",
        "init",
        "serve",
        "stop-daemon",
        "prove",
        "schema",
        "completions",
        "man",
    ];
    let summary = home.words("--help").ok().stdout;
    for verb in verbs {
        assert!(summary.contains(&format!("  {verb} ")), "{verb}");
        for flag in ["-h", "--help"] {
            let help = home.words(&format!("{verb} {flag}")).ok().stdout;
            assert!(help.contains("Usage: "), "{verb}");
        }
    }
    assert!(home.words("--version").ok().stdout.starts_with("muster "));
    assert!(summary.contains("Exit codes:"));
    home.words("frobnicate").code(2);
}

#[test]
fn manual_pages_have_the_sections_that_readers_look_for() {
    let home = Home::new();
    home.words("man --dir pages").ok();
    for page in ["muster", "muster-run", "muster-cancel", "muster-nodes-drain"] {
        let text = home.read(&format!("pages/{page}.1"));
        assert!(text.contains(".SH \"EXIT STATUS\""), "{page}");
    }
    for page in ["muster", "muster-run", "muster-cancel", "muster-attach"] {
        let text = home.read(&format!("pages/{page}.1"));
        assert!(text.contains(".SH \"EXAMPLES\""), "{page}");
        assert!(!text.contains("EXTRA"), "{page}");
    }
    assert!(home.read("pages/muster.1").contains("137    out of memory"));
    assert!(home.words("man").ok().stdout.contains(".SH \"EXIT STATUS\""));
}

/// The line of the help installs it in a home where nothing is yet, and what it installs completes
/// jobs of the daemon.
#[test]
fn the_documented_line_for_bash_works_in_a_fresh_home() {
    let home = Home::with_gpus(1);
    home.run("--hold --name sweep-one", &["true"]);
    home.run("--hold --name train", &["true"]);
    let help = home.words("completions --help").ok().stdout;
    let lines: Vec<&str> =
        help.lines().map(str::trim).filter(|line| line.contains("bash-completion/")).collect();
    let line = lines.join("; ");
    assert!(line.contains("completions bash >"), "{help}");
    let script = format!(
        "set -e; muster() {{ '{}' \"$@\"; }}; {line}; source ~/.local/share/bash-completion/completions/muster; \
         complete_words() {{ COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); \
         _muster_with_jobs muster \"${{!#}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\" || :; echo \"$1 $2: ${{COMPREPLY[*]}}\"; }}; \
         complete_words muster show sw; complete_words muster cancel tr; complete_words muster show --js; complete_words muster canc; \
         complete_words muster run sw; MUSTER_HOME=/nowhere complete_words muster hold sw",
        env!("CARGO_BIN_EXE_muster")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home.path("home"))
        .env("MUSTER_HOME", home.path("m"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        lines,
        [
            "muster show: sweep-one",
            "muster cancel: train",
            "muster show: --json",
            "muster canc: cancel",
            "muster run: ",
            "muster hold: "
        ],
        "{errors}"
    );
    assert_eq!(errors, "");
}
