//! The queue through the cluster's slurmrestd: it matches squeue, which is used where slurmrestd is
//! not available.

use std::path::PathBuf;

use serde_json::Value;

use crate::cluster::{SlurmCluster, User};
use crate::muster::{CommandOutput, Muster};

/// Programs of Slurm that the commands below use, without squeue.
const PROGRAMS: [&str; 2] = ["scontrol", "sacct"];

/// Returns a directory of Slurm's programs without squeue: a command that uses it fails.
fn without_squeue(cluster: &SlurmCluster) -> PathBuf {
    let folder = cluster.work().join("without-squeue");
    std::fs::create_dir_all(&folder).unwrap();
    for program in PROGRAMS {
        let found = cluster.output(&["sh", "-c", &format!("command -v {program}")]);
        let link = folder.join(program);
        if !link.exists() {
            std::os::unix::fs::symlink(found.trim(), link).unwrap();
        }
    }
    folder
}

/// Runs a command through slurmrestd, with this token.
fn by_rest(
    muster: &Muster<'_>,
    token: &str,
    folder: Option<&PathBuf>,
    words: &[&str],
) -> CommandOutput {
    let mut command = muster.command(words);
    command.env("MUSTER_SLURMRESTD", format!("http://{}", muster.cluster.fact("rest")));
    command.env("SLURM_JWT", token);
    if let Some(folder) = folder {
        command.env("MUSTER_SLURM_BIN", folder);
    }
    CommandOutput::of(&command.output().unwrap())
}

/// Number of differences that are tolerated although the programs printed the same before and
/// after: the scheduler may change a job of another test and change it back in between.
const DIFFERENCES: usize = 5;

/// Returns the answers of slurmrestd and of the programs for one state of the cluster: the programs
/// print the same before and after slurmrestd is queried. Jobs of other tests may be ending
/// meanwhile.
fn while_nothing_moves(
    muster: &Muster<'_>,
    token: &str,
    folder: &PathBuf,
    words: &[&str],
) -> (Value, Value) {
    let mut differences = 0;
    let mut found = (Value::Null, Value::Null);
    muster.cluster.until("the programs say the same twice", || {
        let before = muster.call(words);
        let by_rest = by_rest(muster, token, Some(folder), words);
        let after = muster.call(words);
        assert_eq!((by_rest.code, by_rest.stderr.as_str()), (0, ""), "{words:?}: {by_rest:?}");
        if timeless(&before.stdout) != timeless(&after.stdout) {
            return false;
        }
        found = (timeless(&by_rest.stdout), timeless(&after.stdout));
        if words[0] == "ps" {
            // squeue's lines have no devices of a job; `show` queries them.
            forget_devices(&mut found.0);
            forget_devices(&mut found.1);
        }
        differences += 1;
        found.0 == found.1 || differences == DIFFERENCES
    });
    found
}

/// Empties the lists of devices of all tasks.
fn forget_devices(answer: &mut Value) {
    for job in answer["jobs"].as_array_mut().unwrap() {
        for element in job["elements"].as_array_mut().unwrap() {
            for task in element["tasks"].as_array_mut().unwrap() {
                task["devices"] = Value::Array(Vec::new());
            }
        }
    }
}

/// Returns the answer without its time.
fn timeless(text: &str) -> Value {
    let mut value: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(value.as_object_mut().unwrap().remove("now").is_some());
    value
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn ps_show_and_wait_say_the_same_through_slurmrestd_and_squeue_is_not_asked() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let gang = muster.submit("name: seen\nnodes: 2\ngpus: 2\ntime: 5m\nrun: sleep 300\n")[0];
    let array = muster.submit("name: many\narray: 0-3%2\ntime: 5m\nrun: sleep 300\n")[0];
    muster.reaches(gang, "running");
    muster.reaches(array, "running");
    let token = cluster.token(User::Mail);
    let folder = without_squeue(&cluster);
    let gang = gang.to_string();
    let array = array.to_string();
    cluster.until("why the rest of the array waits is said", || {
        cluster
            .output(&["squeue", "--noheader", "--states=PD", "--format=%r", "--jobs", &array])
            .contains("Limit")
    });
    cluster.output(&[
        "scontrol",
        "update",
        "nodename=node8",
        "state=drain",
        "reason=a fan is loud",
    ]);
    let verbs = [
        vec!["ps", "--json"],
        vec!["show", &gang, "--json"],
        vec!["show", &array, "--json"],
        vec!["nodes", "--json"],
    ];
    let twice = verbs.map(|words| (while_nothing_moves(&muster, &token, &folder, &words), words));
    cluster.output(&["scontrol", "update", "nodename=node8", "state=resume"]);
    for ((by_rest, by_programs), words) in twice {
        assert_eq!(by_rest, by_programs, "{words:?}");
    }
    // Without squeue the programs have no queue: the compared answer was slurmrestd's.
    let mut alone = muster.command(&["ps"]);
    assert!(!alone.env("MUSTER_SLURM_BIN", &folder).output().unwrap().status.success());
    muster.cancel(&[gang.parse().unwrap(), array.parse().unwrap()]);
    let failing = muster.submit("name: three\ntime: 5m\nrun: exit 3\n")[0].to_string();
    let waited = by_rest(&muster, &token, Some(&folder), &["wait", &failing]);
    assert_eq!(waited.code, 3, "{waited:?}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_token_that_is_no_good_costs_one_warning_and_the_programs_answer() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let job = muster.submit("name: stale\ntime: 5m\nrun: sleep 300\n")[0];
    muster.reaches(job, "running");
    let number = job.to_string();
    for token in ["expired".to_owned(), cluster.token(User::Games)] {
        // At first Slurm reports it as running with the reason `Prolog`; then its rank starts.
        let mut answers = None;
        cluster.until("nothing moves", || {
            let before = muster.job(job);
            let said = by_rest(&muster, &token, None, &["show", &number, "--json"]);
            answers = Some((said, before.clone()));
            before == muster.job(job)
        });
        let (said, expected) = answers.expect("it was asked");
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(timeless(&said.stdout)["job"], expected);
        let warnings =
            said.stderr.lines().filter(|line| line.starts_with("warning: slurmrestd: it refused"));
        assert_eq!((warnings.count(), said.stderr.lines().count()), (1, 1), "{said:?}");
        assert!(!said.stderr.contains(&token), "a token is not shown: {said:?}");
    }
    muster.cancel(&[job]);
}
