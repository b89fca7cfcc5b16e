//! The queue through the cluster's own slurmrestd: it is what squeue says, and where it cannot be
//! had, squeue says it.

use std::path::PathBuf;

use serde_json::Value;

use crate::cluster::{Cluster, User};
use crate::muster::{Muster, Said};

/// Programs of Slurm that the verbs below use; squeue is not among them.
const PROGRAMS: [&str; 2] = ["scontrol", "sacct"];

/// A folder of Slurm's programs in which squeue is missing: who asks it all the same, fails.
fn without_squeue(cluster: &Cluster) -> PathBuf {
    let folder = cluster.work().join("without-squeue");
    std::fs::create_dir_all(&folder).unwrap();
    for program in PROGRAMS {
        let found = cluster.said(&["sh", "-c", &format!("command -v {program}")]);
        let link = folder.join(program);
        if !link.exists() {
            std::os::unix::fs::symlink(found.trim(), link).unwrap();
        }
    }
    folder
}

/// The same verb through slurmrestd, with this token.
fn by_rest(muster: &Muster<'_>, token: &str, folder: Option<&PathBuf>, words: &[&str]) -> Said {
    let mut command = muster.command(words);
    command.env("MUSTER_SLURMRESTD", format!("http://{}", muster.cluster.fact("rest")));
    command.env("SLURM_JWT", token);
    if let Some(folder) = folder {
        command.env("MUSTER_SLURM_BIN", folder);
    }
    Said::of(&command.output().unwrap())
}

/// How often the two may differ, though the programs said the same before and after, until it
/// counts as a difference: what the scheduler writes of a job of another test may change and change
/// back in between.
const DIFFERENCES: usize = 5;

/// What slurmrestd says and what the programs say of one state of the cluster: before and after
/// slurmrestd was asked, the programs say the same. Jobs of other tests may be ending meanwhile.
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
            // squeue's lines do not name the devices of a job; `show` asks for them.
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

/// The answer without the moment at which it was given.
fn timeless(text: &str) -> Value {
    let mut value: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(value.as_object_mut().unwrap().remove("now").is_some());
    value
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn ps_show_and_wait_say_the_same_through_slurmrestd_and_squeue_is_not_asked() {
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let gang = muster.submit("name: seen\nnodes: 2\ngpus: 2\ntime: 5m\nrun: sleep 300\n")[0];
    let array = muster.submit("name: many\narray: 0-3%2\ntime: 5m\nrun: sleep 300\n")[0];
    muster.reaches(gang, "running");
    muster.reaches(array, "running");
    let (token, folder) = (cluster.token(User::Mail), without_squeue(&cluster));
    let (gang, array) = (gang.to_string(), array.to_string());
    cluster.until("why the rest of the array waits is said", || {
        cluster
            .said(&["squeue", "--noheader", "--states=PD", "--format=%r", "--jobs", &array])
            .contains("Limit")
    });
    cluster.said(&["scontrol", "update", "nodename=node8", "state=drain", "reason=a fan is loud"]);
    let verbs = [
        vec!["ps", "--json"],
        vec!["show", &gang, "--json"],
        vec!["show", &array, "--json"],
        vec!["nodes", "--json"],
    ];
    let twice = verbs.map(|words| (while_nothing_moves(&muster, &token, &folder, &words), words));
    cluster.said(&["scontrol", "update", "nodename=node8", "state=resume"]);
    for ((by_rest, by_programs), words) in twice {
        assert_eq!(by_rest, by_programs, "{words:?}");
    }
    // Without squeue the programs alone have no queue: what was compared was slurmrestd's.
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
    let cluster = Cluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let job = muster.submit("name: stale\ntime: 5m\nrun: sleep 300\n")[0];
    muster.reaches(job, "running");
    let number = job.to_string();
    for token in ["expired".to_owned(), cluster.token(User::Games)] {
        // In its first moments it runs, and Slurm says why it does not yet: `Prolog`. Then its rank
        // begins.
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
