//! Sentences on the variants of a site: what each is, and how its results differ from those of the
//! first. The differences are computed in `sim`.

use muster_model::simulation::{
    FigureChange, FleetComparison, FleetFigures, SiteVariant, VariantDifference,
};

use super::unit;
use super::words::{amount, percent, span};
use crate::amount::{grouped, grouped_count};
use crate::style::clean;

/// Returns the name of a run: its scheduler, and its variant of the site if there are several.
#[must_use]
pub fn label(run: &FleetFigures) -> String {
    if run.variant.is_empty() {
        run.scheduler.clone()
    } else {
        format!("{} ({})", run.scheduler, clean(&run.variant))
    }
}

/// Share of left-out GPU time from which on the comparison is warned of.
const MUCH_LEFT_OUT: f64 = 0.05;

/// Describes each variant, with the jobs that it cannot host and those left out because of others,
/// and warns if these are much of the load.
#[must_use]
pub fn variants(comparison: &FleetComparison) -> Vec<String> {
    let unit = unit(comparison.unit);
    let described = comparison.variants.iter().map(|variant| described(variant, unit));
    let most = comparison
        .variants
        .iter()
        .filter(|variant| variant.left_out_share > MUCH_LEFT_OUT)
        .max_by(|one, other| one.left_out_share.total_cmp(&other.left_out_share));
    let warning = most.map(|variant| {
        format!(
            "warning: {} of the {unit} time that fits {} is left out, since other variants cannot host it. The figures say nothing \
             about these jobs",
            percent(variant.left_out_share),
            clean(&variant.name)
        )
    });
    described.chain(warning).collect()
}

fn described(variant: &SiteVariant, unit: &str) -> String {
    let SiteVariant { name, cluster, queues, added, nodes, size, .. } = variant;
    let mut text = format!("{}: {}", clean(name), clean(cluster));
    if let Some(added) = added {
        let model =
            added.model.as_ref().map_or(String::new(), |model| format!(" ({})", clean(model)));
        text += &format!(
            " + {} like {}, each with {}{model}",
            grouped_count(added.nodes, "node"),
            clean(&added.like),
            grouped_count(added.gpus, "GPU"),
        );
    }
    if let Some(queues) = queues {
        text += &format!(", queues of {}", clean(queues));
    }
    text += &format!("; {}, {} {unit}s", grouped_count(*nodes, "node"), amount(*size));
    let share = percent(variant.left_out_share);
    let [left_out, left_out_many] = ["fits", "fit"].map(|fit| {
        format!("{fit}, but not in every variant ({share} of the {unit} time that fits)")
    });
    let counts = [
        (variant.too_large, "does not fit", "do not fit"),
        (variant.left_out, &left_out, &left_out_many),
        (
            variant.strangers,
            "is in the default queue, since its own does not exist",
            "are in the default queue, since their own do not exist",
        ),
    ];
    for (number, one, many) in counts.into_iter().filter(|(number, ..)| *number > 0) {
        let verb = if number == 1 { one } else { many };
        text += &format!("; {} {verb}", grouped_count(number, "job"));
    }
    text
}

/// Returns a sentence for each difference to the first variant.
pub(super) fn differences(comparison: &FleetComparison) -> Vec<String> {
    let unit = unit(comparison.unit);
    comparison.differences.iter().map(|difference| differing(difference, unit)).collect()
}

fn differing(difference: &VariantDifference, unit: &str) -> String {
    let VariantDifference { scheduler, variant, first, refused, left, .. } = difference;
    let at_least = if left.here > 0 { "≥ " } else { "" };
    let is_bound = left.first > 0 || left.here > 0;
    let time = |figure: FigureChange| {
        if is_bound {
            let at_least_first = if left.first > 0 { "≥ " } else { "" };
            return format!(
                "{at_least}{} (was {at_least_first}{})",
                span(figure.here),
                span(figure.first)
            );
        }
        let (here, by) = changes(figure, span);
        format!("{here} ({by})")
    };
    let hours = |figure: FigureChange| {
        let (here, by) = changes(figure, amount);
        format!("{here} {unit}-hours ({by})")
    };
    let mut text = format!(
        "{} instead of {}, under {scheduler}: turnaround {}, waited {}, stranded {}, capacity {}",
        clean(variant),
        clean(first),
        time(difference.turnaround_secs),
        time(difference.waited_secs),
        hours(difference.stranded_hours),
        hours(difference.capacity_hours),
    );
    if is_bound {
        text += &format!(
            "; {} never end (were {}), so the times are lower bounds",
            grouped_count(left.here, "job"),
            grouped(left.first)
        );
    }
    if refused.first > 0 || refused.here > 0 {
        text += &format!(
            "; {} refused (were {}), so the times are not of the same jobs",
            grouped_count(refused.here, "job"),
            grouped(refused.first)
        );
    }
    text
}

/// Returns a figure and its change: `2h10m` and `-55m`.
fn changes(figure: FigureChange, words: fn(f64) -> String) -> (String, String) {
    let here = words(figure.here);
    let by = words((figure.here - figure.first).abs());
    let margin = figure.margin.filter(|margin| *margin > 0.0);
    let margin = margin.map_or(String::new(), |margin| format!(" ± {}", words(margin)));
    let change = if by == words(0.0) {
        "the same".to_owned()
    } else if figure.may_be_chance {
        "no difference beyond chance".to_owned()
    } else if figure.here < figure.first {
        format!("-{by}{margin}")
    } else {
        format!("+{by}{margin}")
    };
    (here, change)
}
