//! Runs of one scheduler with several seeds: the figures of the first, and confidence intervals of
//! the means.

use muster_model::simulation::{ConfidenceInterval, FleetFigures, MEASURED};

/// Half-width of a 95 % interval in standard errors, by degrees of freedom from 1 (Student 1908);
/// beyond these, that of the normal distribution.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
const NORMAL: f64 = 1.960;

/// Returns the figures of the first run, with intervals over all if there are several. There is at
/// least one.
#[must_use]
pub fn over_seeds(runs: &[FleetFigures]) -> FleetFigures {
    let mut first = runs[0].clone();
    first.is_partial = runs.iter().any(|run| run.is_partial);
    if runs.len() > 1 {
        first.intervals =
            MEASURED.iter().map(|(name, of)| interval(name, runs.iter().map(of))).collect();
    }
    first
}

/// Returns the mean of at least two values and its margin. Equal values are their own mean,
/// exactly.
pub(crate) fn interval(figure: &str, values: impl Iterator<Item = f64>) -> ConfidenceInterval {
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    let mean = values[0] + values.iter().map(|value| value - values[0]).sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let times = STUDENT.get(values.len() - 2).copied().unwrap_or(NORMAL);
    ConfidenceInterval {
        figure: figure.to_owned(),
        mean,
        margin: times * (variance / count).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_give_a_wide_margin() {
        let of = |values: &[f64]| interval("x", values.iter().copied());
        let three = of(&[9.0, 10.0, 11.0]);
        assert!(
            (three.mean - 10.0).abs() < 1e-9 && (three.margin - 4.303 / 3f64.sqrt()).abs() < 1e-9
        );
        let many: Vec<f64> = (0..60).map(|at| 9.0 + f64::from(at % 3)).collect();
        assert!(of(&many).margin < 0.25);
        let same = of(&[0.1; 7]);
        assert_eq!((same.mean, same.margin), (0.1, 0.0));
    }
}
