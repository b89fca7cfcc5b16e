//! Rules on files that slurmctld refuses: it ends with `Unable to process configuration file`, and
//! a cluster whose controller is restarted with such a file is down. What depends on the machine,
//! such as users, host names and files that are named, is not looked at.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::CheckPlace;
use muster_model::check::Severity::High;

use crate::SourceKind;
use crate::conf::{Line, Pair};
use crate::evidence::{Evidence, Untested, untested};
use crate::grammar::{self, Keys, Takes, nearest, takes};
use crate::hosts::expand;
use crate::rule::{Judged, Page, Rule, Trip, none_of};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "line-not-understood",
        severity: High,
        title: "a line is no setting",
        meaning: "the daemon that reads the file ends with a parse error, and does not start again",
        cure: "KEY=VALUE, one setting a line in slurm.conf; several only behind NodeName, PartitionName, NodeSet and DownNodes; `#` begins a comment",
        page: Page::Man("slurm.conf", "DESCRIPTION"),
        check: not_understood,
    },
    Rule {
        id: "unknown-key",
        severity: High,
        title: "a key that Slurm does not have",
        meaning: "the daemon that reads the file ends with a parse error, and does not start again",
        cure: "the name as the manual spells it; a key of a newer release is known here and refused by an older daemon",
        page: Page::Man("slurm.conf", "PARAMETERS"),
        check: unknown_key,
    },
    Rule {
        id: "value-not-valid",
        severity: High,
        title: "a value that its key does not take",
        meaning: "the daemon that reads the file ends, and does not start again",
        cure: "a value of the kind that the manual names",
        page: Page::Man("slurm.conf", "PARAMETERS"),
        check: not_valid,
    },
    Rule {
        id: "defined-twice",
        severity: High,
        title: "a node, partition or switch is defined twice",
        meaning: "slurmctld ends with an error about the duplicate, and does not start again",
        cure: "one line for each; a NodeName or PartitionName line with DEFAULT holds what several have in common",
        page: Page::Man("slurm.conf", "NodeName"),
        check: defined_twice,
    },
    Rule {
        id: "include-not-found",
        severity: High,
        title: "an included file was not found",
        meaning: "slurmctld waits for the file and does not start",
        cure: "the file at this path, or no Include; where only the copy here lacks it, give it with --conf, too",
        page: Page::Man("slurm.conf", "DESCRIPTION"),
        check: include_missing,
    },
    Rule {
        id: "required-setting-missing",
        severity: High,
        title: "a setting is missing without which slurmctld does not start",
        meaning: "slurmctld ends, and does not start again",
        cure: "ClusterName, SlurmctldHost, at least one NodeName and one PartitionName",
        page: Page::Man("slurm.conf", "ClusterName"),
        check: required,
    },
    Rule {
        id: "settings-contradict",
        severity: High,
        title: "two settings that slurmctld refuses together",
        meaning: "slurmctld ends, and does not start again",
        cure: "change one of the two as the finding says",
        page: Page::Man("slurm.conf", "PreemptMode"),
        check: contradict,
    },
    Rule {
        id: "topology-refused",
        severity: High,
        title: "slurmctld refuses topology.conf",
        meaning: "slurmctld ends, and does not start again",
        cure: "each SwitchName line with either Nodes or Switches, each switch defined, and none below itself",
        page: Page::Man("topology.conf", "SwitchName"),
        check: topology,
    },
];

/// Lines of files that were given.
fn lines(evidence: &Evidence) -> Result<&[(SourceKind, Line)], Untested> {
    match evidence.lines.as_slice() {
        [] => untested("slurm.conf, or another file of Slurm"),
        some => Ok(some),
    }
}

/// Lines of slurm.conf, with what it includes.
fn of_conf(evidence: &Evidence) -> Result<Vec<&Line>, Untested> {
    let lines: Vec<&Line> = evidence
        .lines
        .iter()
        .filter(|(kind, _)| *kind == SourceKind::SlurmConf)
        .map(|(_, line)| line)
        .collect();
    if lines.is_empty() { untested("slurm.conf") } else { Ok(lines) }
}

/// Keys that a line may have; `None` for files that slurmctld and slurmdbd do not parse.
fn table(kind: SourceKind, line: &Line) -> Option<&'static [Keys]> {
    let first = line.pairs[0].key.to_ascii_lowercase();
    match kind {
        SourceKind::SlurmConf => Some(match first.as_str() {
            "nodename" => grammar::NODE,
            "partitionname" => grammar::PARTITION,
            "nodeset" => grammar::NODE_SET,
            "downnodes" => grammar::DOWN_NODES,
            _ => grammar::SETTINGS,
        }),
        SourceKind::CgroupConf => Some(grammar::CGROUP),
        SourceKind::SlurmdbdConf => Some(grammar::DBD),
        SourceKind::TopologyConf => Some(grammar::SWITCH),
        _ => None,
    }
}

/// Every pair that Slurm looks up, with the table that it is looked up in.
fn pairs(
    evidence: &Evidence,
) -> Result<impl Iterator<Item = (&'static [Keys], &Pair, &CheckPlace)>, Untested> {
    let of_line = |(kind, line): &'_ (SourceKind, Line)| table(*kind, line);
    Ok(lines(evidence)?.iter().filter_map(move |entry| Some((of_line(entry)?, entry))).flat_map(
        |(table, (_, line))| line.pairs.iter().map(move |pair| (table, pair, &line.place)),
    ))
}

fn trip(key: &str, says: String, place: &CheckPlace) -> Trip {
    Trip { key: key.to_ascii_lowercase(), says, place: Some(place.clone()) }
}

fn not_understood(evidence: &Evidence) -> Judged {
    let lines = lines(evidence)?;
    let odd = evidence.odd.iter().map(|(place, says)| trip(says, says.clone(), place));
    // Only lines that define something hold several settings.
    let is_crowded = |(kind, line): &&(SourceKind, Line)| {
        let defines = ["nodename", "partitionname", "nodeset", "downnodes"]
            .iter()
            .any(|word| line.pairs[0].key.eq_ignore_ascii_case(word));
        let is_plain = matches!(
            kind,
            SourceKind::SlurmConf | SourceKind::CgroupConf | SourceKind::SlurmdbdConf
        );
        is_plain && !defines && line.pairs.len() > 1
    };
    let crowded = lines.iter().filter(is_crowded).map(|(_, line)| {
        let [first, second, ..] = line.pairs.as_slice() else { unreachable!("it has two") };
        trip(
            &second.key,
            format!("{} stands behind {} on one line", second.key, first.key),
            &line.place,
        )
    });
    none_of(odd.chain(crowded).collect(), format!("{} lines", lines.len()))
}

fn unknown_key(evidence: &Evidence) -> Judged {
    let mut trips = Vec::new();
    let mut count = 0;
    for (table, pair, place) in pairs(evidence)? {
        count += 1;
        if takes(table, &pair.key).is_none() {
            let meant =
                nearest(table, &pair.key).map_or(String::new(), |name| format!("; {name} is one"));
            trips.push(trip(&pair.key, format!("{} is no key here{meant}", pair.key), place));
        }
    }
    none_of(trips, format!("{count} keys are known"))
}

fn not_valid(evidence: &Evidence) -> Judged {
    let mut trips = Vec::new();
    for (table, pair, place) in pairs(evidence)? {
        let Some(kind) = takes(table, &pair.key) else { continue };
        // The name of a node may be the word for what all have.
        let is_default = matches!(kind, Takes::Hosts) && pair.value.eq_ignore_ascii_case("default");
        if let Some(expected) = kind.refuses(&pair.value).filter(|_| !is_default) {
            trips.push(trip(&pair.key, format!("{}={}: {expected}", pair.key, pair.value), place));
        }
    }
    trips.extend(unknown_gres(evidence));
    trips.extend(unknown_licenses(evidence));
    trips.extend(out_of_range(evidence));
    none_of(trips, "every value is one that its key takes")
}

/// A generic resource that is recorded must be one that is managed.
fn unknown_gres(evidence: &Evidence) -> Option<Trip> {
    let recorded = evidence.said("AccountingStorageTRES", Some("")).ok()?;
    let managed = evidence.said("GresTypes", Some("")).ok()?;
    let name = |part: &str| {
        let (kind, name) = part.trim().split_once('/')?;
        kind.eq_ignore_ascii_case("gres")
            .then(|| name.split(':').next().unwrap_or_default().to_owned())
    };
    let odd = recorded
        .value
        .split(',')
        .filter_map(name)
        .find(|name| !name.is_empty() && !managed.lists(name))?;
    Some(Trip { says: format!("{}: GresTypes has no {odd}", recorded.text()), ..recorded.trip() })
}

/// `name`, `name:3` or `name@server:3`.
fn unknown_licenses(evidence: &Evidence) -> Option<Trip> {
    let licenses = evidence.said("Licenses", Some("")).ok()?;
    let is_odd =
        |part: &&str| part.split_once(':').is_some_and(|(_, count)| count.parse::<u32>().is_err());
    let odd = licenses.value.split(',').map(str::trim).find(is_odd)?;
    Some(Trip {
        says: format!("{}: `{odd}` has no number behind the colon", licenses.text()),
        ..licenses.trip()
    })
}

/// Numbers that are read as such, and refused.
fn out_of_range(evidence: &Evidence) -> Vec<Trip> {
    let mut trips = Vec::new();
    let mut said = |key: &str, is_odd: fn(&str) -> bool, why: &str| {
        if let Ok(said) = evidence.said(key, Some("")) {
            // What the running controller prints is in its own form.
            if said.place.is_some() && is_odd(&said.value) {
                trips.push(Trip { says: format!("{}: {why}", said.text()), ..said.trip() });
            }
        }
    };
    said("MaxJobCount", |value| value == "0", "no job is permitted");
    said("SlurmctldPort", |value| !is_port(value), "no port, or range of ports");
    trips
}

fn is_port(value: &str) -> bool {
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    [first, last].iter().all(|port| port.trim().parse::<u16>().is_ok_and(|port| port > 0))
}

fn defined_twice(evidence: &Evidence) -> Judged {
    let lines = lines(evidence)?;
    let mut seen: BTreeMap<(&str, String), &CheckPlace> = BTreeMap::new();
    let mut trips = Vec::new();
    for (kind, line) in lines {
        let Pair { key, value } = &line.pairs[0];
        let (what, names) = match (kind, key.to_ascii_lowercase().as_str()) {
            (SourceKind::SlurmConf, "nodename") => ("node", expand(value).unwrap_or_default()),
            (SourceKind::SlurmConf, "partitionname") => ("partition", vec![value.clone()]),
            (SourceKind::TopologyConf, "switchname") => ("switch", vec![value.clone()]),
            _ => continue,
        };
        for name in names.into_iter().filter(|name| !name.eq_ignore_ascii_case("default")) {
            if let Some(first) = seen.insert((what, name.clone()), &line.place) {
                let at = first.line.map_or(String::new(), |line| format!(" on line {line}"));
                trips.push(trip(
                    &name,
                    format!("{what} {name} is also defined in {}{at}", first.source),
                    &line.place,
                ));
            }
        }
    }
    none_of(trips, format!("{} names, each once", seen.len()))
}

fn include_missing(evidence: &Evidence) -> Judged {
    of_conf(evidence)?;
    let trips = evidence.missing.iter().map(|file| Trip {
        key: file.clone(),
        says: format!("Include {file}: there is no such file here, or it may not be read"),
        place: None,
    });
    none_of(trips.collect(), "every included file was read")
}

fn required(evidence: &Evidence) -> Judged {
    let lines = of_conf(evidence)?;
    if !evidence.missing.is_empty() {
        return untested(format!("{}, which slurm.conf includes", evidence.missing.join(", ")));
    }
    let has = |key: &str| {
        lines.iter().any(|line| {
            let Pair { key: own, value } = &line.pairs[0];
            own.eq_ignore_ascii_case(key) && !value.eq_ignore_ascii_case("default")
        })
    };
    let trips = ["ClusterName", "SlurmctldHost", "NodeName", "PartitionName"]
        .into_iter()
        .filter(|key| !(has(key) || *key == "SlurmctldHost" && has("ControlMachine")))
        .map(|key| Trip {
            key: key.to_ascii_lowercase(),
            says: format!("{key} is not set"),
            place: None,
        });
    none_of(trips.collect(), "ClusterName, SlurmctldHost, NodeName and PartitionName are set")
}

fn contradict(evidence: &Evidence) -> Judged {
    let lines = of_conf(evidence)?;
    let said = |key: &str, default: &str| evidence.said(key, Some(default));
    let mut trips = Vec::new();
    // 1. How jobs are preempted.
    let (kind, mode) = (said("PreemptType", "preempt/none")?, said("PreemptMode", "OFF")?);
    let modes: Vec<String> =
        mode.value.split(',').map(|word| word.trim().to_ascii_lowercase()).collect();
    let has = |word: &str| modes.iter().any(|mode| mode == word);
    let acts = ["cancel", "requeue", "suspend"].iter().any(|word| has(word));
    if kind.is("preempt/none") && acts {
        trips.push(Trip { says: format!("{}, but {}", mode.text(), kind.text()), ..mode.trip() });
    }
    if has("suspend") && !has("gang") {
        trips.push(Trip { says: format!("{} without GANG", mode.text()), ..mode.trip() });
    }
    // 2. What is given to jobs.
    let (select, by) = (said("SelectType", "select/cons_tres")?, said("SelectTypeParameters", "")?);
    let units: BTreeSet<String> =
        by.value.split(',').map(|word| word.trim().to_ascii_lowercase()).collect();
    let is_unit = |word: &&String| {
        let bare = word.trim_end_matches("_memory");
        matches!(bare, "cr_cpu" | "cr_core" | "cr_socket" | "cr_board")
    };
    let named: Vec<&String> = units.iter().filter(is_unit).collect();
    if named.len() > 1 || select.is("select/linear") && !named.is_empty() {
        trips.push(Trip { says: format!("{} with {}", by.text(), select.text()), ..by.trip() });
    }
    if named.is_empty() && units.contains("cr_memory") && !select.is("select/linear") {
        trips.push(Trip {
            says: format!("{} without a unit of processors", by.text()),
            ..by.trip()
        });
    }
    // 3. Numbers of jobs, and a log without a file.
    let (first, last) = (said("FirstJobId", "1")?, said("MaxJobId", "67043328")?);
    if first.number() > last.number() {
        trips.push(Trip { says: format!("{}, but {}", first.text(), last.text()), ..first.trip() });
    }
    let (level, file) = (said("SlurmSchedLogLevel", "0")?, said("SlurmSchedLogFile", "")?);
    if level.number() > Some(0) && file.value.is_empty() {
        trips.push(Trip {
            says: format!("{} without SlurmSchedLogFile", level.text()),
            ..level.trip()
        });
    }
    trips.extend(lines.iter().filter_map(|line| lists_differ(line)));
    none_of(trips, "no two exclude each other")
}

/// A node line whose lists are of different lengths.
fn lists_differ(line: &Line) -> Option<Trip> {
    let names = line.get("NodeName").and_then(expand)?;
    let odd = ["NodeAddr", "NodeHostname", "Port"].into_iter().find_map(|key| {
        let value = line.get(key)?;
        let list = expand(value)?;
        // One address or port may be of all.
        (list.len() != names.len() && list.len() > 1).then_some((key, value, list.len()))
    });
    let (key, value, count) = odd?;
    Some(trip(
        key,
        format!("{key}={value} has {count} entries for {} nodes", names.len()),
        &line.place,
    ))
}

fn topology(evidence: &Evidence) -> Judged {
    let Some(switches) = &evidence.switches else { return untested("topology.conf") };
    let lines: Vec<(&str, &Line)> =
        switches.iter().filter_map(|line| Some((line.get("SwitchName")?, line))).collect();
    let mut trips = Vec::new();
    let names: BTreeSet<&str> = lines.iter().map(|(name, _)| *name).collect();
    let below: BTreeMap<&str, Vec<String>> = lines
        .iter()
        .map(|(name, line)| (*name, line.get("Switches").and_then(expand).unwrap_or_default()))
        .collect();
    for (name, line) in &lines {
        let (nodes, children) = (line.get("Nodes"), line.get("Switches"));
        if nodes.is_some() == children.is_some() {
            let what = if nodes.is_some() {
                "both Nodes and Switches"
            } else {
                "neither Nodes nor Switches"
            };
            trips.push(trip(name, format!("switch {name} has {what}"), &line.place));
        }
        if let Some(odd) = below[name].iter().find(|child| !names.contains(child.as_str())) {
            trips.push(trip(
                name,
                format!("switch {name} has {odd} below it, which is not defined"),
                &line.place,
            ));
        }
        if reaches(&below, name, name) {
            trips.push(trip(name, format!("switch {name} is below itself"), &line.place));
        }
    }
    none_of(trips, format!("{} switches", lines.len()))
}

/// True when one switch is somewhere below another.
fn reaches(below: &BTreeMap<&str, Vec<String>>, from: &str, to: &str) -> bool {
    let mut open: Vec<&str> = vec![from];
    let mut seen = BTreeSet::new();
    while let Some(at) = open.pop() {
        for child in below.get(at).into_iter().flatten() {
            if child == to {
                return true;
            }
            if seen.insert(child.as_str()) {
                open.push(child);
            }
        }
    }
    false
}
