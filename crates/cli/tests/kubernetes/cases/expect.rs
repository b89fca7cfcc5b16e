//! Compares a list of the cluster's objects with what a step must lead to.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cases::case::{Case, Expectation};
use crate::cases::objects::ITEM;

/// Objects of a case at one moment.
pub struct Seen<'a> {
    pub case: &'a Case,
    pub objects: &'a [Value],
    /// Nodes of all cases.
    pub nodes: &'a [Value],
}

impl Seen<'_> {
    /// Returns the first thing that is not as expected.
    pub fn check(&self, expected: &Expectation) -> Result<(), String> {
        for name in &expected.bound {
            self.bound(name)?;
        }
        for (name, nodes) in &expected.on {
            let allowed: Vec<String> = nodes.iter().map(|node| self.case.full_name(node)).collect();
            for node in self.bound(name)? {
                if !allowed.contains(&node) {
                    return Err(format!("{name} is on {node}"));
                }
            }
        }
        for (name, label) in &expected.together {
            let domains: BTreeSet<String> =
                self.bound(name)?.iter().map(|node| self.label(node, label)).collect();
            if domains.len() != 1 {
                return Err(format!("{name} is in several: {domains:?}"));
            }
        }
        for (name, count) in &expected.count {
            let bound = self.active(name).filter(|pod| node_of(pod).is_some()).count();
            if bound != *count {
                return Err(format!("{bound} pods of {name} have nodes"));
            }
        }
        for (name, text) in &expected.waiting {
            self.waits(name, text)?;
        }
        if let Some(name) = expected.gone.iter().find(|name| self.active(name).next().is_some()) {
            return Err(format!("{name} is there"));
        }
        self.check_messages("Queue", "Ready", &expected.queues)?;
        self.check_messages("Job", "muster.run/Admitted", &expected.jobs)
    }

    /// Returns the pods of an item, or the pod of this name.
    fn pods(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| {
            let metadata = &object["metadata"];
            object["kind"] == "Pod"
                && (metadata["labels"][ITEM] == name || metadata["name"] == name)
        })
    }

    fn active(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.pods(name).filter(|pod| {
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            pod["metadata"]["deletionTimestamp"].is_null()
                && !["Succeeded", "Failed"].contains(&phase)
        })
    }

    /// Returns the nodes of pods that all have one.
    fn bound(&self, name: &str) -> Result<Vec<String>, String> {
        let node = |pod: &Value| {
            let node = node_of(pod).map(str::to_owned);
            node.ok_or_else(|| format!("{} waits: {}", pod["metadata"]["name"], reason(pod)))
        };
        let nodes: Result<Vec<String>, String> = self.active(name).map(node).collect();
        match nodes {
            Ok(nodes) if nodes.is_empty() => {
                let ended: Vec<&Value> = self.pods(name).map(|pod| &pod["status"]).collect();
                Err(format!("{name} has no pods that run: {ended:?}"))
            }
            nodes => nodes,
        }
    }

    fn waits(&self, name: &str, text: &str) -> Result<(), String> {
        if self.active(name).next().is_none() {
            return Err(format!("{name} has no pods"));
        }
        for pod in self.active(name) {
            let name = &pod["metadata"]["name"];
            if let Some(node) = node_of(pod) {
                return Err(format!("{name} is on {node}"));
            }
            let told = reason(pod);
            if !told.contains(text) {
                return Err(format!("{name} says {told:?}"));
            }
        }
        Ok(())
    }

    fn label(&self, node: &str, label: &str) -> String {
        let found = self.nodes.iter().find(|one| one["metadata"]["name"] == node);
        let value = found.and_then(|node| node["metadata"]["labels"][label].as_str());
        value.unwrap_or_default().to_owned()
    }

    fn check_messages(
        &self,
        kind: &str,
        condition: &str,
        expected: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), String> {
        for (name, text) in expected {
            let full = if kind == "Queue" { self.case.queue_name(name) } else { name.clone() };
            let object = self
                .objects
                .iter()
                .find(|one| one["kind"] == kind && one["metadata"]["name"] == full)
                .ok_or_else(|| format!("there is no {kind} {full}"))?;
            let told = message(object, condition);
            if !told.contains(text) {
                return Err(format!("{kind} {full} says {told:?}"));
            }
        }
        Ok(())
    }
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// Returns what a pod says about why it has no node.
fn reason(pod: &Value) -> String {
    message(pod, "PodScheduled")
}

fn message(object: &Value, condition: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found =
        conditions.filter(|one| one["type"] == condition).find_map(|one| one["message"].as_str());
    found.unwrap_or_default().to_owned()
}
