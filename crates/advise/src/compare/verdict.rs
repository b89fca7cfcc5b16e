//! Verdict of a comparison: the advice for the facts, and the place of each of the two systems
//! in it. Every decision is made by `advise`.

use muster_model::advice::{
    Compared, ComparedSystem, ComparisonVerdict, ControlPlane, FactChanges, Facts, Flip, Label,
    PlaneResult, PlaneRole, Ruleset, Thresholds,
};

use crate::workload::advise;

/// Returns the verdict for these facts.
pub(super) fn of(
    planes: [ComparedSystem; 2],
    facts: &Facts,
    thresholds: &Thresholds,
    ruleset: Ruleset,
    dimensions: &[Compared],
) -> ComparisonVerdict {
    let advice = advise(facts, thresholds, ruleset);
    let fare = |plane: ComparedSystem| {
        let ahead =
            dimensions.iter().filter(|row| !row.matters_for.is_empty() && row.ahead == Some(plane));
        let role = role(&advice.label, plane);
        let chosen_if = match plane {
            ComparedSystem::Plane(plane) if role != PlaneRole::Chosen => {
                nearest(&advice.flips, plane)
            }
            _ => FactChanges::default(),
        };
        let ahead_in = u32::try_from(ahead.count()).expect("a comparison has few dimensions");
        PlaneResult { plane, ahead_in, role, chosen_if }
    };
    let fares = planes.map(fare);
    ComparisonVerdict { advice: advice.label, fares }
}

/// Returns the role of a system in an answer, from its label: Ray names its host in its
/// addon, and a split fleet names both pools.
fn role(label: &Label, system: ComparedSystem) -> PlaneRole {
    let ComparedSystem::Plane(plane) = system else { return PlaneRole::OnTop };
    let host =
        label.primary == ControlPlane::Ray && label.addon.ends_with(&format!("KubeRay on {plane}"));
    let pool = label.hybrid.as_deref().is_some_and(|hybrid| hybrid.contains("K8s pool"));
    match plane {
        _ if label.primary == plane => PlaneRole::Chosen,
        _ if host => PlaneRole::Host,
        ControlPlane::Kubernetes if pool => PlaneRole::OtherPool,
        _ => PlaneRole::NotChosen,
    }
}

/// Returns the smallest change of facts that leads to a control plane; flips are sorted by size.
fn nearest(flips: &[Flip], plane: ControlPlane) -> FactChanges {
    flips
        .iter()
        .find(|flip| flip.label.primary == plane)
        .map(|flip| flip.change.clone())
        .unwrap_or_default()
}
