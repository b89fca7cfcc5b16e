//! Rules on the start of jobs: backfill, and the time limits that it needs.

use muster_model::check::Severity::{High, Low, Medium};

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::evidence::{ConfRecord, Evidence, needs_input};
use muster_slurm::time::minutes;

/// Words in the names of partitions for interactive use.
const INTERACTIVE: [&str; 7] =
    ["interactive", "inter", "debug", "dev", "devel", "notebook", "jupyter"];

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "no-backfill",
        severity: High,
        title: "small jobs wait behind large ones",
        meaning: "while the first job in the queue waits for nodes, all jobs behind it wait, too",
        cure: "SchedulerType=sched/backfill",
        page: DocPage::Man("slurm.conf", "SchedulerType"),
        check: |evidence| {
            let kind = evidence.conf_setting("SchedulerType", Some("sched/backfill"))?;
            check_setting(&kind, kind.is("sched/backfill"))
        },
    },
    CheckRule {
        id: "interactive-without-limit",
        severity: High,
        title: "interactive sessions without a time limit",
        meaning: "a forgotten session holds its GPUs until it is noticed",
        cure: "MaxTime of hours and a shorter DefaultTime on the partition",
        page: DocPage::Man("slurm.conf", "MaxTime"),
        check: |evidence| of_partitions(evidence, true, "MaxTime"),
    },
    CheckRule {
        id: "no-max-time",
        severity: Medium,
        title: "jobs without a time limit",
        meaning: "a hanging job holds its GPUs without limit, the backfill cannot plan any job after it, and maintenance has to kill it",
        cure: "MaxTime on the partition, as long as the longest real job",
        page: DocPage::Man("slurm.conf", "MaxTime"),
        check: |evidence| of_partitions(evidence, false, "MaxTime"),
    },
    CheckRule {
        id: "no-default-time",
        severity: Medium,
        title: "a job without --time gets the maximum",
        meaning: "all such jobs look equally long, and none of them can be backfilled",
        cure: "DefaultTime on the partition, short enough that users set their own",
        page: DocPage::Man("slurm.conf", "DefaultTime"),
        check: default_time,
    },
    CheckRule {
        id: "default-time-above-max",
        severity: High,
        title: "a job without --time never starts",
        meaning: "its time limit is the partition's DefaultTime, which exceeds the partition's MaxTime",
        cure: "DefaultTime of at most MaxTime",
        page: DocPage::Man("slurm.conf", "DefaultTime"),
        check: default_above_max,
    },
    CheckRule {
        id: "default-partition",
        severity: Medium,
        title: "not exactly one default partition",
        meaning: "without a default, jobs without --partition are rejected; of several defaults the last one counts",
        cure: "Default=YES on one partition",
        page: DocPage::Man("slurm.conf", "Default"),
        check: default_partition,
    },
    CheckRule {
        id: "backfill-window-short",
        severity: Medium,
        title: "backfill looks less far ahead than jobs can run",
        meaning: "a large job behind long ones is never given a planned start, and smaller ones keep overtaking it",
        cure: "bf_window in SchedulerParameters of at least the longest MaxTime in minutes, with a larger bf_resolution",
        page: DocPage::Man("slurm.conf", "SchedulerParameters"),
        check: window,
    },
    CheckRule {
        id: "impossible-jobs-wait",
        severity: Low,
        title: "jobs beyond a partition's limits stay pending",
        meaning: "jobs that can never start are accepted, and stay pending without an error",
        cure: "EnforcePartLimits=ALL, or ANY",
        page: DocPage::Man("slurm.conf", "EnforcePartLimits"),
        check: |evidence| {
            let enforce = evidence.conf_setting("EnforcePartLimits", Some("NO"))?;
            check_setting(&enforce, enforce.is("all") || enforce.is("any") || enforce.is("yes"))
        },
    },
    CheckRule {
        id: "partition-of-unknown-nodes",
        severity: High,
        title: "a partition lists nodes that are not defined",
        meaning: "slurmctld rejects such a file, or the partition is smaller than configured",
        cure: "a NodeName line for each, or another list in Nodes=",
        page: DocPage::Man("slurm.conf", "Nodes"),
        check: unknown_nodes,
    },
];

fn is_interactive(partition: &ConfRecord) -> bool {
    let name = partition.name.to_ascii_lowercase();
    name.split(['-', '_']).any(|word| INTERACTIVE.contains(&word))
}

/// Finds partitions of one kind whose limit is missing or infinite.
fn of_partitions(evidence: &Evidence, interactive: bool, key: &str) -> RuleResult {
    let of_kind: Vec<&ConfRecord> = evidence
        .partitions()?
        .iter()
        .filter(|partition| is_interactive(partition) == interactive)
        .collect();
    if of_kind.is_empty() {
        return needs_input(if interactive {
            "a partition whose name says that it is interactive"
        } else {
            "a partition that is not interactive"
        });
    }
    let endless = |partition: &&&ConfRecord| partition.get(key).and_then(minutes).is_none();
    let finding = |partition: &&ConfRecord| RuleFinding {
        key: partition.name.clone(),
        says: match partition.get(key) {
            Some(value) => format!("partition {} has {key}={value}", partition.name),
            None => format!("partition {} has no {key}", partition.name),
        },
        place: Some(partition.place.clone()),
    };
    let pass = format!("{} partitions have {key}", of_kind.len());
    fail_if_any(of_kind.iter().filter(endless).map(finding).collect(), pass)
}

/// Slurm prints NONE where no default is set.
fn default_time(evidence: &Evidence) -> RuleResult {
    let partitions = evidence.partitions()?;
    let lacks = |partition: &&ConfRecord| partition.get("DefaultTime").and_then(minutes).is_none();
    let finding = |partition: &ConfRecord| RuleFinding {
        key: partition.name.clone(),
        says: format!(
            "partition {} has no DefaultTime, its MaxTime is {}",
            partition.name,
            partition.get("MaxTime").unwrap_or("not set either")
        ),
        place: Some(partition.place.clone()),
    };
    fail_if_any(
        partitions.iter().filter(lacks).map(finding).collect(),
        format!("{} partitions have a DefaultTime", partitions.len()),
    )
}

fn default_above_max(evidence: &Evidence) -> RuleResult {
    let partitions = evidence.partitions()?;
    let finding = |partition: &ConfRecord| {
        let default = partition.get("DefaultTime")?;
        let max = partition.get("MaxTime")?;
        (minutes(default)? > minutes(max)?).then(|| RuleFinding {
            key: partition.name.clone(),
            says: format!(
                "partition {} has DefaultTime={default} and MaxTime={max}",
                partition.name
            ),
            place: Some(partition.place.clone()),
        })
    };
    let findings = partitions.iter().filter_map(finding).collect();
    fail_if_any(
        findings,
        format!("no DefaultTime of {} partitions is above MaxTime", partitions.len()),
    )
}

fn default_partition(evidence: &Evidence) -> RuleResult {
    let partitions = evidence.partitions()?;
    let is_default = |partition: &&ConfRecord| {
        let word = partition.get("Default").unwrap_or_default();
        ["yes", "up", "true", "1"].iter().any(|yes| word.eq_ignore_ascii_case(yes))
    };
    let names: Vec<&ConfRecord> = partitions.iter().filter(is_default).collect();
    let finding =
        |says: String, place| vec![RuleFinding { key: "default".to_owned(), says, place }];
    match names.as_slice() {
        [one] => fail_if_any(Vec::new(), format!("{} is the default", one.name)),
        [] => fail_if_any(
            finding(format!("none of {} partitions is the default", partitions.len()), None),
            "",
        ),
        [first, .., last] => fail_if_any(
            finding(
                format!(
                    "{} partitions have Default=YES, such as {} and {}",
                    names.len(),
                    first.name,
                    last.name
                ),
                Some(last.place.clone()),
            ),
            "",
        ),
    }
}

fn window(evidence: &Evidence) -> RuleResult {
    /// Slurm's default, one day.
    const DEFAULT_MINUTES: u64 = 1440;
    let partitions = evidence.partitions()?;
    let parameters = evidence.conf_setting("SchedulerParameters", Some(""))?;
    let window = parameters.option("bf_window").and_then(|minutes| minutes.trim().parse().ok());
    let longest = partitions
        .iter()
        .filter_map(|partition| {
            Some((partition.get("MaxTime").and_then(minutes)?, &partition.name))
        })
        .max();
    let Some((longest, name)) = longest else {
        return needs_input("a partition with a MaxTime");
    };
    let shown = match window {
        Some(minutes) => format!("bf_window={minutes}"),
        None => format!("bf_window is not set; its default is {DEFAULT_MINUTES}"),
    };
    let says = format!("{shown} minutes, and partition {name} has a MaxTime of {longest}");
    let is_short = window.unwrap_or(DEFAULT_MINUTES) < longest;
    let finding = is_short.then(|| RuleFinding {
        key: "bf_window".to_owned(),
        says: says.clone(),
        place: parameters.place.clone(),
    });
    fail_if_any(finding.into_iter().collect(), says)
}

fn unknown_nodes(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.nodes()?;
    let partitions = evidence.partitions()?;
    let known = |name: &str| nodes.iter().any(|node| node.name == name);
    let mut findings = Vec::new();
    for partition in partitions {
        let Some(names) = evidence.nodes_of(partition) else {
            return needs_input(format!(
                "a readable list of nodes of partition {}",
                partition.name
            ));
        };
        let unknown: Vec<String> = names.into_iter().filter(|name| !known(name)).collect();
        if let Some(first) = unknown.first() {
            findings.push(RuleFinding {
                key: partition.name.clone(),
                says: format!(
                    "partition {} lists {} undefined nodes, such as {first}",
                    partition.name,
                    unknown.len()
                ),
                place: Some(partition.place.clone()),
            });
        }
    }
    fail_if_any(findings, format!("all nodes of {} partitions are defined", partitions.len()))
}
