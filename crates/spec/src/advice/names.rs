//! Names of facts in files: lookup, common foreign names, and messages about unknown ones. No value
//! is read here.

use muster_model::advice::Fact;

use crate::diagnostic::{Problem, show};
use crate::suggest::nearest;
use crate::yaml::YamlEntry;

/// Foreign names of the facts of a workload.
const FOREIGN: &[(&str, Fact)] = &[
    ("node-count", Fact::Nodes),
    ("num-nodes", Fact::Nodes),
    ("nnodes", Fact::Nodes),
    ("hosts", Fact::Nodes),
    ("machines", Fact::Nodes),
    ("gang", Fact::TightlyCoupled),
    ("coupled", Fact::TightlyCoupled),
    ("coupled-training", Fact::TightlyCoupled),
    ("distributed", Fact::TightlyCoupled),
    ("multi-node", Fact::TightlyCoupled),
    ("nccl", Fact::TightlyCoupled),
    ("mpi", Fact::TightlyCoupled),
    ("allreduce", Fact::TightlyCoupled),
    ("all-reduce", Fact::TightlyCoupled),
    ("metal", Fact::BareMetal),
    ("no-containers", Fact::BareMetal),
    ("hpc", Fact::BareMetal),
    ("service", Fact::LongLivedServices),
    ("services", Fact::LongLivedServices),
    ("long-lived", Fact::LongLivedServices),
    ("long-running", Fact::LongLivedServices),
    ("long-running-services", Fact::LongLivedServices),
    ("inference", Fact::LongLivedServices),
    ("serving", Fact::LongLivedServices),
    ("endpoints", Fact::LongLivedServices),
    ("teams", Fact::MultiTenant),
    ("tenants", Fact::MultiTenant),
    ("tenancy", Fact::MultiTenant),
    ("multi-team", Fact::MultiTenant),
    ("shared", Fact::MultiTenant),
    ("python", Fact::PythonNativePipeline),
    ("python-native", Fact::PythonNativePipeline),
    ("pipeline", Fact::PythonNativePipeline),
    ("actors", Fact::PythonNativePipeline),
    ("rl", Fact::PythonNativePipeline),
    ("edge", Fact::EdgeOrDev),
    ("dev", Fact::EdgeOrDev),
    ("ci", Fact::EdgeOrDev),
    ("small", Fact::EdgeOrDev),
];

/// Names that users may write but that are no facts of a workload, and why.
const NO_FACT: &[(&str, &str)] = &[
    ("gpus", "GPUs are counted for a site; `nodes` is what a single job spans"),
    ("users", "people are counted for a site; `multi_tenant` says that several teams share it"),
    ("k8s", "a control plane is the answer, not a fact"),
    ("kubernetes", "a control plane is the answer, not a fact"),
    ("slurm", "a control plane is the answer, not a fact"),
    ("k3s", "a control plane is the answer, not a fact; did you mean `edge_or_dev`?"),
    ("ray", "a control plane is the answer, not a fact; did you mean `python_native_pipeline`?"),
    ("rules", "thresholds belong at the top level of the file"),
    ("primary", "this is part of an answer, not a fact"),
    ("addon", "this is part of an answer, not a fact"),
    ("hybrid", "this is part of an answer, not a fact"),
];

/// Foreign names of the fields of a site, by section; empty for the top level.
const FOREIGN_SITE: &[(&str, &str, &str)] = &[
    ("", "cluster", "fleet"),
    ("", "hardware", "fleet"),
    ("", "team", "people"),
    ("", "organisation", "people"),
    ("", "requirements", "needs"),
    ("", "workload", "mix"),
    ("", "workloads", "mix"),
    ("", "workload-mix", "mix"),
    ("", "thresholds", "rules"),
    ("", "on", "clusters"),
    ("", "routes", "clusters"),
    ("", "schedulers", "clusters"),
    ("fleet", "hosts", "nodes"),
    ("fleet", "machines", "nodes"),
    ("fleet", "servers", "nodes"),
    ("fleet", "gpu-count", "gpus"),
    ("fleet", "gpu", "models"),
    ("fleet", "model", "models"),
    ("fleet", "gpu-model", "models"),
    ("fleet", "gpu-models", "models"),
    ("fleet", "mig", "models"),
    ("fleet", "network", "fabric"),
    ("fleet", "interconnect", "fabric"),
    ("fleet", "rdma", "fabric"),
    ("fleet", "infiniband", "fabric"),
    ("fleet", "roce", "fabric"),
    ("fleet", "bare-metal", "hosting"),
    ("fleet", "cloud", "hosting"),
    ("fleet", "autoscaling", "elastic"),
    ("fleet", "sites", "places"),
    ("fleet", "locations", "places"),
    ("people", "managed-kubernetes", "managed-plane"),
    ("needs", "audit", "regulated"),
    ("people", "user-count", "users"),
    ("people", "researchers", "users"),
    ("people", "engineers", "users"),
    ("people", "team-count", "teams"),
    ("people", "fte", "platform-fte"),
    ("people", "platform-team", "platform-fte"),
    ("people", "admins", "platform-fte"),
    ("people", "budget", "tooling-budget"),
    ("people", "runs", "operates"),
    ("people", "slurm", "operates"),
    ("people", "kubernetes", "operates"),
    ("people", "operates-slurm", "operates"),
    ("people", "operates-kubernetes", "operates"),
    ("people", "operates-k3s", "operates"),
    ("people", "operates-ray", "operates"),
    ("people", "modernize", "modernise"),
    ("needs", "inference", "services"),
    ("needs", "serving", "services"),
    ("needs", "jupyter", "notebooks"),
    ("needs", "reinforcement-learning", "rl"),
    ("needs", "hpo", "sweeps"),
    ("needs", "tuning", "sweeps"),
    ("needs", "quotas", "strict-quotas"),
    ("needs", "compliance", "regulated"),
    ("needs", "elastic-jobs", "grow"),
    ("needs", "mig", "isolated-slices"),
    ("needs", "time-slicing", "shared-gpus"),
    ("needs", "dashboard", "tracking"),
    ("clusters", "jobs", "batch"),
    ("clusters", "task", "batch"),
    ("clusters", "tasks", "batch"),
    ("clusters", "sweep", "arrays"),
    ("clusters", "sweeps", "arrays"),
    ("clusters", "training", "gangs"),
    ("clusters", "distributed", "gangs"),
    ("clusters", "mpi", "gangs"),
    ("clusters", "inference", "services"),
    ("clusters", "serving", "services"),
    ("clusters", "jupyter", "notebooks"),
];

/// Returns true if two names are the same; `-` and `_` are equal.
pub(super) fn same(a: &str, b: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    a.bytes().map(plain).eq(b.bytes().map(plain))
}

/// Returns section and key of a site's fact in a site file; `None` for one that follows from
/// another field.
pub(super) fn site_key(fact: Fact) -> Option<(&'static str, &'static str)> {
    let (section, key) = fact.name().split_once('.')?;
    let follows = matches!(fact, Fact::FleetRdma | Fact::FleetBareMetal | Fact::FleetMig);
    (!follows && operated(fact).is_none()).then_some((section, key))
}

/// Returns the field of a section of a site file that sets a fact; `None` if the section has none.
#[must_use]
pub fn site_field(fact: Fact, section: &str) -> Option<&'static str> {
    site_key(fact).filter(|(of, _)| *of == section).map(|(_, key)| key)
}

/// Returns the control plane that a fact says is operated.
pub(super) fn operated(fact: Fact) -> Option<&'static str> {
    fact.name().strip_prefix("people.operates-")
}

/// Returns the sections of a site file, in order.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = Fact::SITE
        .iter()
        .filter_map(|fact| fact.name().split_once('.'))
        .map(|pair| pair.0)
        .collect();
    sections.dedup();
    sections
}

/// Returns advice on a name that is no fact of a workload, as a lowercase fragment; `None` if no
/// fact has a similar name.
#[must_use]
pub fn fact_meant_by(name: &str) -> Option<String> {
    let plain = name.to_lowercase();
    if let Some((_, why)) = NO_FACT.iter().find(|(theirs, _)| same(&plain, theirs)) {
        return Some((*why).to_owned());
    }
    let foreign =
        FOREIGN.iter().find(|(theirs, _)| same(&plain, theirs)).map(|(_, fact)| fact.name());
    let near = || nearest(name, Fact::WORKLOAD.iter().map(|fact| fact.name()));
    foreign.or_else(near).map(did_you_mean)
}

/// Returns the problem for a name that is no fact of a workload.
///
/// `beside` are other allowed keys.
pub(super) fn unknown_fact(entry: &YamlEntry, facts: &[&str], beside: &[&str]) -> Problem {
    let label = fact_meant_by(&entry.key)
        .or_else(|| nearest(&entry.key, facts.iter().chain(beside).copied()).map(did_you_mean));
    unknown("fact", entry, None, label, facts)
}

/// Returns the problem for a name that is no field of a section of a site file, or of the file.
pub(super) fn unknown_field(section: &str, entry: &YamlEntry, known: &[&str]) -> Problem {
    let plain = entry.key.to_lowercase();
    let foreign =
        FOREIGN_SITE.iter().find(|(of, theirs, _)| *of == section && same(&plain, theirs));
    let meant = foreign.map(|(.., ours)| *ours);
    let elsewhere =
        Fact::SITE.iter().filter_map(|fact| site_key(*fact)).find(|(_, key)| same(key, &plain));
    let label = match elsewhere {
        Some((other, key)) if meant.is_none() => Some(format!("`{key}` belongs under `{other}`")),
        _ => None,
    };
    unknown("field", entry, meant, label, known)
}

/// Returns the problem for a name that is no threshold.
pub(super) fn unknown_rule(entry: &YamlEntry, known: &[&str]) -> Problem {
    unknown("threshold", entry, None, None, known)
}

fn unknown(
    what: &str,
    entry: &YamlEntry,
    meant: Option<&str>,
    label: Option<String>,
    known: &[&str],
) -> Problem {
    let meant = meant.or_else(|| nearest(&entry.key, known.iter().copied()));
    let label = label.or_else(|| meant.map(did_you_mean));
    Problem::new(format!("there is no {what} {}", show(&entry.key)))
        .at(entry.key_place, label.unwrap_or_else(|| format!("not a {what} here")))
        .hint(format!("the {what}s are {}", known.join(", ")))
}

fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

#[cfg(test)]
mod tests {
    use muster_model::advice::WorkKind;

    use super::*;
    use crate::advice::clusters::CLUSTERS;

    #[test]
    fn what_others_say_is_no_name_of_ours_and_leads_to_one() {
        for (theirs, _) in FOREIGN {
            assert!(Fact::WORKLOAD.iter().all(|fact| !same(fact.name(), theirs)), "{theirs}");
        }
        for (theirs, _) in NO_FACT {
            assert!(Fact::WORKLOAD.iter().all(|fact| !same(fact.name(), theirs)), "{theirs}");
            assert!(FOREIGN.iter().all(|(other, _)| other != theirs), "{theirs}");
        }
        let special = [
            ("fleet", "models"),
            ("fleet", "fabric"),
            ("fleet", "hosting"),
            ("people", "operates"),
        ];
        let mut ours: Vec<(&str, &str)> =
            Fact::SITE.iter().filter_map(|fact| site_key(*fact)).collect();
        ours.extend(special);
        let whole = ["mix", "rules", CLUSTERS];
        ours.extend(sections().into_iter().chain(whole).map(|key| ("", key)));
        ours.extend(WorkKind::ALL.map(|kind| (CLUSTERS, kind.name())));
        for (section, theirs, meant) in FOREIGN_SITE {
            assert!(ours.contains(&(*section, *meant)), "{section}.{meant}");
            assert!(!ours.contains(&(*section, *theirs)), "{section}.{theirs}");
        }
    }

    #[test]
    fn sections_are_three() {
        assert_eq!(sections(), ["fleet", "people", "needs"]);
    }
}
