//! Diagnostics as people see them: one row per mistake, with the text that is printed.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::{cluster_complaint, complaint, complaint_on, node, queues_complaint};

#[test]
fn a_model_that_no_node_has() {
    assert_snapshot!(complaint("name: fsdp\nnodes: 2\ngpus: 8\ngpu: h1000\ntime: 12h\nrun: torchrun train.py\n"), @r"
    error: `gpu` names a model that no node has
     --> train.yaml:4:6
      |
    4 | gpu: h1000
      |      ^^^^^ this cluster has h100 (16) and a100 (8)
      |
    hint: did you mean `h100`? `muster nodes` lists them
    ");
    assert_snapshot!(complaint("gpus: 1\ngpu: [h100, tpu]\nrun: a"), @r"
    error: `gpu` names a model that no node has
     --> train.yaml:2:13
      |
    2 | gpu: [h100, tpu]
      |             ^^^ this cluster has h100 (16) and a100 (8)
      |
    hint: `muster nodes` lists them
    ");
    assert_snapshot!(complaint_on("gpus: 1\ngpu: h100\nrun: a", &[node("n1", &[])], &json!({})), @r"
    error: `gpu` names a model that no node has
     --> train.yaml:2:6
      |
    2 | gpu: h100
      |      ^^^^ this machine has no GPU
      |
    hint: `muster nodes` lists them
    ");
    assert_snapshot!(complaint("gpu: h100\nrun: a"), @r"
    error: `gpu` names a model, but no GPU is asked for
     --> train.yaml:1:1
      |
    1 | gpu: h100
      | ^^^ the number of GPUs is missing
      |
    hint: add `gpus: 1`
    ");
    assert_snapshot!(complaint("gpus: h100:2\nrun: a"), @r"
    error: `gpus` is not a number of GPUs
     --> train.yaml:1:7
      |
    1 | gpus: h100:2
      |       ^^^^^^ the GPU model belongs in the field `gpu`
      |
    hint: write `gpu: h100` and `gpus: 2`
    ");
    assert_snapshot!(complaint("gpus: 1\ngpu: [h100, H100]\nrun: a"), @r"
    error: two models are named `h100`
     --> train.yaml:2:13
      |
    2 | gpu: [h100, H100]
      |       ----  ^^^^ again here
      |       |
      |       first here
    ");
}

#[test]
fn fields_that_do_not_exist_or_come_twice() {
    assert_snapshot!(complaint("gpsu: 2\nrun: a"), @r"
    error: there is no field `gpsu`
     --> train.yaml:1:1
      |
    1 | gpsu: 2
      | ^^^^ did you mean `gpus`?
      |
    hint: the fields are name, kind, replicas, port, idle, nodes, min-nodes, gpus, gpu, tasks, grow-after, gpus-per-task, tasks-per-node, cpus, memory, extras, time, run, queue, priority, env, env-file, secrets, venv, conda, uv, modules, image, mounts, workdir, output, error, array, params, samples, seed, max-running, metric, early-stop, after, hold, verify, begin, checkpoint, restart, grace, protect, notify, labels, exclude, topology, reservation, slurm, kubernetes, ray, groups
    ");
    assert_snapshot!(complaint("gpus_per_task: 2\nrun: a"), @r"
    error: there is no field `gpus_per_task`
     --> train.yaml:1:1
      |
    1 | gpus_per_task: 2
      | ^^^^^^^^^^^^^ did you mean `gpus-per-task`?
      |
    hint: the fields are name, kind, replicas, port, idle, nodes, min-nodes, gpus, gpu, tasks, grow-after, gpus-per-task, tasks-per-node, cpus, memory, extras, time, run, queue, priority, env, env-file, secrets, venv, conda, uv, modules, image, mounts, workdir, output, error, array, params, samples, seed, max-running, metric, early-stop, after, hold, verify, begin, checkpoint, restart, grace, protect, notify, labels, exclude, topology, reservation, slurm, kubernetes, ray, groups
    ");
    assert_snapshot!(complaint("walltime: 2h\nrun: a"), @r"
    error: there is no field `walltime`
     --> train.yaml:1:1
      |
    1 | walltime: 2h
      | ^^^^^^^^ did you mean `time`?
      |
    hint: the fields are name, kind, replicas, port, idle, nodes, min-nodes, gpus, gpu, tasks, grow-after, gpus-per-task, tasks-per-node, cpus, memory, extras, time, run, queue, priority, env, env-file, secrets, venv, conda, uv, modules, image, mounts, workdir, output, error, array, params, samples, seed, max-running, metric, early-stop, after, hold, verify, begin, checkpoint, restart, grace, protect, notify, labels, exclude, topology, reservation, slurm, kubernetes, ray, groups
    ");
    assert_snapshot!(complaint("colour: red\nrun: a"), @r"
    error: there is no field `colour`
     --> train.yaml:1:1
      |
    1 | colour: red
      | ^^^^^^ not a field of this mapping
      |
    hint: the fields are name, kind, replicas, port, idle, nodes, min-nodes, gpus, gpu, tasks, grow-after, gpus-per-task, tasks-per-node, cpus, memory, extras, time, run, queue, priority, env, env-file, secrets, venv, conda, uv, modules, image, mounts, workdir, output, error, array, params, samples, seed, max-running, metric, early-stop, after, hold, verify, begin, checkpoint, restart, grace, protect, notify, labels, exclude, topology, reservation, slurm, kubernetes, ray, groups
    ");
    assert_snapshot!(complaint("gpus: 2\nrun: a\ngpus: 4"), @r"
    error: `gpus` is written twice
     --> train.yaml:3:1
      |
    1 | gpus: 2
      | ---- first here
    2 | run: a
    3 | gpus: 4
      | ^^^^ again here
    ");
    assert_snapshot!(complaint("checkpoint: {signal: USR1, before: 60s}\ntime: 1h\nrun: a"), @r"
    error: there is no field `before`
     --> train.yaml:1:28
      |
    1 | checkpoint: {signal: USR1, before: 60s}
      |                            ^^^^^^ did you mean `grace`?
      |
    hint: the fields are signal, grace, by, then, to
    ");
}

/// A character that looks like a space is reported with its column, except where YAML allows it.
#[test]
fn spaces_that_are_none_and_quotes_that_stay_open() {
    let first = |text: &str| complaint(text).lines().take(2).collect::<Vec<_>>().join("");
    for (text, expected) in [
        ("gpus:\u{a0}8\nrun: a", "error: a no-break space (U+00A0) in column 6 --> train.yaml:1:6"),
        (
            "name: x\n\u{a0}\u{a0}gpus: 8",
            "error: a no-break space (U+00A0) in column 1 --> train.yaml:2:1",
        ),
        (
            "env:\n \u{3000}A: 1\nrun: a",
            "error: an ideographic space (U+3000) in column 2 --> train.yaml:2:2",
        ),
        (
            "after:\n-\u{a0}x\nrun: a",
            "error: a no-break space (U+00A0) in column 2 --> train.yaml:2:2",
        ),
        ("env:\n\tA: 1\nrun: a", "error: a tab (U+0009) in column 1 --> train.yaml:2:1"),
        ("env:\n  A: 1\n  \tB: 2\nrun: a", "error: a tab (U+0009) in column 3 --> train.yaml:3:3"),
        ("name: \"x\ngpus: 8\nrun: a", "error: a quote is not closed --> train.yaml:1:7"),
        (
            "name: x\nqueue: 'research\ngpus: 8\nrun: it's",
            "error: a quote is not closed --> train.yaml:2:8",
        ),
        ("name: \"x\nrun: \"a\"\n", "error: a quote is not closed --> train.yaml:1:7"),
        ("env: {A: \"x, B: y}\nrun: a\n", "error: a quote is not closed --> train.yaml:1:10"),
    ] {
        assert_eq!(first(text), expected, "{text:?}");
    }
    for fine in [
        "run: |\n  if true; then\n  \techo 1\n  \u{a0} fi\n",
        "name: x # a\u{a0}b\nrun: 'echo a\u{a0}b'",
        "env: {A: \"x\u{a0}y\"}\nrun: >-\n  echo key:\u{a0}value\n\n  - \u{a0}x\n",
        "run: echo it's \"fine",
    ] {
        assert!(
            muster_spec::parse(fine, None, &serde_json::Map::new()).is_ok(),
            "{fine:?}: {}",
            complaint(fine)
        );
    }
}

#[test]
fn yaml_that_is_none() {
    assert_snapshot!(complaint("gpus: [1\nrun: a"), @r"
    error: this is not valid YAML
     --> train.yaml:2:4
      |
    2 | run: a
      |    ^ illegal placement of ':' indicator
    ");
    assert_snapshot!(complaint("- run: a"), @r"
    error: the document is not a mapping (`field: value`)
     --> train.yaml:1:1
      |
    1 | - run: a
      | ^^^^^^^^ this is a list
    ");
    assert_snapshot!(complaint(""), @r"
    error: train.yaml holds no job
    hint: the smallest job is one line: `run: nvidia-smi`; without a file: `muster run -- nvidia-smi`
    ");
    assert_snapshot!(complaint("run: !!str a"), @r"
    error: YAML tags (`!…`) are not supported
     --> train.yaml:1:12
      |
    1 | run: !!str a
      |            ^ remove the tag before this value
      |
    hint: quote a value to keep it text; its meaning comes from its field
    ");
    assert_snapshot!(complaint("a: &x {run: a}\n<<: *x"), @r"
    error: merge keys (`<<`) are not supported
     --> train.yaml:2:1
      |
    2 | <<: *x
      | ^^ write the fields out, or use an alias for a whole value
    ");
    assert_snapshot!(complaint("? [a, b]\n: c"), @r"
    error: a field name must be a word
     --> train.yaml:1:3
      |
    1 | ? [a, b]
      |   ^^^^^^ this is a list or a mapping
    ");
    assert_snapshot!(complaint("run: *nothing"), @r"
    error: this is not valid YAML
     --> train.yaml:1:6
      |
    1 | run: *nothing
      |      ^ while parsing node, found unknown anchor
    ");
    assert_snapshot!(complaint("run: a\nqueue:\ntime: 1h"), @r"
    error: `queue` has no value
     --> train.yaml:2:6
      |
    2 | queue:
      |      ^ expected text
      |
    hint: to leave a field at its default, remove the line
    ");
    assert_snapshot!(complaint("run: {program: a}"), @r"
    error: `run` is not text, or a list of text
     --> train.yaml:1:6
      |
    1 | run: {program: a}
      |      ^^^^^^^^^^^^ this is a mapping
    ");
}

#[test]
fn quantities_that_are_none() {
    assert_snapshot!(complaint("time: 90\nrun: a"), @r"
    error: `time` is not a length of time
     --> train.yaml:1:7
      |
    1 | time: 90
      |       ^^ which unit?
      |
    hint: write `90s` for seconds or `90m` for minutes (Slurm would read minutes)
    ");
    assert_snapshot!(complaint("time: 1:30\nrun: a"), @r"
    error: `time` is not a length of time
     --> train.yaml:1:7
      |
    1 | time: 1:30
      |       ^^^^ hours and minutes, or minutes and seconds?
      |
    hint: write `1h30m` or `1m30s` (Slurm would read minutes and seconds)
    ");
    assert_snapshot!(complaint("time: 2 fortnights\nrun: a"), @r"
    error: `time` is not a length of time
     --> train.yaml:1:7
      |
    1 | time: 2 fortnights
      |       ^^^^^^^^^^^^ expected a unit: ms, s, m, h, d or w, as in `1h30m`
    ");
    assert_snapshot!(complaint("time: 1-30:00\nrun: a"), @r"
    error: `time` is not a length of time
     --> train.yaml:1:7
      |
    1 | time: 1-30:00
      |       ^^^^^^^ 30 hours: at most 23 here
    ");
    assert_snapshot!(complaint("time: 0s\nrun: a"), @r"
    error: `time` is 0
     --> train.yaml:1:7
      |
    1 | time: 0s
      |       ^^ the smallest is 1ms
      |
    hint: for no limit write `time: none`
    ");
    assert_snapshot!(complaint("memory: 80\nrun: a"), @r"
    error: `memory` is not a size
     --> train.yaml:1:9
      |
    1 | memory: 80
      |         ^^ which unit?
      |
    hint: write `80GB` or `80M`; a bare number is bytes, from 1048576 on
    ");
    assert_snapshot!(complaint("memory: lots\nrun: a"), @r"
    error: `memory` is not a size
     --> train.yaml:1:9
      |
    1 | memory: lots
      |         ^^^^ expected a size such as `80GB`, `64GiB` or `512M`
    ");
    assert_snapshot!(complaint("memory: 10KB\nrun: a"), @r"
    error: `memory` is too small for a process
     --> train.yaml:1:9
      |
    1 | memory: 10KB
      |         ^^^^ the smallest is 1MiB
    ");
    assert_snapshot!(complaint("gpus: -1\nrun: a"), @r"
    error: `gpus` is not a number of GPUs
     --> train.yaml:1:7
      |
    1 | gpus: -1
      |       ^^ expected 0 to 128 GPUs, or a share of one such as `0.5`
    ");
    assert_snapshot!(complaint("gpus: 1.5\nrun: a"), @r"
    error: `gpus` is not a number of GPUs
     --> train.yaml:1:7
      |
    1 | gpus: 1.5
      |       ^^^ expected whole GPUs, or a share below 1 of a single one
    ");
    assert_snapshot!(complaint("gpus: 129\nrun: a"), @r"
    error: `gpus` is not a number of GPUs
     --> train.yaml:1:7
      |
    1 | gpus: 129
      |       ^^^ expected 0 to 128 GPUs, or a share of one such as `0.5`
    ");
    assert_snapshot!(complaint("cpus: 0\nrun: a"), @r"
    error: `cpus` is 0
     --> train.yaml:1:7
      |
    1 | cpus: 0
      |       ^ the smallest is 0.001
      |
    hint: to allocate no CPUs, remove the line
    ");
    assert_snapshot!(complaint("nodes: 0\nrun: a"), @r"
    error: `nodes` is not a whole number from 1 to 10000
     --> train.yaml:1:8
      |
    1 | nodes: 0
      |        ^ the smallest is 1
    ");
    assert_snapshot!(complaint("nodes: 99999999999999999999\nrun: a"), @r"
    error: `nodes` is not a whole number from 1 to 10000
     --> train.yaml:1:8
      |
    1 | nodes: 99999999999999999999
      |        ^^^^^^^^^^^^^^^^^^^^ this number is far too large
    ");
    assert_snapshot!(complaint("tasks: 2.5\nrun: a"), @r"
    error: `tasks` is not a number of tasks
     --> train.yaml:1:8
      |
    1 | tasks: 2.5
      |        ^^^ expected a whole number, not a fraction
    ");
    assert_snapshot!(complaint("priority: high\nrun: a"), @r"
    error: `priority` is not a whole number from -1000000 to 1000000
     --> train.yaml:1:11
      |
    1 | priority: high
      |           ^^^^ expected a whole number
    ");
    assert_snapshot!(complaint("hold: yes\nrun: a"), @r"
    error: `hold` is not true or false
     --> train.yaml:1:7
      |
    1 | hold: yes
      |       ^^^ write `true` or `false`
    ");
    assert_snapshot!(complaint("begin: 2h\nrun: a"), @r"
    error: `begin` is not a begin time
     --> train.yaml:1:8
      |
    1 | begin: 2h
      |        ^^ from when on?
      |
    hint: write `+2h` to count from submission
    ");
    assert_snapshot!(complaint("begin: 2026-08-01T06:00\nrun: a"), @r"
    error: `begin` is not a begin time
     --> train.yaml:1:8
      |
    1 | begin: 2026-08-01T06:00
      |        ^^^^^^^^^^^^^^^^ in which time zone?
      |
    hint: end it with `Z` for UTC, or with an offset such as `+02:00`
    ");
    assert_snapshot!(complaint("checkpoint: {signal: USR3, grace: 1m}\ntime: 1h\nrun: a"), @r"
    error: `signal` is not a signal
     --> train.yaml:1:22
      |
    1 | checkpoint: {signal: USR3, grace: 1m}
      |                      ^^^^ expected a signal such as `USR1`, `SIGTERM` or `10`
      |
    hint: did you mean `USR1`?
    ");
}

#[test]
fn arrays_and_dependencies() {
    assert_snapshot!(complaint("array: 0-999999\nrun: a"), @r"
    error: `array` is not an array
     --> train.yaml:1:8
      |
    1 | array: 0-999999
      |        ^^^^^^^^ 1000000 elements; at most 100000
      |
    hint: let each element handle several indices
    ");
    assert_snapshot!(complaint("array: 9-0\nrun: a"), @r"
    error: `array` is not an array
     --> train.yaml:1:8
      |
    1 | array: 9-0
      |        ^^^ this range runs backwards; write `0-9`
    ");
    assert_snapshot!(complaint("array: 0-9%0\nrun: a"), @r"
    error: `array` is not an array
     --> train.yaml:1:8
      |
    1 | array: 0-9%0
      |        ^^^^^ `%0` would let nothing run; the smallest is `%1`
    ");
    assert_snapshot!(complaint("array: 1,,5\nrun: a"), @r"
    error: `array` is not an array
     --> train.yaml:1:8
      |
    1 | array: 1,,5
      |        ^^^^ expected a range such as `0-199`, `0-199%32` or `1-9:2`, a list such as `1,3,7-9`, or a count
    ");
    assert_snapshot!(complaint("after: [afterokay:12]\nrun: a"), @r"
    error: `after` is not a dependency
     --> train.yaml:1:9
      |
    1 | after: [afterokay:12]
      |         ^^^^^^^^^^^^ expected afterok, afternotok, afterany or after before the `:`
      |
    hint: did you mean `afterok`?
    ");
    assert_snapshot!(complaint("name: train\nrun: a\nafter: prepare\n---\nname: prepare\nrun: b\nafter: train"), @r"
    error: `prepare` is not an earlier document of this file
     --> train.yaml:3:8
      |
    3 | after: prepare
      |        ^^^^^^^ this document comes later in the file
      |
    hint: move `prepare` above this document; if it waits for this one, that would be a cycle
    ");
    assert_snapshot!(complaint("name: prepare\nrun: a\n---\nname: train\nrun: b\nafter: afterok:prepar"), @r"
    error: `prepar` is not an earlier document of this file
     --> train.yaml:6:8
      |
    6 | after: afterok:prepar
      |        ^^^^^^^^^^^^^^ no document has this name
      |
    hint: did you mean `prepare`?
    ");
    assert_snapshot!(complaint("name: train\nrun: a\nafter: train"), @r"
    error: `train` is not an earlier document of this file
     --> train.yaml:3:8
      |
    3 | after: train
      |        ^^^^^ a job cannot wait for itself
    ");
}

#[test]
fn contradictions_name_both_places() {
    assert_snapshot!(complaint("nodes: 2\ntasks: 8\nrun: a"), @r"
    error: `nodes` and `tasks` contradict each other
     --> train.yaml:1:1
      |
    1 | nodes: 2
      | ^^^^^ this
    2 | tasks: 8
      | ----- and this
      |
    hint: `nodes` with `tasks-per-node` fixes how many run on each; `tasks` alone packs them
    ");
    assert_snapshot!(complaint("gpus: 8\ngpus-per-task: 1\nrun: a"), @r"
    error: `gpus` and `gpus-per-task` contradict each other
     --> train.yaml:1:1
      |
    1 | gpus: 8
      | ^^^^ this
    2 | gpus-per-task: 1
      | ------------- and this
      |
    hint: `gpus` counts per node, `gpus-per-task` per task: keep one
    ");
    assert_snapshot!(complaint("tasks: 4\ngpus: 4\nrun: a"), @r"
    error: `gpus` and `tasks` contradict each other
     --> train.yaml:2:1
      |
    1 | tasks: 4
      | ----- and this
    2 | gpus: 4
      | ^^^^ this
      |
    hint: `gpus` counts per node; with `tasks` write `gpus-per-task`
    ");
    assert_snapshot!(complaint("nodes: 2\ntasks-per-node: 3\ngpus: 8\nrun: a"), @r"
    error: the GPUs of a node do not divide among its tasks
     --> train.yaml:3:7
      |
    2 | tasks-per-node: 3
      |                 - 3 tasks on each node
    3 | gpus: 8
      |       ^ per node
      |
    hint: for one GPU each write `gpus: 3`; to share GPUs, `gpus-per-task: 0.5`
    ");
    assert_snapshot!(complaint("tasks: 10\ntasks-per-node: 4\nrun: a"), @r"
    error: `tasks` is not a multiple of `tasks-per-node`
     --> train.yaml:1:8
      |
    1 | tasks: 10
      |        ^^ 10 leaves 2 over
    2 | tasks-per-node: 4
      |                 - 4 on each node
      |
    hint: write `tasks: 12`
    ");
    assert_snapshot!(complaint("gpus: 8\nrun: a\ngroups:\n- {name: trainer, tasks: 2}"), @r"
    error: `gpus` and `groups` contradict each other
     --> train.yaml:1:1
      |
    1 | gpus: 8
      | ^^^^ this
    2 | run: a
    3 | groups:
      | ------ and this
      |
    hint: with `groups`, write `gpus` in the group that it is meant for
    ");
    assert_snapshot!(complaint("groups:\n- {name: a, run: x}\n- {name: a, run: y}"), @r"
    error: two groups are named `a`
     --> train.yaml:3:3
      |
    2 | - {name: a, run: x}
      |   ----------------- first here
    3 | - {name: a, run: y}
      |   ^^^^^^^^^^^^^^^^^ again here
    ");
    assert_snapshot!(complaint("groups:\n- {name: a, tasks: 2}"), @r"
    error: `run` is missing
     --> train.yaml:2:3
      |
    2 | - {name: a, tasks: 2}
      |   ^^^^^^^^^^^^^^^^^^^ this group has no program
      |
    hint: add `run` to the group, or to the job for all groups
    ");
    assert_snapshot!(complaint("groups:\n- {tasks: 2, run: x}"), @r"
    error: `name` is missing
     --> train.yaml:2:3
      |
    2 | - {tasks: 2, run: x}
      |   ^^^^^^^^^^^^^^^^^^ `groups` needs it
    ");
    assert_snapshot!(complaint("time: 1m\ncheckpoint: {grace: 2m}\nrun: a"), @r"
    error: `checkpoint` would come before the start
     --> train.yaml:2:21
      |
    1 | time: 1m
      |       -- the limit is 1m
    2 | checkpoint: {grace: 2m}
      |                     ^^ this long before the limit
    ");
    assert_snapshot!(complaint("checkpoint: {grace: 2m, then: requeue}\nrun: a"), @r"
    error: `then` of `checkpoint` needs a time limit
     --> train.yaml:1:1
      |
    1 | checkpoint: {grace: 2m, then: requeue}
      | ^^^^^^^^^^ before which limit?
      |
    hint: add `time: 12h`
    ");
}

#[test]
fn jobs_that_no_idle_site_could_host() {
    let one = [node("laptop", &[("virtual", 8)])];
    assert_snapshot!(complaint_on("nodes: 2\ngpus: 4\nrun: a", &one, &json!({})), @r"
    error: 2 nodes are asked for, and there is one
     --> train.yaml:1:8
      |
    1 | nodes: 2
      |        ^ this machine is one node
      |
    hint: tasks that may share a node: `tasks: 2` with `gpus-per-task: 4`
    ");
    assert_snapshot!(complaint_on("tasks: 10\ngpus-per-task: 1\nrun: a", &one, &json!({})), @r"
    error: the job needs more GPUs than there are
     --> train.yaml:1:8
      |
    1 | tasks: 10
      |        ^^ 10 GPUs in all; this machine has 8 that it may use
      |
    hint: `tasks: 8` would fit
    ");
    assert_snapshot!(complaint("gpus: 16\nrun: a"), @r"
    error: no node has that many GPUs
     --> train.yaml:1:7
      |
    1 | gpus: 16
      |       ^^ 16 on one node; the most of one model on a node is 8
      |
    hint: over several nodes: `nodes: 2` and `gpus: 8`
    ");
    assert_snapshot!(complaint("nodes: 3\ngpus: 8\ngpu: h100\nrun: a"), @r"
    error: 3 nodes are asked for, and 2 can host it
     --> train.yaml:1:8
      |
    1 | nodes: 3
      |        ^ 2 of 3 nodes have what it needs
    ");
    assert_snapshot!(complaint("nodes: 5\nrun: a"), @r"
    error: 5 nodes are asked for, and there are 3
     --> train.yaml:1:8
      |
    1 | nodes: 5
      |        ^ this cluster has 3 nodes that it may use
      |
    hint: tasks that may share a node: `tasks: 5`
    ");
    assert_snapshot!(complaint("groups:\n- {name: t, tasks: 16, gpus-per-task: 1, run: x}\n- {name: r, tasks: 9, gpus-per-task: 1, run: y}"), @r"
    error: the groups together need more GPUs than there are
     --> train.yaml:1:1
      |
    1 | groups:
      | ^^^^^^ 25 GPUs in all; this cluster has 24
    ");
    assert_snapshot!(complaint("cpus: 65\nrun: a"), @r"
    error: no node has that many CPUs
     --> train.yaml:1:7
      |
    1 | cpus: 65
      |       ^^ the largest node has 64
    ");
    assert_snapshot!(complaint("memory: 1TiB\nrun: a"), @r"
    error: no node has that much memory
     --> train.yaml:1:9
      |
    1 | memory: 1TiB
      |         ^^^^ the largest node has 512GiB
    ");
    assert_snapshot!(complaint("labels: {pol: train}\nrun: a"), @r"
    error: `labels` names a label that no node has
     --> train.yaml:1:10
      |
    1 | labels: {pol: train}
      |          ^^^ no node has this label
      |
    hint: did you mean `pool`?
    ");
    assert_snapshot!(complaint("labels: {pool: trian}\nrun: a"), @r"
    error: no node has that value of the label `pool`
     --> train.yaml:1:16
      |
    1 | labels: {pool: trian}
      |                ^^^^^ no node has this value
      |
    hint: did you mean `train`?
    ");
    assert_snapshot!(complaint("exclude: n[1-3]\nrun: a"), @r"
    error: no node satisfies labels and exclusions
     --> train.yaml:1:1
      |
    1 | exclude: n[1-3]
      | ^^^^^^^ none of 3 nodes is left
    ");
    assert_snapshot!(complaint("extras: {license: 1}\nrun: a"), @r"
    error: `extras` names a resource that no node has
     --> train.yaml:1:10
      |
    1 | extras: {license: 1}
      |          ^^^^^^^ this cluster has none
      |
    hint: did you mean `licence`?
    ");
    assert_snapshot!(complaint("extras: {licence: 5}\nrun: a"), @r"
    error: no node has that much of `licence`
     --> train.yaml:1:19
      |
    1 | extras: {licence: 5}
      |                   ^ the most on one node is 4
    ");
}

#[test]
fn names_and_queues() {
    assert_snapshot!(complaint("name: ../../etc\nrun: a"), @r"
    error: `name` is not a name
     --> train.yaml:1:7
      |
    1 | name: ../../etc
      |       ^^^^^^^^^ a name has no path separators
    ");
    assert_snapshot!(complaint("name: -rf\nrun: a"), @r"
    error: `name` is not a name
     --> train.yaml:1:7
      |
    1 | name: -rf
      |       ^^^ a name starts with a letter, a digit or `_`
    ");
    assert_snapshot!(complaint("name: \"a\\0b\"\nrun: a"), @r#"
    error: a value holds a NUL byte
     --> train.yaml:1:7
      |
    1 | name: "a\0b"
      |       ^^^^^^ `\0` is not allowed
    "#);
    assert_snapshot!(complaint("name: \"a\\x1b[31mb\"\nrun: a"), @r#"
    error: `name` is not a name
     --> train.yaml:1:7
      |
    1 | name: "a\x1b[31mb"
      |       ^^^^^^^^^^^^ `\u{1b}` is not allowed; letters, digits, `.`, `_` and `-` are
    "#);
    assert_snapshot!(complaint("queue: visoin\nrun: a"), @r"
    error: there is no queue `visoin`
     --> train.yaml:1:8
      |
    1 | queue: visoin
      |        ^^^^^^ there is `default`, `research/vision`, `research/language`
      |
    hint: did you mean `vision`? `muster queues` lists them
    ");
    assert_snapshot!(complaint("queue: research\nrun: a"), @r"
    error: jobs cannot be submitted to `research`: it has child queues
     --> train.yaml:1:8
      |
    1 | queue: research
      |        ^^^^^^^^ its child queues are `research/vision`, `research/language`
    ");
    assert_snapshot!(complaint("workdir: ~/x\nrun: a"), @r"
    error: `workdir` is not a directory's path
     --> train.yaml:1:10
      |
    1 | workdir: ~/x
      |          ^^^ `~` is not expanded here; write the whole path
    ");
    assert_snapshot!(complaint("env: {A=B: c}\nrun: a"), @r"
    error: `A=B` cannot name an environment variable
     --> train.yaml:1:7
      |
    1 | env: {A=B: c}
      |       ^^^ expected a name without `=`
    ");
}

#[test]
fn services_and_notebooks() {
    assert_snapshot!(complaint("replicas: 2..6\nport: 8000\nidle: 1h\nrun: a"), @r"
    error: `replicas` needs `kind: service`
     --> train.yaml:1:1
      |
    1 | replicas: 2..6
      | ^^^^^^^^ only a service takes it
      |
    hint: add `kind: service`, or remove it

    error: `port` needs `kind: service`
     --> train.yaml:2:1
      |
    2 | port: 8000
      | ^^^^ only a service takes it
      |
    hint: add `kind: service`, or remove it

    error: `idle` needs `kind: notebook`
     --> train.yaml:3:1
      |
    3 | idle: 1h
      | ^^^^ only a notebook takes it
      |
    hint: add `kind: notebook`, or remove it
    ");
    assert_snapshot!(complaint("kind: service\nreplicas: 6..2\nrun: a"), @r"
    error: `replicas` is not a number of replicas
     --> train.yaml:2:11
      |
    2 | replicas: 6..2
      |           ^^^^ this range runs backwards; write `2..6`
    ");
    assert_snapshot!(complaint("kind: service\nreplicas: 0\nrun: a"), @r"
    error: `replicas` is not a number of replicas
     --> train.yaml:2:11
      |
    2 | replicas: 0
      |           ^ expected 1 to 1000, or a range such as `2..6`
    ");
    assert_snapshot!(complaint("kind: service\nreplicas: 2..6\nport: 65531\nrun: a"), @r"
    error: there are not enough ports
     --> train.yaml:3:7
      |
    3 | port: 65531
      |       ^^^^^ each replica has the next one; 6 begin at 65530 at most
      |
    hint: write `port: 8000`
    ");
    assert_snapshot!(complaint("kind: service\narray: 0-3\nrun: a"), @r"
    error: `kind` and `array` contradict each other
     --> train.yaml:1:7
      |
    1 | kind: service
      |       ^^^^^^^ this
    2 | array: 0-3
      | ----- and this
      |
    hint: `replicas: 4` runs it four times
    ");
    assert_snapshot!(complaint("kind: notebook\ntasks: 2\ntime: none\nidle: 10ms\nrun: a"), @r"
    error: a notebook is one task
     --> train.yaml:2:8
      |
    2 | tasks: 2
      |        ^ this makes 2
      |
    hint: write `gpus: 2` for a notebook with two GPUs

    error: a notebook needs a time limit
     --> train.yaml:3:7
      |
    3 | time: none
      |       ^^^^ a forgotten notebook would hold its GPUs forever
      |
    hint: write `time: 3d`, or remove it for 12h

    error: `idle` is too short
     --> train.yaml:4:7
      |
    4 | idle: 10ms
      |       ^^^^ the smallest is 1s
      |
    hint: to let it idle, write `idle: none`
    ");
}

#[test]
fn ray_clusters() {
    assert_snapshot!(complaint("ray: {version: 2.60.0}\nrun: a"), @r"
    error: `ray` needs `kind: ray`
     --> train.yaml:1:1
      |
    1 | ray: {version: 2.60.0}
      | ^^^ only a Ray job takes it
      |
    hint: add `kind: ray`, or remove it
    ");
    let shares = "kind: ray\ntasks: 2\ngpus-per-task: 0.5\nray: {wait: 2}\nrun: a";
    assert_snapshot!(complaint(shares), @r"
    error: a node of a Ray cluster has whole GPUs
     --> train.yaml:3:16
      |
    3 | gpus-per-task: 0.5
      |                ^^^ this is a share of one
      |
    hint: a task or actor of Ray can take a share: `@ray.remote(num_gpus=0.5)`
    ");
    let groups = "kind: ray\ncheckpoint: {grace: 1m, to: all, by: all, signal: TERM}\ngroups:\n  - {name: head, run: a}\n  - {name: worker, tasks: 2, run: b}\n";
    assert_snapshot!(complaint(groups), @r"
    error: a Ray job cannot choose the receivers of the checkpoint signal
     --> train.yaml:2:25
      |
    2 | checkpoint: {grace: 1m, to: all, by: all, signal: TERM}
      |                         ^^ its program gets the signal
      |
    hint: remove `to`

    error: only rank 0 of a Ray job acknowledges checkpoints
     --> train.yaml:2:38
      |
    2 | checkpoint: {grace: 1m, to: all, by: all, signal: TERM}
      |                                      ^^^ the other ranks have no program
      |
    hint: remove `by`

    error: a Ray job cannot have this checkpoint signal
     --> train.yaml:2:51
      |
    2 | checkpoint: {grace: 1m, to: all, by: all, signal: TERM}
      |                                                   ^^^^ Ray's own processes may handle it
      |
    hint: write `signal: USR1` or `signal: USR2`

    error: a group of a Ray job has no program of its own
     --> train.yaml:4:18
      |
    4 |   - {name: head, run: a}
      |                  ^^^ Ray starts what runs on its nodes
      |
    hint: write `run` for the job: it starts once, beside the head

    error: a group of a Ray job has no program of its own
     --> train.yaml:5:30
      |
    5 |   - {name: worker, tasks: 2, run: b}
      |                              ^^^ Ray starts what runs on its nodes
      |
    hint: write `run` for the job: it starts once, beside the head
    ");
    assert_snapshot!(complaint("kind: ray\ntasks: 2\nray: {wait: 3}\nrun: a"), @r"
    error: `wait` is more than the nodes of the Ray cluster
     --> train.yaml:3:13
      |
    3 | ray: {wait: 3}
      |             ^ the job starts with 2, one per task
      |
    hint: leave `wait` out to wait for all
    ");
}

#[test]
fn ray_clusters_that_grow_or_join() {
    assert_snapshot!(complaint("kind: ray\ntasks: 2..4\ngrow-after: 5m\nrun: a"), @r"
    error: a Ray job has no `grow-after`
     --> train.yaml:3:1
      |
    3 | grow-after: 5m
      | ^^^^^^^^^^ it grows when parts of its program wait, without a restart
      |
    hint: remove it; `ray: {idle: 5m}` sets when nodes leave again
    ");
    assert_snapshot!(complaint("kind: ray\ntasks: 2\nray: {idle: 5m}\nrun: a"), @r"
    error: `idle` has no effect on this cluster
     --> train.yaml:3:7
      |
    3 | ray: {idle: 5m}
      |       ^^^^ it ends with its program, and its size is fixed
      |
    hint: remove it; or give `tasks` a range, or leave `run` out
    ");
    assert_snapshot!(complaint("kind: ray\ntasks: 2..4\nray: {join: head}\nrun: a"), @r"
    error: nodes that join another cluster have a fixed number
     --> train.yaml:3:7
      |
    3 | ray: {join: head}
      |       ^^^^ only the cluster itself grows
      |
    hint: write a number of tasks, or leave `join` out

    error: `join` is not the address of a head
     --> train.yaml:3:13
      |
    3 | ray: {join: head}
      |             ^^^^ expected a host and a port
      |
    hint: such as `join: node1:6379`

    error: nodes that join another cluster run no program
     --> train.yaml:4:1
      |
    3 | ray: {join: head}
      |       ---- the tasks become nodes of this cluster
    4 | run: a
      | ^^^ this program would never start
      |
    hint: `muster ray submit JOB -- COMMAND` runs a program on it
    ");
}

#[test]
fn what_this_version_cannot_do() {
    assert_snapshot!(complaint("kind: sweep\nrun: a"), @r"
    error: `params` is missing
     --> train.yaml:1:1
      |
    1 | kind: sweep
      | ^^^^^^^^^^^ a sweep needs the values to try
      |
    hint: add `params: {lr: [1e-4, 3e-4]}`
    ");
    assert_snapshot!(complaint("kind: servce\nrun: a"), @r"
    error: there is no kind `servce`
     --> train.yaml:1:7
      |
    1 | kind: servce
      |       ^^^^^^ expected `task`, `service`, `notebook`, `ray` or `sweep`
      |
    hint: did you mean `service`?
    ");
    assert_snapshot!(complaint("restart: always\nrun: a"), @r"
    error: `restart: always` needs `kind: service`
     --> train.yaml:1:10
      |
    1 | restart: always
      |          ^^^^^^ a job that always restarts never ends
      |
    hint: write `restart: on-failure`
    ");
}

#[test]
fn a_mistake_in_an_option_shows_the_option() {
    let one = [node("laptop", &[("virtual", 8)])];
    assert_snapshot!(complaint_on("run: a\n---\nrun: b", &one, &json!({"gpus": "two"})), @r"
    error: `gpus` is not a number of GPUs
     |
     | --gpus two
     |        ^^^ expected 0 to 128 GPUs, or a share of one such as `0.5`
    ");
    assert_snapshot!(complaint_on("nodes: 1\nrun: a", &one, &json!({"tasks": 4})), @r"
    error: `nodes` and `tasks` contradict each other
     --> train.yaml:1:1
      |
    1 | nodes: 1
      | ^^^^^ this
      |
     :::
      | --tasks 4
      | ------- and this
      |
    hint: `nodes` with `tasks-per-node` fixes how many run on each; `tasks` alone packs them
    ");
    assert_snapshot!(complaint_on("", &one, &json!({"gpus": 1})), @r"
    error: `run` is missing
    hint: add `run: python train.py`
    ");
    assert_snapshot!(complaint_on("", &one, &json!({"run": [""]})), @r"
    error: `run` is empty
     |
     | --
     |    ^ expected a program to run
    ");
    assert_snapshot!(complaint_on("", &one, &json!({"run": ["python", "train.py"], "gpus": 9})), @r"
    error: no node has that many GPUs
     |
     | --gpus 9
     |        ^ 9 on one node; the most of one model on a node is 8
    ");
    assert_snapshot!(complaint_on("run: a", &one, &json!({"qeue": "x"})), @r"
    error: there is no field `qeue`
     |
     | --qeue x
     | ^^^^^^ did you mean `queue`?
     |
    hint: the fields are name, kind, replicas, port, idle, nodes, min-nodes, gpus, gpu, tasks, grow-after, gpus-per-task, tasks-per-node, cpus, memory, extras, time, run, queue, priority, env, env-file, secrets, venv, conda, uv, modules, image, mounts, workdir, output, error, array, params, samples, seed, max-running, metric, early-stop, after, hold, verify, begin, checkpoint, restart, grace, protect, notify, labels, exclude, topology, reservation, slurm, kubernetes, ray, groups
    ");
}

#[test]
fn many_mistakes_are_told_at_once() {
    assert_snapshot!(complaint("gpsu: 2\ntime: 90\nrun: []\nname: a b\n"), @r"
    error: there is no field `gpsu`
     --> train.yaml:1:1
      |
    1 | gpsu: 2
      | ^^^^ did you mean `gpus`?
      |
    hint: the fields are name, kind, replicas, port, idle, nodes, min-nodes, gpus, gpu, tasks, grow-after, gpus-per-task, tasks-per-node, cpus, memory, extras, time, run, queue, priority, env, env-file, secrets, venv, conda, uv, modules, image, mounts, workdir, output, error, array, params, samples, seed, max-running, metric, early-stop, after, hold, verify, begin, checkpoint, restart, grace, protect, notify, labels, exclude, topology, reservation, slurm, kubernetes, ray, groups

    error: `time` is not a length of time
     --> train.yaml:2:7
      |
    2 | time: 90
      |       ^^ which unit?
      |
    hint: write `90s` for seconds or `90m` for minutes (Slurm would read minutes)

    error: `run` is empty
     --> train.yaml:3:6
      |
    3 | run: []
      |      ^^ expected a program to run

    error: `name` is not a name
     --> train.yaml:4:7
      |
    4 | name: a b
      |       ^^^ ` ` is not allowed; letters, digits, `.`, `_` and `-` are
    ");
    assert_snapshot!(complaint("gpus: 99\ngpu: v100\nqueue: nowhere\ntime: 0s\n"), @r"
    error: `run` is missing
     --> train.yaml:1:1
      |
    1 | gpus: 99
      | ^^^^^^^^ this job has no program
      |
    hint: add `run: python train.py`

    error: `gpu` names a model that no node has
     --> train.yaml:2:6
      |
    2 | gpu: v100
      |      ^^^^ this cluster has h100 (16) and a100 (8)
      |
    hint: did you mean `a100`? `muster nodes` lists them

    error: there is no queue `nowhere`
     --> train.yaml:3:8
      |
    3 | queue: nowhere
      |        ^^^^^^^ there is `default`, `research/vision`, `research/language`
      |
    hint: `muster queues` lists them; without `queue` it is the default one

    error: `time` is 0
     --> train.yaml:4:7
      |
    4 | time: 0s
      |       ^^ the smallest is 1ms
      |
    hint: for no limit write `time: none`
    ");
}

#[test]
fn queue_files() {
    assert_snapshot!(queues_complaint("queues: [{name: a}, {name: a}]"), @r"
    error: two queues are named `a`
     --> queues.yaml:1:21
      |
    1 | queues: [{name: a}, {name: a}]
      |          ---------  ^^^^^^^^^ again here
      |          |
      |          first here
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, borrow: 8}]"), @r"
    error: `borrow` needs `quota`
     --> queues.yaml:1:20
      |
    1 | queues: [{name: a, borrow: 8}]
      |                    ^^^^^^ this queue has no quota
      |
    hint: add `quota: {h100: 8}`, or remove it: a queue without quota is not limited
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, quota: {h100: 8}, lend: 16}]"), @r"
    error: `lend` is more than the quota
     --> queues.yaml:1:44
      |
    1 | queues: [{name: a, quota: {h100: 8}, lend: 16}]
      |                           ---------        ^^ the largest quota here is 8
      |                           |
      |                           of this
      |
    hint: to lend all, remove `lend`
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, weight: 0}]"), @r"
    error: `weight` is not a whole number from 1 to 1000000
     --> queues.yaml:1:28
      |
    1 | queues: [{name: a, weight: 0}]
      |                            ^ the smallest is 1
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, idle: {after: 30s, action: stop}}]"), @r"
    error: `action` is not an action on idle jobs
     --> queues.yaml:1:47
      |
    1 | queues: [{name: a, idle: {after: 30s, action: stop}}]
      |                                               ^^^^ expected `notify`, `requeue` or `cancel`
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, notify: {command: echo}}]"), @r"
    error: `notify` of a queue takes no command
     --> queues.yaml:1:28
      |
    1 | queues: [{name: a, notify: {command: echo}}]
      |                            ^^^^^^^^^^^^^^^ expected mail addresses and URLs
      |
    hint: a command belongs to a job: it runs as the job's user
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, idle: {after: 30s}}]"), @r"
    error: `after` is too short
     --> queues.yaml:1:34
      |
    1 | queues: [{name: a, idle: {after: 30s}}]
      |                                  ^^^ the smallest is 1m: loads are read every 20 s
    ");
    assert_snapshot!(queues_complaint("default-queue: b\nqueues: [{name: a, queues: [{name: b}]}]"), @r"
    error: `default-queue` is not a leaf of this tree
     --> queues.yaml:1:16
      |
    1 | default-queue: b
      |                ^ no leaf has this path
      |
    hint: write its whole path, such as `a/b`
    ");
    assert_snapshot!(queues_complaint("queues:\n- name: a\n  quota: {h100: 8}\n  queues: [{name: b, quota: {H100: 6}}, {name: c, queues: [{name: d, quota: {h100: 3}}]}]"), @r"
    error: the queues below have more quota than this one
     --> queues.yaml:3:17
      |
    3 |   quota: {h100: 8}
      |                 ^ 8 of `h100`
    4 |   queues: [{name: b, quota: {H100: 6}}, {name: c, queues: [{name: d, quota: {h100: 3}}]}]
      |   ------ 9 in all
    ");
    assert_snapshot!(queues_complaint("queues: []"), @r"
    error: `queues` is empty
     --> queues.yaml:1:9
      |
    1 | queues: []
      |         ^^ expected at least one entry
    ");
    assert_snapshot!(queues_complaint("half-life: 7\nqueues: [{name: a/b}]"), @r"
    error: `half-life` is not a length of time
     --> queues.yaml:1:12
      |
    1 | half-life: 7
      |            ^ which unit?
      |
    hint: write `7s` for seconds or `7m` for minutes (Slurm would read minutes)

    error: `name` is not a name
     --> queues.yaml:2:17
      |
    2 | queues: [{name: a/b}]
      |                 ^^^ a name has no path separators
    ");
    assert_snapshot!(queues_complaint("backfill: eager\nqueues: [{name: a}]"), @r"
    error: `backfill` is not a kind of backfill
     --> queues.yaml:1:11
      |
    1 | backfill: eager
      |           ^^^^^ expected `none`, `easy` or `conservative`
    ");
    assert_snapshot!(queues_complaint("placement: spraed\nqueues: [{name: a}]"), @r"
    error: `placement` is not a placement policy
     --> queues.yaml:1:12
      |
    1 | placement: spraed
      |            ^^^^^^ expected `pack`, `spread`, `best-fit` or `fragmentation`
      |
    hint: did you mean `spread`?
    ");
    assert_snapshot!(queues_complaint("estimates: predict\nqueues: [{name: a}]"), @r"
    error: `estimates` is not a kind of estimate
     --> queues.yaml:1:12
      |
    1 | estimates: predict
      |            ^^^^^^^ expected `requested` or `predicted`
      |
    hint: did you mean `predicted`?
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, priority: [9, 1], limits: {gpus: 4}}]"), @r"
    error: `priority` admits nothing
     --> queues.yaml:1:30
      |
    1 | queues: [{name: a, priority: [9, 1], limits: {gpus: 4}}]
      |                              ^^^^^^ this range runs backwards; write `[1, 9]`

    error: there is no field `gpus`
     --> queues.yaml:1:47
      |
    1 | queues: [{name: a, priority: [9, 1], limits: {gpus: 4}}]
      |                                               ^^^^ did you mean `gpus-per-user`?
      |
    hint: the fields are running-jobs, gpus-per-user, pending-jobs, time, borrowed-time
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a, limits: {borrowed-time: 4h}}]"), @r"
    error: `borrowed-time` needs `quota`
     --> queues.yaml:1:29
      |
    1 | queues: [{name: a, limits: {borrowed-time: 4h}}]
      |                             ^^^^^^^^^^^^^ this queue has no quota
      |
    hint: add `quota: {h100: 8}`, or remove it: a queue without quota is not limited
    ");
    assert_snapshot!(queues_complaint("queues: [{name: a}]\n---\nqueues: []"), @r"
    error: more than one document of queues
     --> queues.yaml:3:1
      |
    3 | queues: []
      | ^^^^^^^^^^ the second
    ");
    assert_snapshot!(queues_complaint(""), @r"
    error: queues.yaml holds no queues
    hint: the smallest is `queues: [{name: research}]`
    ");
}

#[test]
fn cluster_files() {
    assert_snapshot!(cluster_complaint("nodes: [{name: \"n[1-3]\"}, {name: n2}]"), @r#"
    error: two nodes are named `n2`
     --> cluster.yaml:1:34
      |
    1 | nodes: [{name: "n[1-3]"}, {name: n2}]
      |                --------          ^^ again here
      |                |
      |                first here
    "#);
    assert_snapshot!(
        cluster_complaint("nodes: [{name: n1, gpu: a, gpus: {h100: 2, h100-1g.10gb: 127, H100: 0}, gpu-memory: {h10: 80GB}}]"),
        @r"
        error: `gpu` cannot be combined with models in `gpus`
         --> cluster.yaml:1:20
          |
        1 | nodes: [{name: n1, gpu: a, gpus: {h100: 2, h100-1g.10gb: 127, H100: 0}, gpu-memory: {h10: 80GB}}]
          |                    ^^^     ---- the models are named here
          |                    |
          |                    which of them?
          |
        hint: remove `gpu`

        error: too many GPUs
         --> cluster.yaml:1:34
          |
        1 | nodes: [{name: n1, gpu: a, gpus: {h100: 2, h100-1g.10gb: 127, H100: 0}, gpu-memory: {h10: 80GB}}]
          |                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ 129 in all; a node has at most 128

        error: `H100` is counted twice
         --> cluster.yaml:1:63
          |
        1 | nodes: [{name: n1, gpu: a, gpus: {h100: 2, h100-1g.10gb: 127, H100: 0}, gpu-memory: {h10: 80GB}}]
          |                                   ---- first here             ^^^^ again here

        error: `h10` is not a GPU model of this node
         --> cluster.yaml:1:86
          |
        1 | nodes: [{name: n1, gpu: a, gpus: {h100: 2, h100-1g.10gb: 127, H100: 0}, gpu-memory: {h10: 80GB}}]
          |                                                                                      ^^^ not in `gpus`
          |
        hint: did you mean `h100`?
        "
    );
    assert_snapshot!(cluster_complaint("nodes: [{name: n1, gpus: 8}]"), @r"
    error: `gpus` without `gpu`
     --> cluster.yaml:1:20
      |
    1 | nodes: [{name: n1, gpus: 8}]
      |                    ^^^^ the GPU model is missing
      |
    hint: add `gpu: h100`
    ");
    assert_snapshot!(cluster_complaint("nodes: [{name: n1, gpu: h100}]"), @r"
    error: `gpu` without `gpus`
     --> cluster.yaml:1:20
      |
    1 | nodes: [{name: n1, gpu: h100}]
      |                    ^^^ the number of GPUs is missing
      |
    hint: add `gpus: 8`
    ");
    assert_snapshot!(cluster_complaint("nodes: [{name: \"n[4-1]\"}]"), @r#"
    error: `name` is not a node name
     --> cluster.yaml:1:16
      |
    1 | nodes: [{name: "n[4-1]"}]
      |                ^^^^^^^^ this range runs backwards; write `1-4`
    "#);
    assert_snapshot!(cluster_complaint("nodes: [{name: \"n[0-999999]\"}]"), @r#"
    error: `name` is not a node name
     --> cluster.yaml:1:16
      |
    1 | nodes: [{name: "n[0-999999]"}]
      |                ^^^^^^^^^^^^^ more than 100000 nodes
    "#);
    assert_snapshot!(cluster_complaint("levels: [block, leaf]\nnodes: [{name: n1, domain: {block: b, laef: l}}]"), @r"
    error: `domain` leaves out the level `leaf`
     --> cluster.yaml:2:28
      |
    2 | nodes: [{name: n1, domain: {block: b, laef: l}}]
      |                            ^^^^^^^^^^^^^^^^^^^ a node is in one domain of every level

    error: `laef` is not a level of this cluster
     --> cluster.yaml:2:39
      |
    2 | nodes: [{name: n1, domain: {block: b, laef: l}}]
      |                                       ^^^^ not declared
      |
    hint: did you mean `leaf`?
    ");
    assert_snapshot!(cluster_complaint("levels: [block, leaf]\nnodes:\n- {name: n1, domain: {block: b1, leaf: l}}\n- {name: n2, domain: {block: b2, leaf: l}}"), @r"
    error: leaf `l` is in two domains
     --> cluster.yaml:4:22
      |
    3 | - {name: n1, domain: {block: b1, leaf: l}}
      |                      -------------------- in block `b1` here
    4 | - {name: n2, domain: {block: b2, leaf: l}}
      |                      ^^^^^^^^^^^^^^^^^^^^ in block `b2` here
    ");
    assert_snapshot!(cluster_complaint("nodes: [{gpus: 1, gpu: a}]"), @r"
    error: `name` is missing
     --> cluster.yaml:1:9
      |
    1 | nodes: [{gpus: 1, gpu: a}]
      |         ^^^^^^^^^^^^^^^^^ `nodes` needs it
    ");
}

#[test]
fn ranges_of_sizes() {
    assert_snapshot!(complaint("nodes: 2\nmin-nodes: 3\nrun: a"), @r"
    error: `min-nodes` is more than `nodes`
     --> train.yaml:2:12
      |
    1 | nodes: 2
      |        - the largest size
    2 | min-nodes: 3
      |            ^ the smallest size
      |
    hint: write `min-nodes: 2`, or more `nodes`
    ");
    assert_snapshot!(complaint("min-nodes: 3\nrun: a"), @r"
    error: `min-nodes` needs `nodes`
     --> train.yaml:1:1
      |
    1 | min-nodes: 3
      | ^^^^^^^^^ the job does not set `nodes`
    ");
    assert_snapshot!(complaint("groups:\n- {name: a, tasks: 1..2, run: x}\n- {name: b, tasks: 2..4, run: x}"), @r"
    error: only one group can grow
     --> train.yaml:1:1
      |
    1 | groups:
      | ^^^^^^ `a` and `b` have a range
      |
    hint: give the other groups a fixed number of tasks
    ");
    assert_snapshot!(complaint("kind: service\ntasks: 1..2\nrun: a"), @r"
    error: only a job of `kind: task` or `ray` grows and shrinks
     --> train.yaml:2:8
      |
    2 | tasks: 1..2
      |        ^^^^ its tasks have a range
      |
    hint: a service grows by `replicas: 2..6`; a notebook is one task
    ");
    assert_snapshot!(complaint("tasks: 2..4\ntopology: {spread: node}\nrun: a"), @r"
    error: a job that is spread evenly has a fixed size
     --> train.yaml:2:1
      |
    2 | topology: {spread: node}
      | ^^^^^^^^ and its tasks have a range
      |
    hint: use `preferred`, or a number of tasks
    ");
    assert_snapshot!(complaint("tasks: 3..8\ntasks-per-node: 2\nrun: a"), @r"
    error: `tasks` is not a multiple of `tasks-per-node`
     --> train.yaml:1:8
      |
    1 | tasks: 3..8
      |        ^^^^ 3 leaves 1 over
    2 | tasks-per-node: 2
      |                 - 2 on each node
      |
    hint: write `tasks: 4..8`
    ");
    assert_snapshot!(complaint("tasks: 2\ngrow-after: 5m\nrun: a"), @r"
    error: `grow-after` needs a range of sizes
     --> train.yaml:2:1
      |
    2 | grow-after: 5m
      | ^^^^^^^^^^ the job has a fixed size
      |
    hint: write `tasks: 2..8`, or `nodes: 8` with `min-nodes: 2`
    ");
}
