//! The interview of `muster advise --ask`, on a terminal and through a pipe.

use crate::home::Home;
use crate::pty::Typist;

const NODES: &str = "how many nodes does a single job span? [1] ";
const COUPLED: &str = "(all-reduce, MPI)? [y/N] ";
const METAL: &str = "without a container platform? [y/N] ";
const SERVICES: &str = "(inference endpoints, databases)? [y/N] ";
const PYTHON: &str = "(RL, Ray Data, tuning)? [y/N] ";
const EDGE: &str = "on few machines? [y/N] ";

#[test]
fn nothing_given_on_a_terminal_asks_only_what_matters() {
    let home = Home::new();
    let mut person = Typist::new(&home, &["advise"]);
    person.until(NODES);
    person.keys("4\r");
    person.until(COUPLED);
    person.keys("y\r");
    person.until(METAL);
    person.keys("YES\r");
    // Slurm by now; only services can still split the fleet.
    person.until(SERVICES);
    person.keys("\r");
    person.until(
        "same answer without questions: muster advise --nodes 4 --tightly-coupled --bare-metal",
    );
    person.until("slurm with topology.conf for rail-aware placement\r\n");
    assert_eq!(person.code(), 0);
    let seen = person.seen();
    assert!(!seen.contains(PYTHON) && !seen.contains(EDGE), "{seen}");
    assert!(
        seen.contains(
            "not asked, as they do not change the answer: multi_tenant, python_native_pipeline, edge_or_dev"
        ),
        "{seen}"
    );
}

#[test]
fn wrong_answers_are_asked_again_and_questions_explained() {
    let home = Home::new();
    let mut person = Typist::new(&home, &["advise", "--ask", "--fields", "primary"]);
    for (wrong, why) in [
        ("0", "`nodes` is not a whole number from 1 to 10000000: the smallest is 1"),
        ("1.5", "not a fraction"),
        ("many", "expected digits only, such as `4`"),
    ] {
        person.until(NODES);
        person.keys(&format!("{wrong}\r"));
        person.until(why);
    }
    person.keys("?\r");
    person.until("on the command line: --nodes 1\r\n  with 1 the answer can be kubernetes, k3s or ray; with more slurm, kubernetes, k3s or ray");
    person.keys("\r");
    person.until(PYTHON);
    person.keys("perhaps\r");
    person.until("answer y or n");
    person.keys("?\r");
    person.until("with yes the answer can be ray; with no kubernetes or k3s");
    person.keys("n\r");
    person.until(EDGE);
    person.keys("y\r");
    person.until("{\"primary\":\"k3s\"}");
    assert_eq!(person.code(), 0);
    let seen = person.seen();
    assert!(!seen.contains(COUPLED), "one node: nothing to couple\n{seen}");
    assert_eq!(seen.matches(NODES).count(), 5, "{seen}");
}

#[test]
fn what_is_given_is_not_asked() {
    let home = Home::new();
    let run = home
        .with_stdin(&["advise", "--ask", "--nodes", "4", "--python-native-pipeline"], "y\nn\n\n")
        .ok();
    assert!(!run.stderr.contains(NODES) && !run.stderr.contains(PYTHON), "{}", run.stderr);
    assert!(
        run.stderr
            .ends_with("muster advise --nodes 4 --tightly-coupled --python-native-pipeline\n\n"),
        "{}",
        run.stderr
    );
    assert_eq!(
        run.stdout,
        home.words("advise --nodes 4 --tightly-coupled --python-native-pipeline").ok().stdout
    );
    let tuned = home.with_stdin(
        &["advise", "--ask", "--nodes", "4", "--rule", "multi-node=8", "--ruleset", "guide"],
        "n\nn\n",
    );
    assert!(
        tuned
            .ok()
            .stderr
            .ends_with("muster advise --nodes 4 --rule multi-node=8 --ruleset guide\n\n"),
        "what tunes the rules is repeated"
    );
    let settled = home
        .with_stdin(
            &["advise", "--ask", "--nodes", "1", "--edge-or-dev", "--python-native-pipeline"],
            "",
        )
        .ok();
    assert!(settled.stderr.contains("not asked"), "{}", settled.stderr);
}

#[test]
fn leaving_advises_nothing_and_says_how_to_go_on() {
    let home = Home::new();
    for leave in ["q\r", "\u{4}"] {
        let mut person = Typist::new(&home, &["advise"]);
        person.until(NODES);
        person.keys("4\r");
        person.until(COUPLED);
        person.keys(leave);
        person.until("quit; no advice was given");
        person.until("`muster advise --nodes 4` takes the other facts as false");
        assert_eq!(person.code(), 130);
    }
    assert!(!home.path("m").exists());
}

/// A site is asked for, its file is written, and the file gives the same answer.
#[test]
fn a_site_is_asked_for_and_written() {
    let home = Home::new();
    let numbers = "\n40\n320\n40\nfour\n41\n4\n0,5\n0.5\nh100\n";
    let lists = "batch, pretraining\n2, batch\n1\nslurm\n";
    // Whatever else is asked is explained, and has a default.
    let input = format!("{numbers}{lists}{}", "?\n\n".repeat(60));
    let run = home.with_stdin(&["advise", "--ask", "--site", "site.yaml"], &input).ok();
    let seen = run.stderr;
    for text in [
        "this number is needed",
        "`teams` is a whole number from 1 to 10000000, not `four`",
        "`platform-fte` is a number with at most two decimals, such as 0.25, not `0,5`",
        "there are more teams than users",
        "`pretraining` is neither a number from 1 to 10 nor a name in the list",
        "with the other answers as they are, yes leads to ",
        "same answer without questions: muster advise --site site.yaml",
    ] {
        assert!(seen.contains(text), "{text}:\n{seen}");
    }
    let written = std::fs::read_to_string(home.path("site.yaml")).unwrap();
    for line in [
        "nodes: 40",
        "training: true",
        "coupled-training: true",
        "operates: [slurm]",
        "models: [h100]",
    ] {
        assert!(written.contains(line), "{line}:\n{written}");
    }
    assert_eq!(home.words("advise --site site.yaml").ok().stdout, run.stdout);
    // Nothing that was left out changes the answer by itself.
    let answer: serde_json::Value = home.words("advise --site site.yaml --json").json();
    for flip in answer["flips"].as_array().unwrap() {
        let change = flip["change"].as_object().unwrap();
        let fact = change.keys().next().unwrap();
        let (_, key) = fact.split_once('.').unwrap();
        let is_written = written.contains(&format!(" {key}: "))
            || ["rdma", "bare-metal", "mig"].contains(&key)
            || key.starts_with("operates-");
        assert!(change.len() > 1 || is_written, "{fact} was not asked:\n{written}");
    }
    let refused = home.words("advise --ask --site site.yaml").code(2);
    assert!(refused.stderr.contains("site.yaml already exists"), "{}", refused.stderr);
    home.words("advise --ask --site -").code(2);
    let nowhere = home.words("advise --ask --site gone/site.yaml").code(2);
    assert!(nowhere.stderr.contains("mkdir -p gone"), "{}", nowhere.stderr);
}

#[test]
fn leaving_writes_no_site() {
    let home = Home::new();
    let run = home.with_stdin(&["advise", "--ask", "--site", "site.yaml"], "4\n32\nq\n").code(130);
    assert!(run.stderr.contains("no file was written"), "{}", run.stderr);
    assert!(!home.path("site.yaml").exists());
}
