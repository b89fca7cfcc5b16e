//! What may be done to the jobs of a load before they arrive, the same for flat pools and fleets.

use muster_model::{Span, Time};

use crate::dice::Dice;

/// How long users believe that a job runs, who promise too much: any time from its runtime to so
/// many times that (the f-model of Mu'alem and Feitelson 2001, with f = 4).
const MOST_TIMES: f64 = 5.0;

/// Submit times, in order, `factor` times as close to the first of them.
pub(crate) fn hasten<'j>(submits: impl Iterator<Item = &'j mut Time>, factor: f64) {
    let mut submits = submits.peekable();
    let first = submits.peek().map_or(Time(0), |submit| **submit);
    for submit in submits {
        let after = submit.since(first).0 as f64 / factor;
        *submit = first + Span(after.round() as u64);
    }
}

/// An estimate of a runtime by a user who promises too much.
pub(crate) fn noisy(runtime: Span, dice: &mut Dice) -> Span {
    let times = 1.0 + dice.unit() * (MOST_TIMES - 1.0);
    Span((runtime.0 as f64 * times) as u64).max(runtime)
}
