//! Notices of the shared daemon are sent as the user of the job, with nothing of root.

use std::collections::BTreeSet;

use muster_model::notice::NoticeState;

use crate::site::{GROUPS_OF_ROOT, SharedSite};

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_command_of_a_notice_is_its_user_without_roots_privileges_or_environment() {
    let site = SharedSite::with_gpus(1);
    for actor in [site.alice(), site.mallory()] {
        let told = actor.home().join("told");
        let job_file = format!(
            "name: ends\nrun: 'true'\nnotify:\n  on: end\n  command: |\n    exec > {0}.part 2>&1\n    id -u; id -G; cat /proc/self/status; env; ls /proc/self/fd | wc -l\n    cat /etc/shadow; kill -0 1\n    mv {0}.part {0}\n",
            told.display()
        );
        let path = actor.write("job.yaml", &job_file);
        let job = actor.muster(&[
            "run".into(),
            "--wait".into(),
            "--json".into(),
            path.display().to_string(),
        ]);
        job.ok();
        site.until("the notice is sent", || told.exists());
        let said = actor.read("told");
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some(&*actor.account.uid.to_string()), "{said}");
        let groups: BTreeSet<u32> =
            lines.next().unwrap().split(' ').map(|group| group.parse().unwrap()).collect();
        assert!(GROUPS_OF_ROOT.iter().all(|group| !groups.contains(group)), "{said}");
        assert!(said.contains("CapEff:\t0000000000000000"), "{said}");
        assert!(said.contains("CapPrm:\t0000000000000000"), "{said}");
        assert!(said.contains(&format!("USER={}\n", actor.account.name)), "{said}");
        assert!(said.contains("MUSTER_NOTICE_EVENT=end\n"), "{said}");
        assert!(!said.contains("MUSTER_SOCKET") && !said.contains("HOME=/root"), "{said}");
        assert!(said.contains("shadow: Permission denied"), "{said}");
        let all = actor.words("ps --all --json").ok().stdout;
        let jobs: serde_json::Value = serde_json::from_str(&all).unwrap();
        let newest =
            jobs["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_u64().unwrap());
        let own = newest.max().unwrap();
        site.until("the result is written", || {
            let sent = |state: &NoticeState| matches!(state, NoticeState::Sent { .. });
            actor.show(own).notices.iter().any(|notice| sent(&notice.state))
        });
    }
    // Neither sees what the other is told.
    assert!(!site.alice().show(1).notices.is_empty());
    assert!(site.mallory().show(1).notices.is_empty());
}
