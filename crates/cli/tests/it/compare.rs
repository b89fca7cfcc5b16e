//! `muster compare`: text at two widths, stable JSON, exact error messages. No daemon is started.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::home::Home;

const COUPLED: &str = "--nodes 8 --tightly-coupled --bare-metal";

#[test]
fn every_dimension_is_written_out_without_facts() {
    let home = Home::new();
    let run = home.words("compare slurm kubernetes").ok();
    for part in [
        "slurm and kubernetes",
        "all ranks of a job at once, or none",
        "beta in 1.37",
        "[comparison, upstream]",
    ] {
        assert!(unwrapped(&run.stdout).contains(part), "{part} is not in:\n{}", run.stdout);
    }
    assert!(
        run.stdout.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line),
        "{}",
        run.stdout
    );
    assert_eq!(run.stderr, "");
    assert!(!home.path("m").exists());
}

/// The text without its columns and line ends: words in their order within a column.
fn unwrapped(text: &str) -> String {
    let mut columns = [String::new(), String::new(), String::new()];
    for line in text.lines() {
        let chars: Vec<char> = line.chars().collect();
        for (column, (from, to)) in columns.iter_mut().zip([(0, 27), (27, 64), (64, 120)]) {
            let part: String = chars
                .get(from.min(chars.len())..to.min(chars.len()))
                .unwrap_or_default()
                .iter()
                .collect();
            column.push_str(part.trim());
            column.push(' ');
        }
    }
    format!("{} {}", columns.join(" "), text)
}

#[test]
fn facts_bring_what_matters_to_the_front_and_end_with_the_advice() {
    let home = Home::new();
    let run = home.words(&format!("compare slurm kubernetes {COUPLED}")).ok();
    let place = |part: &str| {
        run.stdout.find(part).unwrap_or_else(|| panic!("{part} is not in:\n{}", run.stdout))
    };
    assert!(place("what matters for these facts") < place("the rest"));
    assert!(place("slurm ahead") < place("the rest"));
    assert!(place("endpoints that stay up") > place("the rest"));
    let end: Vec<&str> = run.stdout.lines().rev().take(4).collect();
    let end = end.into_iter().rev().collect::<Vec<_>>().join("\n");
    assert!(end.contains("slurm; topology.conf for rail-aware placement"), "{end}");
    assert!(end.contains("chosen") && end.contains("chosen if"), "{end}");
    let all = home.words(&format!("compare slurm kubernetes --all {COUPLED}")).ok();
    assert!(all.stdout.lines().count() > run.stdout.lines().count());
}

#[test]
fn json_has_everything_and_keeps_its_shape() {
    let home = Home::new();
    let plain: Value = home.words("compare ray k3s --json").json();
    assert_eq!(plain["planes"], serde_json::json!(["ray", "k3s"]));
    assert!(plain.get("verdict").is_none() && plain.get("facts").is_none());
    let rows = plain["dimensions"].as_array().unwrap();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), rows.len());
    for row in rows {
        for cell in row["cells"].as_array().unwrap() {
            assert!(
                ["native", "add-on", "weak", "none"].contains(&cell["standing"].as_str().unwrap())
            );
            assert!(cell["source"]["page"].is_string() && cell["text"].is_string());
        }
    }
    let facts: Value = home.words(&format!("compare slurm kubernetes --json {COUPLED}")).json();
    assert_eq!(facts["facts"]["nodes"], 8);
    let gang =
        facts["dimensions"].as_array().unwrap().iter().find(|row| row["id"] == "gang").unwrap();
    assert_eq!(gang["matters_for"], serde_json::json!(["nodes", "tightly_coupled"]));
    assert_eq!(gang["ahead"], "slurm");
    assert_eq!(gang["cells"][1]["today"]["standing"], "add-on");
    assert_eq!(facts["verdict"]["advice"]["primary"], "slurm");
    assert_eq!(facts["verdict"]["fares"][0]["role"], "chosen");
    assert!(facts["verdict"]["fares"][1]["chosen_if"].is_object());
}

#[test]
fn a_file_of_facts_and_options_over_it() {
    let home = Home::new();
    home.write("workload.yaml", "nodes: 8\ntightly_coupled: true\nbare_metal: true\n");
    let file = home.words("compare slurm kubernetes --facts workload.yaml").ok();
    let options = home.words(&format!("compare slurm kubernetes {COUPLED}")).ok();
    assert_eq!(file.stdout, options.stdout);
    let over: Value = home
        .words("compare slurm kubernetes --facts workload.yaml --bare-metal=false --json")
        .json();
    assert_eq!(over["verdict"]["advice"]["primary"], "kubernetes");
}

/// Muster is compared like the others, and says that it rates itself.
#[test]
fn muster_itself_is_compared() {
    let home = Home::new();
    let text = home.words("compare muster slurm").ok().stdout;
    assert!(text.lines().nth(2).unwrap().contains("muster rates itself"), "{text}");
    assert!(
        text.contains("no network policies") || text.contains("without network policies"),
        "{text}"
    );
    let facts: Value = home.words(&format!("compare slurm muster --json {COUPLED}")).json();
    assert_eq!(facts["planes"], serde_json::json!(["slurm", "muster"]));
    assert_eq!(facts["verdict"]["fares"][1]["role"], "on-top");
    assert_eq!(facts["dimensions"][0]["cells"][1]["source"]["page"], "muster");
    let same = home.words("compare muster muster").code(2);
    assert!(same.stderr.contains("cannot compare muster with itself"), "{}", same.stderr);
}

#[test]
fn mistakes_are_told_exactly() {
    let home = Home::new();
    let same = home.words("compare slurm slurm").code(2);
    assert_eq!(
        same.stderr,
        "error: cannot compare slurm with itself\nhint: name another one: muster, none, kubernetes, k3s, ray\n"
    );
    let unknown = home.words("compare slrum kubernetes").code(2);
    assert!(
        unknown.stderr.contains("slrum") && unknown.stderr.contains("'slurm'"),
        "{}",
        unknown.stderr
    );
    home.words("compare slurm").code(2);
    let nodes = home.words("compare slurm kubernetes --nodes 0").code(2);
    assert!(nodes.stderr.contains("nodes"), "{}", nodes.stderr);
    let twice = home.words("compare k8s kubernetes").code(2);
    assert!(twice.stderr.contains("cannot compare kubernetes with itself"));
}

#[test]
fn the_same_question_has_the_same_answer() {
    let home = Home::new();
    let one =
        home.words("compare ray slurm --python-native-pipeline --nodes 4 --tightly-coupled").ok();
    let two =
        home.words("compare ray slurm --tightly-coupled --nodes 4 --python-native-pipeline").ok();
    assert_eq!(one.stdout, two.stdout);
}
