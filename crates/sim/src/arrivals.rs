//! Changes to a load before it arrives, shared by flat pools and fleets.

use muster_model::{Span, Time};

use crate::rng::Rng;

/// Largest estimate as a multiple of the runtime, for users who overestimate (the f-model of
/// Mu'alem and Feitelson 2001, with f = 4).
const MOST_TIMES: f64 = 5.0;

/// Shortens the time between arrivals by `factor`, from the first on.
pub(crate) fn shorten_intervals<'j>(submits: impl Iterator<Item = &'j mut Time>, factor: f64) {
    let mut submits = submits.peekable();
    let first = submits.peek().map_or(Time(0), |submit| **submit);
    for submit in submits {
        let after = submit.since(first).0 as f64 / factor;
        *submit = first + Span(after.round() as u64);
    }
}

/// Returns a user's overestimate of a runtime.
pub(crate) fn overestimated(runtime: Span, rng: &mut Rng) -> Span {
    let times = 1.0 + rng.unit() * (MOST_TIMES - 1.0);
    Span((runtime.0 as f64 * times) as u64).max(runtime)
}
