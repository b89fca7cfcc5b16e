//! Resource groups: the quotas of flavors as quotas of GPU models, and the nodes on which they count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::GpuModel;
use muster_model::gpu_model::normalise_label;

use super::object::{FlavorSpec, ResourceGroup, ResourceQuota};
use super::{Hold, ModelsOf};
use crate::node::is_gpu;
use crate::quantity;
use crate::resources::{Quantities, Text};
use crate::rule::{NodeRule, Requirement, SelectorTerm};

/// Label with the model of NVIDIA's GPUs, by which most flavors select nodes.
const PRODUCT: &str = "nvidia.com/gpu.product";

/// Resources that are provided by the same flavors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorGroup {
    /// Resources that the group covers.
    pub resources: BTreeSet<Arc<str>>,
    /// Flavors that provide them, the preferred one first.
    pub flavors: Vec<Flavor>,
}

/// Nodes that provide resources, and what of them a quota covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// Name of the ResourceFlavor.
    pub name: Arc<str>,
    /// Labels that its nodes have.
    pub labels: BTreeMap<String, String>,
    /// Model of each GPU resource on these nodes. A resource of which there is none is missing.
    pub models: BTreeMap<Arc<str>, GpuModel>,
    /// Nominal quota of each GPU resource, in GPUs.
    pub nominal: BTreeMap<Arc<str>, u64>,
}

/// Quota of a ClusterQueue or Cohort, as a queue has it.
#[derive(Default)]
pub(super) struct Coverage {
    pub(super) groups: Vec<FlavorGroup>,
    pub(super) quota: BTreeMap<GpuModel, u64>,
    pub(super) borrow: Option<u64>,
    pub(super) lend: Option<u64>,
    pub(super) hold: Option<Hold>,
    pub(super) remarks: Vec<String>,
}

/// Reads the resource groups of a ClusterQueue or Cohort.
pub(super) fn read(
    groups: &[ResourceGroup],
    flavors: &BTreeMap<Arc<str>, FlavorSpec>,
    models: ModelsOf<'_>,
) -> Coverage {
    let mut reader = Reader::new(models);
    for group in groups {
        let mut found = Vec::new();
        for quotas in &group.flavors {
            match flavors.get(&quotas.name) {
                Some(spec) => found.push(reader.flavor(&quotas.name, spec, &quotas.resources)),
                None => {
                    let text = format!(
                        "there is no ResourceFlavor {}; create it, or correct the flavor's name",
                        quotas.name
                    );
                    reader.hold("FlavorNotFound", text);
                }
            }
        }
        let resources = group.covered_resources.iter().cloned().collect();
        reader.coverage.groups.push(FlavorGroup { resources, flavors: found });
    }
    reader.finish()
}

struct Reader<'a> {
    models: ModelsOf<'a>,
    coverage: Coverage,
    /// Resources that no queue limits.
    uncounted: BTreeSet<Arc<str>>,
    /// Flavors of each GPU model.
    of_model: BTreeMap<GpuModel, Vec<Arc<str>>>,
    borrow: BTreeSet<Option<u64>>,
    lend: BTreeSet<Option<u64>>,
}

impl<'a> Reader<'a> {
    fn new(models: ModelsOf<'a>) -> Self {
        Self {
            models,
            coverage: Coverage::default(),
            uncounted: BTreeSet::new(),
            of_model: BTreeMap::new(),
            borrow: BTreeSet::new(),
            lend: BTreeSet::new(),
        }
    }

    /// Records a defect; only the first one is reported.
    fn hold(&mut self, reason: &'static str, message: String) {
        self.coverage.hold.get_or_insert(Hold::new(reason, message));
    }

    fn flavor(&mut self, name: &Arc<str>, spec: &FlavorSpec, quotas: &[ResourceQuota]) -> Flavor {
        let mut flavor = Flavor {
            name: Arc::clone(name),
            labels: spec.node_labels.clone(),
            models: BTreeMap::new(),
            nominal: BTreeMap::new(),
        };
        if spec.tolerations {
            self.coverage.remarks.push(format!(
                "the tolerations of flavor {name} are not added to pods; write them in the pods"
            ));
        }
        if spec.node_taints {
            self.coverage.remarks.push(format!(
                "the nodeTaints of flavor {name} are not read: only taints of the nodes keep pods away"
            ));
        }
        for quota in quotas {
            if !is_gpu(&quota.name) {
                self.uncounted.insert(Arc::clone(&quota.name));
                continue;
            }
            let Some(nominal) = self.limit(Some(&quota.nominal_quota)) else { continue };
            flavor.nominal.insert(Arc::clone(&quota.name), nominal);
            let Some(model) = self.model(name, spec, &quota.name) else { continue };
            flavor.models.insert(Arc::clone(&quota.name), model.clone());
            *self.coverage.quota.entry(model.clone()).or_default() += nominal;
            self.of_model.entry(model).or_default().push(Arc::clone(name));
            let borrow = self.limit(quota.borrowing_limit.as_ref());
            self.borrow.insert(borrow);
            let lend = self.limit(quota.lending_limit.as_ref());
            self.lend.insert(lend);
        }
        flavor
    }

    /// Reads a number of GPUs; `None` without one.
    fn limit(&mut self, text: Option<&Text>) -> Option<u64> {
        let text = &text?.0;
        let gpus = quantity::whole(text);
        if gpus.is_none() {
            self.hold("InvalidQuota", format!("{text:?} is not a number of GPUs"));
        }
        gpus
    }

    /// Returns the one model of a GPU resource on the nodes of a flavor.
    fn model(&mut self, name: &str, spec: &FlavorSpec, resource: &str) -> Option<GpuModel> {
        let mut found = (self.models)(&spec.node_labels, resource).into_iter();
        let first = found.next();
        let others: Vec<String> =
            first.iter().chain(&found.collect::<Vec<_>>()).map(ToString::to_string).collect();
        if others.len() > 1 {
            self.hold(
                "FlavorOfSeveralModels",
                format!(
                    "the nodes of flavor {name} have several GPU models ({}), and a quota is for one; narrow its nodeLabels, for example by {PRODUCT}",
                    others.join(", ")
                ),
            );
            return None;
        }
        if first.is_none() {
            self.coverage.remarks.push(format!("no node of flavor {name} has {resource}"));
        }
        let product = spec.node_labels.get(PRODUCT).filter(|_| resource == "nvidia.com/gpu");
        first.or_else(|| product.map(|product| normalise_label(product)))
    }

    fn finish(mut self) -> Coverage {
        let mut remark = |text: String| self.coverage.remarks.push(text);
        if !self.uncounted.is_empty() {
            let names: Vec<&str> = self.uncounted.iter().map(|name| &**name).collect();
            remark(format!("quotas of {} limit nothing: only GPUs are counted", names.join(", ")));
        }
        for (model, flavors) in self.of_model.iter().filter(|(_, flavors)| flavors.len() > 1) {
            let names = flavors.join(", ");
            remark(format!("flavors {names} share one quota: all are {model}"));
        }
        for (key, limits) in [("borrowingLimit", &self.borrow), ("lendingLimit", &self.lend)] {
            if limits.len() > 1 {
                remark(format!("the smallest {key} holds for each GPU model"));
            }
        }
        let least = |limits: &BTreeSet<Option<u64>>| limits.iter().flatten().min().copied();
        self.coverage.borrow = least(&self.borrow);
        self.coverage.lend = least(&self.lend);
        self.coverage
    }
}

impl FlavorGroup {
    /// Adds the nodes of the flavors to the rule of a pod that requests a resource of this group.
    pub(super) fn restrict(&self, requests: &Quantities, rule: &mut NodeRule) {
        let requested: Vec<&Arc<str>> =
            self.resources.iter().filter(|name| requests.get(name) > 0).collect();
        let provides = |flavor: &&Flavor| {
            requested.iter().all(|name| !is_gpu(name) || flavor.models.contains_key(*name))
        };
        let flavors = || self.flavors.iter().filter(provides);
        // A flavor without labels is on every node.
        if requested.is_empty() || flavors().any(|flavor| flavor.labels.is_empty()) {
            return;
        }
        let require = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: "In".to_owned(),
            values: vec![value.clone()],
        };
        let term = |flavor: &Flavor| SelectorTerm {
            match_expressions: flavor.labels.iter().map(require).collect(),
            match_fields: Vec::new(),
        };
        rule.affinity.push(flavors().map(term).collect());
    }
}
