//! Rules on what is recorded and enforced: without them shares, limits and reports are about
//! processors only.

use muster_model::check::Severity::{High, Medium};

use crate::evidence::{Evidence, Record, gpus};
use crate::rule::{Judged, Page, Rule, Trip, none_of, right};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "no-accounting",
        severity: High,
        title: "no accounting database",
        meaning: "no record of jobs is kept, so there are no shares, no limits of accounts and no report of who used what",
        cure: "run slurmdbd and set AccountingStorageType=accounting_storage/slurmdbd",
        page: Page::Man("slurm.conf", "AccountingStorageType"),
        check: |evidence| {
            let kind = evidence.said("AccountingStorageType", Some("accounting_storage/none"))?;
            right(&kind, kind.is("accounting_storage/slurmdbd"))
        },
    },
    Rule {
        id: "gpus-not-accounted",
        severity: High,
        title: "GPUs are not recorded",
        meaning: "sacct and sreport know nothing of GPUs, and no limit on gres/gpu can be set or kept",
        cure: "AccountingStorageTRES=gres/gpu, and gres/gpu:TYPE for each type; then restart slurmctld",
        page: Page::Man("slurm.conf", "AccountingStorageTRES"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let tres = evidence.said("AccountingStorageTRES", Some(""))?;
            right(&tres, tres.lists("gres/gpu"))
        },
    },
    Rule {
        id: "gpus-not-billed",
        severity: High,
        title: "GPUs are not billed",
        meaning: "usage counts processors only, so that whoever takes eight GPUs and one processor pays for one processor in the fair share",
        cure: "TRESBillingWeights=\"CPU=...,Mem=...,GRES/gpu=...\" on every partition with GPUs",
        page: Page::Man("slurm.conf", "TRESBillingWeights"),
        check: billed,
    },
    Rule {
        id: "shards-not-billed",
        severity: High,
        title: "shares of GPUs are not billed",
        meaning: "a job that asks for shards in place of GPUs uses them for nothing in the fair share",
        cure: "GRES/shard=... in TRESBillingWeights beside GRES/gpu: the weight of a GPU by its number of shards; and gres/shard in AccountingStorageTRES",
        page: Page::Man("slurm.conf", "TRESBillingWeights"),
        check: |evidence| {
            evidence.nodes()?;
            unbilled(evidence, "shard", |node| has_gres(node, "shard"))
        },
    },
    Rule {
        id: "limits-not-enforced",
        severity: High,
        title: "limits of accounts are not enforced",
        meaning: "what sacctmgr shows as GrpTRES, MaxJobs or MaxTRES is ignored",
        cure: "AccountingStorageEnforce=associations,limits,qos; safe also keeps jobs from starting that their limit would end",
        page: Page::Man("slurm.conf", "AccountingStorageEnforce"),
        check: |evidence| {
            let enforce = evidence.said("AccountingStorageEnforce", Some("none"))?;
            right(&enforce, ["limits", "safe", "all"].iter().any(|word| enforce.lists(word)))
        },
    },
    Rule {
        id: "qos-not-enforced",
        severity: Medium,
        title: "a quality of service is used, and not enforced",
        meaning: "jobs need no valid quality of service, and its limits do not hold",
        cure: "add qos to AccountingStorageEnforce",
        page: Page::Man("slurm.conf", "AccountingStorageEnforce"),
        check: qos_enforced,
    },
    Rule {
        id: "no-job-statistics",
        severity: Medium,
        title: "nothing is measured of running jobs",
        meaning: "sstat is empty, and sacct has no memory or processor time of steps",
        cure: "JobAcctGatherType=jobacct_gather/cgroup, or jobacct_gather/linux",
        page: Page::Man("slurm.conf", "JobAcctGatherType"),
        check: |evidence| {
            let gather = evidence.said("JobAcctGatherType", None)?;
            right(&gather, !gather.value.is_empty() && !gather.is("jobacct_gather/none"))
        },
    },
    Rule {
        id: "records-never-purged",
        severity: Medium,
        title: "records of jobs are never removed",
        meaning: "the database grows for ever, and sacct and upgrades of slurmdbd become slow",
        cure: "PurgeJobAfter, PurgeStepAfter and PurgeEventAfter, such as 24month, in slurmdbd.conf",
        page: Page::Man("slurmdbd.conf", "PurgeJobAfter"),
        check: |evidence| {
            let purge = evidence.dbd("PurgeJobAfter", "")?;
            right(&purge, !purge.value.is_empty())
        },
    },
];

/// A weight of zero bills nothing.
fn billed(evidence: &Evidence) -> Judged {
    evidence.gpu_nodes()?;
    unbilled(evidence, "gpu", |node| gpus(node) > 0)
}

fn has_gres(node: &Record, name: &str) -> bool {
    let entries = node.get("Gres").unwrap_or_default().split(',');
    entries.into_iter().any(|entry| {
        entry.split([':', '(']).next().is_some_and(|own| own.eq_ignore_ascii_case(name))
    })
}

/// Partitions with nodes that have a generic resource, and no weight for it.
fn unbilled(evidence: &Evidence, name: &str, has: fn(&Record) -> bool) -> Judged {
    let mut trips = Vec::new();
    let mut count = 0;
    for partition in evidence.partitions()? {
        let names = evidence.nodes_of(partition).unwrap_or_default();
        if !evidence.nodes.iter().any(|node| has(node) && names.contains(&node.name)) {
            continue;
        }
        count += 1;
        let weights = partition.get("TRESBillingWeights").unwrap_or_default().to_ascii_lowercase();
        let bills = |entry: &str| {
            let weight = entry
                .split_once('=')
                .filter(|(tres, _)| tres.trim().starts_with(&format!("gres/{name}")));
            weight.is_some_and(|(_, weight)| {
                weight.bytes().any(|digit| (b'1'..=b'9').contains(&digit))
            })
        };
        if !weights.split(',').any(bills) {
            let has = match weights.as_str() {
                "" => "has no TRESBillingWeights".to_owned(),
                weights => format!("has TRESBillingWeights={weights}"),
            };
            trips.push(Trip {
                key: partition.name.clone(),
                says: format!("partition {} {has}", partition.name),
                place: Some(partition.place.clone()),
            });
        }
    }
    let what = if name == "gpu" { "GPUs" } else { "shards" };
    none_of(trips, format!("{count} partitions with {what} have a weight for them"))
}

fn qos_enforced(evidence: &Evidence) -> Judged {
    let enforce = evidence.said("AccountingStorageEnforce", Some("none"))?;
    if ["qos", "all"].iter().any(|word| enforce.lists(word)) {
        return right(&enforce, true);
    }
    // What makes a quality of service mean anything.
    let weight = evidence.said("PriorityWeightQOS", Some("0"))?;
    let preempt = evidence.said("PreemptType", Some("preempt/none"))?;
    let named = |field: &'static str| {
        let uses = |partition: &&Record| {
            partition.get(field).is_some_and(|value| !value.eq_ignore_ascii_case("all"))
        };
        evidence
            .partitions
            .iter()
            .find(uses)
            .map(|partition| format!("partition {} has {field}", partition.name))
    };
    let limits = |qos: &Record| {
        [
            "GrpTRES",
            "MaxTRES",
            "MaxTRESPU",
            "MaxTRESPA",
            "MaxJobsPU",
            "MaxSubmitPU",
            "MaxWall",
            "GrpJobs",
        ]
        .iter()
        .any(|field| qos.get(field).is_some())
    };
    let limited = evidence.qos.iter().flatten().find(|qos| limits(qos));
    let used = None
        .or((weight.number() > Some(0)).then(|| weight.text()))
        .or(preempt.is("preempt/qos").then(|| preempt.text()))
        .or(limited.map(|qos| format!("quality of service {} has limits", qos.name)))
        .or_else(|| named("QoS"))
        .or_else(|| named("AllowQos"));
    let trips = used.map(|used| Trip {
        key: "qos".to_owned(),
        says: format!("{used}, but {}", enforce.text()),
        place: enforce.place.clone(),
    });
    none_of(trips.into_iter().collect(), "no quality of service is used")
}
