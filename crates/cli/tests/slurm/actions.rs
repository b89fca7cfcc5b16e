//! Actions on Muster's jobs on a real Slurm: they affect the named jobs, and no others.

use crate::cluster::{SlurmCluster, User};
use crate::muster::Muster;

/// Job that restarts when it fails, and a service, whose replicas always restart.
const RESTARTED: &str = "name: rst\ntime: 5m\nrestart: {max: 2}\nrun: exec sleep 300\n---\n\
                         name: svc\nkind: service\nreplicas: 2\ntime: 5m\nrun: exec sleep 300\n";

/// Returns the full state of every element of a job, once none is completing.
fn ended_as(cluster: &SlurmCluster, job: u64) -> Vec<String> {
    let said = cluster.output(&[
        "squeue",
        "--noheader",
        "--states=all",
        "--array",
        "--format=%T",
        "--jobs",
        &job.to_string(),
    ]);
    said.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn what_is_cancelled_stays_so_though_it_is_started_again_when_it_fails() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let are = |job, state: &str| {
        cluster.until(&format!("job {job} all {state}"), || {
            let said = ended_as(&cluster, job);
            !said.is_empty() && said.iter().all(|one| one == state)
        });
    };
    for by_hand in [false, true] {
        let jobs = muster.submit(RESTARTED);
        for job in &jobs {
            are(*job, "RUNNING");
            // The ranks have started, so the scripts observe their end.
            cluster.until("its rank", || {
                muster.job(*job)["elements"][0]["tasks"][0]["stage"] == "running"
            });
        }
        for job in &jobs {
            if by_hand {
                drop(cluster.output_as(User::Mail, &["scancel", &job.to_string()]));
            } else {
                drop(muster.output(&["cancel", &job.to_string()]));
            }
        }
        for job in &jobs {
            are(*job, "CANCELLED");
            assert_eq!(muster.state(*job), "cancelled");
        }
    }
    // Pending jobs.
    let waits = muster.submit(&RESTARTED.replace("time: 5m", "time: 5m\nhold: true"));
    for job in waits {
        muster.output(&["cancel", &job.to_string()]);
        are(job, "CANCELLED");
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn an_element_that_fails_starts_again_and_takes_no_other_with_it() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let text = "name: again\ntime: 2m\narray: 0-2\nrestart: {max: 1}\n\
                run: 'echo attempt $MUSTER_ATTEMPT; [ $MUSTER_ARRAY_INDEX$MUSTER_ATTEMPT != 21 ]'\n";
    let job = muster.submit(text)[0];
    assert_eq!(muster.call(&["wait", &job.to_string()]).code, 0);
    let said = |index: u32| muster.output(&["logs", &format!("{job}[{index}]")]);
    // The last element has the job number of the array.
    assert_eq!([said(0), said(1), said(2)], ["attempt 1\n", "attempt 1\n", "attempt 2\n"]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn elements_of_a_sweep_have_their_values() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let text = "name: sweep\nkind: sweep\nparams: {lr: [1e-4, 3e-4], name: [\"a  b\", \"it's\"]}\ntime: 2m\n\
                metric: {name: loss, goal: min}\n\
                run: |\n  printf '%s|' {lr} {name} \"$MUSTER_PARAM_NAME\" {{lr}}\n  \
                echo '{\"loss\": 1}' >> $MUSTER_REPORT_FILE\n";
    let job = muster.submit(text)[0];
    assert_eq!(muster.call(&["wait", &job.to_string()]).code, 0);
    let said = |index: u32| muster.output(&["logs", &format!("{job}[{index}]")]);
    assert_eq!(said(0), "1e-4|a  b|a  b|{lr}|");
    assert_eq!(said(3), "3e-4|it's|it's|{lr}|");
    let all = muster.output(&["logs", &job.to_string()]);
    assert_eq!(all.lines().next(), Some("[0] 1e-4|a  b|a  b|{lr}|"), "{all}");
    assert_eq!(all.lines().count(), 4);
    let table = muster.output(&["show", &job.to_string(), "--elements", "--sort", "lr"]);
    let heads: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(heads, ["INDEX", "LR", "NAME", "LOSS", "STEP", "STATE", "RAN"], "{table}");
    assert_eq!(table.lines().filter(|line| line.contains("done")).count(), 4, "{table}");
    let refused = muster.call(&["logs", &job.to_string(), "--since", "1h"]);
    assert!(refused.code != 0 && refused.stderr.contains("when output was written"), "{refused:?}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_checkpoint_is_saved_only_where_the_job_has_said_so() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let job = |name: &str, on_signal: &str| {
        let trap = format!("trap '{on_signal}' USR1\n  echo ready\n  while :; do sleep 0.1; done");
        format!(
            "name: {name}\ntime: 5m\ncheckpoint: {{grace: 5s}}\nrun: |\n  #!/bin/bash\n  {trap}\n"
        )
    };
    let answers = muster.submit(&job("answers", "echo step 7 > $MUSTER_CHECKPOINT_FILE"))[0];
    let ignores = muster.submit(&job("ignores", ":"))[0];
    let dies = muster.submit(&job("dies", "exit 3"))[0];
    let silent = muster.submit("name: silent\ntime: 5m\nrun: 'echo ready; exec sleep 300'\n")[0];
    for job in [answers, ignores, dies, silent] {
        cluster
            .until("its handler", || muster.call(&["logs", &job.to_string()]).stdout == "ready\n");
    }
    for (job, code, words) in [
        (answers, 0, "saved its progress (step 7)"),
        (ignores, 124, "did not acknowledge in time"),
        (dies, 1, "ended before it acknowledged"),
        (silent, 1, "has no checkpoint signal"),
    ] {
        let said = muster.call(&["checkpoint", &job.to_string(), "--wait"]);
        assert!(
            said.code == code && (said.stdout.clone() + &said.stderr).contains(words),
            "{said:?}"
        );
    }
    // An earlier acknowledgement does not answer a request.
    let view = muster.job(answers)["elements"][0].clone();
    assert_eq!(
        (view["checkpoint"]["label"].as_str(), view["checkpoint_asked"].is_null()),
        (Some("step 7"), true)
    );
    let view = muster.job(ignores)["elements"][0].clone();
    assert!(view["checkpoint"].is_null() && view["checkpoint_asked"]["until"].is_u64(), "{view}");
    assert_eq!(muster.state(silent), "running");
    muster.cancel(&[answers, ignores, silent]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn only_what_waits_is_held() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let running = muster.submit("name: runs\ntime: 5m\nrun: exec sleep 300\n")[0];
    muster.reaches(running, "running");
    let refused = muster.call(&["hold", &running.to_string()]);
    assert!(
        refused.code == 1 && refused.stderr.contains("only pending jobs can be held"),
        "{refused:?}"
    );
    let eligible = cluster.output(&["scontrol", "show", "job", "-o", &running.to_string()]);
    assert!(!eligible.contains("EligibleTime=Unknown"), "{eligible}");
    // Pending elements of an array; its first element has ended.
    let array = muster.submit("name: waits\narray: 0-3\nbegin: +1h\ntime: 1m\nrun: 'true'\n")[0]
        .to_string();
    muster.output(&["cancel", &format!("{array}[0]")]);
    muster.output(&["hold", &array]);
    let reasons = || {
        cluster.output(&[
            "squeue",
            "--noheader",
            "--array",
            "--states=PENDING",
            "--format=%i %r",
            "--jobs",
            &array,
        ])
    };
    assert_eq!(reasons().matches("JobHeldUser").count(), 3, "{}", reasons());
    muster.output(&["release", &format!("{array}[2]")]);
    assert_eq!(reasons().matches("JobHeldUser").count(), 2, "{}", reasons());
    let unknown = muster.call(&["run", "--time", "1m", "--after", "77777777", "--", "true"]);
    assert!(
        unknown.code == 1 && unknown.stderr.contains("which is unknown or ended long ago"),
        "{unknown:?}"
    );
    muster.cancel(&[running, array.parse().unwrap()]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_without_the_environment_of_its_submitter_runs() {
    let cluster = SlurmCluster::here();
    // Slurm replaces it by the environment of a login, and some releases start no job of a user who
    // cannot log in.
    let muster = Muster::of(&cluster, User::Root);
    let job = muster
        .submit("name: bare\ntime: 1m\nslurm: {options: --export=NONE}\nrun: echo ran\n")[0]
        .to_string();
    assert_eq!(muster.call(&["wait", &job]).code, 0);
    assert_eq!(muster.output(&["logs", &job]), "ran\n");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_that_has_saved_before_its_limit_takes_another_turn() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    // Slurm signals up to half a minute early; then both ranks must acknowledge.
    let run = "#!/bin/bash\n  trap 'echo step $MUSTER_ATTEMPT > $MUSTER_CHECKPOINT_FILE' USR2\n  \
               echo turn $MUSTER_ATTEMPT after $MUSTER_LAST_CHECKPOINT\n  [ $MUSTER_ATTEMPT = 1 ] || exit 0\n  \
               while :; do sleep 0.1; done\n";
    let turns = "{signal: USR2, grace: 30s, by: all, then: requeue}";
    let text = format!("name: turns\ntasks: 2\ntime: 1m\ncheckpoint: {turns}\nrun: |\n  {run}");
    let job = muster.submit(&text)[0].to_string();
    assert_eq!(muster.call(&["wait", &job]).code, 0);
    assert_eq!(muster.output(&["logs", &job, "--attempt", "1", "-r", "1"]), "turn 1 after\n");
    assert_eq!(muster.output(&["logs", &job, "-r", "1"]), "turn 2 after step 1\n");
}

/// Some releases of Slurm start a job again after it was preempted, rerun and ended well.
#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_start_that_nobody_asked_for_runs_nothing_and_hides_no_log() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let job = muster.submit("name: once\ntime: 2m\nrun: echo attempt $MUSTER_ATTEMPT\n")[0];
    let number = job.to_string();
    assert_eq!(muster.call(&["wait", &number]).code, 0);
    cluster.output_as(User::Mail, &["scontrol", "requeue", &number]);
    cluster.until("its second start has ended", || {
        let view = muster.job(job);
        view["native"]["restarts"] == 1 && view["state"] == "done"
    });
    assert_eq!(muster.output(&["logs", &number]), "attempt 1\n");
}
