//! Random reactions of programs to a checkpoint request: as real programs do, some save, some die
//! of the signal, some exit, and some do not handle it.

use muster_model::TaskExit;

use crate::rng::SeededRng;

/// Reaction of an attempt's tasks to a checkpoint request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointReaction {
    /// No process of the tasks handles the signal.
    Unheard,
    /// The signal is handled, and no acknowledgement follows.
    Silent,
    /// Each task saves its progress and acknowledges the checkpoint.
    Saves,
    /// Each task exits with 0 without an acknowledgement.
    Exits,
    /// Each task, or one of them, ends with this exit status.
    Dies(TaskExit),
}

pub(crate) fn random_reaction(rng: &mut SeededRng) -> CheckpointReaction {
    const USR1: i32 = 10;
    match rng.roll(20) {
        0 => CheckpointReaction::Unheard,
        1 | 2 => CheckpointReaction::Silent,
        3..=6 => CheckpointReaction::Exits,
        7 => CheckpointReaction::Dies(TaskExit::Signal { signal: USR1 }),
        8 => CheckpointReaction::Dies(TaskExit::Code { code: 1 }),
        9 => CheckpointReaction::Dies(TaskExit::OutOfMemory),
        _ => CheckpointReaction::Saves,
    }
}
