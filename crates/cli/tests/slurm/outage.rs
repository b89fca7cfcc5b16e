//! Parts of Slurm that do not answer: unknown state is never shown as empty, waiting commands keep
//! waiting, and the user is told.

use std::io::Read;
use std::process::{Child, Stdio};

use crate::cluster::{SlurmCluster, StoppedDaemon, User};
use crate::muster::{CommandOutput, Muster};

/// Exit code of a command that Slurm did not answer.
const UNAVAILABLE: i32 = 5;

/// Command that runs concurrently with the test.
struct RunningCommand(Child);

impl RunningCommand {
    fn start(muster: &Muster<'_>, words: &[&str]) -> Self {
        let mut command = muster.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Waits for its end and returns its output.
    fn finish(self) -> CommandOutput {
        CommandOutput::of(&self.0.wait_with_output().unwrap())
    }

    /// Waits until it has written these words to stderr; returns its output until then.
    fn wait_for_stderr(&mut self, words: &str) -> String {
        let stderr = self.0.stderr.as_mut().unwrap();
        let mut text = String::new();
        while !text.contains(words) {
            let mut chunk = [0; 512];
            let length = stderr.read(&mut chunk).unwrap();
            assert!(length > 0, "it ended without `{words}`: {text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..length]));
        }
        text
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_controller_that_is_away_is_said_and_who_waits_goes_on_waiting() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let gate = cluster.work().join("outage-gate");
    let job = muster.submit(&format!(
        "name: outlives\ntime: 5m\nrun: 'echo ready; while [ ! -e {} ]; do sleep 0.1; done; exit 7'\n",
        gate.display()
    ))[0]
        .to_string();
    // An srun that has not started cannot start without its controller.
    cluster.until("its rank", || muster.call(&["logs", &job]).stdout == "ready\n");
    let waits = RunningCommand::start(&muster, &["wait", &job]);
    let mut begins = {
        let _down = StoppedDaemon::stopped(&cluster, "slurmctld");
        for verb in [
            vec!["ps"],
            vec!["show", &job],
            vec!["nodes"],
            vec!["cancel", &job],
            vec!["explain", &job],
        ] {
            let said = muster.call(&verb);
            assert_eq!(said.code, UNAVAILABLE, "{verb:?}: {said:?}");
            assert!(said.stderr.contains("Slurm does not answer: "), "{verb:?}: {said:?}");
            assert_eq!(said.stdout, "", "{verb:?}");
        }
        // A new command, with a job name.
        let mut begins = RunningCommand::start(&muster, &["wait", "outlives"]);
        begins.wait_for_stderr("retrying until it answers");
        begins
    };
    begins.wait_for_stderr("Slurm answers again");
    cluster.output_as(User::Mail, &["touch", gate.to_str().unwrap()]);
    for one in [waits.finish(), begins.finish()] {
        assert_eq!(one.code, 7, "{one:?}");
        assert!(
            one.stdout.contains("failed: rank 0 exited with 7")
                || one.stdout.contains("failed: exited with 7"),
            "{one:?}"
        );
        assert!(one.stderr.matches("retrying").count() <= 1, "{one:?}");
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn without_munge_nothing_is_an_empty_queue() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let job =
        muster.submit("name: unvouched\ntime: 5m\nrun: 'echo up; exec sleep 300'\n")[0].to_string();
    // A job that starts or ends without munge waits for it so long that Slurm sets its node down.
    cluster.until("its script runs, and no other", || {
        let runs = muster.call(&["logs", &job]).stdout == "up\n";
        runs && cluster.output(&["squeue", "--noheader", "--format=%j"]).trim() == "unvouched"
    });
    {
        let _down = StoppedDaemon::stopped(&cluster, "munged");
        for verb in [vec!["ps"], vec!["ps", "-a"], vec!["show", &job], vec!["wait", "unvouched"]] {
            if verb[0] == "wait" {
                let mut waits = RunningCommand::start(&muster, &verb);
                waits.wait_for_stderr("retrying until it answers");
                waits.0.kill().unwrap();
                waits.0.wait().unwrap();
                continue;
            }
            let said = muster.call(&verb);
            assert_eq!(said.code, UNAVAILABLE, "{verb:?}: {said:?}");
            assert!(said.stderr.contains("munge"), "{verb:?}: {said:?}");
        }
    }
    muster.output(&["cancel", &job]);
    cluster.until_patiently("all nodes are back", || {
        let states =
            cluster.output(&["sinfo", "--noheader", "--Node", "--partition=batch", "--format=%T"]);
        states.lines().all(|state| state.trim() == "idle")
    });
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn an_accounting_that_is_away_is_a_warning_and_makes_no_job_unknown() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let job = muster.submit("name: accounted\ntime: 5m\nrun: sleep 300\n")[0].to_string();
    let by_hand =
        cluster.output_as(User::Mail, &["sbatch", "--parsable", "--mem=100", "--wrap", "true"]);
    let by_hand = by_hand.trim();
    cluster.until("the accounting has it", || {
        cluster
            .output(&["sacct", "-n", "-X", "-j", by_hand, "--format=State"])
            .contains("COMPLETED")
    });
    let _down = StoppedDaemon::stopped(&cluster, "slurmdbd");
    let all = muster.call(&["ps", "-a"]);
    assert_eq!(all.code, 0, "{all:?}");
    assert!(all.stdout.contains("accounted"), "{all:?}");
    assert_eq!(all.stderr.matches("accounting does not answer").count(), 1, "{all:?}");
    // Jobs that the controller has are shown.
    assert_eq!(muster.call(&["show", &job]).code, 0);
    // A job that the controller lacks may have ended: only the accounting has the answer.
    let unknown = muster.call(&["show", "77777777"]);
    assert_eq!(unknown.code, UNAVAILABLE, "{unknown:?}");
    assert!(
        unknown.stderr.contains("accounting") && unknown.stderr.contains("does not answer"),
        "{unknown:?}"
    );
    muster.output(&["cancel", &job]);
}
