//! A pool of nodes as `kubectl` commands in a script, and the nodes that such a script names. The
//! script is for people to read and run; nothing here runs it.

use std::fmt::Write as _;

use muster_model::NodeSpec;

use crate::gpu::model;

/// The script that marks the services pool. It stops before any change while a node of the batch
/// pool is in the cluster.
#[must_use]
pub fn script(services: &[NodeSpec], batch: &[NodeSpec]) -> String {
    let mut text = String::from(
        "\
#!/bin/sh
# The services pool. Read this, then run: sh kubernetes-nodes.sh
# Label: what a workload selects with nodeSelector. Taint: keeps pods off that ask for no GPU; those that ask for one tolerate
# it by themselves where the admission plugin ExtendedResourceToleration is on, else they need a toleration.
set -eu

# Two schedulers on one node give the same GPU away twice: no node of the batch pool may be in this cluster.
members=$(kubectl get nodes -o name)
",
    );
    let names: Vec<&str> = batch.iter().map(|node| node.name.as_str()).collect();
    let _ = writeln!(text, "for node in \\\n    {}", names.join(" \\\n    "));
    text.push_str(
        "\
do
    if printf '%s\\n' \"$members\" | grep -qxF \"node/$node\"; then
        echo \"$node is of the batch pool (BOUNDARY.md) and in this cluster; take it out first:\" >&2
        echo \"  kubectl drain $node --ignore-daemonsets --delete-emptydir-data && kubectl delete node $node\" >&2
        exit 1
    fi
done

",
    );
    for node in services {
        let _ = writeln!(text, "kubectl label node {} pool=services --overwrite", node.name);
        if let Some(resource) = node.devices.first().map(|device| resource(device.model.as_str())) {
            let _ = writeln!(
                text,
                "kubectl taint node {} {resource}=present:NoSchedule --overwrite",
                node.name
            );
        }
    }
    text
}

/// The nodes that a script labels, in order.
#[must_use]
pub fn labelled(script: &str) -> Vec<String> {
    let mut nodes = Vec::new();
    for line in script.replace("\\\n", " ").lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let head: Vec<&str> = words.by_ref().take(3).collect();
        if let ["kubectl", "label", "node" | "nodes" | "no"] = head[..] {
            let names =
                words.take_while(|word| !word.contains('=')).filter(|word| !word.starts_with('-'));
            nodes.extend(names.map(str::to_owned));
        }
    }
    nodes
}

/// The resource as which GPUs of a model are advertised.
fn resource(gpu: &str) -> &'static str {
    if model::is_amd(gpu) { "amd.com/gpu" } else { "nvidia.com/gpu" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_in_scripts_that_people_changed() {
        let script = "kubectl label node a pool=services --overwrite\n# kubectl label node b pool=services\n  kubectl label nodes c \\\n  d pool=services # e\nkubectl label no --overwrite f pool=services\nkubectl taint node g x=y:NoSchedule\n";
        assert_eq!(labelled(script), ["a", "c", "d", "f"]);
        assert!(labelled("").is_empty());
    }
}
