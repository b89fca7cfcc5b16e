//! `muster advise --expect`: comparison with a committed decision.

use super::{GRPO, HYBRID, SITE};
use crate::home::Home;

#[test]
fn the_same_answer_is_as_expected() {
    let home = Home::new();
    home.write("site.yaml", SITE);
    for (options, form, headline) in [
        (
            GRPO,
            "--json",
            "ray with KubeRay on kubernetes, behind a Volcano/Kueue/KAI gang scheduler",
        ),
        (
            HYBRID,
            "--fields primary",
            "slurm with topology.conf for rail-aware placement, and kubernetes for services on other nodes",
        ),
        ("--site site.yaml", "--json", ""),
    ] {
        let answer = home.words(&format!("advise {options} {form}")).ok().stdout;
        home.write("answer.json", &answer);
        let run = home.words(&format!("advise {options} --expect answer.json"));
        if form == "--fields primary" {
            // The label is compared even where the file does not hold it.
            let said = run.code(1).stderr;
            assert!(said.contains("  addon: expected nothing, now \"topology.conf"), "{said}");
            assert!(said.contains("  hybrid: expected nothing, now \"partition nodes"), "{said}");
            // Unless only some keys are asked for.
            home.words(&format!("advise {options} {form} --expect answer.json")).ok();
            continue;
        }
        let run = run.ok();
        assert_eq!(run.stdout, "");
        assert!(
            run.stderr.starts_with(&format!("as answer.json expects: {headline}")),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn another_answer_is_shown_and_can_be_accepted() {
    let home = Home::new();
    home.write("facts.yaml", "nodes: 8\ntightly_coupled: true\nbare_metal: true\n");
    let answer = home.words("advise --facts facts.yaml --fields primary,addon,hybrid").ok().stdout;
    home.write("decision.json", &answer);
    home.words("advise --facts facts.yaml --expect decision.json").ok();

    // The mix shifts: services come.
    home.write(
        "facts.yaml",
        "nodes: 8\ntightly_coupled: true\nbare_metal: true\nlong_lived_services: true\n",
    );
    let run = home.words("advise --facts facts.yaml --expect decision.json").code(1);
    assert_eq!(run.stdout, "");
    insta::assert_snapshot!(run.stderr, @r#"
    error: the answer differs from decision.json: 1 difference
      hybrid: expected nothing, now "partition nodes: Slurm pool + K8s pool, clear boundary"
    hint: to accept it: muster advise --facts facts.yaml --fields primary,addon,hybrid > decision.json
    "#);
    // The command in the hint accepts the new answer.
    let again = run.stderr.lines().last().unwrap().split("muster ").nth(1).unwrap();
    let (words, file) = again.split_once(" > ").unwrap();
    let accepted = home.words(words).ok().stdout;
    home.write(file, &accepted);
    home.words("advise --facts facts.yaml --expect decision.json").ok();

    let whole = home.words("advise --facts facts.yaml --json").ok().stdout;
    home.write("whole.json", &whole.replacen("[", "[{\"id\": \"made-up\"},", 1));
    // A reason that changed is a note: the decision is the same.
    let said = home.words("advise --facts facts.yaml --expect=whole.json").ok().stderr;
    let note = "note: rules[made-up]: expected {\"id\":\"made-up\"}, now nothing";
    assert!(said.contains(note) && said.contains("as whole.json expects"), "{said}");
    // Unless its key is asked for.
    home.words("advise --facts facts.yaml --fields rules --expect=whole.json").code(1);
}

#[test]
fn a_batch_is_compared_line_by_line() {
    let home = Home::new();
    let lines = "{\"nodes\":4}\n{\"nodes\":0}\n{\"edge_or_dev\":true}\n";
    let answers = home.with_stdin(&["advise", "--batch"], lines).code(2).stdout;
    home.write("answers.jsonl", &answers);
    let run = home.with_stdin(&["advise", "--batch", "--expect", "answers.jsonl"], lines).ok();
    assert!(run.stderr.ends_with("as answers.jsonl expects: 3 lines\n"), "{}", run.stderr);
    assert_eq!(run.stdout, "");

    let fewer = home
        .with_stdin(&["advise", "--batch", "--expect", "answers.jsonl"], "{\"nodes\":4}\n")
        .code(1);
    assert!(fewer.stderr.contains("\n  line 2: expected {\"error\":"), "{}", fewer.stderr);
    let more = format!("{lines}{{}}\n");
    let more = home.with_stdin(&["advise", "--batch", "--expect", "answers.jsonl"], &more).code(1);
    assert!(more.stderr.contains("\n  line 4: expected nothing, now {"), "{}", more.stderr);
    let other = lines.replace("true", "false");
    let other =
        home.with_stdin(&["advise", "--batch", "--expect", "answers.jsonl"], &other).code(1);
    assert!(
        other.stderr.contains("\n  line 3: primary: expected \"k3s\", now \"kubernetes\""),
        "{}",
        other.stderr
    );
    assert!(
        other
            .stderr
            .ends_with("hint: to accept it: muster advise --batch < FACTS > answers.jsonl\n"),
        "{}",
        other.stderr
    );
}

#[test]
fn a_batch_may_be_larger_than_any_file_that_people_write() {
    let home = Home::new();
    let line = "{\"nodes\":16,\"tightly_coupled\":true,\"multi_tenant\":true,\"python_native_pipeline\":true}\n";
    let lines = line.repeat(2_000);
    home.write("facts.jsonl", &lines);
    let batch = |options: &[&str]| {
        let facts = std::fs::File::open(home.path("facts.jsonl")).unwrap();
        let output = home
            .command(&[&["advise", "--batch"], options].concat())
            .stdin(facts)
            .output()
            .unwrap();
        crate::home::HomeRun::of(output)
    };
    let answers = batch(&[]).ok().stdout;
    assert!(answers.len() > 16 << 20, "{} bytes", answers.len());
    home.write("answers.jsonl", &answers);
    assert_eq!(
        batch(&["--expect", "answers.jsonl"]).ok().stderr,
        "as answers.jsonl expects: 2000 lines\n"
    );

    // Many differences are shown up to a limit, and counted.
    home.write("answers.jsonl", &answers.replace("\"primary\":\"ray\"", "\"primary\":\"slurm\""));
    let said = batch(&["--expect", "answers.jsonl"]).code(1).stderr;
    assert!(said.starts_with("error: the answer differs from answers.jsonl: "), "{said}");
    assert!(said.lines().count() < 30 && said.contains("\n  and "), "{said}");
}

#[test]
fn a_file_that_holds_no_answer_is_a_mistake() {
    let home = Home::new();
    let check = |text: &str, said: &str| {
        home.write("answer.json", text);
        let run = home.words("advise --nodes 4 --expect answer.json").code(2);
        assert!(run.stderr.starts_with(&format!("error: answer.json is {said}")), "{}", run.stderr);
        assert!(
            run.stderr.contains("\nhint: --expect takes the output of `muster advise … --json`"),
            "{}",
            run.stderr
        );
    };
    check("", "not JSON: ");
    check("{\"primary\": \"ray\"", "not JSON: ");
    check("[]", "JSON, but not an answer");
    let said = home.with_stdin(&["advise", "--batch", "--expect", "-"], "{}\n").code(2).stderr;
    assert!(
        said.starts_with("error: facts and --expect cannot both be read from stdin\n"),
        "{said}"
    );
    let run = home.words("advise --nodes 4 --expect missing.json").code(2);
    assert_eq!(run.stderr, "error: cannot read missing.json: no such file or directory\n");
}
