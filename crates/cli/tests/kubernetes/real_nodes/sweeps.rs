//! Sweeps on real nodes: values in pods, the table with metrics from their output, and what Kubernetes cannot do.

use std::fs;

use serde_json::{Value, json};

use super::target::{KubernetesTarget, run, submit};
use crate::cluster::until;
use crate::conform::JobPlace;

/// Returns the elements of a job in the order of their indices, and what was printed to stderr.
fn elements(place: &KubernetesTarget, job: &str) -> (Value, String) {
    let (code, stdout, stderr) = place.call(&["show", job, "-e", "--json"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    (serde_json::from_str(&stdout).unwrap(), stderr)
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_sweep_runs_its_points_and_shows_their_reports() {
    let place = KubernetesTarget::new();
    let ok = |words: &[&str]| place.ok(words);
    let out = place.folder().join("out");
    fs::create_dir(&out).unwrap();
    let gate = place.folder().join("may-end");
    let text = format!(
        "name: tune\nkind: sweep\nparams: {{lr: [1, 3], opt: [adam, 'a b']}}\nmax-running: 3\ngrace: 1s\n\
         metric: {{name: loss, goal: min}}\nearly-stop: median\nrun: |\n  \
         echo {{lr}} {{opt}} \"$MUSTER_PARAM_OPT\" > {out}/$MUSTER_ARRAY_INDEX\n  \
         printf 'a line without end '\n  \
         echo \"{{\\\"step\\\": 5, \\\"loss\\\": {{lr}}.$MUSTER_ARRAY_INDEX}}\" >> $MUSTER_REPORT_FILE\n  \
         [ $MUSTER_ARRAY_INDEX != 2 ] || exit 3\n  \
         until [ -e {gate} ]; do usleep 50000; done\n",
        out = out.display(),
        gate = gate.display()
    );
    // 1. What is not done there is said at the submission.
    let (code, stdout, stderr) = run(&place, &text);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stderr.contains("no element is stopped early"), "{stderr}");
    // 2. The values reach the programs, of which one fails while others run and wait.
    let state = |index: usize| elements(&place, "tune").0["elements"][index]["state"].clone();
    until("one has failed, and another one took its place", || {
        state(2) == "failed" && (0..4).filter(|index| state(*index) == "running").count() == 3
    });
    let expected = ["1 adam adam\n", "1 a b a b\n", "3 adam adam\n", "3 a b a b\n"];
    for (index, expected) in expected.iter().enumerate() {
        let file = out.join(index.to_string());
        until("the element has written", || file.exists());
        assert_eq!(fs::read_to_string(file).unwrap(), *expected);
    }
    // 3. The table has the parameters and the newest reports, the best first.
    let report = |value: f64| json!({"step": 5, "value": value});
    until("all have reported", || {
        let (list, _) = elements(&place, "tune");
        let reports: Vec<&Value> =
            list["elements"].as_array().unwrap().iter().map(|row| &row["report"]).collect();
        reports == [&report(1.0), &report(1.1), &report(3.2), &report(3.3)]
    });
    let (list, _) = elements(&place, "tune");
    assert_eq!(list["params"], json!(["lr", "opt"]));
    assert_eq!(list["elements"][3]["values"], json!(["3", "a b"]));
    let shown = ok(&["show", "tune"]);
    let row = shown.lines().find(|line| line.contains("LOSS")).unwrap();
    assert!(row.contains("LR") && row.contains("OPT") && row.contains("STEP"), "{shown}");
    assert!(shown.contains("exited with 3"), "{shown}");
    let sorted = ok(&["show", "tune", "-e", "--sort", "opt"]);
    let first = sorted.lines().nth(1).unwrap().trim_start();
    assert!(first.starts_with("1 "), "{sorted}");
    let said = ok(&["logs", "tune[3]"]);
    assert_eq!(said, "a line without end {\"step\": 5, \"loss\": 3.3}\n");
    // 4. Elements do not run again, and the error says how the failed ones do.
    for words in [&["requeue", "tune", "--failed"][..], &["requeue", "tune[2]"]] {
        let (code, _, stderr) = place.call(words);
        assert!(code == 1 && stderr.contains("muster run FILE --array 2"), "{code}: {stderr}");
    }
    fs::write(&gate, "").unwrap();
    assert_eq!(place.call(&["wait", "tune"]).0, 1);
    let (code, _, stderr) = place.call(&["requeue", "tune", "--failed"]);
    assert!(code == 2 && stderr.contains("--array 2"), "{code}: {stderr}");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_metric_is_found_by_a_pattern_or_missed_with_a_warning() {
    let place = KubernetesTarget::new();
    let file = place.folder().join("job.yaml");
    let job = |metric: &str| {
        format!(
            "name: tune\nkind: sweep\nparams: {{n: [1, 2]}}\nmetric: {metric}\n\
             run: [sh, -c, 'seq 1 3000 | sed \"s/^/at /\"; echo loss=0.{{n}}; seq 1 3000']\n\
             kubernetes: {{scheduler: none}}\n"
        )
    };
    // 1. Without a gang scheduler, and of a program that prints much after its report, all output is read.
    submit(&place, &job("{name: loss, goal: max, pattern: 'loss=(.*)'}"));
    assert_eq!(place.call(&["wait", "tune"]).0, 0);
    let (list, stderr) = elements(&place, "tune");
    assert_eq!(list["elements"][1]["report"], json!({"step": 1, "value": 0.2}), "{stderr}");
    // 2. One that never reports has a table without values, and a warning.
    fs::write(&file, job("{name: loss, goal: max}")).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(place.call(&["run", file, "--name", "silent", "--array", "1"]).0, 0);
    assert_eq!(place.call(&["wait", "silent"]).0, 0);
    let (list, stderr) = elements(&place, "silent");
    assert_eq!(list["elements"].as_array().unwrap().len(), 1);
    assert_eq!(list["elements"][0]["report"], Value::Null);
    assert!(stderr.contains("no element has reported `loss`"), "{stderr}");
    // 3. Mistakes are refused before anything is made.
    let text = "name: bad\nkind: sweep\nparams: {n: [1, 2]}\nrun: echo {m}\n";
    let (code, _, stderr) = run(&place, text);
    assert!(code == 2 && stderr.contains("{m}"), "{code}: {stderr}");
    let text = "name: many\nkind: sweep\nparams: {n: {whole: [1, 9000000]}}\nsamples: 60000\nrun: echo {n}\n";
    let (code, _, stderr) = run(&place, text);
    assert!(code == 1 && stderr.contains("points fit"), "{code}: {stderr}");
}
