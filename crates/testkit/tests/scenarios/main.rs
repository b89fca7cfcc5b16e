//! Every scenario of `scenarios/`, played and compared with the transcript in it. `MUSTER_BLESS=1`
//! rewrites the transcripts instead; `MUSTER_SCENARIO=borrow` plays only those with this in their
//! path.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
#![allow(clippy::disallowed_methods, reason = "the language is pure; its test reads the files")]

mod broken;
mod documented;

use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use muster_testkit::scenario::{ScenarioScript, play};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Path within `scenarios/`, and text.
fn scenarios() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "txt") {
                let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_scenario_prints_what_is_written() {
    let bless = std::env::var_os("MUSTER_BLESS").is_some();
    let only = std::env::var("MUSTER_SCENARIO").unwrap_or_default();
    let mut complaints = Vec::new();
    let mut played = 0;
    for (name, text) in scenarios().into_iter().filter(|(name, _)| name.contains(&only)) {
        let file = format!("scenarios/{name}");
        played += 1;
        let outcome = catch_unwind(|| play(&text, &file));
        let Ok(outcome) = outcome else {
            complaints.push(format!("{file}: the engine panics; its message stands above"));
            continue;
        };
        match outcome {
            Err(mistake) => complaints.push(mistake.show(&file)),
            Ok(outcome) if bless && outcome.blessed != text => {
                fs::write(root().join(&name), outcome.blessed).unwrap();
                println!("rewritten: {file}");
            }
            Ok(outcome) => {
                complaints.extend(outcome.mismatches.iter().map(|mismatch| mismatch.show(&file)));
                if outcome.mismatches.is_empty() && outcome.blessed != text {
                    complaints.push(format!(
                        "{file}: blanks at the end of a line, or a transcript not as `  > text`"
                    ));
                }
            }
        }
    }
    assert!(played > 0, "no scenario's path holds `{only}`");
    let count = complaints.len();
    assert!(count == 0, "{count} complaints in {played} scenarios\n\n{}", complaints.join("\n\n"));
}

#[test]
fn every_scenario_has_a_title_of_its_own_and_prints() {
    let mut titles: BTreeMap<String, String> = BTreeMap::new();
    for (name, text) in scenarios() {
        let script = ScenarioScript::parse(&text, &name)
            .unwrap_or_else(|mistake| panic!("{}", mistake.show(&name)));
        assert!(
            script.title.ends_with('.') && script.title.len() > 20,
            "{name}: a sentence, please"
        );
        assert!(text.contains("\n  >"), "{name} prints nothing, so it cannot fail");
        let others = titles.insert(script.title.clone(), name.clone());
        assert_eq!(others, None, "{name} shows what another one shows: {}", script.title);
    }
}

#[test]
fn a_transcript_mismatch_is_reported_with_its_line() {
    let text = "# One job runs.\n# catches: nothing starts\ncluster: {nodes: [{name: n1, gpus: 1, gpu: h100}]}\n\
                submit ann: {name: one, gpus: 1}\n  > one waits\n";
    let played = play(text, "one.txt").unwrap();
    let shown: Vec<String> = played.mismatches.iter().map(|one| one.show("one.txt")).collect();
    assert_eq!(
        shown,
        [
            "one.txt:4: the output differs from the expected transcript\n  - one waits\n  + one starts on n1: 0\n"
        ],
        "{shown:?}"
    );
    assert!(
        played.blessed.ends_with("submit ann: {name: one, gpus: 1}\n  > one starts on n1: 0\n")
    );
    let again = play(&played.blessed, "one.txt").unwrap();
    assert!(
        again.mismatches.is_empty() && again.blessed == played.blessed,
        "blessing is settled at once"
    );
}
