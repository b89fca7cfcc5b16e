//! Rules on jobs that have to go: whether they are told, and whether they come back.

use std::collections::BTreeSet;

use muster_model::check::Severity::{High, Low, Medium};

use crate::evidence::{Evidence, Record, Said, Untested, untested};
use crate::rule::{Judged, Page, Rule, Trip, none_of, right};

/// Longer waits before a requeued job may start are hardly meant; the manual's default is two
/// minutes.
const LONG_WAIT_SECS: u64 = 600;
/// The manual's default, which it calls short for prologs.
const SHORT_START_SECS: u64 = 10;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "preempt-mode-off",
        severity: High,
        title: "preemption is asked for and off",
        meaning: "PreemptType is not compatible with PreemptMode=OFF: nobody ever makes room",
        cure: "PreemptMode=REQUEUE, or PreemptType=preempt/none",
        page: Page::Man("slurm.conf", "PreemptMode"),
        check: mode_off,
    },
    Rule {
        id: "preempt-without-grace",
        severity: Medium,
        title: "jobs are preempted without a warning",
        meaning: "there is no time between the signal and the end to write a checkpoint; all work since the last is lost",
        cure: "GraceTime of a minute or more on every partition or quality of service that can be preempted",
        page: Page::Man("slurm.conf", "GraceTime"),
        check: without_grace,
    },
    Rule {
        id: "preempted-jobs-cancelled",
        severity: Medium,
        title: "preempted jobs are cancelled instead of requeued",
        meaning: "jobs are requeued if they may be, and cancelled if not; here only those with --requeue may",
        cure: "JobRequeue=1",
        page: Page::Man("slurm.conf", "PreemptMode"),
        check: cancelled,
    },
    Rule {
        id: "requeue-off",
        severity: Medium,
        title: "a failed node ends its jobs",
        meaning: "batch jobs are not requeued after a node failure unless their owner asked with --requeue",
        cure: "JobRequeue=1; a job that must not run twice says --no-requeue",
        page: Page::Man("slurm.conf", "JobRequeue"),
        check: |evidence| {
            let requeue = evidence.said("JobRequeue", Some("1"))?;
            right(&requeue, requeue.number() != Some(0))
        },
    },
    Rule {
        id: "requeued-jobs-wait",
        severity: Medium,
        title: "requeued jobs wait long before they may start",
        meaning: "cred_expire is also how long a requeued job must wait: with 3600 a preempted job idles for an hour beside free GPUs",
        cure: "cred_expire in AuthInfo of 120 or less, as long as prologs allow",
        page: Page::Man("slurm.conf", "AuthInfo"),
        check: requeue_waits,
    },
    Rule {
        id: "slow-start-requeues",
        severity: Low,
        title: "a slow prolog loses jobs",
        meaning: "a batch job that has not started in time counts as missing and gives its nodes back",
        cure: "BatchStartTimeout longer than the slowest prolog, such as 120",
        page: Page::Man("slurm.conf", "BatchStartTimeout"),
        check: slow_start,
    },
    Rule {
        id: "prolog-without-end",
        severity: Low,
        title: "a hanging prolog or epilog hangs for ever",
        meaning: "its job stays in CONFIGURING or COMPLETING with all its GPUs until somebody looks",
        cure: "PrologEpilogTimeout, such as 300",
        page: Page::Man("slurm.conf", "PrologEpilogTimeout"),
        check: endless_prolog,
    },
    Rule {
        id: "invalid-dependencies-wait",
        severity: Low,
        title: "jobs whose dependency can never hold wait for ever",
        meaning: "they stay pending with DependencyNeverSatisfied until somebody cancels them",
        cure: "DependencyParameters=kill_invalid_depend",
        page: Page::Man("slurm.conf", "DependencyParameters"),
        check: |evidence| {
            let parameters = evidence.said("DependencyParameters", Some(""))?;
            right(&parameters, parameters.lists("kill_invalid_depend"))
        },
    },
];

/// The type of preemption, where there is any.
fn preempts(evidence: &Evidence) -> Result<Said, Untested> {
    let kind = evidence.said("PreemptType", Some("preempt/none"))?;
    match kind.value.is_empty() || kind.is("preempt/none") {
        true => untested("preemption (PreemptType): the rule is about it"),
        false => Ok(kind),
    }
}

fn mode_off(evidence: &Evidence) -> Judged {
    let kind = preempts(evidence)?;
    let mode = evidence.said("PreemptMode", Some("OFF"))?;
    let says = format!("{}, and {}", kind.text(), mode.text());
    let is_off = mode.value.split(',').all(|word| word.trim().eq_ignore_ascii_case("off"));
    let trip = is_off.then(|| Trip { says: says.clone(), ..mode.trip() });
    none_of(trip.into_iter().collect(), says)
}

/// Who can be preempted is said by partitions or by qualities of service, by the type of
/// preemption.
fn without_grace(evidence: &Evidence) -> Judged {
    let kind = preempts(evidence)?;
    let mode = evidence.said("PreemptMode", Some("OFF"))?;
    if !mode.lists("requeue") && !mode.lists("cancel") {
        return untested(format!("PreemptMode=REQUEUE or CANCEL: {}", mode.text()));
    }
    let (what, victims): (&str, Vec<&Record>) = match kind.is("preempt/qos") {
        true => ("quality of service", preempted_qos(evidence)?),
        false => {
            let tier = |partition: &Record| {
                partition.get("PriorityTier").and_then(|tier| tier.parse::<u64>().ok()).unwrap_or(1)
            };
            let partitions = evidence.partitions()?;
            let highest = partitions.iter().map(tier).max();
            (
                "partition",
                partitions.iter().filter(|partition| Some(tier(partition)) < highest).collect(),
            )
        }
    };
    let grace = |victim: &&&Record| {
        let text = victim.get("GraceTime").unwrap_or_default();
        !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
    };
    let trip = |victim: &&Record| Trip {
        key: victim.name.clone(),
        says: format!("{what} {} can be preempted and has no GraceTime", victim.name),
        place: Some(victim.place.clone()),
    };
    let pass = match victims.len() {
        0 => format!("no {what} can be preempted"),
        count => format!("all that can be preempted have a GraceTime: {count}"),
    };
    none_of(victims.iter().filter(grace).map(trip).collect(), pass)
}

fn preempted_qos(evidence: &Evidence) -> Result<Vec<&Record>, Untested> {
    let Some(qos) = &evidence.qos else {
        return untested(
            "the output of `sacctmgr -P show qos format=Name,GraceTime,Preempt,PreemptMode`",
        );
    };
    let names: BTreeSet<&str> =
        qos.iter().filter_map(|qos| qos.get("Preempt")).flat_map(|list| list.split(',')).collect();
    Ok(qos.iter().filter(|qos| names.contains(qos.name.as_str())).collect())
}

fn cancelled(evidence: &Evidence) -> Judged {
    preempts(evidence)?;
    let mode = evidence.said("PreemptMode", Some("OFF"))?;
    let requeue = evidence.said("JobRequeue", Some("1"))?;
    let says = format!("{}, and {}", mode.text(), requeue.text());
    let is_wrong = mode.lists("requeue") && requeue.number() == Some(0);
    let trip = is_wrong.then(|| Trip { says: says.clone(), ..requeue.trip() });
    none_of(trip.into_iter().collect(), says)
}

fn requeue_waits(evidence: &Evidence) -> Judged {
    let info = evidence.said("AuthInfo", Some(""))?;
    let seconds = info.option("cred_expire").and_then(|text| text.trim().parse::<u64>().ok());
    let says = match seconds {
        Some(seconds) => format!("cred_expire={seconds} seconds"),
        None => "cred_expire is not set; its default is 120 seconds".to_owned(),
    };
    let trip = (seconds >= Some(LONG_WAIT_SECS)).then(|| Trip {
        key: "cred_expire".to_owned(),
        says: says.clone(),
        place: info.place.clone(),
    });
    none_of(trip.into_iter().collect(), says)
}

/// A prolog or epilog, where there is one.
fn prolog(evidence: &Evidence, keys: &[&str]) -> Result<Said, Untested> {
    for key in keys {
        let said = evidence.said(key, Some(""))?;
        if !said.value.is_empty() {
            return Ok(said);
        }
    }
    untested(format!("a {}: the rule is about it", keys.join(" or ")))
}

fn slow_start(evidence: &Evidence) -> Judged {
    let prolog = prolog(evidence, &["Prolog", "PrologSlurmctld"])?;
    let timeout = evidence.said("BatchStartTimeout", Some("10"))?;
    let says = format!("{}, and {}", prolog.text(), timeout.text());
    let is_short = timeout.number() <= Some(SHORT_START_SECS);
    let trip = is_short.then(|| Trip { says: says.clone(), ..timeout.trip() });
    none_of(trip.into_iter().collect(), says)
}

/// Slurm prints 65534 where none is set.
fn endless_prolog(evidence: &Evidence) -> Judged {
    let prolog = prolog(evidence, &["Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"])?;
    let timeout = evidence.said("PrologEpilogTimeout", Some("65534"))?;
    let says = format!("{}, and {}", prolog.text(), timeout.text());
    let is_endless = timeout.number().is_none_or(|seconds| seconds >= 65534 || seconds == 0);
    let trip = is_endless.then(|| Trip { says: says.clone(), ..timeout.trip() });
    none_of(trip.into_iter().collect(), says)
}
