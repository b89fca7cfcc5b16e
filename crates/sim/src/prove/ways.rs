//! Exact counts of orders in 128 bits; larger numbers are refused, never rounded.

use muster_model::proof::OrderShare;

/// Most orders that are counted exactly, so that a share in millionths needs no wider number.
pub const MAX_ORDERS: u128 = 10_u128.pow(37);

/// Returns the number of ways to choose `k` of `n`, by Pascal's rule: no step is larger than the
/// result. `None` beyond 128 bits.
#[must_use]
pub fn binomial(n: u32, k: u32) -> Option<u128> {
    let k = k.min(n.checked_sub(k)?) as usize;
    let mut row = vec![0u128; k + 1];
    row[0] = 1;
    for _ in 0..n {
        for at in (1..=k).rev() {
            row[at] = row[at].checked_add(row[at - 1])?;
        }
    }
    Some(row[k])
}

/// Returns the number of orders of these numbers of letters. `None` beyond 128 bits.
#[must_use]
pub fn multinomial(letters: impl IntoIterator<Item = u32>) -> Option<u128> {
    let mut all = 0u32;
    let mut orders = 1u128;
    for count in letters {
        all = all.checked_add(count)?;
        orders = orders.checked_mul(binomial(all, count)?)?;
    }
    Some(orders)
}

/// Returns a count as a part of all; both at most [`MAX_ORDERS`], `all` not 0.
#[must_use]
pub fn share(orders: u128, all: u128) -> OrderShare {
    let divisor = gcd(orders, all);
    let numerator = orders / divisor;
    let denominator = all / divisor;
    // Long division, six digits: the remainder is below the denominator, so ten times it still
    // fits.
    let mut ppm = u32::try_from(numerator / denominator).unwrap_or(1);
    let mut rest = numerator % denominator;
    for _ in 0..6 {
        ppm = ppm * 10 + (rest * 10 / denominator) as u32;
        rest = rest * 10 % denominator;
    }
    OrderShare { orders, numerator, denominator, ppm }
}

fn gcd(left: u128, right: u128) -> u128 {
    let mut left = left;
    let mut right = right;
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomials_are_exact_up_to_128_bits() {
        for (n, k, expected) in [
            (0, 0, Some(1)),
            (10, 5, Some(252)),
            (10, 10, Some(1)),
            (4, 5, None),
            (128, 64, Some(23_951_146_041_928_082_866_135_587_776_380_551_750)),
            (131, 65, Some(188_694_833_082_770_476_622_296_176_145_946_360_850)),
            (140, 70, None),
        ] {
            assert_eq!(binomial(n, k), expected, "{n} over {k}");
        }
    }

    #[test]
    fn orders_of_letters() {
        for (letters, expected) in [
            (&[5, 5][..], Some(252)),
            (&[1, 1, 1], Some(6)),
            (&[3, 0, 2], Some(10)),
            (&[], Some(1)),
            (&[64, 64, 64], None),
        ] {
            assert_eq!(multinomial(letters.iter().copied()), expected, "{letters:?}");
        }
    }

    #[test]
    fn shares_are_in_lowest_terms_and_round_down() {
        for (orders, all, numerator, denominator, ppm) in [
            (140, 252, 5, 9, 555_555),
            (0, 252, 0, 1, 0),
            (252, 252, 1, 1, 1_000_000),
            (MAX_ORDERS - 1, MAX_ORDERS, MAX_ORDERS - 1, MAX_ORDERS, 999_999),
        ] {
            assert_eq!(share(orders, all), OrderShare { orders, numerator, denominator, ppm });
        }
    }
}
