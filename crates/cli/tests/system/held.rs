//! A job held by an administrator, from the point of view of its user.

use muster_model::view::JobState;

use crate::site::SharedSite;

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_user_cannot_release_a_hold_of_root_and_the_error_says_who_can() {
    let site = SharedSite::with_gpus(2);
    let alice = site.alice();
    let root = site.root();
    let job = alice.submit("--gpus 1 --hold", "true");
    let held = root.words(&format!("hold {job}")).ok();
    assert!(held.text().contains("its user cannot release it"), "{}", held.text());
    for words in [format!("release {job}"), "release --state held".to_owned()] {
        let refused = alice.words(&words);
        assert_ne!(refused.code, 0, "{words}: {}", refused.text());
        assert!(
            refused.stderr.contains("held by root, an administrator"),
            "{words}: {}",
            refused.text()
        );
    }
    for verb in ["show", "explain", "ps"] {
        let words = if verb == "ps" { verb.to_owned() } else { format!("{verb} {job}") };
        let reported = alice.words(&words).ok();
        let line = reported.stdout.lines().find(|line| line.contains("root"));
        assert!(
            line.is_some_and(|line| line.contains("administrator")),
            "{verb}: {}",
            reported.text()
        );
    }
    // The user's own hold is the user's again once root has released it.
    let released = root.words(&format!("release {job}")).ok();
    assert!(released.text().contains("its user holds it too"), "{}", released.text());
    assert_eq!(alice.show(job).job.state, JobState::Held);
    alice.words(&format!("release {job}")).ok();
    alice.until_state(job, JobState::Done);
}
