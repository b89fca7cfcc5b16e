//! Topology gaps as text: what a domain of the network lacks for a job.

use muster_model::reason::TopologyGap;

use crate::RenderContext;
use crate::amount::gpus;
use crate::explanation_line::ExplanationLine;

/// Capacity that the numbers of a gap refer to: what is free now, or everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GapBasis {
    Now,
    WhenIdle,
}

/// Returns a fragment for a table row.
pub(crate) fn short(gap: &TopologyGap, ever: GapBasis, context: RenderContext) -> String {
    let TopologyGap { level, .. } = gap;
    let Some(domain) = &gap.domain else { return format!("no node is in a {level}") };
    match gap.segment_tasks {
        Some(tasks) => format!(
            "{} of {} fit in slices of {tasks} per {level}",
            gap.tasks_placeable,
            context.words.tasks(gap.tasks_needed)
        ),
        None => {
            format!(
                "{level} {domain} {}; needs {} in one {level}",
                present(gap, ever, context),
                needed(gap, context)
            )
        }
    }
}

/// Returns the sentences of an explanation.
pub(crate) fn lines(
    gap: &TopologyGap,
    ever: GapBasis,
    context: RenderContext,
) -> Vec<ExplanationLine> {
    let TopologyGap { level, .. } = gap;
    let needs = match gap.segment_tasks {
        Some(tasks) => {
            format!(
                "{} in slices of {tasks}, each in one {level}",
                context.words.tasks(gap.tasks_needed)
            )
        }
        None => format!("{} in one {level}", needed(gap, context)),
    };
    let mut lines = vec![ExplanationLine::new("needs", needs)];
    let closest = match (&gap.domain, gap.segment_tasks) {
        (None, _) => format!("no node is in a {level}"),
        (Some(_), Some(_)) => format!(
            "{} of {} fit in whole slices",
            gap.tasks_placeable,
            context.words.tasks(gap.tasks_needed)
        ),
        (Some(domain), None) => format!("{level} {domain} {}", present(gap, ever, context)),
    };
    let label = match ever {
        GapBasis::Now => "closest",
        GapBasis::WhenIdle => "largest",
    };
    lines.push(ExplanationLine::new(label, closest));
    lines
}

fn needed(gap: &TopologyGap, context: RenderContext) -> String {
    match gap.gpus_needed.0 {
        0 => context.words.tasks(gap.tasks_needed),
        _ => gpus(gap.gpus_needed),
    }
}

/// Describes what the domain has; in tasks if its number of GPUs alone would be enough.
fn present(gap: &TopologyGap, ever: GapBasis, context: RenderContext) -> String {
    let tasks =
        format!("takes {} of {}", gap.tasks_placeable, context.words.tasks(gap.tasks_needed));
    let is_enough = gap.gpus_free >= gap.gpus_needed;
    match ever {
        _ if gap.gpus_needed.0 == 0 => tasks,
        GapBasis::Now if is_enough => {
            format!("has {} of {} GPUs free but {tasks}", gap.gpus_free, gap.gpus_total)
        }
        GapBasis::Now => format!("has {} of {} GPUs free", gap.gpus_free, gap.gpus_total),
        GapBasis::WhenIdle if is_enough => format!("has {} but {tasks}", gpus(gap.gpus_total)),
        GapBasis::WhenIdle => format!("has {}", gpus(gap.gpus_total)),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::GpuMilli;

    use super::*;

    fn check(gap: &TopologyGap, now: &str, ever: &str) {
        assert_eq!(
            [
                short(gap, GapBasis::Now, RenderContext::plain()).as_str(),
                short(gap, GapBasis::WhenIdle, RenderContext::plain()).as_str()
            ],
            [now, ever]
        );
    }

    #[test]
    fn the_closest_domain_is_named_with_what_it_has() {
        let gap = TopologyGap {
            level: "leaf".to_owned(),
            segment_tasks: None,
            domain: Some("l3".to_owned()),
            tasks_needed: 16,
            tasks_placeable: 12,
            gpus_needed: GpuMilli(16_000),
            gpus_free: GpuMilli(12_000),
            gpus_total: GpuMilli(24_000),
        };
        check(
            &gap,
            "leaf l3 has 12 of 24 GPUs free; needs 16 GPUs in one leaf",
            "leaf l3 has 24 GPUs; needs 16 GPUs in one leaf",
        );
        let enough = TopologyGap { gpus_free: GpuMilli(20_000), ..gap.clone() };
        check(
            &enough,
            "leaf l3 has 20 of 24 GPUs free but takes 12 of 16 tasks; needs 16 GPUs in one leaf",
            "leaf l3 has 24 GPUs but takes 12 of 16 tasks; needs 16 GPUs in one leaf",
        );
        let plain = TopologyGap { gpus_needed: GpuMilli(0), ..gap.clone() };
        let takes = "leaf l3 takes 12 of 16 tasks; needs 16 tasks in one leaf";
        check(&plain, takes, takes);
        let none = TopologyGap { domain: None, ..gap.clone() };
        check(&none, "no node is in a leaf", "no node is in a leaf");
        let slices = TopologyGap { segment_tasks: Some(4), ..gap };
        let fit = "12 of 16 tasks fit in slices of 4 per leaf";
        check(&slices, fit, fit);
    }
}
