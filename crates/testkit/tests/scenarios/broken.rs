//! Scripts that cannot be read or executed: each is rejected at its line, with the error and a
//! suggestion.

use muster_testkit::scenario::{ScenarioScript, play};
use proptest::prelude::*;

/// Checks the error of a script with these lines after a valid beginning of five lines.
fn refused(lines: &str, expected: &str) {
    let begin = "# One job on one node.\n# catches: nothing\n\
                 cluster: {nodes: [{name: \"n[1-2]\", gpus: 4, gpu: h100, cpus: 8}]}\n\
                 submit ann: {name: one, gpus: 1, time: 10m}\nsubmit bob: {name: many, gpus: 1, array: 0-3}\n";
    let text = format!("{begin}{lines}");
    match play(&text, "x.txt") {
        Ok(_) => panic!("this was carried out: {lines}"),
        Err(mistake) => {
            let shown = mistake.show("x.txt");
            assert!(
                shown.contains(expected),
                "{lines}\n  expected  {expected}\n  shown     {shown}"
            );
        }
    }
}

#[test]
fn words_that_are_not_of_the_language() {
    refused(
        "submti ann: {name: two}",
        "x.txt:6: there is no command `submti`\nhint: did you mean `submit`?",
    );
    refused("advence 10m", "hint: did you mean `advance`?");
    refused("frobnicate", "there is no command `frobnicate`");
    refused("Advance 10m", "hint: did you mean `advance`?");
    refused("submit", "x.txt:6: `submit` has no mapping");
    refused("submit ann {name: two}", "x.txt:6:");
    refused("submit : {name: two}", "`submit` without a user");
    refused("submit ann bob: {name: two}", "unexpected word `bob`");
    refused("advance", "`advance` without a length of time");
    refused("advance 10", "`10` is not a length of time: which unit?");
    refused("advance 0s", "the length of time must be more than 0s");
    refused("advance 10m soon", "unexpected word `soon`");
    refused("until 25:00", "`25:00` is not a time of day");
    refused("until noon", "`noon` is not a time of day");
    refused("ends one/0", "`ends` applies to all tasks; omit the rank");
    refused("fails one exits 300", "an exit code is at most 255");
    refused("fails one/x", "`x` is not a whole number");
    refused("crash before-wrote", "hint: did you mean `before-write`?");
    refused("saves one clock 2h step 7", "write `clock +2h` or `clock -2h`");
    refused("foreign n1", "`foreign` names no resources");
    refused("foreign n1 gpus 3-1", "`3-1` is not a range of GPUs");
    refused("foreign n1 cpus many", "usage: foreign");
    refused("ps some", "unexpected word `some`");
    refused("submit ann lasts forever: {name: two}", "`forever` is not a length of time");
}

#[test]
fn errors_in_mappings_name_their_script_line() {
    refused("submit ann: {name: two, gpsu: 1}", "x.txt:6:25");
    refused("submit ann: {name: two, gpsu: 1}", "did you mean `gpus`?");
    refused("submit ann:\n  name: two\n  gpus: many", "x.txt:8:9");
    refused("queues: {queues: [{name: a, quota: {h100: few}}]}", "x.txt:6:43");
    refused("cluster: {nodes: [{name: n3, gpus: 4}]}", "`gpus` without `gpu`");
    refused("cluster: [", "x.txt:");
    refused("cluster:", "x.txt:6");
}

#[test]
fn lines_without_meaning_at_their_place_are_errors() {
    refused("explain onee", "x.txt:6: no job is named `onee`\nhint: did you mean `one`?");
    refused("ends gone", "no job is named `gone`");
    refused("ends many[9]", "no such task of `many` runs now");
    refused("fails one/3", "no such task of `one` runs now");
    refused("saves one/3", "no such task of `one` runs now");
    refused("node-down n9", "no node is named `n9`");
    refused("start-fails n9", "no node is named `n9`");
    refused("submit ann: {name: one, gpus: 1}", "two jobs of this scenario are named one");
    refused("crash\nexplain one", "x.txt:7: the daemon is down\nhint: `restart` brings it back");
    refused("crash\nsubmit ann: {name: two}", "the daemon is down");
    refused("restart", "the daemon runs");
}

#[test]
fn the_form_of_a_script() {
    refused(
        "and advance 10m",
        "`and` joins only events; commands that pass time or query stand alone",
    );
    refused(
        "advance 10m\nand ends one",
        "`and` joins only events; commands that pass time or query stand alone",
    );
    refused(
        "ends one\n  > one ends\nand ends many",
        "the transcript of lines joined by `and` belongs after the last of them",
    );
    refused("advance 10m\n  more", "x.txt:7: `advance` takes no indented lines");
    refused(
        "submit ann:\n  name: two\n  > two waits\n  gpus: 1",
        "a mapping must end before its transcript",
    );
    for (text, expected) in [
        ("", "x.txt:1: the first line does not say what the scenario shows"),
        (
            "# Shows something.\ncluster: {nodes: []}\n",
            "x.txt:1: the scenario does not say which defect",
        ),
        (
            "# Shows.\n# catches: it\n  > told\n",
            "x.txt:3: an indented line belongs to the one above",
        ),
        ("# Shows.\n# catches: it\nand ends one\n", "x.txt:3: `and` joins nothing"),
    ] {
        let shown = play(text, "x.txt").map(|_| ()).unwrap_err().show("x.txt");
        assert!(shown.contains(expected), "{text}\n{shown}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cuts out or inserts any text: the parser returns without a panic.
    #[test]
    fn any_text_gives_a_result_or_an_error_with_a_line(at in 0usize..2_000, cut in 0usize..40, put in "[ -~\n>#:\\[\\]/é ]{0,6}") {
        let text = include_str!("../../../../scenarios/explain/whose-quota-is-in-the-way.txt");
        let mut letters: Vec<char> = text.chars().collect();
        let from = at.min(letters.len());
        let to = (from + cut).min(letters.len());
        letters.splice(from..to, put.chars());
        let changed: String = letters.into_iter().collect();
        if let Err(mistake) = ScenarioScript::parse(&changed, "x.txt") {
            prop_assert!(mistake.line >= 1 && mistake.line <= changed.lines().count().max(1), "{mistake:?}");
        }
    }
}
