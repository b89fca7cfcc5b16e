//! Help, manual, completions, and that docs/cli.md is what the program says of itself.

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
