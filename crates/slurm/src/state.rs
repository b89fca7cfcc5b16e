//! Conversion of Slurm's job states to Muster's: each is distinguished, and states that Slurm adds
//! later are kept as they are. Base state and flags are one word or several, depending on version
//! and program (squeue(1), JOB STATE CODES; sacct(1)).

use std::sync::Arc;

use muster_model::Outcome;
use muster_model::view::JobState;

/// State of a job: the base state, and temporary flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeState {
    words: Vec<String>,
}

/// Exit status of a job or task: its code, or the signal that ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitStatus {
    /// Exit code of the process.
    pub code: i32,
    /// Signal that ended it; 0 for none.
    pub signal: i32,
}

impl ExitStatus {
    /// Returns the code as a shell reports it.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        if self.signal > 0 { 128 + self.signal } else { self.code }
    }

    /// Parses `3:0`, as sacct and scontrol print it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (code, signal) = text.split_once(':')?;
        Some(Self { code: code.parse().ok()?, signal: signal.parse().ok()? })
    }
}

/// Flags that take precedence over the base state, in order of precedence.
const FLAGS: [(&str, JobState); 15] = [
    ("REQUEUE_HOLD", JobState::Held),
    ("SPECIAL_EXIT", JobState::Held),
    ("RESV_DEL_HOLD", JobState::Held),
    ("REQUEUE_FED", JobState::Pending),
    ("REQUEUED", JobState::Pending),
    ("COMPLETING", JobState::Stopping),
    ("STAGE_OUT", JobState::Stopping),
    ("SIGNALING", JobState::Stopping),
    ("STOPPED", JobState::Suspended),
    ("CONFIGURING", JobState::Starting),
    ("POWER_UP_NODE", JobState::Starting),
    ("RESIZING", JobState::Running),
    ("EXPEDITING", JobState::Pending),
    ("RECONFIG_FAIL", JobState::Failed),
    ("LAUNCH_FAILED", JobState::Failed),
];

/// Base states with Muster's state for each.
const STATES: [(&str, JobState); 13] = [
    ("PENDING", JobState::Pending),
    ("RUNNING", JobState::Running),
    ("SUSPENDED", JobState::Suspended),
    ("COMPLETED", JobState::Done),
    ("CANCELLED", JobState::Cancelled),
    ("FAILED", JobState::Failed),
    ("TIMEOUT", JobState::Failed),
    ("NODE_FAIL", JobState::Failed),
    ("PREEMPTED", JobState::Preempted),
    ("BOOT_FAIL", JobState::Failed),
    ("DEADLINE", JobState::Failed),
    ("OUT_OF_MEMORY", JobState::Failed),
    ("REVOKED", JobState::Cancelled),
];

/// Word that Muster adds to Slurm's.
const RUNAWAY: &str = "RUNAWAY";

/// Reasons of jobs that failed before anything of them ran.
const NEVER_RAN: [&str; 4] = ["BadConstraints", "JobLaunchFailure", "InvalidAccount", "InvalidQOS"];

impl NativeState {
    /// Builds a state from words as a program prints them: `CANCELLED by 1000` is one, as is a list
    /// of flags.
    #[must_use]
    pub fn new(words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let split = |word: &str| {
            let word = word.split(" by ").next().unwrap_or_default();
            word.split(['+', ',']).map(|word| word.trim().to_uppercase()).collect::<Vec<_>>()
        };
        let words = words.into_iter().flat_map(|word| split(word.as_ref()));
        Self { words: words.filter(|word| !word.is_empty()).collect() }
    }

    /// Marks the state of a job that is open in the accounting but unknown to the controller: what
    /// sacctmgr calls a runaway job.
    #[must_use]
    pub fn runaway(mut self) -> Self {
        self.words.push(RUNAWAY.to_owned());
        self
    }

    /// Returns the state in Slurm's words.
    #[must_use]
    pub fn text(&self) -> String {
        self.words.join("+")
    }

    /// Returns whether the state contains a word.
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }

    /// Returns Muster's state. `is_held`: a pending job that is held and otherwise eligible.
    #[must_use]
    pub fn state(&self, is_held: bool) -> JobState {
        let base = STATES.iter().find(|(word, _)| self.has(word)).map(|(_, state)| *state);
        let flag = FLAGS.iter().find(|(word, _)| self.has(word)).map(|(_, state)| *state);
        if self.has(RUNAWAY) {
            return JobState::Unknown;
        }
        match (base, flag) {
            // The job has ended, and its clean-up is running: it still holds its nodes.
            (Some(base), Some(JobState::Stopping))
                if base.is_final() || base == JobState::Running =>
            {
                JobState::Stopping
            }
            // The job has ended and was requeued.
            (_, Some(state @ (JobState::Pending | JobState::Held))) => state,
            (Some(JobState::Running), Some(state)) => state,
            (Some(JobState::Pending), Some(JobState::Failed)) | (Some(JobState::Pending), None)
                if is_held =>
            {
                JobState::Held
            }
            (Some(base), _) => base,
            (None, Some(flag)) => flag,
            (None, None) => JobState::Unknown,
        }
    }

    /// Returns the outcome; `None` for a job that has not ended. `by` is the user who cancelled it,
    /// if known, `reason` Slurm's reason.
    #[must_use]
    pub fn outcome(&self, exit: ExitStatus, by: Option<&str>, reason: &str) -> Option<Outcome> {
        let native = |says: &str, code: i32| {
            Some(Outcome::Native { state: Arc::from(self.text()), message: Arc::from(says), code })
        };
        if !self.state(false).is_final() {
            return None;
        }
        if self.has(RUNAWAY) {
            return native(
                "its accounting record was never closed, and the controller does not have it",
                125,
            );
        }
        let word =
            STATES.iter().map(|(word, _)| *word).find(|word| self.has(word)).unwrap_or_default();
        match word {
            "COMPLETED" => Some(Outcome::Succeeded),
            "TIMEOUT" => Some(Outcome::TimedOut),
            "CANCELLED" => match by {
                Some(by) => Some(Outcome::Cancelled { by: by.into() }),
                None => native("cancelled", 130),
            },
            // The job never ran, and its exit code is set by Slurm.
            "FAILED" if NEVER_RAN.contains(&reason) => {
                native(&super::reason::sentence(reason), 125)
            }
            "FAILED" if exit.signal > 0 => {
                native(&format!("ended by signal {}", exit.signal), exit.shell_code())
            }
            "FAILED" => native(&format!("exited with {}", exit.code), exit.code.max(1)),
            "OUT_OF_MEMORY" => native("ran out of memory", 137),
            "PREEMPTED" => native("was preempted, and not requeued", 125),
            "NODE_FAIL" => native("one of its nodes failed", 125),
            "BOOT_FAIL" => native("its nodes did not boot", 125),
            "DEADLINE" => native("could not end before its deadline", 125),
            "REVOKED" => native("runs in another cluster of the federation", 125),
            _ => native("Slurm's state is unknown to Muster", 125),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_native_state_has_one_of_ours() {
        for (words, held, state) in [
            ("PENDING", false, JobState::Pending),
            ("PENDING", true, JobState::Held),
            ("RUNNING", false, JobState::Running),
            ("CONFIGURING", false, JobState::Starting),
            ("RUNNING+CONFIGURING", false, JobState::Starting),
            ("COMPLETING", false, JobState::Stopping),
            ("COMPLETED+COMPLETING", false, JobState::Stopping),
            ("RUNNING,COMPLETING", false, JobState::Stopping),
            ("SUSPENDED", false, JobState::Suspended),
            ("RUNNING+STOPPED", false, JobState::Suspended),
            ("RESIZING", false, JobState::Running),
            ("PENDING+REQUEUED", false, JobState::Pending),
            ("REQUEUED", false, JobState::Pending),
            ("PREEMPTED+REQUEUED", false, JobState::Pending),
            ("PENDING+REQUEUE_HOLD", false, JobState::Held),
            ("SPECIAL_EXIT", false, JobState::Held),
            ("COMPLETED", false, JobState::Done),
            ("FAILED", false, JobState::Failed),
            ("TIMEOUT", false, JobState::Failed),
            ("NODE_FAIL", false, JobState::Failed),
            ("OUT_OF_MEMORY", false, JobState::Failed),
            ("DEADLINE", false, JobState::Failed),
            ("BOOT_FAIL", false, JobState::Failed),
            ("PREEMPTED", false, JobState::Preempted),
            ("CANCELLED by 1000", false, JobState::Cancelled),
            ("REVOKED", false, JobState::Cancelled),
            ("SOMETHING_NEW", false, JobState::Unknown),
        ] {
            assert_eq!(NativeState::new([words]).state(held), state, "{words}");
        }
        assert_eq!(NativeState::new(["RUNNING"]).runaway().state(false), JobState::Unknown);
    }

    #[test]
    fn ends_are_told_apart_in_words_and_codes() {
        let end = |words: &str, code, signal| {
            let outcome = NativeState::new([words]).outcome(
                ExitStatus { code, signal },
                None,
                "NonZeroExitCode",
            )?;
            Some((outcome.to_string(), outcome.exit_code()))
        };
        let said = |text: &str, code| Some((text.to_owned(), code));
        assert_eq!(end("RUNNING", 0, 0), None);
        assert_eq!(end("PREEMPTED+REQUEUED", 0, 0), None, "it was requeued");
        assert_eq!(end("COMPLETED", 0, 0), said("done", 0));
        assert_eq!(end("FAILED", 3, 0), said("exited with 3", 3));
        assert_eq!(end("FAILED", 0, 9), said("ended by signal 9", 137));
        assert_eq!(end("TIMEOUT", 0, 15), said("reached its time limit", 124));
        assert_eq!(end("OUT_OF_MEMORY", 0, 125), said("ran out of memory", 137));
        assert_eq!(end("NODE_FAIL", 1, 0), said("one of its nodes failed", 125));
        assert_eq!(end("CANCELLED by 0", 0, 15), said("cancelled", 130));
        let by =
            NativeState::new(["CANCELLED by 0"]).outcome(ExitStatus::default(), Some("root"), "");
        assert_eq!(by, Some(Outcome::Cancelled { by: "root".into() }));
        let never = NativeState::new(["FAILED"]).outcome(
            ExitStatus { code: 1, signal: 0 },
            None,
            "BadConstraints",
        );
        assert_eq!(
            never.map(|end| end.to_string()),
            Some("no nodes can ever satisfy its request".to_owned())
        );
    }
}
