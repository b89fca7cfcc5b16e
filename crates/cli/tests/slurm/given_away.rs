//! A controller that lost its state gives numbers away again: a name means the job that it was
//! given to, and what a number cannot tell is refused. And submissions that are broken off: nothing
//! of them comes later.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Cluster, Down, User};
use crate::muster::Muster;

/// The controller dies and forgets everything, numbers included.
fn forget(cluster: &Cluster) {
    let down = Down::killed(cluster, "slurmctld");
    let state = cluster.conf().parent().unwrap().parent().unwrap().join("state");
    for entry in std::fs::read_dir(state).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("job_state") || name.starts_with("hash.") {
            let _ = std::fs::remove_file(entry.path());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    drop(down);
    cluster.until("the controller", || cluster.succeeds(&["scontrol", "ping"]));
}

/// Numbers begin again where they began: submits until one of the lost is given away, and returns
/// that job.
fn give_away(cluster: &Cluster, number: u64) {
    cluster.until("the number is given away", || {
        let words = [
            "sbatch",
            "--parsable",
            "--mem=100",
            "--hold",
            "--job-name=usurper",
            "--wrap",
            "exit 0",
        ];
        let given: u64 = cluster.said_to(User::Games, &words).trim().parse().unwrap();
        assert!(given <= number, "the number {number} was passed over: {given}");
        given == number
    });
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_name_means_the_job_that_it_was_given_to_and_a_number_that_was_given_away_is_refused() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    forget(&cluster);
    let held = "time: 5m\nhold: true\nrun: sleep 300\n";
    let lost = muster.submit(&format!("name: lost-one\n{held}"))[0];
    let kept = muster.submit(&format!("name: kept-one\n{held}"))[0];
    let id = muster.job(lost)["native"]["id"].as_str().unwrap().to_owned();
    forget(&cluster);
    give_away(&cluster, lost);
    // 1. By number it may be either: refused, and nothing is done.
    let number = lost.to_string();
    for verb in ["cancel", "show", "explain", "hold", "requeue"] {
        let said = muster.call(&[verb, &number]);
        assert_eq!(said.code, 1, "{verb}: {said:?}");
        assert!(said.stderr.contains("was given to two jobs"), "{verb}: {said:?}");
    }
    let state = || {
        cluster.said(&["squeue", "--noheader", "--states=all", "--format=%T", "--jobs", &number])
    };
    assert_eq!(state().trim(), "PENDING");
    // 2. By name it is the one that was lost: nothing is done to the other.
    let shown = muster.json(&["show", "lost-one"]);
    assert_eq!(
        (&shown["job"]["state"], &shown["job"]["name"]),
        (&"unknown".into(), &"lost-one".into()),
        "{shown}"
    );
    // 3. Looking hands nothing on again; who asks for it gets it.
    for verb in [vec!["ps"], vec!["ps", "-a"], vec!["show", "lost-one"], vec!["nodes"]] {
        muster.call(&verb);
    }
    let mine =
        || cluster.said(&["squeue", "--noheader", "--states=all", "--format=%j", "--user", "mail"]);
    assert!(!mine().contains("-one"), "{}", mine());
    let said = muster.call(&["ps"]);
    assert!(
        said.stderr.contains("Slurm lost what it had accepted") && said.stderr.contains("lost-one"),
        "{said:?}"
    );
    let again = muster.said(&["requeue", &format!("muster:{id}")]);
    assert!(again.contains("handed on again as job"), "{again}");
    cluster.until("it is there again", || mine().contains("lost-one"));
    // 4. The other lost one is cancelled by name: it is not handed on, and no job of others is
    //    touched.
    muster.said(&["cancel", "kept-one"]);
    let said = muster.call(&["ps"]);
    assert!(!said.stderr.contains("kept-one"), "{said:?}");
    assert_eq!(state().trim(), "PENDING");
    muster.said(&["cancel", "lost-one"]);
    assert!(!mine().contains("kept-one"));
    cluster.said(&["scancel", "--user", "games"]);
    let _ = kept;
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn who_waits_gets_what_was_promised_though_the_controller_lost_it() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    // Nothing starts until the nodes are there again.
    cluster.said(&["scontrol", "update", "nodename=ALL", "state=drain", "reason=test"]);
    let job = muster.submit("name: promised\ntime: 5m\nrun: exit 3\n")[0].to_string();
    forget(&cluster);
    // Some may have forgotten that they were drained.
    for node in 1..=8 {
        let _ = cluster.succeeds(&[
            "scontrol",
            "update",
            &format!("nodename=node{node}"),
            "state=resume",
        ]);
    }
    let waited = muster.call(&["wait", &job]);
    assert_eq!(waited.code, 3, "{waited:?}");
    assert!(waited.stderr.contains("handed on again as job"), "{waited:?}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn an_interrupted_submission_is_withdrawn_and_says_so() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let down = Down::stopped(&cluster, "slurmctld");
    let mut command =
        muster.command(&["run", "--name", "broken-off", "--time", "1m", "--", "true"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its record is written before Slurm is asked.
    let records = cluster.work().join("home-mail/.local/state/muster/slurm");
    cluster.until("its record", || {
        cluster.succeeds(&[
            "grep",
            "-rqs",
            "broken-off",
            records.to_str().unwrap(),
            "--include=job.json",
        ])
    });
    // timeout(1) passes it on, and Ctrl-C only where that was not ignored when the tests were
    // started.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let said = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(stderr.contains("withdrawn"), "{stderr}");
    assert!(matches!(said.status.code(), Some(130 | 124)), "{said:?}");
    drop(down);
    cluster.until("the controller", || cluster.succeeds(&["scontrol", "ping"]));
    muster.said(&["ps"]);
    let names =
        cluster.said(&["squeue", "--noheader", "--states=all", "--format=%j", "--user", "mail"]);
    assert!(!names.contains("broken-off"), "{names}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_client_that_is_killed_anywhere_in_a_submission_submits_once_or_not_at_all_and_never_later() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let rounds = std::env::var("MUSTER_TEST_KILLS").map_or(12, |rounds| rounds.parse().unwrap());
    let ran = cluster.work().join("ran-killed");
    cluster.said_to(User::Mail, &["mkdir", "-p", ran.to_str().unwrap()]);
    let names = || {
        let said = cluster.said(&[
            "squeue",
            "--noheader",
            "--states=all",
            "--format=%j",
            "--user",
            "mail",
        ]);
        let mut names: Vec<String> =
            said.lines().filter(|name| name.starts_with("killed-")).map(str::to_owned).collect();
        names.sort();
        names
    };
    for round in 0..rounds {
        let name = format!("killed-{round}");
        let run = format!("echo ran >> {}/{round}", ran.display());
        // Later in each round: before it has done anything, between its steps, after its end.
        muster.killed_after(
            20 * round + 5,
            &["run", "--name", &name, "--time", "1m", "--", "sh", "-c", &run],
        );
    }
    // What an sbatch had sent arrives by itself; then nothing comes any more, whoever looks.
    let mut before = names();
    cluster.until("nothing arrives", || {
        let now = names();
        let is_still = now == before;
        before = now;
        is_still
    });
    for verb in [vec!["ps"], vec!["ps", "-a"], vec!["nodes"], vec!["queues"]] {
        muster.call(&verb);
    }
    assert_eq!(names(), before);
    let mut once = before.clone();
    once.dedup();
    assert_eq!(once, before, "a submission arrived twice");
    cluster.until("all have ended", || {
        !cluster
            .said(&["squeue", "--noheader", "--format=%j", "--user", "mail"])
            .contains("killed-")
    });
    for round in 0..rounds {
        let text = std::fs::read_to_string(ran.join(round.to_string())).unwrap_or_default();
        let is_there = before.contains(&format!("killed-{round}"));
        assert_eq!(text, if is_there { "ran\n" } else { "" }, "round {round}");
    }
}
