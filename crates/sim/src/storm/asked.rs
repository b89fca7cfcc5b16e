//! What programs do that are asked to save their progress, chosen by dice: as real ones do, some
//! save, some die of the signal, some take it for the order to end, and some do not handle it.

use muster_model::TaskExit;

use crate::dice::Dice;

/// What the tasks of an attempt do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// No process of them handles the signal.
    Unheard,
    /// They get it and say nothing.
    Silent,
    /// They save, and say so.
    Saves,
    /// They exit with 0 and say nothing.
    Exits,
    /// They end so.
    Dies(TaskExit),
}

pub(crate) fn reaction(dice: &mut Dice) -> Reaction {
    const USR1: i32 = 10;
    match dice.roll(20) {
        0 => Reaction::Unheard,
        1 | 2 => Reaction::Silent,
        3..=6 => Reaction::Exits,
        7 => Reaction::Dies(TaskExit::Signal { signal: USR1 }),
        8 => Reaction::Dies(TaskExit::Code { code: 1 }),
        9 => Reaction::Dies(TaskExit::OutOfMemory),
        _ => Reaction::Saves,
    }
}
