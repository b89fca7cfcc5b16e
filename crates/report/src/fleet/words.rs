//! Figures of a fleet as text, with their confidence margins if there were several seeds. Does not
//! decide which figures matter.

use muster_model::Span;
use muster_model::simulation::{Figure, FleetFigures};

use crate::amount::grouped;

/// Returns a figure as text, with its confidence margin unless that is zero.
pub(crate) fn with_margin(figure: Figure, words: impl Fn(f64) -> String) -> String {
    match figure.margin {
        Some(margin) if margin > 0.0 => format!("{} ± {}", words(figure.value), words(margin)),
        _ => words(figure.value),
    }
}

/// Returns `≥ ` for figures over all jobs of a run in which some never end: those count only up to
/// the horizon.
pub(crate) fn at_least(run: &FleetFigures) -> &'static str {
    if !run.is_partial && Figure::of(run, "left").value > 0.0 { "≥ " } else { "" }
}

/// Seconds as a length of time.
pub(crate) fn span(secs: f64) -> String {
    Span((secs.max(0.0) * 1000.0).round() as u64).to_string()
}

/// As many decimals as matter: `0`, `0.0021`, `0.25`, `12.5`, `1,234`.
pub(crate) fn amount(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    if value >= 100.0 || tenths.fract() == 0.0 && value >= 1.0 {
        return grouped(value.round() as u64);
    }
    if value >= 1.0 {
        return format!("{value:.1}");
    }
    if value < 1e-6 {
        return "0".to_owned();
    }
    // Two significant digits.
    let decimals = (1.0 - value.log10().floor()).max(2.0) as usize;
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share from 0 to 1 in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_decimals_that_matter() {
        let check = |value: f64, text: &str| assert_eq!(amount(value), text);
        check(0.0, "0");
        check(4e-9, "0");
        check(0.00213, "0.0021");
        check(0.25, "0.25");
        check(0.999, "1");
        check(8.0, "8");
        check(12.54, "12.5");
        check(99.97, "100");
        check(1234.5, "1,235");
        assert_eq!((span(754.2), span(-1.0)), ("12m34s".to_owned(), "0s".to_owned()));
        assert_eq!(percent(0.6856), "68.6 %");
    }

    #[test]
    fn a_margin_is_told_where_there_is_one() {
        let figure = |value, margin| Figure { value, margin };
        assert_eq!(with_margin(figure(1.5, None), amount), "1.5");
        assert_eq!(with_margin(figure(1.5, Some(0.0)), amount), "1.5");
        assert_eq!(with_margin(figure(1.5, Some(0.5)), amount), "1.5 ± 0.5");
    }
}
