//! Rules of a pod for nodes: node selector, required node affinity, tolerations. Two pods with equal
//! rules may run on the same nodes.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::node::{NodeFacts, Taint};

/// Requirements of a pod on its node, beside resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeRule {
    /// Labels, with their values, that the node must have.
    pub selector: BTreeMap<String, String>,
    /// Lists of terms: of each list the node must satisfy one term. The pod's own affinity is one
    /// list, that of each of its volumes another.
    pub affinity: Vec<Vec<SelectorTerm>>,
    /// Taints that the pod tolerates.
    pub tolerations: Vec<Toleration>,
}

impl NodeRule {
    /// Returns the rule for all nodes with these labels, whatever their taints.
    #[must_use]
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Self {
        let all = Toleration { operator: "Exists".to_owned(), ..Toleration::default() };
        Self { selector: labels.clone(), affinity: Vec::new(), tolerations: vec![all] }
    }

    /// Returns true when a pod with this rule may run on the node.
    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        node.has_labels(&self.selector)
            && self.affinity.iter().all(|terms| terms.iter().any(|term| term.matches(node)))
            && node.taints.iter().filter(|taint| taint.is_hard()).all(|taint| self.tolerates(taint))
    }

    /// Returns true when a toleration covers the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.covers(taint))
    }

    /// Returns the first operator that is not known, as a text for users.
    #[must_use]
    pub fn unknown_operator(&self) -> Option<String> {
        let terms = self.affinity.iter().flatten();
        let known = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        let affinity = terms
            .flat_map(|term| term.match_expressions.iter().chain(&term.match_fields))
            .find(|requirement| !known.contains(&requirement.operator.as_str()));
        let toleration = self
            .tolerations
            .iter()
            .find(|toleration| !["", "Equal", "Exists"].contains(&toleration.operator.as_str()));
        affinity
            .map(|found| format!("node affinity with the operator `{}`", found.operator))
            .or_else(|| {
                toleration
                    .map(|found| format!("a toleration with the operator `{}`", found.operator))
            })
    }
}

/// Term of a node affinity: all its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorTerm {
    /// Requirements on labels, all of which must hold.
    pub match_expressions: Vec<Requirement>,
    /// Requirements on fields of the node, of which there is one: `metadata.name`.
    pub match_fields: Vec<Requirement>,
}

impl SelectorTerm {
    /// A term without requirements matches no node (API documentation of NodeSelectorTerm).
    fn matches(&self, node: &NodeFacts) -> bool {
        let has_any = !self.match_expressions.is_empty() || !self.match_fields.is_empty();
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        let field = |key: &str| (key == "metadata.name").then(|| node.name.as_str());
        has_any
            && self.match_expressions.iter().all(|one| one.holds(label(&one.key)))
            && self.match_fields.iter().all(|one| one.holds(field(&one.key)))
    }
}

/// Requirement on a label or field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// Name of the label or field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// Values that the operator compares with.
    pub values: Vec<String>,
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|one| one == value));
        let pair = || {
            let value: i64 = value?.parse().ok()?;
            let [bound] = &self.values[..] else { return None };
            Some((value, bound.parse::<i64>().ok()?))
        };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => pair().is_some_and(|(value, bound)| value > bound),
            "Lt" => pair().is_some_and(|(value, bound)| value < bound),
            // Pods with other operators are not scheduled: see `unknown_operator`.
            _ => false,
        }
    }
}

/// Selector of objects by their labels; without requirements it matches all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LabelSelector {
    /// Labels, with their values, that the object must have.
    pub(crate) match_labels: BTreeMap<String, String>,
    /// Requirements on labels, all of which must hold.
    pub(crate) match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Returns true if an object with these labels is selected.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let label = |key: &str| labels.get(key).map(String::as_str);
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|one| one.holds(label(&one.key)))
    }
}

/// Toleration that lets a pod run on nodes with some taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Key of the taint; empty with `Exists` means every taint.
    pub key: String,
    /// `Equal` (also when empty) or `Exists`.
    pub operator: String,
    /// Value of the taint, for `Equal`.
    pub value: String,
    /// Effect of the taint; empty means every effect.
    pub effect: String,
}

impl Toleration {
    fn covers(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key == taint.key || (self.key.is_empty() && self.operator == "Exists");
        let value = match self.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => self.value == taint.value,
            _ => false,
        };
        effect && key && value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeText;
    use serde_json::{Value, json};

    fn node() -> NodeFacts {
        let text: NodeText = serde_json::from_value(json!({
            "metadata": {"name": "a", "labels": {"zone": "z1", "gen": "5"}},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        }))
        .unwrap();
        text.facts().unwrap()
    }

    fn check(terms: Value, expected: bool) {
        let terms: Vec<SelectorTerm> = serde_json::from_value(terms.clone()).unwrap();
        let tolerations = vec![Toleration { operator: "Exists".into(), ..Toleration::default() }];
        let rule =
            NodeRule { selector: BTreeMap::new(), affinity: vec![terms.clone()], tolerations };
        assert_eq!(rule.matches(&node()), expected, "{terms:?}");
        assert_eq!(rule.unknown_operator(), None);
    }

    #[test]
    fn affinity_terms_match_as_documented() {
        let one = |key: &str, operator: &str, values: &[&str]| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        check(one("zone", "In", &["z1", "z2"]), true);
        check(one("zone", "In", &["z2"]), false);
        check(one("zone", "NotIn", &["z2"]), true);
        check(one("absent", "NotIn", &["z2"]), true);
        check(one("absent", "In", &["z2"]), false);
        check(one("zone", "Exists", &[]), true);
        check(one("absent", "DoesNotExist", &[]), true);
        check(one("gen", "Gt", &["4"]), true);
        check(one("gen", "Lt", &["5"]), false);
        check(one("zone", "Gt", &["4"]), false);
        // No term, and a term without requirements, match nothing; terms are alternatives.
        check(json!([]), false);
        check(json!([{}]), false);
        check(
            json!([{}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]),
            true,
        );
    }

    #[test]
    fn taints_keep_pods_away_unless_tolerated() {
        for (toleration, expected) in [
            (json!({"key": "gpu", "operator": "Exists"}), true),
            (json!({"key": "gpu", "value": "yes"}), true),
            (json!({"key": "gpu", "value": "no"}), false),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            let tolerations = vec![serde_json::from_value(toleration.clone()).unwrap()];
            let rule = NodeRule { tolerations, ..NodeRule::default() };
            assert_eq!(rule.matches(&node()), expected, "{toleration}");
        }
        assert!(!NodeRule::default().matches(&node()));
    }

    #[test]
    fn unknown_operators_are_named() {
        let tolerations = vec![Toleration { operator: "Gt".into(), ..Toleration::default() }];
        let rule = NodeRule { tolerations, ..NodeRule::default() };
        assert_eq!(rule.unknown_operator().unwrap(), "a toleration with the operator `Gt`");
    }
}
