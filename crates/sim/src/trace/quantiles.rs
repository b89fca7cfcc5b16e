//! Exact quantiles of whole numbers.

use muster_model::trace::Quantiles;

/// Returns the nearest-rank quantiles of all values.
pub(super) fn quantiles(mut values: Vec<u64>) -> Quantiles {
    values.sort_unstable();
    let count = values.len();
    let sum: u128 = values.iter().copied().map(u128::from).sum();
    let rank = |percent: usize| {
        let rank = (count * percent).div_ceil(100).max(1);
        values.get(rank - 1).copied().unwrap_or_default()
    };
    Quantiles {
        count: count as u64,
        mean: u64::try_from(sum / count.max(1) as u128).unwrap_or(u64::MAX),
        min: values.first().copied().unwrap_or_default(),
        p5: rank(5),
        p25: rank(25),
        p50: rank(50),
        p75: rank(75),
        p95: rank(95),
        p99: rank(99),
        max: values.last().copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_are_there() {
        assert_eq!(quantiles(vec![]), Quantiles::default());
        let of_one = quantiles(vec![7]);
        assert_eq!((of_one.p5, of_one.p50, of_one.p99, of_one.mean), (7, 7, 7, 7));
        let of_many = quantiles((1..=200).rev().collect());
        assert_eq!((of_many.min, of_many.p5, of_many.p25, of_many.p50), (1, 10, 50, 100));
        assert_eq!((of_many.p95, of_many.p99, of_many.max, of_many.mean), (190, 198, 200, 100));
        assert_eq!(quantiles(vec![u64::MAX; 3]).mean, u64::MAX);
    }
}
