//! Rules on when jobs start: backfill, and the limits of time that it lives on.

use muster_model::check::Severity::{High, Low, Medium};

use crate::evidence::{Evidence, Record, untested};
use crate::rule::{Judged, Page, Rule, Trip, minutes, none_of, right};

/// Words in the names of partitions where people sit and wait.
const INTERACTIVE: [&str; 7] =
    ["interactive", "inter", "debug", "dev", "devel", "notebook", "jupyter"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "no-backfill",
        severity: High,
        title: "small jobs wait behind large ones",
        meaning: "while the first job in line waits for its nodes, everything behind it waits, too",
        cure: "SchedulerType=sched/backfill",
        page: Page::Man("slurm.conf", "SchedulerType"),
        check: |evidence| {
            let kind = evidence.said("SchedulerType", Some("sched/backfill"))?;
            right(&kind, kind.is("sched/backfill"))
        },
    },
    Rule {
        id: "interactive-without-limit",
        severity: High,
        title: "interactive sessions without an end",
        meaning: "a forgotten session holds its GPUs until somebody looks",
        cure: "MaxTime of hours and a shorter DefaultTime on the partition",
        page: Page::Man("slurm.conf", "MaxTime"),
        check: |evidence| of_partitions(evidence, true, "MaxTime"),
    },
    Rule {
        id: "no-max-time",
        severity: Medium,
        title: "jobs without an end",
        meaning: "a hanging job holds its GPUs for ever, nothing can be reserved behind it, and maintenance has to end it",
        cure: "MaxTime on the partition, as long as the longest honest job",
        page: Page::Man("slurm.conf", "MaxTime"),
        check: |evidence| of_partitions(evidence, false, "MaxTime"),
    },
    Rule {
        id: "no-default-time",
        severity: Medium,
        title: "a job that names no time gets the longest",
        meaning: "all such jobs look equally long, and backfill finds no hole for any of them",
        cure: "DefaultTime on the partition, short enough that people name their own",
        page: Page::Man("slurm.conf", "DefaultTime"),
        check: default_time,
    },
    Rule {
        id: "default-time-above-max",
        severity: High,
        title: "a job that names no time never starts",
        meaning: "its time is the partition's DefaultTime, which is more than the partition's MaxTime permits",
        cure: "DefaultTime of at most MaxTime",
        page: Page::Man("slurm.conf", "DefaultTime"),
        check: default_above_max,
    },
    Rule {
        id: "default-partition",
        severity: Medium,
        title: "not exactly one default partition",
        meaning: "without one a job that names no partition is refused; of several the last counts, which nobody sees in the file",
        cure: "Default=YES on one partition",
        page: Page::Man("slurm.conf", "Default"),
        check: default_partition,
    },
    Rule {
        id: "backfill-window-short",
        severity: Medium,
        title: "backfill does not look as far as jobs may run",
        meaning: "a large job behind long ones is never planned for, and smaller ones keep overtaking it",
        cure: "bf_window in SchedulerParameters at least the longest MaxTime in minutes, with a larger bf_resolution",
        page: Page::Man("slurm.conf", "SchedulerParameters"),
        check: window,
    },
    Rule {
        id: "impossible-jobs-wait",
        severity: Low,
        title: "jobs beyond a partition's limits wait for ever",
        meaning: "what can never start is accepted, and its owner finds out by waiting",
        cure: "EnforcePartLimits=ALL, or ANY",
        page: Page::Man("slurm.conf", "EnforcePartLimits"),
        check: |evidence| {
            let enforce = evidence.said("EnforcePartLimits", Some("NO"))?;
            right(&enforce, enforce.is("all") || enforce.is("any") || enforce.is("yes"))
        },
    },
    Rule {
        id: "partition-of-unknown-nodes",
        severity: High,
        title: "a partition names nodes that are not defined",
        meaning: "slurmctld refuses such a file, or the partition is smaller than it looks",
        cure: "a NodeName line for each, or another list in Nodes=",
        page: Page::Man("slurm.conf", "Nodes"),
        check: unknown_nodes,
    },
];

fn is_interactive(partition: &Record) -> bool {
    let name = partition.name.to_ascii_lowercase();
    name.split(['-', '_']).any(|word| INTERACTIVE.contains(&word))
}

/// Partitions of one kind whose limit is missing or endless.
fn of_partitions(evidence: &Evidence, interactive: bool, key: &str) -> Judged {
    let of_kind: Vec<&Record> = evidence
        .partitions()?
        .iter()
        .filter(|partition| is_interactive(partition) == interactive)
        .collect();
    if of_kind.is_empty() {
        return untested(match interactive {
            true => "a partition whose name says that it is interactive",
            false => "a partition that is not interactive",
        });
    }
    let endless = |partition: &&&Record| partition.get(key).and_then(minutes).is_none();
    let trip = |partition: &&Record| Trip {
        key: partition.name.clone(),
        says: match partition.get(key) {
            Some(value) => format!("partition {} has {key}={value}", partition.name),
            None => format!("partition {} has no {key}", partition.name),
        },
        place: Some(partition.place.clone()),
    };
    let pass = format!("{} partitions have {key}", of_kind.len());
    none_of(of_kind.iter().filter(endless).map(trip).collect(), pass)
}

/// Slurm prints NONE where there is none.
fn default_time(evidence: &Evidence) -> Judged {
    let partitions = evidence.partitions()?;
    let lacks = |partition: &&Record| partition.get("DefaultTime").and_then(minutes).is_none();
    let trip = |partition: &Record| Trip {
        key: partition.name.clone(),
        says: format!(
            "partition {} has no DefaultTime, its MaxTime is {}",
            partition.name,
            partition.get("MaxTime").unwrap_or("not set, either")
        ),
        place: Some(partition.place.clone()),
    };
    none_of(
        partitions.iter().filter(lacks).map(trip).collect(),
        format!("{} partitions have one", partitions.len()),
    )
}

fn default_above_max(evidence: &Evidence) -> Judged {
    let partitions = evidence.partitions()?;
    let trip = |partition: &Record| {
        let (default, max) = (partition.get("DefaultTime")?, partition.get("MaxTime")?);
        (minutes(default)? > minutes(max)?).then(|| Trip {
            key: partition.name.clone(),
            says: format!(
                "partition {} has DefaultTime={default} and MaxTime={max}",
                partition.name
            ),
            place: Some(partition.place.clone()),
        })
    };
    let trips = partitions.iter().filter_map(trip).collect();
    none_of(trips, format!("no DefaultTime of {} partitions is above MaxTime", partitions.len()))
}

fn default_partition(evidence: &Evidence) -> Judged {
    let partitions = evidence.partitions()?;
    let is_default = |partition: &&Record| {
        let word = partition.get("Default").unwrap_or_default();
        ["yes", "up", "true", "1"].iter().any(|yes| word.eq_ignore_ascii_case(yes))
    };
    let names: Vec<&Record> = partitions.iter().filter(is_default).collect();
    let trip = |says: String, place| vec![Trip { key: "default".to_owned(), says, place }];
    match names.as_slice() {
        [one] => none_of(Vec::new(), format!("{} is the default", one.name)),
        [] => none_of(
            trip(format!("none of {} partitions is the default", partitions.len()), None),
            "",
        ),
        [first, .., last] => none_of(
            trip(
                format!(
                    "{} partitions are the default, such as {} and {}",
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

fn window(evidence: &Evidence) -> Judged {
    /// A day, as the manual has it.
    const DEFAULT_MINUTES: u64 = 1440;
    let partitions = evidence.partitions()?;
    let parameters = evidence.said("SchedulerParameters", Some(""))?;
    let window = parameters.option("bf_window").and_then(|minutes| minutes.trim().parse().ok());
    let longest = partitions
        .iter()
        .filter_map(|partition| {
            Some((partition.get("MaxTime").and_then(minutes)?, &partition.name))
        })
        .max();
    let Some((longest, name)) = longest else {
        return untested("a partition with a MaxTime");
    };
    let shown = match window {
        Some(minutes) => format!("bf_window={minutes}"),
        None => format!("bf_window is not set; its default is {DEFAULT_MINUTES}"),
    };
    let says = format!("{shown} minutes, and partition {name} has a MaxTime of {longest}");
    let is_short = window.unwrap_or(DEFAULT_MINUTES) < longest;
    let trip = is_short.then(|| Trip {
        key: "bf_window".to_owned(),
        says: says.clone(),
        place: parameters.place.clone(),
    });
    none_of(trip.into_iter().collect(), says)
}

fn unknown_nodes(evidence: &Evidence) -> Judged {
    let nodes = evidence.nodes()?;
    let partitions = evidence.partitions()?;
    let known = |name: &str| nodes.iter().any(|node| node.name == name);
    let mut trips = Vec::new();
    for partition in partitions {
        let Some(names) = evidence.nodes_of(partition) else {
            return untested(format!(
                "a list of nodes of partition {} that can be read",
                partition.name
            ));
        };
        let unknown: Vec<String> = names.into_iter().filter(|name| !known(name)).collect();
        if let Some(first) = unknown.first() {
            trips.push(Trip {
                key: partition.name.clone(),
                says: format!(
                    "partition {} names {} unknown nodes, such as {first}",
                    partition.name,
                    unknown.len()
                ),
                place: Some(partition.place.clone()),
            });
        }
    }
    none_of(trips, format!("all nodes of {} partitions are defined", partitions.len()))
}
