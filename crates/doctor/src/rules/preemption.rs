//! Rules on preempted, failed and requeued jobs: their warning, and their restart.

use std::collections::BTreeSet;

use muster_model::check::Severity::{High, Low, Medium};

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::evidence::{ConfRecord, ConfSetting, Evidence, MissingInput, needs_input};

/// Maximum sensible delay in seconds of a requeued job; Slurm's default is two minutes.
const LONG_WAIT_SECS: u64 = 600;
/// Slurm's default in seconds, which the manual calls short for prologs.
const SHORT_START_SECS: u64 = 10;

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "preempt-mode-off",
        severity: High,
        title: "preemption is configured but off",
        meaning: "PreemptType has no effect with PreemptMode=OFF: no job is ever preempted",
        cure: "PreemptMode=REQUEUE, or PreemptType=preempt/none",
        page: DocPage::Man("slurm.conf", "PreemptMode"),
        check: mode_off,
    },
    CheckRule {
        id: "preempt-without-grace",
        severity: Medium,
        title: "jobs are preempted without a warning",
        meaning: "there is no time between the signal and the end to write a checkpoint; all work since the last is lost",
        cure: "GraceTime of a minute or more on every partition or QOS that can be preempted",
        page: DocPage::Man("slurm.conf", "GraceTime"),
        check: without_grace,
    },
    CheckRule {
        id: "preempted-jobs-cancelled",
        severity: Medium,
        title: "preempted jobs are cancelled instead of requeued",
        meaning: "a job that may not be requeued is cancelled; here only jobs submitted with --requeue may",
        cure: "JobRequeue=1",
        page: DocPage::Man("slurm.conf", "PreemptMode"),
        check: cancelled,
    },
    CheckRule {
        id: "requeue-off",
        severity: Medium,
        title: "a failed node ends its jobs",
        meaning: "batch jobs are not requeued after a node failure unless they were submitted with --requeue",
        cure: "JobRequeue=1; a job that must not run twice uses --no-requeue",
        page: DocPage::Man("slurm.conf", "JobRequeue"),
        check: |evidence| {
            let requeue = evidence.conf_setting("JobRequeue", Some("1"))?;
            check_setting(&requeue, requeue.number() != Some(0))
        },
    },
    CheckRule {
        id: "requeued-jobs-wait",
        severity: Medium,
        title: "requeued jobs wait long before they can start",
        meaning: "cred_expire is also how long a requeued job must wait: with 3600 a preempted job idles for an hour beside free GPUs",
        cure: "cred_expire in AuthInfo of 120 or less, if prologs are fast enough",
        page: DocPage::Man("slurm.conf", "AuthInfo"),
        check: requeue_waits,
    },
    CheckRule {
        id: "slow-start-requeues",
        severity: Low,
        title: "a slow prolog makes jobs fail",
        meaning: "a batch job that has not started in time counts as missing, and its allocation is released",
        cure: "BatchStartTimeout longer than the slowest prolog, such as 120",
        page: DocPage::Man("slurm.conf", "BatchStartTimeout"),
        check: slow_start,
    },
    CheckRule {
        id: "prolog-without-end",
        severity: Low,
        title: "a hanging prolog or epilog has no timeout",
        meaning: "its job stays in CONFIGURING or COMPLETING with all its GPUs until an administrator intervenes",
        cure: "PrologEpilogTimeout, such as 300",
        page: DocPage::Man("slurm.conf", "PrologEpilogTimeout"),
        check: endless_prolog,
    },
    CheckRule {
        id: "invalid-dependencies-wait",
        severity: Low,
        title: "jobs whose dependency can never be met stay pending",
        meaning: "they stay pending with DependencyNeverSatisfied until they are cancelled",
        cure: "DependencyParameters=kill_invalid_depend",
        page: DocPage::Man("slurm.conf", "DependencyParameters"),
        check: |evidence| {
            let parameters = evidence.conf_setting("DependencyParameters", Some(""))?;
            check_setting(&parameters, parameters.lists("kill_invalid_depend"))
        },
    },
];

/// Returns the type of preemption, where there is any.
fn preempts(evidence: &Evidence) -> Result<ConfSetting, MissingInput> {
    let kind = evidence.conf_setting("PreemptType", Some("preempt/none"))?;
    if kind.value.is_empty() || kind.is("preempt/none") {
        needs_input("preemption (PreemptType)")
    } else {
        Ok(kind)
    }
}

fn mode_off(evidence: &Evidence) -> RuleResult {
    let kind = preempts(evidence)?;
    let mode = evidence.conf_setting("PreemptMode", Some("OFF"))?;
    let says = format!("{}, and {}", kind.text(), mode.text());
    let is_off = mode.value.split(',').all(|word| word.trim().eq_ignore_ascii_case("off"));
    let finding = is_off.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&mode) });
    fail_if_any(finding.into_iter().collect(), says)
}

/// Finds preemptible partitions or QOS, depending on the type of preemption, without a grace time.
fn without_grace(evidence: &Evidence) -> RuleResult {
    let kind = preempts(evidence)?;
    let mode = evidence.conf_setting("PreemptMode", Some("OFF"))?;
    if !mode.lists("requeue") && !mode.lists("cancel") {
        return needs_input(format!("PreemptMode=REQUEUE or CANCEL: {}", mode.text()));
    }
    let (what, victims): (&str, Vec<&ConfRecord>) = if kind.is("preempt/qos") {
        ("QOS", preempted_qos(evidence)?)
    } else {
        let tier = |partition: &ConfRecord| {
            partition.get("PriorityTier").and_then(|tier| tier.parse::<u64>().ok()).unwrap_or(1)
        };
        let partitions = evidence.partitions()?;
        let highest = partitions.iter().map(tier).max();
        (
            "partition",
            partitions.iter().filter(|partition| Some(tier(partition)) < highest).collect(),
        )
    };
    let grace = |victim: &&&ConfRecord| {
        let text = victim.get("GraceTime").unwrap_or_default();
        !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
    };
    let finding = |victim: &&ConfRecord| RuleFinding {
        key: victim.name.clone(),
        says: format!("{what} {} can be preempted and has no GraceTime", victim.name),
        place: Some(victim.place.clone()),
    };
    let pass = match victims.len() {
        0 => format!("no {what} can be preempted"),
        count => format!("all {count} that can be preempted have a GraceTime"),
    };
    fail_if_any(victims.iter().filter(grace).map(finding).collect(), pass)
}

fn preempted_qos(evidence: &Evidence) -> Result<Vec<&ConfRecord>, MissingInput> {
    let Some(qos) = &evidence.qos else {
        return needs_input(
            "the output of `sacctmgr -P show qos format=Name,GraceTime,Preempt,PreemptMode`",
        );
    };
    let names: BTreeSet<&str> =
        qos.iter().filter_map(|qos| qos.get("Preempt")).flat_map(|list| list.split(',')).collect();
    Ok(qos.iter().filter(|qos| names.contains(qos.name.as_str())).collect())
}

fn cancelled(evidence: &Evidence) -> RuleResult {
    preempts(evidence)?;
    let mode = evidence.conf_setting("PreemptMode", Some("OFF"))?;
    let requeue = evidence.conf_setting("JobRequeue", Some("1"))?;
    let says = format!("{}, and {}", mode.text(), requeue.text());
    let is_wrong = mode.lists("requeue") && requeue.number() == Some(0);
    let finding = is_wrong.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&requeue) });
    fail_if_any(finding.into_iter().collect(), says)
}

fn requeue_waits(evidence: &Evidence) -> RuleResult {
    let info = evidence.conf_setting("AuthInfo", Some(""))?;
    let seconds = info.option("cred_expire").and_then(|text| text.trim().parse::<u64>().ok());
    let says = match seconds {
        Some(seconds) => format!("cred_expire={seconds} seconds"),
        None => "cred_expire is not set; its default is 120 seconds".to_owned(),
    };
    let finding = (seconds >= Some(LONG_WAIT_SECS)).then(|| RuleFinding {
        key: "cred_expire".to_owned(),
        says: says.clone(),
        place: info.place.clone(),
    });
    fail_if_any(finding.into_iter().collect(), says)
}

/// Returns a prolog or epilog, where there is one.
fn prolog(evidence: &Evidence, keys: &[&str]) -> Result<ConfSetting, MissingInput> {
    for key in keys {
        let said = evidence.conf_setting(key, Some(""))?;
        if !said.value.is_empty() {
            return Ok(said);
        }
    }
    needs_input(format!("a {}", keys.join(" or ")))
}

fn slow_start(evidence: &Evidence) -> RuleResult {
    let prolog = prolog(evidence, &["Prolog", "PrologSlurmctld"])?;
    let timeout = evidence.conf_setting("BatchStartTimeout", Some("10"))?;
    let says = format!("{}, and {}", prolog.text(), timeout.text());
    let is_short = timeout.number() <= Some(SHORT_START_SECS);
    let finding = is_short.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&timeout) });
    fail_if_any(finding.into_iter().collect(), says)
}

/// Slurm prints 65534 where none is set.
fn endless_prolog(evidence: &Evidence) -> RuleResult {
    let prolog = prolog(evidence, &["Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"])?;
    let timeout = evidence.conf_setting("PrologEpilogTimeout", Some("65534"))?;
    let says = format!("{}, and {}", prolog.text(), timeout.text());
    let is_endless = timeout.number().is_none_or(|seconds| seconds >= 65534 || seconds == 0);
    let finding =
        is_endless.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&timeout) });
    fail_if_any(finding.into_iter().collect(), says)
}
