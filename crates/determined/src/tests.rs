//! Experiments of the kinds that Determined's users write, converted, and read by the parser of job files.

use muster_model::UserName;
use muster_model::imported::{ImportOutcome, ImportReport};
use muster_spec::SubmissionSite;
use serde_json::Map;

use super::*;

const SEARCH: &str = "\
name: iris search
description: finds a learning rate
hyperparameters:
  optimizer:
    name: {type: categorical, vals: [sgd, adam]}
    learning_rate: {type: log, minval: -5, maxval: -1, base: 10}
  layers: {type: int, minval: 1, maxval: 4}
  dropout: {type: double, minval: 0.1, maxval: 0.5}
  global_batch_size: 64
searcher:
  name: adaptive_asha
  metric: accuracy
  smaller_is_better: false
  time_metric: batches
  max_time: 6400
  max_trials: 512
reproducibility: {experiment_seed: 7}
resources: {slots_per_trial: 2, max_slots: 16, resource_pool: gpus, priority: 40}
max_restarts: 2
environment:
  image: {cuda: example/torch:1, cpu: example/cpu:1}
  environment_variables: [A=1, DET_DEBUG=1]
bind_mounts: [{host_path: /data, container_path: /data, read_only: true}]
checkpoint_storage: {type: shared_fs, host_path: /checkpoints}
entrypoint: python3 -m determined.launch.torch_distributed python3 train.py --data {root}
";

/// Imports a text, and reads the job file as `muster run` does.
fn imported(text: &str) -> ImportReport {
    let report = import(text, "folder/experiment.yaml").unwrap_or_else(|error| panic!("{error}"));
    let queue = "default".into();
    let documents = muster_spec::parse(&report.job, Some("job.yaml"), &Map::new())
        .unwrap_or_else(|error| panic!("{error:?}\n{}", report.job));
    muster_spec::check_all(&documents, &SubmissionSite::unknown(UserName::from("ann"), &queue))
        .unwrap_or_else(|error| panic!("{error:?}\n{}", report.job));
    report
}

/// Returns a report as lines.
fn lines(report: &ImportReport) -> String {
    let options = report.options.iter().map(|option| {
        format!("{:?} {}: {}: {}", option.becomes, option.line, option.written, option.text)
    });
    let findings = report
        .findings
        .iter()
        .map(|one| format!("{:?} {} {:?}: {}", one.severity, one.rule, one.line, one.evidence));
    let all = options.chain(findings).chain([report.launch.text.clone()]);
    format!("{}\n{}", report.job, all.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_search_becomes_a_sweep() {
    insta::assert_snapshot!(lines(&imported(SEARCH)));
}

#[test]
fn one_trial_with_constants_is_a_sweep_of_one_point_so_that_the_program_gets_them() {
    let text = "name: one\nhyperparameters: {lr: 0.1, nested: {a: true, b: [1, 2]}}\n\
                searcher: {name: single, metric: loss, max_length: {epochs: 3}}\nresources: {slots_per_trial: 0}\n\
                entrypoint: [python3, train.py, '{lr}']\n";
    insta::assert_snapshot!(lines(&imported(text)));
}

#[test]
fn a_program_without_parameters_is_an_ordinary_job() {
    let report = imported("entrypoint: python3 train.py ${HOME}\nsearcher: {name: single}\n");
    assert_eq!(report.job, "name: experiment\ngpus: 1\nrun: python3 train.py ${HOME}\n");
}

#[test]
fn trials_without_parameters_are_an_array() {
    let report = imported("entrypoint: ./a\nsearcher: {name: random, max_trials: 30, metric: x}\n");
    assert_eq!(report.job, "name: experiment\narray: 0-29%16\ngpus: 1\nrun: ./a\n");
}

#[test]
fn a_seed_needs_draws() {
    let text = "entrypoint: ./a\nhyperparameters: {lr: 1}\nreproducibility: {experiment_seed: 1}\nbind_mounts: []\n";
    let report = imported(text);
    assert!(!report.job.contains("seed"), "{}", report.job);
    assert_eq!(report.options[2].text, "nothing is drawn: give it to the program in `run`");
}

#[test]
fn a_grid_has_the_points_of_determined() {
    let text = "searcher: {name: grid, metric: loss, max_concurrent_trials: 0}\nentrypoint: ./run.sh\n\
                hyperparameters:\n  a: {type: double, minval: 0.1, maxval: 0.3, count: 3}\n  \
                b: {type: int, minval: 1, maxval: 3, count: 9}\n  c: {type: log, base: 10, minval: -3, maxval: -1, count: 3}\n";
    let report = imported(text);
    assert!(report.job.contains("a: [0.1, 0.2, 0.3]"), "{}", report.job);
    assert!(report.job.contains("b: [1, 2, 3]"), "{}", report.job);
    assert!(report.job.contains("c: [0.001, 0.01, 0.1]"), "{}", report.job);
    assert!(!report.job.contains("max-running"), "{}", report.job);
    assert_eq!(report.asks["trials"], "27");
}

/// The comparisons are at the steps of Determined's own searcher: the end, divided by powers of the divisor.
#[test]
fn halving_begins_at_the_step_of_determined() {
    let halving = |terms: &str| {
        let text = format!(
            "hyperparameters: {{lr: {{type: double, minval: 0, maxval: 1}}}}\nentrypoint: ./run.sh\n\
             searcher: {{metric: loss, time_metric: batches, {terms}}}\n"
        );
        let job = imported(&text).job;
        let line = job.lines().find(|line| line.starts_with("early-stop")).unwrap_or_default();
        line.trim_start_matches("early-stop: ").to_owned()
    };
    for (terms, expected) in [
        (
            "name: async_halving, num_rungs: 3, max_time: 1600, max_trials: 9",
            "{rule: asha, first: 100, factor: 4}",
        ),
        (
            "name: async_halving, num_rungs: 3, divisor: 2, max_time: 1600, max_trials: 9",
            "{rule: asha, first: 400, factor: 2}",
        ),
        (
            "name: adaptive_asha, max_time: 6400, max_trials: 512",
            "{rule: asha, first: 25, factor: 4}",
        ),
        (
            "name: adaptive_asha, bracket_rungs: [2, 3], max_time: 1600, max_trials: 9",
            "{rule: asha, first: 100, factor: 4}",
        ),
        // Sixteen trials are halved twice at most.
        (
            "name: adaptive_asha, max_time: 6400, max_trials: 16",
            "{rule: asha, first: 400, factor: 4}",
        ),
        (
            "name: adaptive_asha, max_length: {epochs: 1}, max_trials: 16",
            "{rule: asha, first: 1, factor: 4}",
        ),
    ] {
        assert_eq!(halving(terms), expected, "{terms}");
    }
}

#[test]
fn trials_of_more_gpus_than_a_node_has_get_nodes() {
    let job = |slots: u32| {
        import(&format!("entrypoint: ./a\nresources: {{slots_per_trial: {slots}}}\n"), "e.yaml")
    };
    assert!(job(16).unwrap().job.contains("nodes: 2\ngpus: 8\n"));
    assert_eq!(
        job(12).unwrap_err().to_string(),
        "line 2: 12 slots do not divide into nodes of 8 GPUs; `slots_per_node` in `slurm` has another size"
    );
}

#[test]
fn what_only_determined_can_run_is_refused() {
    for (text, expected) in [
        ("name: a\n", "the experiment has no `entrypoint`"),
        (
            "entrypoint: model_def:Trial\n",
            "its entry point `model_def:Trial` is a trial class, which only Determined's own program can run",
        ),
        (
            "entrypoint: ./a\nsearcher: {name: custom}\n",
            "its searcher is `custom`, which asks a program of its own for each trial",
        ),
        (
            "entrypoint: ./a\nsearcher:\n  name: random\n",
            "line 2: the searcher has no `max_trials`",
        ),
        (
            "entrypoint: ./a\nhyperparameters:\n  lr: {type: double, minval: 1}\n",
            "line 3: hyperparameter `lr` has no `minval` and `maxval`",
        ),
        (
            "entrypoint: ./a\nhyperparameters:\n  lr: {type: int, minval: 2, maxval: 1}\n",
            "line 3: hyperparameter `lr` has a `minval` above its `maxval`",
        ),
        (
            "entrypoint: ./a\nresources:\n  slots_per_trial: -3\n",
            "line 3: `slots_per_trial` is no whole number",
        ),
        (
            "entrypoint: ./a\nhyperparameters:\n  lr: {type: odd}\n",
            "line 3: hyperparameter `lr` has the type `odd`",
        ),
        ("entrypoint: ./a\n---\nentrypoint: ./b\n", "it has 2 documents, and an experiment is one"),
    ] {
        assert_eq!(import(text, "e.yaml").unwrap_err().to_string(), expected, "{text}");
    }
    assert!(
        import("a: [\n", "e.yaml")
            .unwrap_err()
            .to_string()
            .starts_with("it is neither YAML nor JSON")
    );
}

#[test]
fn experiments_are_told_from_scripts_and_objects() {
    assert!(is_experiment("# comment\nentrypoint: ./a\n"));
    assert!(is_experiment("{\n  \"searcher\": {}\n}\n"));
    assert!(!is_experiment("#!/bin/sh\n#SBATCH -N 1\nentrypoint: x\n"));
    assert!(!is_experiment("apiVersion: v1\nkind: Job\nsearcher: 1\n"));
    assert!(!is_experiment("name: a\nrun: b\n"));
}

/// Every field of the file is in the report, once.
#[test]
fn every_field_is_listed() {
    let report = imported(SEARCH);
    let count = |becomes| report.options.iter().filter(|one| one.becomes == becomes).count();
    assert_eq!(count(ImportOutcome::NotMapped), 3, "{}", lines(&report));
    let mut paths: Vec<&str> = report.options.iter().map(|option| option.option.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), report.options.len());
    let empty = imported("entrypoint: ./a\nhyperparameters: {}\nresources: {}\n");
    assert_eq!(empty.options.len(), 1, "{}", lines(&empty));
    let unknown = imported("entrypoint: ./a\nserver: {port: 1}\n");
    assert_eq!(unknown.options[1].text, "it is no known field of an experiment");
}

/// A field that is said to become one of the job file is in the job file.
#[test]
fn what_a_field_becomes_is_in_the_job() {
    let searchers = [
        "{name: single, metric: x, max_concurrent_trials: 4, max_length: {epochs: 1}}",
        "{name: random, max_trials: 3, metric: x, max_concurrent_trials: 2, smaller_is_better: true}",
        "{name: grid, metric: x}",
        "{name: async_halving, metric: x, time_metric: b, max_time: 64, max_trials: 4, num_rungs: 2, divisor: 2}",
        "{name: adaptive_asha, metric: x, time_metric: b, max_time: 64, max_trials: 4, mode: standard, max_rungs: 3}",
    ];
    let parameters = ["{}", "{lr: 0.1}", "{lr: {type: int, minval: 1, maxval: 4, count: 2}}"];
    let others = [
        "environment: {environment_variables: [], image: {}}\nbind_mounts: []\n",
        "environment: {environment_variables: [A=1, DET_X=1], image: i}\nmax_restarts: 1\npreemption_timeout: 60\n\
         bind_mounts: [{host_path: /a, container_path: /b}, {host_path: /a, container_path: b}]\n\
         resources: {max_slots: 2, slots_per_trial: 1, resource_pool: p}\nreproducibility: {experiment_seed: 1}\n",
        "resources: {max_slots: 2, slots_per_trial: 0}\nbind_mounts: [{host_path: a, container_path: b}]\nenvironment: {image: i}\n",
    ];
    for searcher in searchers {
        for parameters in parameters {
            for others in others {
                let report = imported(&format!(
                    "name: a\nentrypoint: ./a\nsearcher: {searcher}\nhyperparameters: {parameters}\n{others}"
                ));
                let job = muster_document::documents(&report.job).unwrap().remove(0).value;
                let kept = [ImportOutcome::Field, ImportOutcome::Near];
                for option in report.options.iter().filter(|one| kept.contains(&one.becomes)) {
                    let field = option.text.split([':', ',']).next().unwrap_or_default();
                    let is_default = field == "gpus" && report.asks["gpus"] == "0";
                    let is_text = field.contains(' ') || field == "none";
                    assert!(
                        is_text || is_default || job.get(field).is_some(),
                        "{} is said to become {field}:\n{}",
                        option.option,
                        lines(&report)
                    );
                }
            }
        }
    }
}

/// The page lists every rule.
#[test]
fn rules_are_documented() {
    let page = include_str!("../../../docs/determined.md");
    for id in ids() {
        assert!(page.contains(&format!("`{id}`")), "{id}");
    }
}
