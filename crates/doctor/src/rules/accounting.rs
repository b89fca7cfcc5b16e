//! Rules on recording and enforcement: without them shares, limits and reports cover processors
//! only.

use muster_model::check::Severity::{High, Medium};

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::evidence::{ConfRecord, Evidence, gpus};

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "no-accounting",
        severity: High,
        title: "no accounting database",
        meaning: "no record of jobs is kept, so there are no shares, no account limits and no usage reports",
        cure: "run slurmdbd and set AccountingStorageType=accounting_storage/slurmdbd",
        page: DocPage::Man("slurm.conf", "AccountingStorageType"),
        check: |evidence| {
            let kind =
                evidence.conf_setting("AccountingStorageType", Some("accounting_storage/none"))?;
            check_setting(&kind, kind.is("accounting_storage/slurmdbd"))
        },
    },
    CheckRule {
        id: "gpus-not-accounted",
        severity: High,
        title: "GPUs are not recorded",
        meaning: "sacct and sreport show no GPUs, and no limit on gres/gpu can be set or enforced",
        cure: "AccountingStorageTRES=gres/gpu, and gres/gpu:TYPE for each type; then restart slurmctld",
        page: DocPage::Man("slurm.conf", "AccountingStorageTRES"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let tres = evidence.conf_setting("AccountingStorageTRES", Some(""))?;
            check_setting(&tres, tres.lists("gres/gpu"))
        },
    },
    CheckRule {
        id: "gpus-not-billed",
        severity: High,
        title: "GPUs are not billed",
        meaning: "usage counts processors only, so that a job with eight GPUs and one processor is charged for one processor in the fair share",
        cure: "TRESBillingWeights=\"CPU=...,Mem=...,GRES/gpu=...\" on every partition with GPUs",
        page: DocPage::Man("slurm.conf", "TRESBillingWeights"),
        check: billed,
    },
    CheckRule {
        id: "shards-not-billed",
        severity: High,
        title: "GPU shards are not billed",
        meaning: "a job that requests shards instead of GPUs is not charged for them in the fair share",
        cure: "GRES/shard=... in TRESBillingWeights beside GRES/gpu, with the weight of a GPU divided by its number of shards, and gres/shard in AccountingStorageTRES",
        page: DocPage::Man("slurm.conf", "TRESBillingWeights"),
        check: |evidence| {
            evidence.nodes()?;
            unbilled(evidence, "shard", |node| has_gres(node, "shard"))
        },
    },
    CheckRule {
        id: "limits-not-enforced",
        severity: High,
        title: "account limits are not enforced",
        meaning: "limits such as GrpTRES, MaxJobs or MaxTRES are ignored",
        cure: "AccountingStorageEnforce=associations,limits,qos; safe also prevents the start of jobs that a limit would end",
        page: DocPage::Man("slurm.conf", "AccountingStorageEnforce"),
        check: |evidence| {
            let enforce = evidence.conf_setting("AccountingStorageEnforce", Some("none"))?;
            check_setting(
                &enforce,
                ["limits", "safe", "all"].iter().any(|word| enforce.lists(word)),
            )
        },
    },
    CheckRule {
        id: "qos-not-enforced",
        severity: Medium,
        title: "QOS are used but not enforced",
        meaning: "jobs need no valid QOS, and the limits of QOS are ignored",
        cure: "add qos to AccountingStorageEnforce",
        page: DocPage::Man("slurm.conf", "AccountingStorageEnforce"),
        check: qos_enforced,
    },
    CheckRule {
        id: "no-job-statistics",
        severity: Medium,
        title: "no usage of running jobs is measured",
        meaning: "sstat is empty, and sacct has no memory or processor time of steps",
        cure: "JobAcctGatherType=jobacct_gather/cgroup, or jobacct_gather/linux",
        page: DocPage::Man("slurm.conf", "JobAcctGatherType"),
        check: |evidence| {
            let gather = evidence.conf_setting("JobAcctGatherType", None)?;
            check_setting(&gather, !gather.value.is_empty() && !gather.is("jobacct_gather/none"))
        },
    },
    CheckRule {
        id: "records-never-purged",
        severity: Medium,
        title: "job records are never purged",
        meaning: "the database grows without limit, and sacct and upgrades of slurmdbd become slow",
        cure: "PurgeJobAfter, PurgeStepAfter and PurgeEventAfter, such as 24month, in slurmdbd.conf",
        page: DocPage::Man("slurmdbd.conf", "PurgeJobAfter"),
        check: |evidence| {
            let purge = evidence.dbd("PurgeJobAfter", "")?;
            check_setting(&purge, !purge.value.is_empty())
        },
    },
];

/// A weight of zero bills nothing.
fn billed(evidence: &Evidence) -> RuleResult {
    evidence.gpu_nodes()?;
    unbilled(evidence, "gpu", |node| gpus(node) > 0)
}

fn has_gres(node: &ConfRecord, name: &str) -> bool {
    let entries = node.get("Gres").unwrap_or_default().split(',');
    entries.into_iter().any(|entry| {
        entry.split([':', '(']).next().is_some_and(|own| own.eq_ignore_ascii_case(name))
    })
}

/// Finds partitions with nodes that have a generic resource, and no weight for it.
fn unbilled(evidence: &Evidence, name: &str, has: fn(&ConfRecord) -> bool) -> RuleResult {
    let mut findings = Vec::new();
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
            findings.push(RuleFinding {
                key: partition.name.clone(),
                says: format!("partition {} {has}", partition.name),
                place: Some(partition.place.clone()),
            });
        }
    }
    let what = if name == "gpu" { "GPUs" } else { "shards" };
    fail_if_any(findings, format!("{count} partitions with {what} have a weight for {what}"))
}

fn qos_enforced(evidence: &Evidence) -> RuleResult {
    let enforce = evidence.conf_setting("AccountingStorageEnforce", Some("none"))?;
    if ["qos", "all"].iter().any(|word| enforce.lists(word)) {
        return check_setting(&enforce, true);
    }
    // Settings that give QOS an effect.
    let weight = evidence.conf_setting("PriorityWeightQOS", Some("0"))?;
    let preempt = evidence.conf_setting("PreemptType", Some("preempt/none"))?;
    let named = |field: &'static str| {
        let uses = |partition: &&ConfRecord| {
            partition.get(field).is_some_and(|value| !value.eq_ignore_ascii_case("all"))
        };
        evidence
            .partitions
            .iter()
            .find(uses)
            .map(|partition| format!("partition {} has {field}", partition.name))
    };
    let limits = |qos: &ConfRecord| {
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
        .or(limited.map(|qos| format!("QOS {} has limits", qos.name)))
        .or_else(|| named("QoS"))
        .or_else(|| named("AllowQos"));
    let findings = used.map(|used| RuleFinding {
        key: "qos".to_owned(),
        says: format!("{used}, but {}", enforce.text()),
        place: enforce.place.clone(),
    });
    fail_if_any(findings.into_iter().collect(), "no QOS is used")
}
