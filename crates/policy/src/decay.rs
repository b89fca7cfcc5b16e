//! Exponential decay in fixed-point integers: what is left of a value after a time, and what a constant rate has
//! grown to. Pure arithmetic: it must know nothing of queues, and no floating point may enter it, so that a
//! replay on any machine gives the same bits.
//!
//! With half-life `h`, elapsed time `t = (k + f)·h`, `k` whole and `0 ≤ f < 1`:
//!
//! * left of a value: `v · 2^-(k+f)`
//! * grown at rate `r`: the integral of `r · 2^-((t-s)/h)` for `s` from 0 to `t`, in closed form
//!   `r · h/ln 2 · (1 - 2^-(k+f))`
//!
//! Both need `1 - e^-y` for `y = f·ln 2 < 0.694`, which is `y · (1 - y/2·(1 - y/3·(1 - …)))` (the Taylor series in
//! Horner form; every term is positive and below one, so nothing cancels). Numbers are unsigned with 64
//! fractional bits. The first term left out is `y^18/19! < 2^-66`; with the rounding of each step,
//! **the factor is within 2^-60 of exact**. So
//!
//! * [`remaining`] is within `v · 2^-60 + 1` of exact,
//! * [`accrued`] is within `r · h · 2^-60 + 1` of exact.

/// One, with 64 fractional bits.
const ONE: u128 = 1 << 64;
/// ln 2 · 2^64, rounded to nearest (OEIS A002162).
const LN_2: u128 = 12_786_308_645_202_655_660;
/// 2^64 / ln 2, rounded to nearest (OEIS A007525).
const INVERSE_LN_2: u128 = 26_613_026_195_688_644_983;
/// Terms of the series; see the header for the error this leaves.
const TERMS: usize = 18;
/// `2^64 / n` by `n`: a multiplication where a division would be most of the cost.
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

/// `a · b` where both have 64 fractional bits; neither exceeds one and not both are one.
fn multiply(a: u128, b: u128) -> u128 {
    (a * b) >> 64
}

/// `2^-(elapsed/half_life)`, split so that no precision is lost to the whole halvings.
struct Factor {
    /// Whole half-lives.
    halvings: u32,
    /// `2^-f`.
    kept: u128,
    /// `(1 - 2^-f) / ln 2`.
    gone: u128,
}

impl Factor {
    fn new(elapsed_ms: u64, half_life_ms: u64) -> Self {
        let fraction = (u128::from(elapsed_ms % half_life_ms) << 64) / u128::from(half_life_ms);
        let y = multiply(fraction, LN_2);
        let mut series = ONE;
        for reciprocal in RECIPROCALS[2..].iter().rev() {
            series = ONE - multiply(multiply(y, series), *reciprocal);
        }
        Self {
            halvings: u32::try_from(elapsed_ms / half_life_ms).unwrap_or(u32::MAX),
            kept: ONE - multiply(y, series),
            gone: multiply(fraction, series),
        }
    }
}

/// What is left of `value` after `elapsed_ms`, rounded to nearest. `half_life_ms` must not be 0.
pub(crate) fn remaining(value: u64, elapsed_ms: u64, half_life_ms: u64) -> u64 {
    if value == 0 || elapsed_ms == 0 {
        return value;
    }
    let factor = Factor::new(elapsed_ms, half_life_ms);
    if factor.halvings >= 64 {
        return 0;
    }
    let halves = (u128::from(value) * factor.kept) >> (63 + factor.halvings);
    ((halves + 1) >> 1) as u64
}

/// What `rate` per millisecond has grown to after `elapsed_ms`, decay included, rounded to nearest; saturates.
/// `half_life_ms` must not be 0.
pub(crate) fn accrued(rate: u64, elapsed_ms: u64, half_life_ms: u64) -> u64 {
    if rate == 0 || elapsed_ms == 0 {
        return 0;
    }
    let factor = Factor::new(elapsed_ms, half_life_ms);
    let shift = factor.halvings.min(127);
    let whole = INVERSE_LN_2 - (INVERSE_LN_2 >> shift);
    // At most 1/ln 2 < 2: 63 fractional bits keep the products below in range.
    let integral = (whole + (factor.gone >> shift)) >> 1;
    let scale = u128::from(rate) * u128::from(half_life_ms);
    let (high, low) = (scale >> 64, scale & (ONE - 1));
    let total =
        high.saturating_mul(integral).saturating_mul(2).saturating_add((low * integral + (1 << 62)) >> 63);
    u64::try_from(total).unwrap_or(u64::MAX)
}
