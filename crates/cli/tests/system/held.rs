//! A job that an administrator holds, as its user sees it at the command line.

use muster_model::view::State;

use crate::site::Site;

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_user_cannot_release_what_root_holds_and_is_told_who_does() {
    let site = Site::with_gpus(2);
    let (alice, root) = (site.alice(), site.root());
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
        let told = alice.words(&words).ok();
        let line = told.stdout.lines().find(|line| line.contains("root"));
        assert!(line.is_some_and(|line| line.contains("administrator")), "{verb}: {}", told.text());
    }
    // The user's own hold is the user's again once root has released it.
    let released = root.words(&format!("release {job}")).ok();
    assert!(released.text().contains("its user holds it too"), "{}", released.text());
    assert_eq!(alice.show(job).job.state, State::Held);
    alice.words(&format!("release {job}")).ok();
    alice.until_state(job, State::Done);
}
