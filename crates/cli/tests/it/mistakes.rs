//! Errors: exact messages, with no effect and no daemon started.

use crate::home::Home;

#[test]
fn a_bad_file_is_shown_with_line_and_column_and_starts_nothing() {
    let home = Home::new();
    home.write("bad.yaml", "name: x\ngpsu: 8\nrun: true\n");
    let run = home.words("run bad.yaml").code(2);
    assert_eq!(run.stdout, "");
    insta::assert_snapshot!(run.stderr, @r"
    error: there is no field `gpsu`
     --> bad.yaml:2:1
      |
    2 | gpsu: 8
      | ^^^^ did you mean `gpus`?
      |
    hint: the fields are name, kind, replicas, port, idle, nodes, min-nodes, gpus, gpu, tasks, grow-after, gpus-per-task, tasks-per-node, cpus, memory, extras, time, run, queue, priority, env, env-file, secrets, venv, conda, uv, modules, image, mounts, workdir, output, error, array, params, samples, seed, max-running, metric, early-stop, after, hold, verify, begin, checkpoint, restart, grace, protect, notify, labels, exclude, topology, reservation, slurm, kubernetes, ray, groups
    ");
    assert!(!home.path("m").exists());
}

#[test]
fn a_bad_option_is_shown_as_it_was_typed() {
    let home = Home::new();
    let run = home.words("run --time 12parsecs -- true").code(2);
    insta::assert_snapshot!(run.stderr, @r"
    error: `time` is not a length of time
     |
     | --time 12parsecs
     |        ^^^^^^^^^ expected a unit: ms, s, m, h, d or w, as in `1h30m`
    ");
    assert!(!home.path("m").exists());
    for words in
        ["run --env A -- true", "run --checkpoint USR1 -- true", "run --gpus -1 -- true", "run"]
    {
        home.words(words).code(2);
    }
}

#[test]
fn what_only_the_daemon_knows_is_shown_the_same_way() {
    let home = Home::with_gpus(2);
    home.write("train.yaml", "name: train\nnodes: 1\ngpus: 1\ngpu: h1000\nrun: true\n");
    let run = home.words("run train.yaml").code(2);
    insta::assert_snapshot!(run.stderr, @r"
    error: `gpu` names a model that no node has
     --> train.yaml:4:6
      |
    4 | gpu: h1000
      |      ^^^^^ this machine has virtual (2)
      |
    hint: `muster nodes` lists them
    ");
    let run = home.words("run --nodes 2 --gpus 1 -- true").code(2);
    insta::assert_snapshot!(run.stderr, @r"
    error: 2 nodes are asked for, and there is one
     |
     | --nodes 2
     |         ^ this machine is one node
     |
    hint: tasks that may share a node: `tasks: 2` with `gpus-per-task: 1`
    ");
    assert!(home.jobs().is_empty());
}

#[test]
fn files_that_are_no_job_files() {
    let home = Home::new();
    home.write("train.sh", "#!/bin/sh\ntrue\n");
    let run = home.words("run train.sh").code(2);
    assert_eq!(
        run.stderr,
        "error: train.sh is a script, not a YAML file\nhint: to run it: muster run [OPTIONS] -- ./train.sh\n"
    );
    let run = home.words("run missing.yaml").code(2);
    assert_eq!(run.stderr, "error: cannot read missing.yaml: no such file or directory\n");
    let run = home.words("run -t 12h").code(2);
    assert!(run.stderr.contains("this needs a terminal"), "{}", run.stderr);
    let run = home.words("run 12h").code(2);
    assert!(run.stderr.contains("a time limit is `--time 12h`"), "{}", run.stderr);
    std::fs::write(home.path("bytes.yaml"), [0xff, 0xfe]).unwrap();
    let run = home.words("run bytes.yaml").code(2);
    assert_eq!(run.stderr, "error: bytes.yaml is not UTF-8 text\n");
    std::fs::File::create(home.path("huge.yaml")).unwrap().set_len(17 << 20).unwrap();
    let run = home.words("run huge.yaml").code(2);
    assert_eq!(run.stderr, "error: huge.yaml is larger than 16 MiB\n");
    assert!(!home.path("m").exists());
}

#[test]
fn a_bad_queue_file_is_shown_line_by_line_and_the_daemon_does_not_start() {
    let home = Home::new();
    home.write("bad.yaml", "queues:\n  - {name: a, wieght: 2}\n");
    let run = home.words("serve --queues bad.yaml").code(2);
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(lines[0].starts_with("error: there is no field `wieght`"), "{}", run.stderr);
    assert!(lines[1].trim_start().starts_with("--> bad.yaml:2:"), "{}", run.stderr);
}

#[test]
fn queues_are_checked_before_they_are_sent() {
    let home = Home::with_gpus(2);
    home.write("queues.yaml", "queues:\n  - {name: a, wieght: 2}\n");
    let run = home.words("queues --set queues.yaml").code(2);
    assert!(run.stderr.contains("queues.yaml:2:"), "{}", run.stderr);
    home.write("queues.yaml", "queues:\n  - {name: a, weight: 2}\n  - {name: b}\n");
    home.words("queues --set queues.yaml").ok();
    let queues = home.words("queues").ok().stdout;
    assert!(queues.lines().any(|line| line.starts_with("a ")), "{queues}");
}

#[test]
fn a_home_that_cannot_be_is_refused_with_a_hint() {
    let home = Home::new();
    let run = home.command(&["ps"]).env("MUSTER_HOME", "relative").output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.contains("MUSTER_HOME is `relative`") && said.contains("hint: "), "{said}");

    // A state directory that cannot be created: the error of the daemon is shown, with its cause.
    let run =
        home.command(&["run", "--", "true"]).env("MUSTER_HOME", "/proc/muster").output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.starts_with("error: cannot start the daemon: cannot use /proc/muster"), "{said}");
    assert!(said.contains("such file") && said.contains("hint: make it writable"), "{said}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let home = Home::new();
    let mut child = home.spawn(&["schema"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_dependency_on_a_job_that_is_not_there_is_named() {
    let home = Home::with_gpus(1);
    let refused = home.words("run --after 999 -- true").code(1).stderr;
    assert!(refused.contains("it waits for job 999, and there is no such job yet"), "{refused}");
    assert!(refused.contains("muster ps --all"), "{refused}");
}

#[test]
fn an_option_for_sbatch_is_shown_as_it_was_typed() {
    let home = Home::new();
    let said = home.words("run --dry-run --on slurm --sbatch=--gres=gpu:3 -- true").code(2).stderr;
    assert!(said.contains(" | --sbatch --gres=gpu:3\n"), "{said}");
}

#[test]
fn a_command_without_dashes_is_offered_with_them() {
    let home = Home::new();
    for (words, line) in [
        ("run sh train.sh", "muster run -- sh train.sh"),
        ("run --gpus 2 sh -c id", "muster run --gpus 2 -- sh -c id"),
        ("run sh --lr 3 --epochs=2", "muster run -- sh --lr 3 --epochs=2"),
    ] {
        let run = home.words(words).code(2);
        let expected =
            format!("error: `sh` is a program, not a job file\nhint: to run it: {line}\n");
        assert_eq!(run.stderr, expected, "{words}");
    }
    assert!(!home.path("m").exists());
}

#[test]
fn words_of_other_tools_lead_to_the_verb() {
    let home = Home::new();
    for (word, verb) in [
        ("kill", "muster cancel"),
        ("stop", "muster stop-daemon"),
        ("status", "muster ps"),
        ("list", "muster ps"),
        ("submit", "muster run"),
        ("delete", "muster cancel"),
        ("queue", "muster queues"),
        ("squeue", "muster ps"),
    ] {
        let run = home.words(&format!("{word} 3")).code(2);
        assert!(
            run.stderr.starts_with(&format!("error: there is no `muster {word}`\nhint: ")),
            "{run:?}"
        );
        assert!(run.stderr.contains(verb), "{run:?}");
    }
}

#[test]
fn schedulers_of_kubernetes_as_targets_of_export_lead_to_the_option() {
    let home = Home::new();
    for (word, command) in [
        ("kai", "`muster export kubernetes --scheduler kai FILE`"),
        ("volcano", "`muster export kubernetes --scheduler volcano FILE`"),
        ("jobset", "`muster export kubernetes FILE`"),
        ("nomad", "subcommands of `muster export`: "),
    ] {
        let run = home.words(&format!("export {word} job.yaml")).code(2);
        let said = format!("error: there is no `muster export {word}`\nhint: {command}");
        assert!(run.stderr.starts_with(&said), "{run:?}");
    }
}

/// With `--json`, every failure is one line of JSON on stderr, with nothing on stdout.
#[test]
fn errors_are_json_where_data_is() {
    let home = Home::new();
    home.write("bad.yaml", "name: x\ngpsu: 8\nrun: true\n");
    let no_daemon = [
        "ps",
        "show 1",
        "explain 1",
        "wait 1",
        "cancel 1",
        "hold 1",
        "release 1",
        "requeue 1",
        "checkpoint 1",
        "queues",
        "usage",
        "nodes",
        "reserve",
    ];
    let mut failing: Vec<(String, &str, u64)> = Vec::new();
    for verb in no_daemon {
        failing.push((format!("{verb} --json"), "no_daemon", 3));
    }
    for (words, code) in [
        ("run bad.yaml --json", "invalid_spec"),
        ("run missing.yaml -o json", "usage"),
        ("ps --json --no-such-option", "usage"),
        ("frobnicate --json", "usage"),
        ("cancel --json", "usage"),
        ("import missing.sbatch --json", "usage"),
    ] {
        failing.push((words.to_owned(), code, 2));
    }
    for (words, code, exit) in &failing {
        let run = home.words(words);
        assert_eq!((run.code as u64, run.stdout.as_str()), (*exit, ""), "{words}: {run:?}");
        let last = run.stderr.lines().last().unwrap_or_default();
        let line: serde_json::Value =
            serde_json::from_str(last).unwrap_or_else(|_| panic!("{words}: {run:?}"));
        let error = &line["error"];
        assert_eq!(
            (error["code"].as_str(), error["exit_code"].as_u64()),
            (Some(*code), Some(*exit)),
            "{words}: {line}"
        );
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{words}: {line}");
        assert!(error["hints"].is_array(), "{words}: {line}");
    }
    // An error code of the API is passed on.
    let home = Home::with_gpus(1);
    let run = home.words("show 99 --json").code(4);
    let line: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(line["error"]["code"], "not_found");
    home.write("bad.yaml", "name: x\ngpus: 9\nrun: true\n");
    let run = home.words("run bad.yaml --json");
    let line: serde_json::Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
    assert!(line["error"]["code"].is_string(), "{run:?}");
}
