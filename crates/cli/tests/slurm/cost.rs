//! Time of Muster's commands beside Slurm's own on one queue, in turns. The figures are printed but
//! not checked: they include other processes of the machine. docs/PERFORMANCE.md has those of an
//! idle one.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::cluster::{SlurmCluster, User};
use crate::muster::Muster;

/// Number of turns, of which the median is printed.
const TURNS: usize = 7;

/// Returns the median in seconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn what_a_verb_costs_beside_slurms_own_command() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let pending = std::env::var("MUSTER_TEST_PENDING").map_or(50, |count| count.parse().unwrap());
    let held = ["sbatch", "--parsable", "--mem=100", "--hold", "--time=1", "--wrap", "true"];
    let submitted = || cluster.output_as(User::Mail, &held).trim().to_owned();
    let jobs: Vec<String> = (0..pending).map(|_| submitted()).collect();
    let own = muster.submit("name: own\nhold: true\ntime: 1m\nrun: 'true'\n")[0].to_string();
    let ended = muster.submit("name: ended\ntime: 1m\nrun: 'true'\n")[0].to_string();
    assert_eq!(muster.call(&["wait", &ended]).code, 0);

    let native = |words: &[&str]| {
        let mut command = cluster.command_of(User::Mail);
        command.args(words);
        command
    };
    let once = |mut command: Command| {
        let begun = Instant::now();
        let said = command.output().unwrap();
        let took = begun.elapsed();
        assert!(said.status.success(), "{command:?}: {said:?}");
        took
    };
    let pair = |name: &str,
                of_slurm: &mut dyn FnMut() -> Command,
                of_muster: &mut dyn FnMut() -> Command| {
        let (slurm, ours) = (0..TURNS).map(|_| (once(of_slurm()), once(of_muster()))).unzip();
        let slurm = median(slurm);
        let ours = median(ours);
        println!(
            "{name} with {pending} pending: Slurm {slurm:.3} s, Muster {ours:.3} s, {:.1} times",
            ours / slurm
        );
    };
    pair("ps", &mut || native(&["squeue", "--me"]), &mut || muster.command(&["ps"]));
    pair("show", &mut || native(&["scontrol", "show", "job", &own]), &mut || {
        muster.command(&["show", &own])
    });
    pair("wait", &mut || native(&["squeue", "--jobs", &ended]), &mut || {
        muster.command(&["wait", &ended])
    });
    let run = ["run", "--hold", "--name", "one", "--time", "1m", "--", "true"];
    pair("run", &mut || native(&held), &mut || muster.command(&run));
    let victims: Vec<String> = (0..2 * TURNS).map(|_| submitted()).collect();
    let mut first = victims[..TURNS].iter();
    let mut next = victims[TURNS..].iter();
    pair("cancel", &mut || native(&["scancel", first.next().unwrap()]), &mut || {
        muster.command(&["cancel", next.next().unwrap()])
    });
    // All jobs are listed, whatever their number.
    let listed = muster.json(&["ps"])["jobs"].as_array().unwrap().len();
    assert!(listed > jobs.len(), "{listed}");
    cluster.output(&["scancel", "--user", "mail"]);
}
