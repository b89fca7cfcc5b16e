//! Numbers drawn from distributions. Logarithms may differ in their last digit between platforms;
//! lengths are rounded to the second, so that it hardly ever shows.

use muster_model::Span;
use muster_spec::recipe::Lengths;

use crate::dice::Dice;

/// The 95th percentile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951_472_2;

/// A time until the next submit of those that do not know of each other, in milliseconds.
pub(super) fn exponential(dice: &mut Dice, mean_ms: f64) -> f64 {
    // 1 - u is never 0, which has no logarithm.
    -mean_ms * (1.0 - dice.unit()).ln()
}

/// A length of time, at least a second.
pub(crate) fn length(dice: &mut Dice, lengths: &Lengths) -> Span {
    let ms = match *lengths {
        Lengths::Fixed(span) => return span,
        Lengths::LogUniform(from, to) => {
            let (from, to) = (from.0 as f64, to.0 as f64);
            from * (to / from).powf(dice.unit())
        }
        Lengths::LogNormal(median, p95, max) => {
            let sigma = (p95.0 as f64 / median.0 as f64).ln() / Z95;
            let drawn = median.0 as f64 * (sigma * normal(dice)).exp();
            max.map_or(drawn, |max| drawn.min(max.0 as f64))
        }
    };
    Span::from_secs(((ms / 1000.0).round() as u64).max(1))
}

/// A number from the standard normal distribution (Box and Muller, 1958).
fn normal(dice: &mut Dice) -> f64 {
    let radius = (-2.0 * (1.0 - dice.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * dice.unit()).cos()
}

/// Places in proportion to weights.
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

    /// One of them; the first where there are none.
    pub(crate) fn draw(&self, dice: &mut Dice) -> usize {
        let at = dice.unit() * self.0.last().copied().unwrap_or_default();
        self.0.partition_point(|sum| *sum <= at).min(self.0.len().saturating_sub(1))
    }
}
