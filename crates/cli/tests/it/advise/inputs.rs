//! Facts from files, jobs and sites, and their precedence.

use super::{GRPO, SITE};
use crate::home::Home;

#[test]
fn options_win_over_the_file() {
    let home = Home::new();
    home.write(
        "facts.yaml",
        "nodes: 4\ntightly_coupled: true\nbare-metal: true\nrules: {multi-node: 3}\n",
    );
    let primary = |options: &str| {
        home.words(&format!("advise --facts facts.yaml --fields primary,addon {options}"))
            .ok()
            .stdout
    };
    assert!(primary("").starts_with(r#"{"primary":"slurm""#));
    assert!(primary("--bare-metal=false").contains("(REQUIRED)"));
    assert!(primary("--nodes 2").starts_with(r#"{"primary":"kubernetes","addon":"GPU Operator""#));
    assert!(primary("--nodes 2 --rule multi-node=2").starts_with(r#"{"primary":"slurm""#));
    let piped =
        home.with_stdin(&["advise", "--facts", "-", "--json"], "nodes: 4\nmulti_tenant: true\n");
    assert_eq!(piped.ok().stdout, home.words("advise --nodes 4 --multi-tenant --json").ok().stdout);
}

#[test]
fn a_threshold_of_the_site_is_shown_when_it_is_used() {
    let home = Home::new();
    let run = home.words("advise --nodes 4 --tightly-coupled --rule multi-node=8 --json").ok();
    assert!(run.stdout.contains("this site sets multi-node to 8"), "{}", run.stdout);
    let default = home.words("advise --nodes 4 --tightly-coupled --rule multi-node=2 --json").ok();
    assert!(!default.stdout.contains("this site sets"), "{}", default.stdout);
}

#[test]
fn a_job_tells_its_shape_and_options_the_rest() {
    let home = Home::new();
    home.write(
        "train.yaml",
        "name: train\nqueue: research/vision\nnodes: 4\ngpus: 8\nrun: torchrun train.py\n",
    );
    let run = home.words("advise --job train.yaml --bare-metal --fields primary").ok();
    assert_eq!(run.stdout, "{\"primary\":\"slurm\"}\n");
    let said: Vec<&str> = run.stderr.lines().collect();
    assert!(said[0].starts_with("train.yaml: nodes 4: "), "{}", run.stderr);
    assert!(said[1].starts_with("train.yaml: tightly_coupled true: "), "{}", run.stderr);
    assert_eq!(
        said[2],
        "not in a job file, so false unless given as options: long_lived_services, multi_tenant, python_native_pipeline, edge_or_dev"
    );
    let over = home.words("advise --job train.yaml --bare-metal --nodes 1 --fields primary").ok();
    assert_eq!(over.stdout, "{\"primary\":\"kubernetes\"}\n");

    home.write("two.yaml", "name: a\nrun: a\n---\nname: b\nrun: b\n");
    let refused = home.words("advise --job two.yaml").code(2).stderr;
    assert!(
        refused.starts_with("error: two.yaml holds 2 jobs, but advice takes one\nhint: "),
        "{refused}"
    );
    home.write("bad.yaml", "name: a\nnods: 2\nrun: a\n");
    let refused = home.words("advise --job bad.yaml").code(2).stderr;
    assert!(refused.contains("bad.yaml:2:1") && refused.contains("nodes"), "{refused}");
}

#[test]
fn a_site_is_advised_with_its_own_numbers() {
    let home = Home::new();
    home.write("site.yaml", SITE);
    let hybrid = |options: &str| {
        home.words(&format!("advise --site site.yaml --fields primary,hybrid {options}"))
            .ok()
            .stdout
    };
    assert!(hybrid("").contains("federated"), "{}", hybrid(""));
    assert_ne!(hybrid("--rule federated-gpus=1000"), hybrid(""));
    let refused = home.words("advise --site site.yaml --nodes 4").code(2).stderr;
    assert_eq!(
        refused,
        "error: facts of a workload cannot be combined with --site\nhint: write them under `mix:` in the site file\n"
    );
    let refused = home.words("advise --site site.yaml --rule schedulergpus=4").code(2).stderr;
    assert!(refused.contains("did you mean `scheduler-gpus`?"), "{refused}");
    let piped = home.with_stdin(&["advise", "--site", "-"], SITE).ok();
    // Only the command that shows more names the input.
    let piped = piped.stdout.replace("--site - --more", "--site site.yaml --more");
    assert_eq!(piped, home.words("advise --site site.yaml").ok().stdout);
}

#[test]
fn no_facts_without_a_terminal_is_an_error() {
    let home = Home::new();
    for words in ["advise", "advise --ruleset guide --details"] {
        let run = home.words(words).code(2);
        assert!(
            run.stderr.starts_with("error: no facts of the workload are given\nhint: "),
            "{}",
            run.stderr
        );
        assert_eq!(run.stdout, "");
    }
    let run = home.words("advise --json").code(2);
    assert!(
        run.stderr.contains("\"message\":\"no facts of the workload are given\""),
        "{}",
        run.stderr
    );
    assert_eq!(run.stdout, "");
    home.words(&format!("advise {GRPO}")).ok();
}
