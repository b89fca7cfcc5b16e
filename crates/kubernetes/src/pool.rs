//! Renders the script of `kubectl` commands that labels a pool of nodes, and parses the nodes that
//! such a script names. Users read and run the script; it is never run here.

use std::fmt::Write as _;

use muster_model::NodeSpec;

use muster_model::gpu_model;

/// Returns the script that labels the services pool. The script stops before any change while a
/// node of the batch pool is in the cluster.
#[must_use]
pub fn script(services: &[NodeSpec], batch: &[NodeSpec]) -> String {
    let mut text = String::from(
        "\
#!/bin/sh
# The services pool. Read this, then run: sh kubernetes-nodes.sh
# Label: selected by workloads with nodeSelector. Taint: keeps pods without a GPU request away. `muster run` and `muster export`
# write a toleration for it; for the pods of others the admission plugin ExtendedResourceToleration does, where it is enabled.
set -eu

# Two schedulers on one node would allocate the same GPU twice: no node of the batch pool may be in this cluster.
members=$(kubectl get nodes -o name)
",
    );
    let names: Vec<&str> = batch.iter().map(|node| node.name.as_str()).collect();
    let _ = writeln!(text, "for node in \\\n    {}", names.join(" \\\n    "));
    text.push_str(
        "\
do
    if printf '%s\\n' \"$members\" | grep -qxF \"node/$node\"; then
        echo \"$node belongs to the batch pool (BOUNDARY.md) but is in this cluster; remove it first:\" >&2
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

/// Returns the nodes that a script labels, in order.
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

/// Returns the resource name under which GPUs of a model are advertised.
pub(crate) fn resource(gpu: &str) -> &'static str {
    if gpu_model::is_amd(gpu) { "amd.com/gpu" } else { "nvidia.com/gpu" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_in_edited_scripts() {
        let script = "kubectl label node a pool=services --overwrite\n# kubectl label node b pool=services\n  kubectl label nodes c \\\n  d pool=services # e\nkubectl label no --overwrite f pool=services\nkubectl taint node g x=y:NoSchedule\n";
        assert_eq!(labelled(script), ["a", "c", "d", "f"]);
        assert!(labelled("").is_empty());
    }
}
