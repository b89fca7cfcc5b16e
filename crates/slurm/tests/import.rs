//! Import of Slurm scripts: each finding with a script that has it and a corrected one, and the
//! results for scripts published by others.

#![allow(clippy::disallowed_methods, reason = "the crate is pure; its tests read the scripts")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use muster_model::imported::{ImportOutcome, ImportReport};
use muster_slurm::import::{self, ImportInput, NotAScript, ids};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Returns name and text of every file of a folder, in order.
fn files(name: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// Imports a script without arguments.
fn import(text: &str, file: &str) -> Result<ImportReport, NotAScript> {
    import::import(text, file, &ImportInput::default())
}

fn rules(report: &ImportReport) -> BTreeSet<&str> {
    report.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn every_rule_finds_its_script_and_lets_the_cured_one_be() {
    let files = files("findings");
    for (rule, text) in &files {
        let (wrong, cured) = text.split_once("---- cured\n").unwrap();
        let wrong = import(wrong, rule).unwrap();
        assert!(rules(&wrong).contains(rule.as_str()), "{rule}: {:#?}", wrong.findings);
        // Nothing else of weight is wrong with either, or the pair would not show what it is for.
        let cured = import(cured, rule).unwrap();
        assert!(!rules(&cured).contains(rule.as_str()), "{rule}: {:#?}", cured.findings);
        let new: Vec<_> =
            rules(&cured).difference(&rules(&wrong)).map(|rule| (*rule).to_owned()).collect();
        assert_eq!(new, Vec::<String>::new(), "{rule}: the cure brings something else");
    }
    let shown: BTreeSet<&str> = files.iter().map(|(rule, _)| rule.as_str()).collect();
    let all: BTreeSet<&str> = ids().map(|(id, ..)| id).collect();
    assert_eq!(shown, all, "every rule has a pair of scripts");
}

#[test]
fn what_scripts_become() {
    let mut text = String::new();
    for (name, script) in files("scripts") {
        let report = import(&script, &name).unwrap();
        let _ = writeln!(text, "== {name}: {:?}: {}", report.launch.how, report.launch.text);
        for option in report.options.iter().filter(|option| option.becomes != ImportOutcome::Field)
        {
            let _ = writeln!(text, "   {:?} {}: {}", option.becomes, option.written, option.text);
        }
        for step in &report.launch.steps {
            let product = (step.tasks, step.per_task, step.processes);
            let _ = writeln!(
                text,
                "   starts {} {product:?} {:?}",
                step.launchers.join(" "),
                step.unknown
            );
        }
        for finding in &report.findings {
            let _ = writeln!(
                text,
                "   {} {}: {}",
                finding.severity.name(),
                finding.rule,
                finding.evidence
            );
        }
        text.push_str(&report.job);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn no_option_of_a_script_is_left_out_of_the_answer() {
    for (name, script) in files("scripts") {
        let report = import(&script, &name).unwrap();
        let lines: BTreeSet<u32> = report.options.iter().map(|option| option.line).collect();
        for (index, line) in
            script.lines().enumerate().filter(|(_, line)| line.starts_with("#SBATCH "))
        {
            assert!(lines.contains(&u32::try_from(index + 1).unwrap()), "{name}: {line}");
        }
        for option in &report.options {
            assert!(!option.text.is_empty(), "{name}: {option:?}");
        }
    }
}

#[test]
fn what_is_no_script_says_what_it_is() {
    let check = |text: &str, expected: &str| {
        let error = import(text, "x").unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.hint().is_empty());
    };
    check("", "it is empty");
    check("#!/bin/bash\r\n#SBATCH -N 1\r\necho\r\n", "CR LF");
    check("import os\n", "Python");
    check("name: a\nrun: b\n", "job file");
    check("#!/bin/sh\n#PBS -N x\n", "PBS");
    check("#BSUB -n 4\necho\n", "LSF");
    assert_eq!(import("words\n", "x").unwrap_err(), NotAScript::NotAScript);
}

#[test]
fn arguments_reach_the_script_in_words_that_it_reads() {
    let check = |text: &str, arguments: &[&str], head: &str, is_found: bool| {
        let given = ImportInput {
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
            ..ImportInput::default()
        };
        let report = import::import(text, "x", &given).unwrap();
        assert!(report.job.contains(head), "{head}\n{}", report.job);
        assert_eq!(rules(&report).contains("arguments-lost"), is_found, "{:#?}", report.findings);
    };
    let text = "#!/bin/bash\n#SBATCH -N2\nsrun ./solve \"$1\" $2\n";
    check(text, &[], "  #!/bin/bash\n  ./solve", true);
    check(
        text,
        &["it's"],
        "  #!/bin/bash\n  # The arguments of the script.\n  set -- 'it'\\''s'\n  ./solve",
        true,
    );
    check(text, &["a", ""], "  set -- a ''\n", false);
    let text = "#!/usr/bin/env -S python3 -u\n#SBATCH -n1\nimport sys\nprint(sys.argv)\n";
    check(text, &[], "  #!/usr/bin/env -S python3 -u\n  import sys\n", true);
    let head = "  #!/bin/sh\n  exec /usr/bin/env -S python3 -u /dev/fd/3 a 'b c' 3<<'MUSTER'\n  import sys\n";
    check(text, &["a", "b c"], head, false);
}

/// Returns the scripts in published pages, from a folder beside the checkout or `MUSTER_SEEDS`.
fn printed() -> Vec<String> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().join("shared/seeds");
    let folder = std::env::var_os("MUSTER_SEEDS").map_or(beside, PathBuf::from);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut scripts = Vec::new();
    for entry in entries.flatten() {
        let page = fs::read_to_string(entry.path()).unwrap_or_default();
        for (start, _) in page.match_indices("#!/bin/bash\n#SBATCH") {
            // A script ends at the first empty line after its first command that does not continue
            // a line with a backslash.
            let rest = &page[start..];
            let first = rest
                .lines()
                .skip(1)
                .position(|line| !line.starts_with("#SBATCH") && !line.is_empty())
                .unwrap_or(0);
            let lines =
                rest.lines().enumerate().take_while(|(at, line)| *at <= first || !line.is_empty());
            let lines: Vec<&str> = lines.map(|(_, line)| line).collect();
            scripts.push(format!("{}\n", lines.join("\n")));
        }
    }
    scripts
}

#[test]
fn scripts_that_pages_print_are_found_wrong_where_they_are() {
    let scripts = printed();
    if scripts.is_empty() {
        println!("skipped: the pages are not here");
        return;
    }
    let found = |mark: &str| {
        let script = scripts.iter().find(|script| script.contains(mark)).unwrap();
        let report = import(script, mark).unwrap();
        let processes = report.launch.steps.iter().map(|step| step.processes).collect::<Vec<_>>();
        (rules(&report).into_iter().map(str::to_owned).collect::<Vec<_>>(), processes)
    };
    let (rules, processes) = found("qwen-finetune");
    let expected = [
        "few-cpus",
        "fixed-port",
        "meeting-without-id",
        "no-memory",
        "output-folder",
        "processes-squared",
    ];
    assert_eq!(rules, expected);
    assert_eq!(processes, [Some(128)], "on 16 GPUs");
    let (rules, processes) = found("--job-name=train");
    assert_eq!(rules, ["fixed-port", "meeting-without-id", "no-memory", "no-time"]);
    assert_eq!(processes, [Some(64)]);
}
