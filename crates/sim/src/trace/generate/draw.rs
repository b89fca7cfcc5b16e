//! Random numbers from distributions. Logarithms may differ in their last digit between platforms;
//! lengths are rounded to the second, which hides nearly all differences.

use muster_model::Span;
use muster_spec::recipe::RuntimeDistribution;

use crate::rng::Rng;

/// The 95th percentile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951_472_2;

/// Returns an exponential time between independent submissions, in milliseconds.
pub(super) fn exponential(rng: &mut Rng, mean_ms: f64) -> f64 {
    // 1 - u is never 0, which has no logarithm.
    -mean_ms * (1.0 - rng.unit()).ln()
}

/// Returns a random length of time, at least a second.
pub(crate) fn length(rng: &mut Rng, lengths: &RuntimeDistribution) -> Span {
    let ms = match *lengths {
        RuntimeDistribution::Fixed(span) => return span,
        RuntimeDistribution::LogUniform(from, to) => {
            let from = from.0 as f64;
            let to = to.0 as f64;
            from * (to / from).powf(rng.unit())
        }
        RuntimeDistribution::LogNormal(median, p95, max) => {
            let sigma = (p95.0 as f64 / median.0 as f64).ln() / Z95;
            let drawn = median.0 as f64 * (sigma * normal(rng)).exp();
            max.map_or(drawn, |max| drawn.min(max.0 as f64))
        }
    };
    Span::from_secs(((ms / 1000.0).round() as u64).max(1))
}

/// Returns a number from the standard normal distribution (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

/// Random indices in proportion to weights.
#[derive(Clone, Debug)]
pub(crate) struct Weighted(Vec<f64>);

impl Weighted {
    pub(crate) fn new(weights: impl Iterator<Item = f64>) -> Self {
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self(sums.collect())
    }

    /// Returns a random index; 0 if there are none.
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.unit() * self.0.last().copied().unwrap_or_default();
        self.0.partition_point(|sum| *sum <= at).min(self.0.len().saturating_sub(1))
    }
}
