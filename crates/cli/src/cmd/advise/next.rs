//! Commands that are suggested after an answer. Each is a subcommand of this binary.

use muster_model::advice::{Advice, ControlPlane};

/// Returns the suggested next commands, the shortest path first.
pub fn steps(advice: &Advice, is_site: bool, details: bool) -> Vec<String> {
    let primary = advice.label.primary;
    let mut steps = Vec::new();
    if !details {
        steps.push("muster advise … --details".to_owned());
    }
    match primary {
        ControlPlane::None => steps.push("muster init none --gpus N".to_owned()),
        plane => {
            let other = advice.flips.iter().map(|flip| flip.label.primary);
            let other =
                other.into_iter().find(|other| *other != plane && *other != ControlPlane::None);
            steps.extend(other.map(|other| format!("muster compare {plane} {other}")));
        }
    }
    if advice.label.hybrid.is_some() {
        steps.push("muster init hybrid --cluster cluster.yaml --services N".to_owned());
    } else if !is_site && advice.label.addon.contains("(REQUIRED)") {
        steps.push("muster prove gang".to_owned());
    }
    steps
}
