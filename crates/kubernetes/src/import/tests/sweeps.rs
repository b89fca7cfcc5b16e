//! Sweeps that `muster export` wrote become the same sweeps.

use muster_spec::CheckedJob;

use super::round_trip::checked;
use super::*;
use crate::render::{GangScheduler, RenderInput, render, yaml};

fn objects(job: &CheckedJob, scheduler: GangScheduler) -> String {
    let rendered = render(&RenderInput {
        sweep: job.sweep.as_ref(),
        scheduler,
        ..RenderInput::plain(&job.spec, &job.commands, &job.kubernetes)
    });
    yaml(&rendered.unwrap().objects)
}

#[test]
fn exported_sweeps_come_back() {
    let grid = "params: {lr: [1e-4, 3e-4], opt: [adam, 'a b', '']}";
    let rows = "params: [{z: 1, a: 'null'}, {z: 2, a: \"it's\"}, {z: 2, a: '{z}'}]";
    let drawn = "params: {lr: {log: [1e-5, 1e-2]}, n: {whole: [1, 8]}}\nsamples: 5\nseed: 7";
    let terms = "metric: {name: loss, goal: max, step: epoch}\nearly-stop: {rule: asha, factor: 3}\nmax-running: 2";
    let pattern = "metric: {name: loss, goal: min, pattern: 'loss=(.*) $(x)'}\nearly-stop: {rule: median, every: 5}\narray: 1,2";
    let words = "run: [python, train.py, '--n={n}', '{{n}}', $(X), '']";
    let script = "run: |\n  set -e\n  echo {n} $$ \"$RANK\"\n";
    let file = "run: |\n  #!/usr/bin/env python3\n  print('{n} {}')\n";
    for params in [grid, rows, drawn, "params: [{n: 1}]", "params: {n: {whole: [1, 3]}}"] {
        let name = if params.contains("n:") {
            "n"
        } else if params == rows {
            "z"
        } else {
            "lr"
        };
        for run in [words, script, file].map(|run| run.replace("{n}", &format!("{{{name}}}"))) {
            for terms in ["", terms, pattern] {
                if terms == pattern && params == "params: [{n: 1}]" {
                    continue;
                }
                let text = format!(
                    "name: Tune\nkind: sweep\n{params}\n{terms}\nrestart: 2\n{run}\nkubernetes: {{image: a}}\n"
                );
                let [job] = &checked(&text)[..] else { panic!("one job") };
                let objects = objects(job, GangScheduler::Muster);
                let report = imported(&objects);
                let [again] = &checked(&report.job)[..] else { panic!("one job") };
                assert_eq!(again.sweep, job.sweep, "{objects}\n{}", report.job);
                assert_eq!(again.spec, job.spec, "{objects}\n{}", report.job);
                assert_eq!(self::objects(again, GangScheduler::Muster), objects);
            }
        }
    }
}
