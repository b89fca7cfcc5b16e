//! `muster init kueue`, `volcano` and `kai`: which files are written, what is said of settings that the
//! scheduler cannot express, and files that were edited by hand. `muster-kubernetes` tests the texts, and
//! `tests/kubernetes` a real API server.

use crate::home::Home;

fn site() -> Home {
    let home = Home::new();
    let cluster = "\
levels: [rack]
nodes:
  - {name: \"gpu-[1-2]\", gpus: 8, gpu: h100, cpus: 96, memory: 1000GiB, domain: {rack: r1}}
";
    home.write("cluster.yaml", cluster);
    home.write(
        "queues.yaml",
        "queues: [{name: vision, quota: {h100: 8}, budget: {gpu-hours: 10, every: 7d}, users: [a]}]\n",
    );
    home
}

#[test]
fn each_scheduler_gets_its_files_and_says_what_it_cannot_express() {
    let home = site();
    for (plane, name, files) in [
        ("kueue", "Kueue 0.19", "node-labels.sh, config.yaml, queues.yaml"),
        ("volcano", "Volcano 1.15", "node-labels.sh, config.yaml, queues.yaml, topology.yaml"),
        ("kai", "KAI 0.12", "node-labels.sh, queues.yaml, topology.yaml"),
    ] {
        let words = format!("init {plane} --cluster cluster.yaml --queues queues.yaml");
        let run = home.words(&words).ok();
        assert_eq!(run.stdout, "", "{plane}");
        let expected =
            format!("they are for {name}; read them, then apply them in the order {files};");
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
        assert!(run.stderr.contains(": vision: `budget` has no counterpart\n"), "{}", run.stderr);
        for file in files.split(", ") {
            let text = home.read(&format!("{plane}/{file}"));
            let head = format!("# Written by `muster init {plane}`, fingerprint ");
            assert!(text.lines().take(2).any(|line| line.starts_with(&head)), "{text}");
        }
        assert!(home.words(&words).ok().stderr.contains("all unchanged"));
    }
    assert!(!home.path("m").exists(), "no daemon is started");
}

#[test]
fn an_edited_file_is_kept_and_a_change_is_shown() {
    let home = site();
    let words = "init kueue --cluster cluster.yaml --queues queues.yaml";
    home.words(words).ok();
    let edited =
        home.read("kueue/queues.yaml").replace("nominalQuota: \"8\"", "nominalQuota: \"6\"");
    home.write("kueue/queues.yaml", &edited);
    let run = home.words(words).code(1);
    assert!(run.stderr.contains("files edited by hand: queues.yaml; nothing was written"));
    let shown = home.words(&format!("{words} --diff")).code(1).stdout;
    assert!(
        shown.contains("-        nominalQuota: \"6\"\n+        nominalQuota: \"8\"\n"),
        "{shown}"
    );
    home.words(&format!("{words} --force")).ok();
    assert!(!home.read("kueue/queues.yaml").contains("nominalQuota: \"6\""));
}

#[test]
fn what_cannot_be_written_leads_on() {
    let home = site();
    home.write("plain.yaml", "nodes: [{name: a, gpus: 8, gpu: h100}]\n");
    home.words("init kai --cluster plain.yaml").ok();
    for (words, error, hint) in [
        (
            "init kueue --cluster plain.yaml",
            "error: `cpus` is missing for 1 of 1 nodes, such as a\n",
            "hint: add it to the cluster file; `kubectl get nodes -o json | muster inventory --from -` writes one",
        ),
        (
            "init volcano --cluster cluster.yaml --namespace Team_1",
            "error: namespace `Team_1` cannot be the name of an object of Kubernetes\n",
            "hint: names have lower-case letters, digits,",
        ),
    ] {
        let said = home.words(words).code(2).stderr;
        assert!(said.contains(error) && said.contains(hint), "{words}: {said}");
    }
}
