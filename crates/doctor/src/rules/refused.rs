//! Rules on files that slurmctld rejects with `Unable to process configuration file`: after a
//! restart with such a file the cluster has no controller. Properties of the machine, such as
//! users, host names and named files, are not checked.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::CheckPlace;
use muster_model::check::Severity::High;
use muster_model::hostlist::expand;

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, fail_if_any};
use muster_slurm::conf::evidence::{Evidence, MissingInput, needs_input};
use muster_slurm::conf::grammar::{self, KeyGroup, ValueKind, nearest, takes};
use muster_slurm::conf::source::SourceKind;
use muster_slurm::conf::{ConfLine, ConfPair};

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "line-not-understood",
        severity: High,
        title: "a line is not a setting",
        meaning: "the daemon that reads the file ends with a parse error, and cannot be restarted",
        cure: "KEY=VALUE, one setting a line in slurm.conf; several only after NodeName, PartitionName, NodeSet and DownNodes; `#` begins a comment",
        page: DocPage::Man("slurm.conf", "DESCRIPTION"),
        check: not_understood,
    },
    CheckRule {
        id: "unknown-key",
        severity: High,
        title: "a key that Slurm does not have",
        meaning: "the daemon that reads the file ends with a parse error, and cannot be restarted",
        cure: "the key as spelt in the manual; older daemons reject keys of newer releases, which are not reported here",
        page: DocPage::Man("slurm.conf", "PARAMETERS"),
        check: unknown_key,
    },
    CheckRule {
        id: "value-not-valid",
        severity: High,
        title: "a value that is not valid for its key",
        meaning: "the daemon that reads the file ends, and cannot be restarted",
        cure: "a value as described in the manual",
        page: DocPage::Man("slurm.conf", "PARAMETERS"),
        check: not_valid,
    },
    CheckRule {
        id: "defined-twice",
        severity: High,
        title: "a node, partition or switch is defined twice",
        meaning: "slurmctld ends with an error about the duplicate, and cannot be restarted",
        cure: "one line for each; use a NodeName or PartitionName line with DEFAULT for common settings",
        page: DocPage::Man("slurm.conf", "NodeName"),
        check: defined_twice,
    },
    CheckRule {
        id: "include-not-found",
        severity: High,
        title: "an included file was not found",
        meaning: "slurmctld waits for the file and does not start",
        cure: "create the file at this path, or remove the Include; if it is missing only in the copy that is checked, add it with --conf",
        page: DocPage::Man("slurm.conf", "DESCRIPTION"),
        check: include_missing,
    },
    CheckRule {
        id: "required-setting-missing",
        severity: High,
        title: "a setting that slurmctld requires is missing",
        meaning: "slurmctld ends, and cannot be restarted",
        cure: "ClusterName, SlurmctldHost, at least one NodeName and one PartitionName",
        page: DocPage::Man("slurm.conf", "ClusterName"),
        check: required,
    },
    CheckRule {
        id: "settings-contradict",
        severity: High,
        title: "two settings that slurmctld rejects together",
        meaning: "slurmctld ends, and cannot be restarted",
        cure: "change one of the two settings in the finding",
        page: DocPage::Man("slurm.conf", "PreemptMode"),
        check: contradictions,
    },
    CheckRule {
        id: "topology-refused",
        severity: High,
        title: "slurmctld rejects topology.conf",
        meaning: "slurmctld ends, and cannot be restarted",
        cure: "each SwitchName line with either Nodes or Switches, each switch defined, and none below itself",
        page: DocPage::Man("topology.conf", "SwitchName"),
        check: topology,
    },
];

/// Returns the lines of the given files.
fn lines(evidence: &Evidence) -> Result<&[(SourceKind, ConfLine)], MissingInput> {
    match evidence.lines.as_slice() {
        [] => needs_input("slurm.conf, or another of Slurm's configuration files"),
        some => Ok(some),
    }
}

/// Returns the lines of slurm.conf, with its includes.
fn of_conf(evidence: &Evidence) -> Result<Vec<&ConfLine>, MissingInput> {
    let lines: Vec<&ConfLine> = evidence
        .lines
        .iter()
        .filter(|(kind, _)| *kind == SourceKind::SlurmConf)
        .map(|(_, line)| line)
        .collect();
    if lines.is_empty() { needs_input("slurm.conf") } else { Ok(lines) }
}

/// Returns the keys that a line can have; `None` for files that slurmctld and slurmdbd do not
/// parse.
fn table(kind: SourceKind, line: &ConfLine) -> Option<&'static [KeyGroup]> {
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

/// Returns every pair that Slurm looks up, with the table of its keys.
fn pairs(
    evidence: &Evidence,
) -> Result<impl Iterator<Item = (&'static [KeyGroup], &ConfPair, &CheckPlace)>, MissingInput> {
    let of_line = |(kind, line): &'_ (SourceKind, ConfLine)| table(*kind, line);
    Ok(lines(evidence)?.iter().filter_map(move |entry| Some((of_line(entry)?, entry))).flat_map(
        |(table, (_, line))| line.pairs.iter().map(move |pair| (table, pair, &line.place)),
    ))
}

fn finding(key: &str, says: String, place: &CheckPlace) -> RuleFinding {
    RuleFinding { key: key.to_ascii_lowercase(), says, place: Some(place.clone()) }
}

fn not_understood(evidence: &Evidence) -> RuleResult {
    let lines = lines(evidence)?;
    let odd =
        evidence.not_understood.iter().map(|(place, says)| finding(says, says.clone(), place));
    // Only lines that define something can have several settings.
    let is_crowded = |(kind, line): &&(SourceKind, ConfLine)| {
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
        finding(
            &second.key,
            format!("{} follows {} on the same line", second.key, first.key),
            &line.place,
        )
    });
    fail_if_any(odd.chain(crowded).collect(), format!("{} lines", lines.len()))
}

fn unknown_key(evidence: &Evidence) -> RuleResult {
    let mut findings = Vec::new();
    let mut count = 0;
    for (table, pair, place) in pairs(evidence)? {
        count += 1;
        if takes(table, &pair.key).is_none() {
            let meant = nearest(table, &pair.key)
                .map_or(String::new(), |name| format!("; did you mean {name}?"));
            findings.push(finding(
                &pair.key,
                format!("{} is not a key of this line{meant}", pair.key),
                place,
            ));
        }
    }
    fail_if_any(findings, format!("{count} keys are known"))
}

fn not_valid(evidence: &Evidence) -> RuleResult {
    let mut findings = Vec::new();
    for (table, pair, place) in pairs(evidence)? {
        let Some(kind) = takes(table, &pair.key) else { continue };
        // The name of a node may be the keyword for defaults.
        let is_default =
            matches!(kind, ValueKind::Hosts) && pair.value.eq_ignore_ascii_case("default");
        if let Some(expected) = kind.expected_form(&pair.value).filter(|_| !is_default) {
            findings.push(finding(
                &pair.key,
                format!("{}={}: {expected}", pair.key, pair.value),
                place,
            ));
        }
    }
    findings.extend(unknown_gres(evidence));
    findings.extend(unknown_licenses(evidence));
    findings.extend(out_of_range(evidence));
    fail_if_any(findings, "every value is valid for its key")
}

/// Finds a generic resource that is recorded but not managed.
fn unknown_gres(evidence: &Evidence) -> Option<RuleFinding> {
    let recorded = evidence.conf_setting("AccountingStorageTRES", Some("")).ok()?;
    let managed = evidence.conf_setting("GresTypes", Some("")).ok()?;
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
    Some(RuleFinding {
        says: format!("{}: GresTypes has no {odd}", recorded.text()),
        ..RuleFinding::of(&recorded)
    })
}

/// Checks the format `name`, `name:3` or `name@server:3`.
fn unknown_licenses(evidence: &Evidence) -> Option<RuleFinding> {
    let licenses = evidence.conf_setting("Licenses", Some("")).ok()?;
    let is_odd =
        |part: &&str| part.split_once(':').is_some_and(|(_, count)| count.parse::<u32>().is_err());
    let odd = licenses.value.split(',').map(str::trim).find(is_odd)?;
    Some(RuleFinding {
        says: format!("{}: `{odd}` has no number after the colon", licenses.text()),
        ..RuleFinding::of(&licenses)
    })
}

/// Finds numbers that are well-formed but out of range.
fn out_of_range(evidence: &Evidence) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    let mut said = |key: &str, is_odd: fn(&str) -> bool, why: &str| {
        if let Ok(said) = evidence.conf_setting(key, Some("")) {
            // The running controller prints values in its own format.
            if said.place.is_some() && is_odd(&said.value) {
                findings.push(RuleFinding {
                    says: format!("{}: {why}", said.text()),
                    ..RuleFinding::of(&said)
                });
            }
        }
    };
    said("MaxJobCount", |value| value == "0", "no job is allowed");
    said("SlurmctldPort", |value| !is_port(value), "not a port or range of ports");
    findings
}

fn is_port(value: &str) -> bool {
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    [first, last].iter().all(|port| port.trim().parse::<u16>().is_ok_and(|port| port > 0))
}

fn defined_twice(evidence: &Evidence) -> RuleResult {
    let lines = lines(evidence)?;
    let mut seen: BTreeMap<(&str, String), &CheckPlace> = BTreeMap::new();
    let mut findings = Vec::new();
    for (kind, line) in lines {
        let ConfPair { key, value } = &line.pairs[0];
        let (what, names) = match (kind, key.to_ascii_lowercase().as_str()) {
            (SourceKind::SlurmConf, "nodename") => ("node", expand(value).unwrap_or_default()),
            (SourceKind::SlurmConf, "partitionname") => ("partition", vec![value.clone()]),
            (SourceKind::TopologyConf, "switchname") => ("switch", vec![value.clone()]),
            _ => continue,
        };
        for name in names.into_iter().filter(|name| !name.eq_ignore_ascii_case("default")) {
            if let Some(first) = seen.insert((what, name.clone()), &line.place) {
                let at = first.line.map_or(String::new(), |line| format!(" on line {line}"));
                findings.push(finding(
                    &name,
                    format!("{what} {name} is also defined in {}{at}", first.source),
                    &line.place,
                ));
            }
        }
    }
    fail_if_any(findings, format!("{} names, each defined once", seen.len()))
}

fn include_missing(evidence: &Evidence) -> RuleResult {
    of_conf(evidence)?;
    let findings = evidence.missing.iter().map(|file| RuleFinding {
        key: file.clone(),
        says: format!("Include {file}: the file is missing or not readable"),
        place: None,
    });
    fail_if_any(findings.collect(), "every included file was read")
}

fn required(evidence: &Evidence) -> RuleResult {
    let lines = of_conf(evidence)?;
    if !evidence.missing.is_empty() {
        return needs_input(format!("{}, which slurm.conf includes", evidence.missing.join(", ")));
    }
    let has = |key: &str| {
        lines.iter().any(|line| {
            let ConfPair { key: own, value } = &line.pairs[0];
            own.eq_ignore_ascii_case(key) && !value.eq_ignore_ascii_case("default")
        })
    };
    let findings = ["ClusterName", "SlurmctldHost", "NodeName", "PartitionName"]
        .into_iter()
        .filter(|key| !(has(key) || *key == "SlurmctldHost" && has("ControlMachine")))
        .map(|key| RuleFinding {
            key: key.to_ascii_lowercase(),
            says: format!("{key} is not set"),
            place: None,
        });
    fail_if_any(
        findings.collect(),
        "ClusterName, SlurmctldHost, NodeName and PartitionName are set",
    )
}

fn contradictions(evidence: &Evidence) -> RuleResult {
    let lines = of_conf(evidence)?;
    let said = |key: &str, default: &str| evidence.conf_setting(key, Some(default));
    let mut findings = Vec::new();
    // 1. Preemption.
    let kind = said("PreemptType", "preempt/none")?;
    let mode = said("PreemptMode", "OFF")?;
    let modes: Vec<String> =
        mode.value.split(',').map(|word| word.trim().to_ascii_lowercase()).collect();
    let has = |word: &str| modes.iter().any(|mode| mode == word);
    let acts = ["cancel", "requeue", "suspend"].iter().any(|word| has(word));
    if kind.is("preempt/none") && acts {
        findings.push(RuleFinding {
            says: format!("{}, but {}", mode.text(), kind.text()),
            ..RuleFinding::of(&mode)
        });
    }
    if has("suspend") && !has("gang") {
        findings.push(RuleFinding {
            says: format!("{} without GANG", mode.text()),
            ..RuleFinding::of(&mode)
        });
    }
    // 2. Resource selection.
    let select = said("SelectType", "select/cons_tres")?;
    let by = said("SelectTypeParameters", "")?;
    let units: BTreeSet<String> =
        by.value.split(',').map(|word| word.trim().to_ascii_lowercase()).collect();
    let is_unit = |word: &&String| {
        let bare = word.trim_end_matches("_memory");
        matches!(bare, "cr_cpu" | "cr_core" | "cr_socket" | "cr_board")
    };
    let named: Vec<&String> = units.iter().filter(is_unit).collect();
    if named.len() > 1 || select.is("select/linear") && !named.is_empty() {
        findings.push(RuleFinding {
            says: format!("{} with {}", by.text(), select.text()),
            ..RuleFinding::of(&by)
        });
    }
    if named.is_empty() && units.contains("cr_memory") && !select.is("select/linear") {
        findings.push(RuleFinding {
            says: format!("{} without a processor unit", by.text()),
            ..RuleFinding::of(&by)
        });
    }
    // 3. Job numbers, and a log without a file.
    let first = said("FirstJobId", "1")?;
    let last = said("MaxJobId", "67043328")?;
    if first.number() > last.number() {
        findings.push(RuleFinding {
            says: format!("{}, but {}", first.text(), last.text()),
            ..RuleFinding::of(&first)
        });
    }
    let level = said("SlurmSchedLogLevel", "0")?;
    let file = said("SlurmSchedLogFile", "")?;
    if level.number() > Some(0) && file.value.is_empty() {
        findings.push(RuleFinding {
            says: format!("{} without SlurmSchedLogFile", level.text()),
            ..RuleFinding::of(&level)
        });
    }
    findings.extend(lines.iter().filter_map(|line| lists_differ(line)));
    fail_if_any(findings, "no two settings contradict each other")
}

/// Finds a node line whose lists have different lengths.
fn lists_differ(line: &ConfLine) -> Option<RuleFinding> {
    let names = line.get("NodeName").and_then(|list| expand(list).ok())?;
    let odd = ["NodeAddr", "NodeHostname", "Port"].into_iter().find_map(|key| {
        let value = line.get(key)?;
        let list = expand(value).ok()?;
        // One address or port may apply to all nodes.
        (list.len() != names.len() && list.len() > 1).then_some((key, value, list.len()))
    });
    let (key, value, count) = odd?;
    Some(finding(
        key,
        format!("{key}={value} has {count} entries for {} nodes", names.len()),
        &line.place,
    ))
}

fn topology(evidence: &Evidence) -> RuleResult {
    let Some(switches) = &evidence.switches else { return needs_input("topology.conf") };
    let lines: Vec<(&str, &ConfLine)> =
        switches.iter().filter_map(|line| Some((line.get("SwitchName")?, line))).collect();
    let mut findings = Vec::new();
    let names: BTreeSet<&str> = lines.iter().map(|(name, _)| *name).collect();
    let below: BTreeMap<&str, Vec<String>> = lines
        .iter()
        .map(|(name, line)| {
            (*name, line.get("Switches").and_then(|list| expand(list).ok()).unwrap_or_default())
        })
        .collect();
    for (name, line) in &lines {
        let nodes = line.get("Nodes");
        let children = line.get("Switches");
        if nodes.is_some() == children.is_some() {
            let what = if nodes.is_some() {
                "both Nodes and Switches"
            } else {
                "neither Nodes nor Switches"
            };
            findings.push(finding(name, format!("switch {name} has {what}"), &line.place));
        }
        if let Some(odd) = below[name].iter().find(|child| !names.contains(child.as_str())) {
            findings.push(finding(
                name,
                format!("switch {name} lists {odd}, which is not defined"),
                &line.place,
            ));
        }
        if reaches(&below, name, name) {
            findings.push(finding(name, format!("switch {name} is below itself"), &line.place));
        }
    }
    fail_if_any(findings, format!("{} switches", lines.len()))
}

/// Returns whether one switch is below another, directly or indirectly.
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
