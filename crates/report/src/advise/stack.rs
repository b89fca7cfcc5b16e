//! The software stack: which layer runs on which, as chains for a terminal and as a mermaid flow
//! chart for a page.

use std::fmt::Write as _;

use muster_model::advice::Layer;

use crate::style::wrap;

/// Separator of two layers, the upper one first.
const ARROW: &str = " ─► ";

/// Returns one chain per path down from a top layer, on which no other layer runs. A chain ends at
/// a layer that is already drawn.
pub(super) fn chains(layers: &[Layer]) -> Vec<Vec<&'static str>> {
    let carries = |name: &str| layers.iter().any(|layer| layer.on.contains(&name));
    let mut drawn = Vec::new();
    let mut chains = Vec::new();
    for top in layers.iter().filter(|layer| !carries(layer.name)) {
        descend(layers, vec![top.name], &mut drawn, &mut chains);
    }
    chains
}

/// Extends a chain downwards from its last layer.
fn descend(
    layers: &[Layer],
    chain: Vec<&'static str>,
    drawn: &mut Vec<&'static str>,
    chains: &mut Vec<Vec<&'static str>>,
) {
    let Some(name) = chain.last().copied() else { return };
    let met = drawn.contains(&name);
    drawn.push(name);
    let below = layers.iter().filter(|layer| layer.name == name).flat_map(|layer| &layer.on);
    let below: Vec<&'static str> = if met { Vec::new() } else { below.copied().collect() };
    if below.is_empty() {
        chains.push(chain);
        return;
    }
    for (place, next) in below.into_iter().enumerate() {
        let mut longer = if place == 0 { chain.clone() } else { vec![name] };
        longer.push(next);
        descend(layers, longer, drawn, chains);
    }
}

/// Returns a chain as lines of at most `room` columns, broken before an arrow, or inside a name
/// that alone is too long.
pub(super) fn drawn(chain: &[&str], space: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in chain {
        match lines.last_mut() {
            Some(line)
                if line.chars().count() + ARROW.chars().count() + name.chars().count() <= space =>
            {
                line.push_str(ARROW);
                line.push_str(name);
            }
            last => {
                let lead = if last.is_none() { String::new() } else { format!(" {ARROW}") };
                let indent = " ".repeat(lead.chars().count());
                let parts = wrap(name, space.saturating_sub(indent.len()));
                let leads = std::iter::once(&lead).chain(std::iter::repeat(&indent));
                lines.extend(leads.zip(parts).map(|(lead, part)| format!("{lead}{part}")));
            }
        }
    }
    lines
}

/// Returns a mermaid flow chart from the top down.
#[must_use]
pub fn mermaid(layers: &[Layer]) -> String {
    // 1. Every name once, including layers that occur only below others.
    let mut names: Vec<&str> = Vec::new();
    for name in layers.iter().flat_map(|layer| std::iter::once(&layer.name).chain(&layer.on)) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let node = |name: &str| names.iter().position(|known| *known == name).unwrap_or(names.len());

    // 2. Nodes, then arrows.
    let mut text = String::from("flowchart TB\n");
    for (number, name) in names.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  n{number}[\"{}\"]", quoted(name));
    }
    for layer in layers {
        for below in &layer.on {
            let _ = writeln!(text, "  n{} --> n{}", node(layer.name), node(below));
        }
    }
    text
}

/// Escapes a quoted label, in which only the quote itself and `#`, which begins an entity, are
/// special.
fn quoted(name: &str) -> String {
    name.replace('#', "#35;").replace('"', "#quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &'static str, on: &[&'static str]) -> Layer {
        Layer { name, on: on.to_vec() }
    }

    #[test]
    fn one_chain_per_way_down() {
        let split = [
            layer("training", &["Slurm"]),
            layer("services", &["Kubernetes"]),
            layer("Slurm", &["nodes"]),
            layer("Kubernetes", &["nodes"]),
            layer("nodes", &[]),
        ];
        assert_eq!(
            chains(&split),
            [vec!["training", "Slurm", "nodes"], vec!["services", "Kubernetes", "nodes"]]
        );
        let shared = [
            layer("Train", &["Ray"]),
            layer("Data", &["Ray"]),
            layer("Ray", &["KubeRay"]),
            layer("KubeRay", &[]),
        ];
        assert_eq!(chains(&shared), [vec!["Train", "Ray", "KubeRay"], vec!["Data", "Ray"]]);
        assert_eq!(chains(&[layer("a", &["b", "c"])]), [vec!["a", "b"], vec!["a", "c"]]);
        // A circle has no top; a circle below a top ends.
        assert_eq!(chains(&[layer("a", &["a"])]), Vec::<Vec<&str>>::new());
        assert_eq!(chains(&[layer("top", &["a"]), layer("a", &["a"])]), [vec!["top", "a", "a"]]);
        assert_eq!(chains(&[]), Vec::<Vec<&str>>::new());
    }

    #[test]
    fn a_long_chain_breaks_before_an_arrow() {
        assert_eq!(drawn(&["Ray", "KubeRay"], 40), ["Ray ─► KubeRay"]);
        assert_eq!(drawn(&["Ray", "KubeRay", "k3s"], 14), ["Ray ─► KubeRay", "  ─► k3s"]);
        assert_eq!(
            drawn(&["torchrun or MPI", "one of several"], 12),
            ["torchrun or", "MPI", "  ─► one of", "     several"]
        );
    }

    #[test]
    fn a_flow_chart_quotes_its_labels() {
        let chart =
            mermaid(&[layer("Ray (Train, \"RLlib\")", &["KubeRay"]), layer("KubeRay", &[])]);
        assert_eq!(
            chart,
            "flowchart TB\n  n0[\"Ray (Train, #quot;RLlib#quot;)\"]\n  n1[\"KubeRay\"]\n  n0 --> n1\n"
        );
    }
}
