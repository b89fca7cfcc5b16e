//! Sweeps with real processes: values in commands and variables, metrics, early stops, and what users mistype.

use muster_api::types::ElementList;
use muster_model::Outcome;
use muster_model::view::{ElementRow, JobState};

use crate::home::Home;

fn elements(home: &Home, job: u64) -> ElementList {
    home.words(&format!("show {job} -e --json")).ok().json()
}

fn row(home: &Home, job: u64, index: u32) -> ElementRow {
    let rows = elements(home, job).elements;
    rows.into_iter().find(|row| row.index == index).expect("it has this element")
}

#[test]
fn every_combination_runs_with_its_values() {
    let home = Home::with_gpus(2);
    let line = "run --wait --param lr=1e-4,3e-4 --param opt=adam,sgd -- sh -c";
    let script =
        "echo {opt}:{lr}:$MUSTER_PARAM_LR:{{lr}}:$MUSTER_ARRAY_INDEX > out.$MUSTER_ARRAY_INDEX";
    let args: Vec<&str> = line.split(' ').chain([script]).collect();
    home.muster(&args).ok();
    let expected = [
        "adam:1e-4:1e-4:{lr}:0\n",
        "sgd:1e-4:1e-4:{lr}:1\n",
        "adam:3e-4:3e-4:{lr}:2\n",
        "sgd:3e-4:3e-4:{lr}:3\n",
    ];
    for (index, text) in expected.iter().enumerate() {
        assert_eq!(home.read(&format!("out.{index}")), *text);
    }
    let list = elements(&home, 1);
    assert_eq!(list.params, ["lr", "opt"]);
    assert_eq!(list.elements[2].values, ["3e-4", "adam"]);
    assert!(list.elements.iter().all(|row| row.state == JobState::Done), "{list:?}");
}

#[test]
fn reports_are_in_the_table_best_first_and_failed_elements_run_again() {
    let home = Home::with_gpus(3);
    home.write("points.csv", "width,name\n3,a b\n1,c\n2,d\n");
    home.write(
        "tune.yaml",
        &format!(
            "name: tune\nkind: sweep\nparams: points.csv\nmetric: {{name: loss, goal: min}}\nrun: |\n  \
             echo '{{\"step\": 5, \"loss\": {{width}}}}' > $MUSTER_REPORT_FILE\n  \
             [ \"$MUSTER_PARAM_NAME\" = {{name}}  ] || exit 9\n  \
             [ {{width}} != 2 ] || [ -e mended ] || exit 3\n  [ {{width}} != 1 ] || {}\n",
            home.gate("end")
        ),
    );
    home.words("run tune.yaml").ok();
    home.until("one has failed", || row(&home, 1, 2).state == JobState::Failed);
    home.until("two have reported", || {
        row(&home, 1, 0).report.is_some() && row(&home, 1, 1).report.is_some()
    });
    home.until("one is done", || row(&home, 1, 0).state == JobState::Done);
    let table = home.words("show tune -e").ok().stdout;
    let column = |line: &str| line.split_whitespace().next().unwrap().to_owned();
    let order: Vec<String> = table.lines().map(column).collect();
    assert_eq!(order, ["INDEX", "1", "2", "0"], "{table}");
    assert!(
        table.contains("LOSS") && table.contains("a b") && table.contains("rank 0 exited with 3"),
        "{table}"
    );
    // The element that failed runs again, and no other.
    home.write("mended", "");
    assert_eq!(home.words("requeue tune[0] --failed").ok().stdout, "");
    let said = home.words("requeue tune --failed").ok().stdout;
    assert_eq!(said, "1[2]: requeued\n");
    home.until("it is done", || row(&home, 1, 2).state == JobState::Done);
    assert_eq!((row(&home, 1, 2).attempt, row(&home, 1, 0).attempt), (2, 1));
    home.open("end");
    home.words("wait tune").ok();
    // The reports outlive the job.
    let report = row(&home, 1, 1).report.expect("it has reported");
    assert_eq!((report.step, report.value), (5, 1.0));
}

#[test]
fn after_the_end_failed_elements_are_submitted_again_by_index() {
    let home = Home::with_gpus(1);
    home.write(
        "s.yaml",
        "name: s\nkind: sweep\nparams: {x: [0, 1, 2]}\nrun: '[ {x} != 1 ] || exit 4'\n",
    );
    home.words("run s.yaml --wait").code(1);
    let refused = home.words("requeue s --failed").code(2).stderr;
    assert!(refused.contains("--array 1-1"), "{refused}");
    let said = home.words("run s.yaml --array 1-1 --wait").code(1).stderr;
    assert!(said.contains("job 2[1]: rank 0 exited with 4"), "{said}");
    let list = elements(&home, 2);
    assert_eq!(list.elements.len(), 1);
    assert_eq!((list.elements[0].index, &list.elements[0].values[..]), (1, &["1".to_owned()][..]));
    // The sheet names those that failed.
    let sheet = home.words("show 1").ok().stdout;
    assert!(sheet.contains("rank 0 exited with 4"), "{sheet}");
}

#[test]
fn an_element_that_does_worse_than_the_others_is_stopped() {
    let home = Home::with_gpus(1);
    // One at a time: the first goes on; the second is worse at its first step, and would not end by itself.
    home.write(
        "asha.yaml",
        &format!(
            "name: asha\nkind: sweep\nparams: {{loss: [1, 2]}}\nmax-running: 1\ngrace: 1s\n\
             metric: {{name: loss, goal: min, pattern: 'step (?<step>\\d+) loss=(?<value>\\d+)'}}\n\
             early-stop: {{rule: asha, factor: 2}}\n\
             run: |\n  echo step 1 loss={{loss}}\n  [ {{loss}} = 1 ] || {}\n",
            home.gate("never")
        ),
    );
    home.words("run asha.yaml --wait").ok();
    let second = row(&home, 1, 1);
    assert_eq!(second.state, JobState::Done);
    assert!(
        matches!(&second.outcome, Some(Outcome::StoppedEarly { step: 1, why }) if why.contains("not among the best")),
        "{second:?}"
    );
    assert_eq!(row(&home, 1, 0).outcome, Some(Outcome::Succeeded));
}

#[test]
fn comparisons_survive_the_daemon() {
    let home = Home::with_gpus(2);
    home.write(
        "asha.yaml",
        &format!(
            "name: asha\nkind: sweep\nparams: {{loss: [1, 2]}}\ngrace: 1s\nmetric: {{name: loss, goal: min}}\n\
             early-stop: {{rule: asha, factor: 2}}\n\
             run: |\n  [ {{loss}} = 1 ] || {}\n  echo '{{\"loss\": {{loss}}}}' > $MUSTER_REPORT_FILE\n  \
             [ {{loss}} = 1 ] || {}\n",
            home.gate("second"),
            home.gate("never")
        ),
    );
    home.words("run asha.yaml").ok();
    // Its supervisor is gone: only the store has what it reported.
    home.until("the first is done", || row(&home, 1, 0).state == JobState::Done);
    home.kill_daemon();
    home.start_daemon(None);
    home.open("second");
    home.until("the second is stopped", || {
        matches!(row(&home, 1, 1).outcome, Some(Outcome::StoppedEarly { .. }))
    });
    home.words("wait asha").ok();
}

#[test]
fn a_task_that_never_stops_reporting_can_be_cancelled() {
    let home = Home::with_gpus(1);
    let script = r#"yes '{"loss": 1}' > $MUSTER_REPORT_FILE"#;
    home.muster(&["run", "--param", "a=1", "--metric", "loss=min", "--", "sh", "-c", script]).ok();
    home.until("it reports", || row(&home, 1, 0).report.is_some_and(|report| report.step > 1));
    home.words("cancel 1").ok();
    home.until_state(1, JobState::Cancelled);
}

#[test]
fn parameters_keep_their_order() {
    let home = Home::with_gpus(1);
    home.words("run --wait --param b=1,2 --param a=x,y -- true").ok();
    home.write("p.csv", "z,c\n1,2\n");
    home.write("p.yaml", "kind: sweep\nparams: p.csv\nrun: 'true'\n");
    home.words("run --wait p.yaml").ok();
    let list = elements(&home, 1);
    assert_eq!(
        (&list.params[..], &list.elements[1].values[..]),
        (&["b", "a"].map(str::to_owned)[..], &["1", "y"].map(str::to_owned)[..])
    );
    let list = elements(&home, 2);
    assert_eq!(
        (&list.params[..], &list.elements[0].values[..]),
        (&["z", "c"].map(str::to_owned)[..], &["1", "2"].map(str::to_owned)[..])
    );
    // What `run` reads, `export` reads, too.
    let script = home.words("export slurm p.yaml").ok().stdout;
    assert!(script.contains("MUSTER_PARAM_Z="), "{script}");
}

#[test]
fn mistakes_are_named_where_they_are() {
    let home = Home::with_gpus(1);
    let refused = |text: &str, expected: &[&str]| {
        home.write("bad.yaml", text);
        let said = home.words("run bad.yaml").code(2).stderr;
        for part in expected {
            assert!(said.contains(part), "{text}\n{said}");
        }
    };
    let sweep = |rest: &str| format!("kind: sweep\nparams: {{lr: [1, 2], layers: [3]}}\n{rest}");
    refused(
        &sweep("run: train {lrr}"),
        &["there is no parameter `lrr`", "did you mean `{lr}`", "{{lrr}}"],
    );
    refused("kind: sweep\nrun: 'true'", &["`params` is missing"]);
    refused("params: {a: 1}\nrun: 'true'", &["`params` needs `kind: sweep`"]);
    refused("kind: sweep\nparams: {a: {log: [0, 1]}}\nsamples: 3\nrun: 'true'", &["above 0"]);
    refused(
        "kind: sweep\nparams: {a: {uniform: [0, 1]}}\nrun: 'true'",
        &["a range needs `samples`"],
    );
    refused(&sweep("early-stop: asha\nrun: 'true'"), &["`early-stop` needs `metric`"]);
    refused(&sweep("metric: {name: x, goal: low}\nrun: 'true'"), &["write `min` or `max`"]);
    refused(
        &sweep("metric: {name: x, goal: min, pattern: 'x='}\nrun: 'true'"),
        &["it has no group"],
    );
    refused(&sweep("array: 0-5\nrun: 'true'"), &["its indices are 0 to 1"]);
    refused("kind: sweep\nparams: {a.b: 1, a_b: 2}\nrun: 'true'", &["$MUSTER_PARAM_A_B"]);
    refused("kind: sweep\nparams: nowhere.csv\nrun: 'true'", &["nowhere.csv", "No such file"]);
    refused(
        &sweep("output: out/{lr}.txt\nrun: 'true'"),
        &["`output` cannot refer to the parameter `lr`", "%a"],
    );
    refused(&sweep("env: {LR: '{lr}'}\nrun: 'true'"), &["`env` cannot refer"]);
    refused(
        "kind: sweep\nparams: [[a, a], [1, 2]]\nrun: 'true'",
        &["two parameters are named `a`"],
    );
    refused("kind: sweep\nparams: [[a]]\nrun: 'true'", &["a table without rows"]);
    refused("kind: sweep\nparams: [[], []]\nrun: 'true'", &["a row of `params` is empty"]);
    refused("kind: sweep\nparams: [[a], [1, 2]]\nrun: 'true'", &["row 1", "the header has 1"]);
    let said = home.words("run --param lr=log:1,2 -- true").code(2).stderr;
    assert!(said.contains("a range has two ends"), "{said}");
    refused("kind: sweep\nparams: [{a: 1}, {b: 2}]\nrun: 'true'", &["row 2", "expected a"]);
    let many = "kind: sweep\nparams: {a: {whole: [1, 1000]}, b: {whole: [1, 1000]}}\nrun: 'true'";
    refused(many, &["1000000 combinations; at most 100000"]);
}

#[test]
fn a_sweep_that_ended_without_a_report_says_so() {
    let home = Home::with_gpus(1);
    let silent =
        "name: silent\nkind: sweep\nparams: {n: [1, 2]}\nmetric: {name: loss, goal: min}\n";
    home.write("silent.yaml", &format!("{silent}run: 'true'\n"));
    home.words("run silent.yaml --wait").ok();
    for words in ["show silent", "show silent -e --json"] {
        let shown = home.words(words).ok();
        assert!(
            shown.stderr.contains("no element has reported `loss`"),
            "{words}: {}",
            shown.stderr
        );
    }
    // One that waits may still report.
    home.write("held.yaml", &format!("{silent}hold: true\nrun: 'true'\n"));
    home.words("run held.yaml --name held").ok();
    assert_eq!(home.words("show held -e").ok().stderr, "");
}
