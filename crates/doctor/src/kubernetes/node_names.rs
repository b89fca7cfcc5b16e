//! Parsers for the names of nodes in the output of kubectl and of Slurm: nodes that both have are
//! allocated twice.

use std::collections::BTreeSet;

use muster_model::hostlist::expand;
use muster_slurm::pool::node_lists;
use serde_json::Value;

/// Returns the names in `kubectl get nodes -o json`, `-o name`, its table, or one name per line.
/// `None` where there is none.
#[must_use]
pub fn kubernetes_nodes(text: &str) -> Option<BTreeSet<String>> {
    let names: BTreeSet<String> = if text.trim_start().starts_with('{') {
        let list: Value = serde_json::from_str(text).ok()?;
        let items = list.get("items").and_then(Value::as_array)?;
        let name = |item: &Value| {
            item.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
        };
        items.iter().filter_map(name).collect()
    } else {
        text.lines()
            .filter(|line| !line.starts_with("NAME ") && !line.trim_start().starts_with('#'))
            .filter_map(|line| line.split_whitespace().next())
            .map(|word| word.strip_prefix("node/").unwrap_or(word).to_owned())
            .collect()
    };
    are_names(&names).then_some(names)
}

/// Returns true for one name or more, and nothing else: other text must not pass for a list without
/// any common node.
fn are_names(names: &BTreeSet<String>) -> bool {
    let is_name = |name: &String| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    !names.is_empty() && names.iter().all(is_name)
}

/// Returns the names in `sinfo -hN -o %N`, `scontrol show nodes`, slurm.conf, or one name or list of
/// names per line. `None` where there is none.
#[must_use]
pub fn slurm_nodes(text: &str) -> Option<BTreeSet<String>> {
    let of_conf = node_lists(text);
    let lists: Vec<&str> = if of_conf.is_empty() {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines.filter_map(|line| line.split_whitespace().next()).collect()
    } else {
        of_conf.iter().map(String::as_str).collect()
    };
    let names: BTreeSet<String> =
        lists.iter().filter_map(|list| expand(list).ok()).flatten().collect();
    are_names(&names).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_what_slurm_prints() {
        for text in [
            "n1\nn2\n",
            "n[1-2]\n",
            "NodeName=n1 Arch=x86_64 CoresPerSocket=1\nNodeName=n2 Arch=x86_64\n",
            "ClusterName=c\nNodeName=n[1-2] Gres=gpu:8\n",
        ] {
            let names = slurm_nodes(text).unwrap();
            assert_eq!(names.into_iter().collect::<Vec<_>>(), ["n1", "n2"], "{text}");
        }
        assert_eq!((slurm_nodes(""), slurm_nodes("nodes:\n  - {name: n1}\n")), (None, None));
    }

    #[test]
    fn names_are_found_in_what_kubectl_prints() {
        for text in [
            r#"{"items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}}]}"#,
            "node/n1\nnode/n2\n",
            "NAME   STATUS   ROLES\nn1     Ready    <none>\nn2     Ready    <none>\n",
            "# ours\nn1\n\nn2\n",
        ] {
            let names = kubernetes_nodes(text).unwrap();
            assert_eq!(names.into_iter().collect::<Vec<_>>(), ["n1", "n2"], "{text}");
        }
        assert_eq!(kubernetes_nodes("{"), None);
        assert_eq!(kubernetes_nodes("nodes:\n  - {name: n1}\n"), None);
        assert_eq!(kubernetes_nodes(""), None);
    }
}
