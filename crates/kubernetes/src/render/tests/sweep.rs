//! Sweeps: values in the commands of elements, and what is too large for an object.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the shell, for which the commands are written, is their test"
)]

use std::process::Command;

use muster_model::sweep::{EarlyStop, Goal, Metric, Param, Points};

use super::*;
use crate::job::{APIS, JobObject};

fn param(name: &str, values: &[&str]) -> Param {
    Param { name: name.into(), values: values.iter().map(|value| (*value).into()).collect() }
}

fn sweep() -> Sweep {
    Sweep {
        params: vec![param("lr", &["1e-4", "3e-4"]), param("opt.name", &["a b", "$(HOME) $$"])],
        points: Points::Grid,
        metric: None,
        early_stop: None,
    }
}

fn metric(pattern: Option<&str>) -> Metric {
    Metric {
        name: "loss".into(),
        goal: Goal::Min,
        pattern: pattern.map(Into::into),
        step: "step".into(),
    }
}

fn sweep_job(
    sweep: &Sweep,
    array: Option<Array>,
    run: TaskCommand,
    scheduler: GangScheduler,
) -> Result<RenderedJob, Vec<Unsupported>> {
    let count = sweep.count().unwrap();
    let array = array.unwrap_or(Array::range(0, count - 1, 1, Some(2)));
    let spec = JobSpec { array: Some(array), ..one_pod() };
    render(&RenderInput {
        sweep: Some(sweep),
        scheduler,
        ..RenderInput::plain(&spec, &BTreeMap::from([(Arc::from("main"), run)]), &options())
    })
}

fn script(text: &str) -> TaskCommand {
    TaskCommand::Script(text.to_owned())
}

/// Runs the command of an element as a container would; returns its output.
fn output(job: &RenderedJob, element: u32) -> String {
    let container =
        job.objects.last().unwrap().pointer("/spec/template/spec/containers/0").unwrap();
    // As Kubernetes reads it: no variable of the container is named.
    let words = container["command"].as_array().unwrap().iter();
    let words: Vec<String> = words.map(|word| word.as_str().unwrap().replace("$$", "$")).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("JOB_COMPLETION_INDEX", element.to_string());
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn values_reach_every_form_of_program() {
    let argv = ["printf", "<%s>", "{lr}", "x{opt.name}y", "{{lr}}", "$HOME"];
    let argv = TaskCommand::Argv(argv.map(str::to_owned).to_vec());
    let text = "printf '<%s>' {lr} x{opt.name}y '{{lr}}' '$HOME'";
    let programs = [argv, script(text), script(&format!("#!/bin/sh\n{text}\n"))];
    for program in programs {
        let job = sweep_job(&sweep(), None, program.clone(), GangScheduler::Muster).unwrap();
        for (element, lr, opt) in
            [(0, "1e-4", "a b"), (1, "1e-4", "$(HOME) $$"), (2, "3e-4", "a b")]
        {
            let expected = format!("<{lr}><x{opt}y><{{lr}}><$HOME>");
            assert_eq!(output(&job, element), expected, "{program:?}");
        }
    }
}

#[test]
fn variables_hold_the_values_of_the_points_that_are_named() {
    let array = Array::list(vec![1, 2], None);
    let run = script("echo $MUSTER_ARRAY_INDEX $MUSTER_PARAM_LR \"$MUSTER_PARAM_OPT_NAME\"");
    let job = sweep_job(&sweep(), array, run, GangScheduler::None).unwrap();
    assert_eq!(output(&job, 0), "1 1e-4 $(HOME) $$\n");
    assert_eq!(output(&job, 1), "2 3e-4 a b\n");
}

#[test]
fn reports_go_to_the_output_of_the_container() {
    let run =
        || script("(echo '{\"loss\": 1}' >> $MUSTER_REPORT_FILE; echo lost) > /dev/null; echo end");
    let with = |metric| Sweep { metric, ..sweep() };
    let job = sweep_job(&with(Some(metric(None))), None, run(), GangScheduler::Muster).unwrap();
    assert_eq!(output(&job, 0), "{\"loss\": 1}\nend\n");
    for metric in [None, Some(metric(Some("loss (.*)")))] {
        let job = sweep_job(&with(metric), None, run(), GangScheduler::Muster).unwrap();
        assert!(!yaml(&job.objects).contains("MUSTER_REPORT_FILE="));
    }
}

#[test]
fn a_sweep_is_one_indexed_job_that_holds_its_parameters() {
    use GangScheduler::{Kai, Kueue, Muster, None, PodGroups, Volcano};
    for scheduler in [Muster, Kueue, Kai, PodGroups, None] {
        let sweep = Sweep { metric: Some(metric(Option::None)), ..sweep() };
        let job = sweep_job(&sweep, Option::None, script("train {lr}"), scheduler).unwrap();
        let [object] = &job.objects[..] else { panic!("one object") };
        let size = (&object["spec"]["completions"], &object["spec"]["parallelism"]);
        assert_eq!(size, (&json!(4), &json!(2)));
        let found = JobObject { api: &APIS[0], object };
        assert_eq!(found.sweep(), Some(sweep));
    }
    let refused = sweep_job(&sweep(), Option::None, script("true"), Volcano).unwrap_err();
    assert!(refused[0].what.contains("sweep"), "{refused:?}");
}

#[test]
fn no_element_is_stopped_early() {
    let rule = EarlyStop::Median { every: 1, others: 3 };
    let sweep = Sweep { metric: Some(metric(None)), early_stop: Some(rule), ..sweep() };
    let job = sweep_job(&sweep, None, script("true"), GangScheduler::Muster).unwrap();
    let told = job.warnings.iter().any(|one| one.contains("no element is stopped early"));
    assert!(told, "{:?}", job.warnings);
}

#[test]
fn a_table_that_is_too_large_is_refused_with_the_number_that_fits() {
    let rows = |count: u32, value: fn(u32) -> String| {
        let values = (0..count).map(|point| value(point).into()).collect();
        let params = vec![Param { name: "lr".into(), values }];
        Sweep { params, points: Points::Rows, ..sweep() }
    };
    let refused =
        |sweep: &Sweep| sweep_job(sweep, None, script("train {lr}"), GangScheduler::Muster);
    // 1. Each value is once in the command, with a space.
    let of_nine = |point: u32| format!("{point:09}");
    assert!(refused(&rows(12_000, of_nine)).is_ok());
    let unfit = refused(&rows(20_000, of_nine)).unwrap_err();
    assert_eq!(unfit.len(), 1, "{unfit:?}");
    assert!(unfit[0].what.contains("a sweep of 20000 points: its values take 20"), "{unfit:?}");
    assert!(unfit[0].what.contains("which has 131071; about 12"), "{unfit:?}");
    assert!(unfit[0].hint.contains("`samples`"), "{unfit:?}");
    // 2. Short values take more of the annotation, where they have quotes.
    let short = |point: u32| (point % 10).to_string();
    assert!(refused(&rows(60_000, short)).is_ok());
    let unfit = refused(&rows(65_000, short)).unwrap_err();
    assert!(unfit[0].what.contains("of the annotations of a Job"), "{unfit:?}");
    // 3. Of a grid, only the lists count.
    let grid = Sweep { points: Points::Grid, ..rows(20_000, of_nine) };
    assert!(refused(&grid).unwrap_err()[0].hint.contains("shorter lists"));
}

#[test]
fn an_annotation_that_is_no_sweep_is_ignored() {
    for text in [
        "{}",
        "x",
        r#"{"params":[],"points":"grid"}"#,
        r#"{"params":[{"name":"lr","values":[]}],"points":"grid"}"#,
    ] {
        let object = json!({"metadata": {"annotations": {"muster.run/sweep": text}}});
        assert_eq!(JobObject { api: &APIS[0], object: &object }.sweep(), None, "{text}");
    }
}
