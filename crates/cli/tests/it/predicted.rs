//! Jobs of a site that plans by predicted run times: every view says that such times are predicted.

use muster_api::types::ExplainResponse;
use muster_model::view::JobState;

use crate::home::Home;

/// A home with two GPUs. Two jobs of its user have ended, so that of a third one a moment is expected; it runs for
/// longer and holds one GPU, and the gang behind it needs both.
fn home() -> (Home, u64, u64) {
    let home = Home::with_gpus(2);
    home.write("queues.yaml", "estimates: predicted\nqueues: [{name: default}]\n");
    home.words("queues --set queues.yaml").ok();
    for _ in 0..2 {
        let short = home.run("--gpus 1 --time 10m", &["true"]);
        home.until_state(short, JobState::Done);
    }
    let runs = home.run("--gpus 1 --time 10m --name runs", &["sleep", "600"]);
    home.until_state(runs, JobState::Running);
    let gang = home.run("--gpus 2 --time 10m --name gang", &["true"]);
    let end = || home.job(runs).elements[0].expected_end;
    home.until("a start is planned", || end().is_some() && home.job(gang).eta == end());
    (home, runs, gang)
}

#[test]
fn every_view_says_that_a_time_is_predicted() {
    let (home, runs, gang) = home();
    let check = |words: &str, expected: &[&str]| {
        let shown = home.words(words).ok().stdout;
        for part in expected {
            assert!(shown.contains(part), "{words}: no {part:?} in\n{shown}");
        }
        assert!(!shown.contains("starts at ") && !shown.contains("starts in "), "{words}: {shown}");
    };
    check("ps", &["predicted to start in ", &format!(", when {runs} ends")]);
    check(
        &format!("explain {gang}"),
        &[
            "  starts     about ",
            "if jobs run as long as predicted",
            "(its time limit and grace; predicted ",
        ],
    );
    check(&format!("show {runs}"), &["  ends by    ", " (time limit and grace), predicted "]);
    check(
        &format!("explain {runs}"),
        &["gang (", ") starts here about ", ", if jobs run as long as predicted"],
    );

    // A minute is added to an expectation that was exceeded, long before the limit.
    let running = home.job(runs);
    let element = &running.elements[0];
    assert!(element.expected_end.unwrap() < element.ends_by.unwrap());
    let waits = home.job(gang);
    assert_eq!((waits.eta, waits.eta_predicted), (element.expected_end, true));
    let explained: ExplainResponse = home.words(&format!("explain {gang} --json")).ok().json();
    assert!(explained.explanation.eta.unwrap().predicted);
    home.words(&format!("cancel {gang} {runs}")).ok();
}
