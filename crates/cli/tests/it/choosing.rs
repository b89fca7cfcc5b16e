//! docs/choosing.md: every command in it works, and its table matches the program's answers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::{Home, HomeRun};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/choosing.md")).unwrap()
}

/// Returns a home with the examples of the repository.
fn home() -> Home {
    let home = Home::new();
    std::fs::create_dir(home.path("examples")).unwrap();
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), home.path("examples").join(entry.file_name())).unwrap();
    }
    home
}

/// Runs a line as a shell would, redirections included.
fn shell(home: &Home, line: &str) -> HomeRun {
    let script = format!("muster() {{ '{}' \"$@\"; }}\n{line}", env!("CARGO_BIN_EXE_muster"));
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home.path("home"))
        .env("MUSTER_HOME", home.path("m"))
        .env("TZ", "UTC")
        .current_dir(home.path(""));
    HomeRun::of(command.output().unwrap())
}

#[test]
fn every_command_in_its_blocks_works() {
    let home = home();
    let page = page();
    let mut inside = false;
    let mut count = 0;
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            _ if inside => {
                let run = shell(&home, line);
                assert_eq!(run.code, 0, "{line}\n{}\n{}", run.stdout, run.stderr);
                count += 1;
            }
            _ => {}
        }
    }
    assert!(count >= 10, "only {count} commands were found");
    assert!(!home.path("m").exists(), "no daemon is started");
}

#[test]
fn the_table_says_what_the_program_answers() {
    let home = home();
    home.write(
        "cluster.yaml",
        "nodes:\n  - {name: \"node[01-04]\", gpus: 8, gpu: h100, cpus: 64, memory: 512GiB}\n",
    );
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("`muster "));
    let mut advised = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, take, command] = cells[..] else { panic!("{row} has not three cells") };
        let command = command.trim_matches('`');
        let run = shell(&home, command);
        assert_eq!(run.code, 0, "{command}\n{}\n{}", run.stdout, run.stderr);
        if command.starts_with("muster advise") {
            let answer = shell(&home, &format!("{command} --fields primary")).stdout;
            let plane = answer.trim().trim_start_matches("{\"primary\":\"").trim_end_matches("\"}");
            let word = match plane {
                "none" => "nothing",
                "slurm" => "Slurm",
                "kubernetes" => "Kubernetes",
                "ray" => "Ray",
                "k3s" => "k3s",
                other => panic!("{other} is no plane"),
            };
            assert!(take.contains(word), "{command} answers {plane}, the table says {take}");
            advised += 1;
        }
    }
    assert!(advised >= 7, "only {advised} rows ask for advice");
}

/// A change of what was committed is noticed, as the page promises.
#[test]
fn a_changed_site_is_noticed() {
    let home = home();
    shell(&home, "muster advise --site examples/site-edge.yaml --json > decision.json").ok();
    let run =
        shell(&home, "muster advise --site examples/site-research-lab.yaml --expect decision.json")
            .code(1);
    assert!(
        format!("{}{}", run.stdout, run.stderr).contains("slurm"),
        "{} {}",
        run.stdout,
        run.stderr
    );
}
