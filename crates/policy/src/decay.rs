//! Exponential decay in fixed-point integers: what remains of a value after a time, and what a
//! constant rate has accrued. Pure arithmetic: it must know nothing of queues, and no floating
//! point may enter it, so that a replay on any machine gives the same bits.
//!
//! With half-life `h`, elapsed time `t = (k + f)·h`, `k` an integer and `0 ≤ f < 1`:
//!
//! * remaining of a value: `v · 2^-(k+f)`
//! * accrued at rate `r`: the integral of `r · 2^-((t-s)/h)` for `s` from 0 to `t`, in closed form
//!   `r · h/ln 2 · (1 - 2^-(k+f))`
//!
//! Both need `1 - e^-y` for `y = f·ln 2 < 0.694`, which is `y · (1 - y/2·(1 - y/3·(1 - …)))` (the
//! Taylor series in Horner form; every term is positive and below one, so nothing cancels). Numbers
//! are unsigned with 64 fractional bits. The first term left out is below `2^-66`, which takes 18
//! terms for the largest `y` and five for a minute of a week; with the rounding of each step, **the
//! factor is within 2^-60 of exact**. So
//!
//! * what remains is within `v · 2^-60 + 1` of exact,
//! * what accrued is within `r · h · 2^-60 + 1` of exact.

/// One, with 64 fractional bits.
const ONE: u128 = 1 << 64;
/// ln 2 · 2^64, rounded to nearest (OEIS A002162).
const LN_2: u128 = 12_786_308_645_202_655_660;
/// 2^64 / ln 2, rounded to nearest (OEIS A007525).
const INVERSE_LN_2: u128 = 26_613_026_195_688_644_983;
/// Most terms of the series; see the header for the error this leaves.
const TERMS: usize = 18;
/// `2^64 / n` by `n`: replaces a division, which would be most of the cost.
const RECIPROCALS: [u128; TERMS + 1] = reciprocals();

const fn reciprocals() -> [u128; TERMS + 1] {
    let mut table = [0; TERMS + 1];
    let mut n = 1;
    while n <= TERMS {
        table[n] = ONE / n as u128;
        n += 1;
    }
    table
}

/// Returns how many terms leave an error below `2^-66`. The first left out is `y^n/(n+1)!`, where
/// `(n+1)! >= 2^n`.
fn needed_terms(y: u128) -> usize {
    let bits = y.leading_zeros() as usize - 64;
    66usize.div_ceil(bits + 1).clamp(2, TERMS)
}

/// Returns `a · b` where both have 64 fractional bits; neither exceeds one and not both are one.
fn multiply(a: u128, b: u128) -> u128 {
    (a * b) >> 64
}

/// `2^-(elapsed/half_life)`, split so that no precision is lost to the whole halvings.
struct Factor {
    /// Number of whole half-lives.
    halvings: u32,
    /// Remaining fraction for the rest, `2^-f`.
    kept: u128,
    /// `(1 - 2^-f) / ln 2`.
    gone: u128,
}

impl Factor {
    fn new(elapsed_ms: u64, half_life_ms: u64) -> Self {
        let fraction = (u128::from(elapsed_ms % half_life_ms) << 64) / u128::from(half_life_ms);
        let y = multiply(fraction, LN_2);
        let mut series = ONE;
        for reciprocal in RECIPROCALS[2..=needed_terms(y)].iter().rev() {
            series = ONE - multiply(multiply(y, series), *reciprocal);
        }
        Self {
            halvings: u32::try_from(elapsed_ms / half_life_ms).unwrap_or(u32::MAX),
            kept: ONE - multiply(y, series),
            gone: multiply(fraction, series),
        }
    }
}

impl Factor {
    /// Returns what remains of `value`, rounded to nearest.
    fn remaining(&self, value: u64) -> u64 {
        if self.halvings >= 64 {
            return 0;
        }
        let halves = (u128::from(value) * self.kept) >> (63 + self.halvings);
        ((halves + 1) >> 1) as u64
    }

    /// Returns what `rate` per millisecond has accrued, decay included, rounded to nearest;
    /// saturates.
    fn accrued(&self, rate: u64, half_life_ms: u64) -> u64 {
        let shift = self.halvings.min(127);
        let whole = INVERSE_LN_2 - (INVERSE_LN_2 >> shift);
        // At most 1/ln 2 < 2: 63 fractional bits keep the products below in range.
        let integral = (whole + (self.gone >> shift)) >> 1;
        let scale = u128::from(rate) * u128::from(half_life_ms);
        let high = scale >> 64;
        let low = scale & (ONE - 1);
        let total = high
            .saturating_mul(integral)
            .saturating_mul(2)
            .saturating_add((low * integral + (1 << 62)) >> 63);
        u64::try_from(total).unwrap_or(u64::MAX)
    }
}

/// Returns `value` after `elapsed_ms` in which it decayed and `rate` per millisecond was added:
/// what remains of the one and what accrued of the other, each rounded to nearest; saturates.
/// `half_life_ms` must not be 0.
pub(crate) fn advanced(value: u64, rate: u64, elapsed_ms: u64, half_life_ms: u64) -> u64 {
    if elapsed_ms == 0 || (value == 0 && rate == 0) {
        return value;
    }
    let factor = Factor::new(elapsed_ms, half_life_ms);
    factor.remaining(value).saturating_add(factor.accrued(rate, half_life_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WEEK_MS: u64 = 604_800_000;

    fn remaining(value: u64, elapsed: u64, half_life: u64) -> u64 {
        advanced(value, 0, elapsed, half_life)
    }

    fn accrued(rate: u64, elapsed: u64, half_life: u64) -> u64 {
        advanced(0, rate, elapsed, half_life)
    }

    /// Elapsed time, half-life, and what remains of `u64::MAX`, computed with 80 decimal digits.
    const REMAINING: [(u64, u64, u64); 19] = [
        (1, WEEK_MS, 18_446_744_052_568_168_285),
        (1000, WEEK_MS, 18_446_722_932_338_324_498),
        (302_400_000, WEEK_MS, 13_043_817_825_332_782_212),
        (604_799_999, WEEK_MS, 9_223_372_047_425_467_485),
        (604_800_000, WEEK_MS, 9_223_372_036_854_775_808),
        (604_800_001, WEEK_MS, 9_223_372_026_284_084_143),
        (907_200_000, WEEK_MS, 6_521_908_912_666_391_106),
        (6_048_012_345, WEEK_MS, 18_014_143_637_869_603),
        (38_304_000_000, WEEK_MS, 2),
        (38_707_200_000, WEEK_MS, 1),
        (3, 7, 13_705_878_173_351_620_644),
        (5, 7, 11_243_416_450_733_715_988),
        (1, 3, 14_641_190_473_997_345_813),
        (10, 3, 1_830_148_809_249_668_227),
        (86_399_999, 86_400_000, 9_223_372_110_849_617_801),
        (1, 1, 9_223_372_036_854_775_808),
        (1_099_511_627_776, 2_199_023_255_551, 13_043_817_825_330_726_461),
        (9_223_372_036_854_775_808, 9_223_372_036_854_775_783, 9_223_372_036_854_775_790),
        (7, u64::MAX, 18_446_744_073_709_551_610),
    ];

    /// Rate, elapsed time, half-life, and what has accrued, computed with 80 decimal digits.
    const ACCRUED: [(u64, u64, u64, u64); 13] = [
        (1000, 1, WEEK_MS, 1000),
        (1000, 1000, WEEK_MS, 999_999),
        (8000, 3_600_000, WEEK_MS, 28_740_669_010),
        (40_000_000, WEEK_MS, WEEK_MS, 17_450_839_214_592_901),
        (40_000_000, 302_400_000, WEEK_MS, 10_222_464_937_116_272),
        (40_000_000, 100 * WEEK_MS, WEEK_MS, 34_901_678_429_185_803),
        (1, 1, 1, 1),
        (1, 1, 3, 1),
        (500, 10, 3, 1949),
        (123_456, 987_654_321, 86_400_000, 15_383_075_844_675),
        (1000, 7, 1 << 40, 7000),
        (1 << 20, 1 << 42, 1 << 42, 3_326_628_274_461_080_623),
        // Beyond 64 bits it saturates.
        (4_000_000_000, 31_536_000_000, 31_536_000_000, u64::MAX),
    ];

    /// Asserts the stated error: 2^-60 of `scale`, and one for rounding.
    fn assert_within(got: u64, exact: u64, scale: u128, row: &str) {
        let bound = (scale >> 60) + 1;
        assert!(
            u128::from(got.abs_diff(exact)) <= bound,
            "{row}: {got}, exactly {exact}, bound {bound}"
        );
    }

    #[test]
    fn values_are_within_the_stated_error_of_exact_ones() {
        for (elapsed, half_life, exact) in REMAINING {
            let got = remaining(u64::MAX, elapsed, half_life);
            assert_within(got, exact, u128::from(u64::MAX), &format!("{elapsed} of {half_life}"));
        }
        for (rate, elapsed, half_life, exact) in ACCRUED {
            let got = accrued(rate, elapsed, half_life);
            let scale = u128::from(rate) * u128::from(half_life);
            assert_within(got, exact, scale, &format!("{rate} for {elapsed} of {half_life}"));
        }
    }

    #[test]
    fn nothing_changes_in_no_time_and_all_is_gone_in_the_end() {
        assert_eq!((remaining(7, 0, 1), accrued(7, 0, 1)), (7, 0));
        assert_eq!((remaining(u64::MAX, u64::MAX, 1), remaining(0, 5, 9)), (0, 0));
        assert_eq!(accrued(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(accrued(0, u64::MAX, 1), 0);
        // Rounding is to nearest, halves up: rounding down would lose something at each update.
        assert_eq!([1, 2, 3, 4, 5].map(|value| remaining(value, 9, 9)), [1, 1, 2, 2, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn both_agree_with_floating_point(
            value in 0u64..1 << 53,
            rate in 0u64..1 << 26,
            half_life in 1u64..1 << 36,
            halvings in 0f64..20.0,
        ) {
            let elapsed = (halvings * half_life as f64) as u64;
            let factor = (-(elapsed as f64 / half_life as f64)).exp2();
            let left = remaining(value, elapsed, half_life) as f64;
            let exact = value as f64 * factor;
            prop_assert!((left - exact).abs() <= exact * 1e-13 + 1.0, "{left} {exact}");
            let scale = rate as f64 * half_life as f64 / std::f64::consts::LN_2;
            let grown = accrued(rate, elapsed, half_life) as f64;
            let exact = scale * (1.0 - factor);
            prop_assert!((grown - exact).abs() <= scale * 1e-14 + 1.0, "{grown} {exact}");
        }

        #[test]
        fn decaying_twice_is_decaying_once(
            value: u64,
            half_life in 1u64..1 << 40,
            first in 0u64..1 << 41,
            second in 0u64..1 << 41,
        ) {
            let twice = remaining(remaining(value, first, half_life), second, half_life);
            let once = remaining(value, first + second, half_life);
            // Each call is within v·2^-60 + 1, and the first one's error decays.
            prop_assert!(u128::from(twice.abs_diff(once)) <= ((u128::from(value) * 3) >> 60) + 3, "{twice} {once}");
        }

        #[test]
        fn growing_in_two_parts_is_growing_in_one(
            rate in 0u64..1 << 26,
            half_life in 1u64..1 << 36,
            first in 0u64..1 << 37,
            second in 0u64..1 << 37,
        ) {
            let parts = remaining(accrued(rate, first, half_life), second, half_life) + accrued(rate, second, half_life);
            let whole = accrued(rate, first + second, half_life);
            let bound = ((u128::from(rate) * u128::from(half_life) * 4) >> 60) + 4;
            prop_assert!(u128::from(parts.abs_diff(whole)) <= bound, "{parts} {whole}");
        }

        #[test]
        fn more_time_leaves_no_more_and_grows_no_less(value: u64, rate in 0u64..1 << 26, half_life in 1u64..1 << 36, at in 0u64..1 << 38) {
            let slack = (value >> 59) + 2;
            prop_assert!(remaining(value, at + 1, half_life) <= remaining(value, at, half_life).saturating_add(slack));
            prop_assert!(accrued(rate, at + 1, half_life) + 2 >= accrued(rate, at, half_life));
        }
    }
}
