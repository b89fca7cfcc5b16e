//! Slurm's job states as Muster's: every one is told apart, and what Slurm may add later stays
//! itself. A base state and its flags come as one word or as several, by version and program
//! (squeue(1), JOB STATE CODES; sacct(1)).

use std::sync::Arc;

use muster_model::Outcome;
use muster_model::view::State;

/// Words of a state: the base state, and flags of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeState {
    words: Vec<String>,
}

/// How a job or task ended: its code, or the signal that ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitStatus {
    /// Exit code.
    pub code: i32,
    /// Signal; 0 for none.
    pub signal: i32,
}

impl ExitStatus {
    /// As a shell would pass it on.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        if self.signal > 0 { 128 + self.signal } else { self.code }
    }

    /// `3:0`, as sacct and scontrol print it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (code, signal) = text.split_once(':')?;
        Some(Self { code: code.parse().ok()?, signal: signal.parse().ok()? })
    }
}

/// Flags that say more than the base state, in order of what they overrule.
const FLAGS: [(&str, State); 15] = [
    ("REQUEUE_HOLD", State::Held),
    ("SPECIAL_EXIT", State::Held),
    ("RESV_DEL_HOLD", State::Held),
    ("REQUEUE_FED", State::Pending),
    ("REQUEUED", State::Pending),
    ("COMPLETING", State::Stopping),
    ("STAGE_OUT", State::Stopping),
    ("SIGNALING", State::Stopping),
    ("STOPPED", State::Suspended),
    ("CONFIGURING", State::Starting),
    ("POWER_UP_NODE", State::Starting),
    ("RESIZING", State::Running),
    ("EXPEDITING", State::Pending),
    ("RECONFIG_FAIL", State::Failed),
    ("LAUNCH_FAILED", State::Failed),
];

/// Base states.
const STATES: [(&str, State); 13] = [
    ("PENDING", State::Pending),
    ("RUNNING", State::Running),
    ("SUSPENDED", State::Suspended),
    ("COMPLETED", State::Done),
    ("CANCELLED", State::Cancelled),
    ("FAILED", State::Failed),
    ("TIMEOUT", State::Failed),
    ("NODE_FAIL", State::Failed),
    ("PREEMPTED", State::Preempted),
    ("BOOT_FAIL", State::Failed),
    ("DEADLINE", State::Failed),
    ("OUT_OF_MEMORY", State::Failed),
    ("REVOKED", State::Cancelled),
];

/// A word of our own beside Slurm's.
const RUNAWAY: &str = "RUNAWAY";

/// Words for why a job failed before anything of it ran.
const NEVER_RAN: [&str; 4] = ["BadConstraints", "JobLaunchFailure", "InvalidAccount", "InvalidQOS"];

impl NativeState {
    /// Of words as a program prints them: `CANCELLED by 1000` is one, as is a list of flags.
    #[must_use]
    pub fn new(words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let split = |word: &str| {
            let word = word.split(" by ").next().unwrap_or_default();
            word.split(['+', ',']).map(|word| word.trim().to_uppercase()).collect::<Vec<_>>()
        };
        let words = words.into_iter().flat_map(|word| split(word.as_ref()));
        Self { words: words.filter(|word| !word.is_empty()).collect() }
    }

    /// The same, of a job that the accounting has so and the controller does not know: what
    /// sacctmgr calls a runaway job.
    #[must_use]
    pub fn runaway(mut self) -> Self {
        self.words.push(RUNAWAY.to_owned());
        self
    }

    /// In its own words.
    #[must_use]
    pub fn text(&self) -> String {
        self.words.join("+")
    }

    /// The word alone that says how it stands.
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }

    /// How it stands. `is_held`: a pending job that waits for its release and for nothing else.
    #[must_use]
    pub fn state(&self, is_held: bool) -> State {
        let base = STATES.iter().find(|(word, _)| self.has(word)).map(|(_, state)| *state);
        let flag = FLAGS.iter().find(|(word, _)| self.has(word)).map(|(_, state)| *state);
        if self.has(RUNAWAY) {
            return State::Unknown;
        }
        match (base, flag) {
            // It has ended, and is being cleaned up after: it still holds its nodes.
            (Some(base), Some(State::Stopping)) if base.is_final() || base == State::Running => {
                State::Stopping
            }
            // It has ended and comes again.
            (_, Some(state @ (State::Pending | State::Held))) => state,
            (Some(State::Running), Some(state)) => state,
            (Some(State::Pending), Some(State::Failed)) | (Some(State::Pending), None)
                if is_held =>
            {
                State::Held
            }
            (Some(base), _) => base,
            (None, Some(flag)) => flag,
            (None, None) => State::Unknown,
        }
    }

    /// How it ended; `None` for what has not. `by` is who cancelled it, where that is known,
    /// `reason` Slurm's word for why.
    #[must_use]
    pub fn outcome(&self, exit: ExitStatus, by: Option<&str>, reason: &str) -> Option<Outcome> {
        let native = |says: &str, code: i32| {
            Some(Outcome::Native { state: Arc::from(self.text()), says: Arc::from(says), code })
        };
        if !self.state(false).is_final() {
            return None;
        }
        if self.has(RUNAWAY) {
            return native(
                "its accounting was never closed, and the controller does not know it",
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
            // It never ran, and what stands for its exit is Slurm's own.
            "FAILED" if NEVER_RAN.contains(&reason) => {
                native(&super::reason::sentence(reason), 125)
            }
            "FAILED" if exit.signal > 0 => {
                native(&format!("ended by signal {}", exit.signal), exit.shell_code())
            }
            "FAILED" => native(&format!("exited with {}", exit.code), exit.code.max(1)),
            "OUT_OF_MEMORY" => native("ran out of memory", 137),
            "PREEMPTED" => native("made room for others, and was not queued again", 125),
            "NODE_FAIL" => native("one of its nodes failed", 125),
            "BOOT_FAIL" => native("its nodes did not boot", 125),
            "DEADLINE" => native("could not end before its deadline", 125),
            "REVOKED" => native("runs in another cluster of the federation", 125),
            _ => native("Slurm says nothing that Muster knows", 125),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_native_state_has_one_of_ours() {
        for (words, held, state) in [
            ("PENDING", false, State::Pending),
            ("PENDING", true, State::Held),
            ("RUNNING", false, State::Running),
            ("CONFIGURING", false, State::Starting),
            ("RUNNING+CONFIGURING", false, State::Starting),
            ("COMPLETING", false, State::Stopping),
            ("COMPLETED+COMPLETING", false, State::Stopping),
            ("RUNNING,COMPLETING", false, State::Stopping),
            ("SUSPENDED", false, State::Suspended),
            ("RUNNING+STOPPED", false, State::Suspended),
            ("RESIZING", false, State::Running),
            ("PENDING+REQUEUED", false, State::Pending),
            ("REQUEUED", false, State::Pending),
            ("PREEMPTED+REQUEUED", false, State::Pending),
            ("PENDING+REQUEUE_HOLD", false, State::Held),
            ("SPECIAL_EXIT", false, State::Held),
            ("COMPLETED", false, State::Done),
            ("FAILED", false, State::Failed),
            ("TIMEOUT", false, State::Failed),
            ("NODE_FAIL", false, State::Failed),
            ("OUT_OF_MEMORY", false, State::Failed),
            ("DEADLINE", false, State::Failed),
            ("BOOT_FAIL", false, State::Failed),
            ("PREEMPTED", false, State::Preempted),
            ("CANCELLED by 1000", false, State::Cancelled),
            ("REVOKED", false, State::Cancelled),
            ("SOMETHING_NEW", false, State::Unknown),
        ] {
            assert_eq!(NativeState::new([words]).state(held), state, "{words}");
        }
        assert_eq!(NativeState::new(["RUNNING"]).runaway().state(false), State::Unknown);
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
        assert_eq!(end("PREEMPTED+REQUEUED", 0, 0), None, "it comes again");
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
            Some("no nodes can ever satisfy what it asks for".to_owned())
        );
    }
}
