//! Rule on the versions of APIs: fields of a version that is not known here may have another meaning.

use muster_model::check::Severity;

use super::super::finding::{ObjectFacts, ObjectRule, RuleHit};
use super::super::object::ImportedObject;

pub(in super::super) const RULES: &[ObjectRule] = &[ObjectRule {
    id: "unknown-api-version",
    severity: Severity::Medium,
    title: "an object is written in a version of its API that Muster does not know",
    cure: "compare the job with the object: fields may have another name or meaning in that version",
    find: unknown_version,
}];

/// Versions that are read, by API group and kind; no kind stands for all of the group.
const KNOWN: [(&str, &str, &[&str]); 15] = [
    ("batch", "", &["v1"]),
    ("apps", "", &["v1"]),
    ("autoscaling", "", &["v1", "v2"]),
    ("jobset.x-k8s.io", "", &["v1alpha2"]),
    ("trainer.kubeflow.org", "", &["v1alpha1"]),
    ("kubeflow.org", "PyTorchJob", &["v1"]),
    ("kubeflow.org", "MPIJob", &["v1", "v2beta1"]),
    ("batch.volcano.sh", "", &["v1alpha1"]),
    ("scheduling.volcano.sh", "", &["v1beta1"]),
    ("ray.io", "", &["v1", "v1alpha1"]),
    ("leaderworkerset.x-k8s.io", "", &["v1"]),
    ("kueue.x-k8s.io", "", &["v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", "PodGroup", &["v1beta1"]),
    ("scheduling.x-k8s.io", "", &["v1alpha1"]),
    ("scheduling.run.ai", "PodGroup", &["v2alpha2"]),
];

fn unknown_version(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.objects.iter().filter_map(|object| {
        let known = versions(object)?;
        let (group, version) = object.peek_text("/apiVersion")?.split_once('/')?;
        (!known.contains(&version)).then(|| {
            let known = known.join(" and ");
            let says = format!("{}: {group}/{version}; known is {known}", object.title());
            (object.line("/apiVersion"), says)
        })
    });
    hits.collect()
}

/// Returns the versions in which a kind of object is read; `None` for kinds that are not read.
fn versions(object: &ImportedObject) -> Option<&'static [&'static str]> {
    let is_its = |(group, kind, _): &&(&str, &str, &[&str])| {
        *group == object.group() && (kind.is_empty() || *kind == object.kind())
    };
    KNOWN.iter().find(is_its).map(|(_, _, versions)| *versions)
}
