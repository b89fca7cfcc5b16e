//! `muster advise --batch`: lines of facts in, lines of answers out.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::home::Home;

#[test]
fn each_line_is_answered_in_its_place() {
    let home = Home::new();
    let lines = "{\"nodes\":4,\"tightly_coupled\":true,\"bare_metal\":true}\n\
                 {\"nodes\":0}\n\
                 {\"nodes\":4,\"nodes\":5}\n\
                 \n\
                 {\"edge_or_dev\":true}\n\
                 nodes: 4\n\
                 {\"gpsu\":4}\n\
                 {}";
    let run = home.with_stdin(&["advise", "--batch", "--fields", "primary"], lines).code(2);
    let answers: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(answers.len(), 8);
    assert_eq!(answers[0], "{\"primary\":\"slurm\"}");
    assert_eq!(answers[4], "{\"primary\":\"k3s\"}");
    assert_eq!(answers[7], "{\"primary\":\"kubernetes\"}");
    let refused = |place: usize, named: &str| {
        let answer: serde_json::Value = serde_json::from_str(answers[place]).unwrap();
        assert_eq!(answer["error"]["line"], place + 1, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(named), "{answer}");
        assert_eq!(answer.as_object().unwrap().len(), 1);
    };
    refused(1, "`nodes` is not a whole number");
    refused(2, "`nodes`");
    refused(3, "empty");
    refused(5, "not JSON");
    refused(6, "`gpsu`");
    assert_eq!(run.stderr, "warning: 5 of 8 lines rejected; its line of the output says why\n");
}

#[test]
fn a_batch_answers_as_single_questions_do() {
    let home = Home::new();
    let lines = "{\"nodes\":4,\"tightly_coupled\":true}\n{\"multi_tenant\":true,\"rules\":{\"k3s-nodes\":3}}\n";
    let run = home.with_stdin(&["advise", "--batch", "--ruleset", "guide"], lines).ok();
    let answers: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (answer, options) in
        answers.iter().zip(["--nodes 4 --tightly-coupled", "--multi-tenant --rule k3s-nodes=3"])
    {
        let one: serde_json::Value =
            home.words(&format!("advise {options} --ruleset guide --json")).json();
        assert_eq!(*answer, one, "{options}");
    }
    assert!(run.stdout.starts_with("{\"primary\":\"kubernetes\",\"addon\":"), "compact, in order");
}

#[test]
fn an_answer_comes_before_the_next_question() {
    let home = Home::new();
    let mut child = home
        .command(&["advise", "--batch", "--fields", "primary"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for (question, expected) in [("{}", "kubernetes"), ("{\"edge_or_dev\":true}", "k3s")] {
        writeln!(input, "{question}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert!(answer.contains(expected), "{answer}");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_batch_takes_no_facts_of_its_own_and_nothing_is_an_answer_to_nothing() {
    let home = Home::new();
    let run = home.with_stdin(&["advise", "--batch"], "").ok();
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
    for words in [
        "advise --batch --nodes 4",
        "advise --batch --details",
        "advise --batch --mermaid",
        "advise --batch --ask",
    ] {
        home.words(words).code(2);
    }
    let run = home.with_stdin(&["advise", "--batch", "--rule", "multi-node=x"], "{}\n").code(2);
    assert_eq!(run.stdout, "");
}

#[test]
fn ten_thousand_lines_keep_their_order() {
    let home = Home::new();
    let line = |number: u32| {
        format!(
            "{{\"nodes\":{},\"tightly_coupled\":true,\"bare_metal\":{}}}\n",
            number % 40 + 1,
            number.is_multiple_of(3)
        )
    };
    let lines: String = (0..10_000).map(line).collect();
    let path = home.write("facts.jsonl", &lines);
    let output = home
        .command(&["advise", "--batch", "--fields", "primary,addon"])
        .stdin(std::fs::File::open(path).unwrap())
        .output()
        .unwrap();
    let run = crate::home::HomeRun::of(output).ok();
    assert_eq!(run.stdout.lines().count(), 10_000);
    for (number, answer) in run.stdout.lines().enumerate() {
        let coupled = number % 40 + 1 > 1;
        let expected = match (coupled, number.is_multiple_of(3)) {
            (true, true) => "\"slurm\"",
            (true, false) => "(REQUIRED)",
            (false, _) => "\"addon\":\"GPU Operator\"",
        };
        assert!(answer.contains(expected), "{number}: {answer}");
    }
}
