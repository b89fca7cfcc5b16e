//! Rules of pods for nodes as labels of the engine's nodes: the engine matches labels only, so each
//! distinct rule gets a number, and every node that satisfies it a label of that number.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::rule::NodeRule;

/// Number of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleId(usize);

impl RuleId {
    /// Returns the label, and extra resource, of nodes that satisfy the rule.
    pub(crate) fn key(self) -> Arc<str> {
        format!("{PREFIX}{}", self.0).into()
    }

    /// Returns true for a name that [`Self::key`] has made.
    pub(crate) fn is_key(name: &str) -> bool {
        name.starts_with(PREFIX)
    }
}

/// Beginning of all keys.
const PREFIX: &str = "rule/";

/// Value of the label.
pub(crate) const YES: &str = "yes";

/// All rules seen so far.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    ids: BTreeMap<NodeRule, RuleId>,
}

impl Rules {
    /// Returns the number of a rule, and true if it is new.
    pub(crate) fn intern(&mut self, rule: &NodeRule) -> (RuleId, bool) {
        if let Some(id) = self.ids.get(rule) {
            return (*id, false);
        }
        let id = RuleId(self.ids.len());
        self.ids.insert(rule.clone(), id);
        (id, true)
    }

    /// Returns the rules that a node satisfies.
    pub(crate) fn satisfied<'a>(
        &'a self,
        node: &'a NodeFacts,
    ) -> impl Iterator<Item = RuleId> + 'a {
        self.ids.iter().filter(|(rule, _)| rule.matches(node)).map(|(_, id)| *id)
    }
}
