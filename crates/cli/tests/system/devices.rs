//! A job can open the device files of its own GPUs, and no others.

use muster_model::view::JobState;

use crate::raw::{as_user, attach, type_into};
use crate::site::{SharedSite, SiteGpus};

/// Reads all device files, then tries to unmount the covers in a user namespace of its own, and reads
/// them again.
const READ: &str = "cat /dev/dri/* 2>&1; \
    unshare -Urm sh -c 'umount /dev/dri/*; cat /dev/dri/*' 2>&1 | sed 's/^/again /'";
const DENIED: &str = "Permission denied";

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_job_opens_only_its_own_gpus() {
    let site = SharedSite::start(SiteGpus::Amd);
    let alice = site.alice();
    let mallory = site.mallory();

    // 1. A job without a GPU reads neither.
    let none = mallory.output_of("", READ);
    assert!(!none.contains("gpu "), "{none}");
    let denied = |again: bool| {
        none.lines()
            .filter(|line| line.contains(DENIED) && again == line.starts_with("again "))
            .count()
    };
    assert_eq!(denied(false), 4, "{none}");
    // Where the machine has no user namespaces for users, there is nothing to try.
    let can_try = mallory.shell("unshare -Urm true").code == 0;
    assert_eq!(denied(true), if can_try { 4 } else { 0 }, "{none}");

    // 2. Two jobs with one each read a different one.
    let script = format!("{READ}; {}", alice.gate("go"));
    let first = alice.submit("--gpus 1", &script);
    alice.until_state(first, JobState::Running);
    let second = mallory.output_of("--gpus 1", READ);
    assert!(second.contains("gpu 1") && !second.contains("gpu 0"), "{second}");
    assert!(second.contains("renderD120: Permission denied"), "{second}");
    let said = alice.show(first).enforcement.join("\n");
    assert!(said.contains("access to other devices is denied by a mount namespace"), "{said}");

    // 3. A shell beside a task opens what the task opens.
    let session = as_user(alice.account.uid, alice.account.gid, || attach(&site.socket(), first));
    let shown = type_into(session.unwrap(), "cat /dev/dri/*; exit 0\n");
    assert!(shown.contains("gpu 0") && !shown.contains("gpu 1"), "{shown}");
    alice.write("go", "");
    let output = alice.result(first);
    assert!(output.contains("gpu 0") && !output.contains("gpu 1"), "{output}");

    // 4. A job with both reads both, and the machine itself was not changed.
    let both = mallory.output_of("--gpus 2", READ);
    assert!(both.contains("gpu 0") && both.contains("gpu 1"), "{both}");
    assert!(!std::path::Path::new("/dev/dri/renderD120").exists());
}
