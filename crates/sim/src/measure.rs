//! Measures shared by simulations: mean and quantiles of a figure, and the bounded slowdown of the
//! literature.

use muster_model::Span;
use muster_model::simulation::Spread;

/// Runtimes below this count as this in the slowdown, so that a job of a second does not outweigh
/// all others (Feitelson and Rudolph 1998).
const SLOWDOWN_FLOOR: Span = Span::from_secs(10);

/// Converts a span to seconds, with milliseconds as the fraction.
pub(crate) fn secs(span: Span) -> f64 {
    span.0 as f64 / 1000.0
}

/// Returns turnaround ÷ runtime, with a least runtime of 10 s and a least result of 1.
pub(crate) fn bounded_slowdown(turnaround: Span, runtime: Span) -> f64 {
    (secs(turnaround) / secs(runtime.max(SLOWDOWN_FLOOR))).max(1.0)
}

/// Returns mean and nearest-rank quantiles.
pub(crate) fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.collect();
    if values.is_empty() {
        return Spread::default();
    }
    // Summed in order of arrival, so that the same schedule has the same mean to the last digit.
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    // The highest quantile first: all smaller values are before it then, and the others are
    // searched for among those.
    let mut below = values.len();
    let [max, p99, p95, p50] = [100, 99, 95, 50].map(|percent| {
        let at = nearest_rank(values.len(), percent);
        let (_, value, _) = values[..below].select_nth_unstable_by(at, f64::total_cmp);
        below = at + 1;
        *value
    });
    Spread { mean, p50, p95, p99, max }
}

/// Returns a quantile of sorted values by nearest rank; there is at least one value.
pub(crate) fn quantile(sorted: &[f64], percent: usize) -> f64 {
    sorted[nearest_rank(sorted.len(), percent)]
}

/// Returns the index of a percentile among sorted values.
fn nearest_rank(values: usize, percent: usize) -> usize {
    (values * percent).div_ceil(100).max(1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let of = |count: u32| spread((1..=count).rev().map(f64::from));
        assert_eq!(of(0), Spread::default());
        assert_eq!(of(1), Spread { mean: 1.0, p50: 1.0, p95: 1.0, p99: 1.0, max: 1.0 });
        assert_eq!(of(200), Spread { mean: 100.5, p50: 100.0, p95: 190.0, p99: 198.0, max: 200.0 });
    }
}
