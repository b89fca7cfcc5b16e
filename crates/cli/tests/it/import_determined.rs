//! `muster import` of experiments of Determined: reports, errors, and a sweep that runs.

use serde_json::Value;

use crate::home::Home;

const EXPERIMENT: &str = "\
name: search
labels: [mine]
hyperparameters:
  lr: {type: categorical, vals: [0.1, 0.2]}
  layers: {type: int, minval: 1, maxval: 2, count: 2}
searcher: {name: grid, metric: loss}
resources: {slots_per_trial: 1}
entrypoint: printf '%s-%s ' $MUSTER_PARAM_LR $MUSTER_PARAM_LAYERS
";

#[test]
fn the_report_covers_the_experiment_and_its_sweep_runs() {
    let home = Home::new();
    home.write("experiment.yaml", EXPERIMENT);
    let run = home.words("import experiment.yaml -o sweep.yaml").ok();
    for part in [
        "experiment.yaml: 7 fields are in the job, 1 not mapped",
        "line 2: labels: …: the labels of a job are those of its nodes",
        "[determined-parameters]",
        "`layers` is `$MUSTER_PARAM_LAYERS` in a job, and likewise the other one",
    ] {
        assert!(run.stderr.contains(part), "{part}\n{}", run.stderr);
    }
    // The report keeps to its schema.
    let schema: Value = home.words("schema import-report").json();
    let report: Value = home.words("import experiment.yaml --json").json();
    jsonschema::validator_for(&schema)
        .unwrap()
        .validate(&report)
        .unwrap_or_else(|error| panic!("{error}"));
    // Every point of the grid runs, with its values.
    home.words("run sweep.yaml --virtual-gpus 2 --wait").ok();
    let output = home.words("logs search").ok().stdout;
    for point in ["0.1-1", "0.1-2", "0.2-1", "0.2-2"] {
        assert!(output.contains(point), "{point}\n{output}");
    }
}

#[test]
fn mistakes_are_named() {
    let home = Home::new();
    home.write("experiment.yaml", EXPERIMENT);
    home.write("class.yaml", "entrypoint: model_def:Trial\nsearcher: {name: single}\n");
    home.words("import experiment.yaml --strict").code(1);
    for (words, part) in [
        (
            "import experiment.yaml --cure processes-squared",
            "--cure is for scripts, but experiment.yaml holds an experiment of Determined",
        ),
        (
            "import experiment.yaml --cluster experiment.yaml",
            "--cluster is for objects of Kubernetes, but experiment.yaml holds an experiment",
        ),
        (
            "import class.yaml",
            "its entry point `model_def:Trial` is a trial class, which only Determined's own program can run",
        ),
    ] {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains(part), "{words}\n{}", run.stderr);
    }
}
