//! `muster init none`: the page of conventions, its output file, and that it is not overwritten.

use crate::home::Home;

#[test]
fn the_page_is_written_once() {
    let home = Home::new();
    let run = home.words("init none --nodes 2 --gpus 12 --users 5").ok();
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("wrote CONVENTIONS.md\nhint: "), "{}", run.stderr);
    let page = home.read("CONVENTIONS.md");
    assert!(page.contains("12 GPUs on 2 machines, for 5 people"), "{page}");
    let again = home.words("init none --gpus 8").code(2);
    assert!(
        again.stderr.contains("CONVENTIONS.md already exists") && again.stderr.contains("--force"),
        "{}",
        again.stderr
    );
    assert_eq!(home.read("CONVENTIONS.md"), page, "what was there stays");
    home.words("init none --gpus 8 --force").ok();
    assert!(home.read("CONVENTIONS.md").contains("8 GPUs on 1 machine"));
    assert!(!home.path("m").exists(), "no daemon is started");
}

#[test]
fn a_dash_is_stdout() {
    let home = Home::new();
    let run = home.words("init none --gpus 8 -o -").ok();
    assert!(run.stdout.starts_with("# Who uses which GPU\n"));
    assert_eq!(run.stderr, "");
    assert!(!home.path("CONVENTIONS.md").exists());
}

#[test]
fn machines_come_from_a_cluster_file() {
    let home = Home::new();
    home.write(
        "cluster.yaml",
        "nodes:\n  - {name: ada, gpus: 4, gpu: h100, cpus: 64, memory: 512GiB}\n",
    );
    let run = home.words("init none --cluster cluster.yaml --users 3 -o -").ok();
    assert!(run.stdout.contains("| ada | 4 × h100 | anything |"), "{}", run.stdout);
    assert!(run.stdout.contains("4 GPUs on 1 machine, for 3 people"));
}

#[test]
fn too_many_gpus_are_said() {
    let home = Home::new();
    let run = home.words("init none --gpus 40 -o -").ok();
    assert!(
        run.stderr.contains("warning: 40 GPUs: from 33 GPUs on, a scheduler is recommended"),
        "{}",
        run.stderr
    );
    assert!(home.words("init none --gpus 32 -o -").ok().stderr.is_empty());
}

#[test]
fn mistakes_are_told() {
    let home = Home::new();
    for (words, part) in [
        ("init none", "--gpus"),
        ("init none --gpus 0", "--gpus"),
        ("init none --gpus -3", "--gpus"),
        ("init none --gpus 1.5", "--gpus"),
        ("init none --gpus 100000000000000000000", "--gpus"),
        ("init none --gpus 8 --cluster cluster.yaml", "cannot be used with"),
        ("init none --cluster missing.yaml", "cannot read missing.yaml"),
    ] {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains(part), "{words}: {}", run.stderr);
    }
}
