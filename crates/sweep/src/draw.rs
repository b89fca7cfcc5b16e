//! Points of a random search: each parameter's value is drawn by itself, and the same seed gives the same points.

use std::sync::Arc;

/// Decimal digits of drawn numbers: enough to tell runs apart, and short enough to read.
const DIGITS: usize = 6;

/// Values that a parameter may have in a random search.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// One of these, each as likely as the others; never empty.
    Choice(Vec<Arc<str>>),
    /// A number from low to high, all as likely.
    Uniform {
        /// Every drawn number is at least this.
        low: f64,
        /// No drawn number is above this.
        high: f64,
    },
    /// A number from low to high, both above 0, whose logarithm is uniform.
    Log {
        /// Every drawn number is at least this.
        low: f64,
        /// No drawn number is above this.
        high: f64,
    },
    /// A whole number from low to high, both included, all as likely.
    Whole {
        /// Every drawn number is at least this.
        low: i64,
        /// No drawn number is above this.
        high: i64,
    },
}

/// Draws as many values of a parameter. `position` is that of the parameter, so that parameters of one
/// distribution have values of their own.
#[must_use]
pub fn draw(of: &Distribution, count: u32, seed: u64, position: u64) -> Vec<Arc<str>> {
    let value = |nth: u32| {
        let random = mixed(mixed(mixed(seed) ^ position) ^ u64::from(nth));
        // The 53 bits that a double holds exactly: a number in [0, 1).
        let unit = (random >> 11) as f64 / (1u64 << 53) as f64;
        match of {
            Distribution::Choice(values) => {
                Arc::clone(&values[(random % values.len() as u64) as usize])
            }
            Distribution::Uniform { low, high } => short(low + (high - low) * unit),
            Distribution::Log { low, high } => {
                short((low.ln() + (high.ln() - low.ln()) * unit).exp().clamp(*low, *high))
            }
            Distribution::Whole { low, high } => {
                let sides = high.abs_diff(*low).saturating_add(1);
                low.saturating_add_unsigned(random % sides).to_string().into()
            }
        }
    };
    (0..count).map(value).collect()
}

/// Mixes the bits of a number: the output function of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable
/// pseudorandom number generators"), with its increment before.
fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Writes a number with [`DIGITS`] significant digits: `0.25`, `3.14159e-5`.
fn short(number: f64) -> Arc<str> {
    let text = format!("{number:.*e}", DIGITS - 1);
    let rounded: f64 = text.parse().expect("it was written as a number");
    let is_small = rounded != 0.0 && rounded.abs() < 1e-3;
    if is_small || rounded.abs() >= 1e9 { format!("{rounded:e}") } else { rounded.to_string() }
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(of: &Distribution, count: u32) -> Vec<f64> {
        draw(of, count, 7, 0).iter().map(|value| value.parse().unwrap()).collect()
    }

    #[test]
    fn values_are_within_their_range_and_fill_it() {
        let uniform = numbers(&Distribution::Uniform { low: -1.0, high: 3.0 }, 4000);
        assert!(uniform.iter().all(|value| (-1.0..=3.0).contains(value)));
        let mean = uniform.iter().sum::<f64>() / 4000.0;
        assert!((mean - 1.0).abs() < 0.1, "{mean}");
        let log = numbers(&Distribution::Log { low: 1e-5, high: 1e-1 }, 4000);
        assert!(log.iter().all(|value| (1e-5..=1e-1).contains(value)));
        // Each decade has a quarter.
        let first = log.iter().filter(|value| **value < 1e-4).count();
        assert!((900..1100).contains(&first), "{first}");
        let whole = numbers(&Distribution::Whole { low: 2, high: 4 }, 3000);
        for number in [2.0, 3.0, 4.0] {
            let count = whole.iter().filter(|value| **value == number).count();
            assert!((900..1100).contains(&count), "{number}: {count}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_values_again_and_parameters_differ() {
        let of = Distribution::Uniform { low: 0.0, high: 1.0 };
        assert_eq!(draw(&of, 20, 1, 0), draw(&of, 20, 1, 0));
        assert_eq!(draw(&of, 20, 1, 0)[..5], draw(&of, 5, 1, 0)[..]);
        assert_ne!(draw(&of, 20, 1, 0), draw(&of, 20, 1, 1));
        assert_ne!(draw(&of, 20, 1, 0), draw(&of, 20, 2, 0));
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.25, "0.25"),
            (3.14159e-5, "3.14159e-5"),
            (1.0 / 3.0, "0.333333"),
            (0.0, "0"),
            (1_234_567.0, "1234570"),
            (2.5e12, "2.5e12"),
        ] {
            assert_eq!(short(number).as_ref(), text);
        }
    }
}
