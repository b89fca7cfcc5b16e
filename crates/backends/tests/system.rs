//! System mode: each job runs as its submitter, and no user can influence what root does. Needs
//! root, so these tests are ignored elsewhere; the test command runs them where it is root.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use common::{Groups, Rig, gang, id, is_running, pid_in, stop, until};
use muster_backends::driver::{Backend, BackendCommand};
use muster_backends::order::GangOrder;
use muster_model::payload::Identity;
use muster_model::{AttemptId, Observation, OutputFiles, Rank, TaskExit};

/// Two users that every Debian and Fedora has; neither owns files.
const USERS: [(&str, u32, u32); 2] = [("nobody", 65534, 65534), ("daemon", 1, 1)];

/// Returns a rig in system mode, with a directory that users may enter.
fn system() -> Rig {
    let rig = Rig::with(Groups::Found, true);
    std::fs::set_permissions(rig.temp.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    rig
}

fn user(number: usize) -> Identity {
    let (name, uid, gid) = USERS[number];
    // The group id of this machine.
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
    let field = |n: usize| line.split(':').nth(n).unwrap().parse::<u32>().unwrap();
    assert_eq!(field(2), uid);
    Identity { user: name.into(), uid, gid: if field(3) == gid { gid } else { field(3) } }
}

fn order(id: AttemptId, account: usize, script: &str) -> GangOrder {
    GangOrder { identity: user(account), ..gang(id, &[script]) }
}

/// Creates a directory that belongs to a user.
fn home(rig: &Rig, account: usize) -> std::path::PathBuf {
    let dir = rig.path(USERS[account].0);
    std::fs::create_dir_all(&dir).unwrap();
    chown(&dir, Some(user(account).uid), Some(user(account).gid)).unwrap();
    dir
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn a_job_runs_as_its_submitter_and_cannot_return_to_root() {
    let mut rig = system();
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    for account in 0..USERS.len() {
        let job = id(1 + account as u64, 1);
        let script = "cat /proc/self/oom_score_adj; id -u; id -g; grep -E '^(Uid|Gid|CapEff)' /proc/self/status; echo to-stderr > /dev/stderr";
        assert_eq!(rig.run(&order(job, account, script)).await, TaskExit::Code { code: 0 });
        let uid = user(account).uid;
        let gid = user(account).gid;
        let expected = format!(
            "{own}{uid}\n{gid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\n\
             CapEff:\t0000000000000000\nto-stderr\n"
        );
        assert_eq!(rig.log(job, 0), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn users_cannot_read_or_signal_each_other_or_the_supervisor() {
    let mut rig = system();
    let mut victim = order(id(1, 1), 0, "echo private $$; while :; do sleep 0.05; done");
    victim.env.insert("SECRET".into(), "s3cret".into());
    rig.start(&victim).await;
    until("its output", || rig.log(victim.id, 0).ends_with('\n')).await;
    let log = rig.log(victim.id, 0);
    let main: i32 = log.strip_prefix("private ").unwrap().trim_end().parse().unwrap();
    let supervisor = rig.supervisor_pid(victim.id, 0);
    let socket = rig.backend().task_socket(victim.id, Rank(0)).unwrap();
    let log = rig.backend().log_path(victim.id, Rank(0));
    let dir = rig.task_dir(victim.id, 0);
    let attacks = [
        format!("cat /proc/{main}/environ"),
        format!("kill -9 {main}"),
        format!("kill -9 {supervisor}"),
        format!("cat {}", log.display()),
        format!("cat {}/order.json", dir.display()),
        format!("ls {}", socket.parent().unwrap().display()),
        format!("test -w {} || false", socket.display()),
        "echo 0 > /sys/fs/cgroup/unified/muster*-1.0.1.0/cgroup.procs".to_owned(),
    ];
    for (number, attack) in attacks.iter().enumerate() {
        let job = id(10 + number as u64, 1);
        let exit = rig.run(&order(job, 1, &format!("( {attack} ) > /dev/null 2>&1"))).await;
        assert_ne!(exit, TaskExit::Code { code: 0 }, "worked: {attack}");
        assert!(!rig.log(job, 0).contains("s3cret"));
    }
    assert!(is_running(main) && is_running(supervisor));
    // Not even its own supervisor, which runs as root.
    let own = order(id(50, 1), 1, "kill -9 $PPID 2> /dev/null");
    assert_ne!(rig.run(&own).await, TaskExit::Code { code: 0 });
    rig.execute(stop(victim.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn root_enters_no_directory_for_a_user() {
    let mut rig = system();
    let closed = rig.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let link = home(&rig, 0).join("link");
    symlink(&closed, &link).unwrap();
    for (job, workdir) in [(1, closed.as_path()), (2, link.as_path()), (3, Path::new("/root"))] {
        let refused = GangOrder { workdir: workdir.into(), ..order(id(job, 1), 0, "true") };
        rig.execute(BackendCommand::Prepare(refused.into()));
        let Observation::Refused { reason } = rig.next().await.2 else {
            panic!("{workdir:?} was entered")
        };
        assert!(reason.contains("working directory"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn root_opens_no_output_file_for_a_user() {
    let mut rig = system();
    let home = home(&rig, 0);
    let files =
        |output: &Path| OutputFiles { output: Some(output.display().to_string()), error: None };
    // 1. Files that the user may write are written as the user.
    let own = home.join("new/out-%j.txt");
    let job = GangOrder { files: files(&own), ..order(id(1, 1), 0, "echo mine") };
    assert_eq!(rig.run(&job).await, TaskExit::Code { code: 0 });
    let written = home.join("new/out-1.txt");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "mine\n");
    assert_eq!(std::fs::metadata(&written).unwrap().uid(), user(0).uid);
    assert_eq!(std::fs::metadata(home.join("new")).unwrap().uid(), user(0).uid);
    // 2. Files that only root may write are neither written nor created, whichever path is used.
    let closed = rig.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let secret = closed.join("secret");
    std::fs::write(&secret, "before").unwrap();
    let link = home.join("link");
    symlink(&secret, &link).unwrap();
    for (job, output) in [(2, secret.clone()), (3, link), (4, closed.join("new/out"))] {
        let refused = GangOrder { files: files(&output), ..order(id(job, 1), 0, "echo stolen") };
        rig.execute(BackendCommand::Prepare(refused.into()));
        let reason = match rig.next().await.2 {
            Observation::Refused { reason } | Observation::Impossible { reason } => reason,
            other => panic!("{output:?}: {other:?}"),
        };
        assert!(reason.contains("cannot write the output into"), "{reason}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "before");
    assert!(!closed.join("new").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn an_environment_cannot_make_root_load_or_run_anything() {
    let mut rig = system();
    let home = home(&rig, 0);
    let mark = home.join("ran-as");
    // A program of the user first in PATH, and every variable by which a loader or a shell runs a
    // file.
    let tool = home.join("id");
    std::fs::write(&tool, format!("#!/bin/sh\n/usr/bin/id -u >> {}\n", mark.display())).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut bad = order(id(1, 1), 0, "id; true");
    for (name, value) in [
        ("PATH", format!("{}:/usr/bin:/bin", home.display())),
        ("LD_PRELOAD", home.join("evil.so").display().to_string()),
        ("LD_LIBRARY_PATH", home.display().to_string()),
        ("LD_AUDIT", home.join("evil.so").display().to_string()),
        ("ENV", tool.display().to_string()),
        ("BASH_ENV", tool.display().to_string()),
        ("RUST_BACKTRACE", "full".to_owned()),
    ] {
        bad.env.insert(name.into(), value);
    }
    assert_eq!(rig.run(&bad).await, TaskExit::Code { code: 0 });
    let ran = std::fs::read_to_string(&mark).unwrap();
    assert!(
        ran.lines().count() > 0 && ran.lines().all(|uid| uid == user(0).uid.to_string()),
        "{ran}"
    );
    // The loader complained only as the user, after root was given up: root's processes never had
    // the variables.
    let supervisors = std::fs::read_to_string("/proc/self/environ").unwrap();
    assert!(!supervisors.contains("evil.so"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn a_log_path_cannot_be_planted() {
    let mut rig = system();
    let job = id(1, 1);
    let dir = rig.task_dir(job, 0);
    // Root creates the link here; a user could not.
    std::fs::create_dir_all(&dir).unwrap();
    let victim = rig.path("victim");
    std::fs::write(&victim, "untouched").unwrap();
    symlink(&victim, dir.join("output.log")).unwrap();
    rig.execute(BackendCommand::Prepare(order(job, 0, "echo overwritten").into()));
    let Observation::Refused { reason } = rig.next().await.2 else {
        panic!("a planted log was used")
    };
    assert!(reason.contains("log"), "{reason}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    // No user could: every directory of the path belongs to root and is closed to others.
    for dir in ["state/jobs", "state/jobs/1", "run/tasks"] {
        let meta = std::fs::metadata(rig.path(dir)).unwrap();
        assert_eq!(
            (meta.uid(), meta.mode() & 0o077),
            (0, if dir == "state/jobs/1" { 0o055 & meta.mode() } else { 0 })
        );
    }
    let attempt = order(
        id(2, 1),
        0,
        &format!("ln -sf /etc/passwd {}/state/jobs/x 2> /dev/null", rig.temp.path().display()),
    );
    assert_ne!(rig.run(&attempt).await, TaskExit::Code { code: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn remaining_processes_are_ended_in_system_mode_too() {
    let mut rig = system();
    let home = home(&rig, 0);
    let script = format!(
        "setsid sh -c 'trap \"\" TERM HUP; env -i sh -c \"echo \\$\\$ > {0}/e; mv {0}/e {0}/escaped; \
         while :; do sleep 0.1; done\" & '; while :; do sleep 0.1; done",
        home.display()
    );
    let job = order(id(1, 1), 0, &script);
    rig.start(&job).await;
    let escaped = pid_in(&home.join("escaped")).await;
    rig.execute(stop(job.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
    assert!(!is_running(escaped), "it scrubbed its environment and got away");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn a_terminal_belongs_to_its_user() {
    let mut rig = system();
    let script = "test -w \"$(tty)\" && stat -c '%u %a' \"$(tty)\" && echo open > /dev/tty";
    let job = GangOrder { interactive: true, ..order(id(1, 1), 0, script) };
    assert_eq!(rig.run(&job).await, TaskExit::Code { code: 0 });
    assert_eq!(rig.log(job.id, 0), format!("{} 620\r\nopen\r\n", user(0).uid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn a_task_can_acknowledge_only_its_own_checkpoints() {
    let mut rig = system();
    // With the mode that the daemon sets for all users' clients.
    std::fs::set_permissions(rig.path("run"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = "echo own > \"$MUSTER_CHECKPOINT_FILE\"; echo up; while :; do sleep 0.05; done";
    let victim = order(id(1, 1), 0, script);
    rig.start(&victim).await;
    let (_, _, what) = rig.next().await;
    assert!(
        matches!(&what, Observation::Checkpointed(checkpoint) if &*checkpoint.label == "own"),
        "{what:?}"
    );
    let pipes = rig.path("run/checkpoints");
    let script = format!(
        "for pipe in {0}/1.*; do echo listed; done; ls {0} && exit 1; \
         (echo forged > {0}/1.0.1.0) && exit 2; (cat \"$MUSTER_CHECKPOINT_FILE\") && exit 3; \
         rm -f \"$MUSTER_CHECKPOINT_FILE\" && exit 4; exit 0",
        pipes.display()
    );
    assert!(pipes.join("1.0.1.0").exists(), "the name that is tried below");
    assert_eq!(rig.run(&order(id(2, 1), 1, &script)).await, TaskExit::Code { code: 0 });
    rig.execute(stop(victim.id));
    let (_, _, what) = rig.next().await;
    assert_eq!(what, Observation::Exited(TaskExit::Stopped), "nothing was forged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root"]
async fn no_program_runs_for_an_account_that_is_deleted_or_whose_uid_was_reused() {
    let mut rig = system();
    let of = |job, name: &str, uid| {
        let identity = Identity { user: name.into(), uid, gid: 54_321 };
        GangOrder { identity, ..gang(id(job, 1), &["echo ran"]) }
    };
    // The uid belongs to another account now: a retry would fail the same way.
    let order = of(1, "nobody", 1);
    rig.execute(BackendCommand::Prepare(std::sync::Arc::new(order.clone())));
    match rig.next().await.2 {
        Observation::Impossible { reason } => {
            assert_eq!(&*reason, "nobody submitted it with uid 1, which is the account daemon now");
        }
        other => panic!("{other:?}"),
    }
    // The account does not exist: the user database may be unavailable.
    let order = of(2, "gone", 54_321);
    rig.execute(BackendCommand::Prepare(std::sync::Arc::new(order.clone())));
    match rig.next().await.2 {
        Observation::Refused { reason } => {
            assert_eq!(&*reason, "there is no account gone with uid 54321 any more");
        }
        other => panic!("{other:?}"),
    }
    // A uid that never had an account.
    assert_eq!(rig.run(&of(3, "#54321", 54_321)).await, TaskExit::Code { code: 0 });
}
