//! What a comparison comes to: the advice for the facts, and how each of the two planes fares
//! beside it. Nothing is decided here that `advise` does not decide.

use muster_model::advice::{
    Changes, Compared, Facts, Fare, Flip, Label, Plane, Role, Ruleset, Thresholds, Verdict,
};

use crate::workload::advise;

/// The verdict for these facts.
pub(super) fn of(
    planes: [Plane; 2],
    facts: &Facts,
    thresholds: &Thresholds,
    ruleset: Ruleset,
    dimensions: &[Compared],
) -> Verdict {
    let advice = advise(facts, thresholds, ruleset);
    let fare = |plane: Plane| {
        let ahead =
            dimensions.iter().filter(|row| !row.matters_for.is_empty() && row.ahead == Some(plane));
        let role = role(&advice.label, plane);
        let chosen_if =
            if role == Role::Chosen { Changes::default() } else { nearest(&advice.flips, plane) };
        let ahead_in = u32::try_from(ahead.count()).expect("a comparison has few dimensions");
        Fare { plane, ahead_in, role, chosen_if }
    };
    let fares = planes.map(fare);
    Verdict { advice: advice.label, fares }
}

/// What part a plane has in an answer. The labels are the interface: Ray names its host in its
/// addon, and a split fleet names both pools.
fn role(label: &Label, plane: Plane) -> Role {
    let host = label.primary == Plane::Ray && label.addon.ends_with(&format!("KubeRay on {plane}"));
    let pool = label.hybrid.as_deref().is_some_and(|hybrid| hybrid.contains("K8s pool"));
    match plane {
        _ if label.primary == plane => Role::Chosen,
        _ if host => Role::Host,
        Plane::Kubernetes if pool => Role::OtherPool,
        _ => Role::NotChosen,
    }
}

/// The smallest change of facts that leads to a plane; flips come smallest first.
fn nearest(flips: &[Flip], plane: Plane) -> Changes {
    flips
        .iter()
        .find(|flip| flip.label.primary == plane)
        .map(|flip| flip.change.clone())
        .unwrap_or_default()
}
