//! After SIGKILL and a restart, the daemon still has the owner of every job.

use muster_model::view::JobState;

use crate::site::SharedSite;

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn ownership_survives_the_daemon() {
    let mut site = SharedSite::with_gpus(2);
    let (job, ended) = {
        let alice = site.alice();
        let job = alice.submit("--gpus 1", &format!("echo out; {}; id -u", alice.gate("go")));
        alice.until_state(job, JobState::Running);
        let ended = alice.submit("--gpus 1", "echo done");
        alice.words(&format!("wait {ended}")).ok();
        (job, ended)
    };
    site.kill_daemon();
    site.start_daemon(2);
    let alice = site.alice();
    let mallory = site.mallory();
    assert_eq!(alice.show(job).job.state, JobState::Running);
    for (verb, job) in [("logs", job), ("cancel", job), ("logs", ended), ("requeue", ended)] {
        let refused = mallory.words(&format!("{verb} {job}")).code(1);
        assert!(refused.stderr.contains("belongs to another user"), "{verb}: {}", refused.text());
    }
    let theirs = mallory.show(job);
    assert!(theirs.commands.is_none() && theirs.workdir.is_none());
    alice.write("go", "");
    assert_eq!(alice.result(job), format!("out\n{}\n", alice.account.uid));
    // And it still starts others' jobs as themselves.
    let uid = mallory.account.uid;
    assert_eq!(mallory.output_of("--gpus 1", "id -u"), format!("{uid}\n"));
}
