//! Rules on job priority: the effect of past usage, and its decay.

use muster_model::check::Severity::{High, Low, Medium};

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::evidence::{Evidence, MissingInput, needs_input};

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "priority-basic",
        severity: High,
        title: "jobs run in order of submission",
        meaning: "the user who submits first and most gets the cluster; the shares of accounts have no effect",
        cure: "PriorityType=priority/multifactor with PriorityWeightFairshare above 0",
        page: DocPage::Man("slurm.conf", "PriorityType"),
        check: |evidence| {
            let kind = evidence.conf_setting("PriorityType", None)?;
            check_setting(&kind, !kind.is("priority/basic"))
        },
    },
    CheckRule {
        id: "fair-share-weight-zero",
        severity: High,
        title: "fair share has no weight",
        meaning: "past usage is recorded but does not affect priorities",
        cure: "PriorityWeightFairshare above the other weights, such as 10000",
        page: DocPage::Man("slurm.conf", "PriorityWeightFairshare"),
        check: |evidence| {
            multifactor(evidence)?;
            let weight = evidence.conf_setting("PriorityWeightFairshare", Some("0"))?;
            check_setting(&weight, weight.number() > Some(0))
        },
    },
    CheckRule {
        id: "fair-share-without-slurmdbd",
        severity: High,
        title: "fair share without a database",
        meaning: "the factor needs shares and usage from slurmdbd; without them it is the same for all jobs",
        cure: "AccountingStorageType=accounting_storage/slurmdbd, with a running slurmdbd",
        page: DocPage::Man("slurm.conf", "PriorityWeightFairshare"),
        check: without_database,
    },
    CheckRule {
        id: "usage-never-decays",
        severity: High,
        title: "past usage never decays",
        meaning: "an account with high usage in the past keeps a low priority, as usage neither decays nor is reset",
        cure: "PriorityDecayHalfLife=7-0, or PriorityUsageResetPeriod",
        page: DocPage::Man("slurm.conf", "PriorityDecayHalfLife"),
        check: never_decays,
    },
    CheckRule {
        id: "age-weight-zero",
        severity: Low,
        title: "priority does not rise with waiting time",
        meaning: "a job of an account above its share can be overtaken without limit",
        cure: "PriorityWeightAge above 0, with PriorityMaxAge",
        page: DocPage::Man("slurm.conf", "PriorityWeightAge"),
        check: |evidence| {
            multifactor(evidence)?;
            let weight = evidence.conf_setting("PriorityWeightAge", Some("0"))?;
            check_setting(&weight, weight.number() > Some(0))
        },
    },
    CheckRule {
        id: "age-over-fair-share",
        severity: Medium,
        title: "waiting time counts far more than fair share",
        meaning: "after some waiting time the order is that of submission, and the user who submits most in advance gets the cluster",
        cure: "PriorityWeightFairshare at least as large as PriorityWeightAge",
        page: DocPage::Man("slurm.conf", "PriorityWeightAge"),
        check: |evidence| {
            multifactor(evidence)?;
            let age = evidence.conf_setting("PriorityWeightAge", Some("0"))?;
            let share = evidence.conf_setting("PriorityWeightFairshare", Some("0"))?;
            let says = format!("{}, and {}", age.text(), share.text());
            // Without a weight of fair share another rule applies.
            let is_far = share.number().is_some_and(|share| {
                share > 0
                    && age.number().is_some_and(|age| age >= share.saturating_mul(MAX_WEIGHT_RATIO))
            });
            let finding =
                is_far.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&age) });
            fail_if_any(finding.into_iter().collect(), says)
        },
    },
];

/// Ratio of weights that is too large: both factors range from 0 to 1, so that with ten times the
/// weight a tenth of PriorityMaxAge outweighs the worst share.
const MAX_WEIGHT_RATIO: u64 = 10;

/// The weights apply to this plugin only. A configuration without PriorityType is assumed to want
/// it.
fn multifactor(evidence: &Evidence) -> Result<(), MissingInput> {
    match evidence.conf_setting("PriorityType", Some("priority/multifactor"))? {
        kind if kind.is("priority/multifactor") => Ok(()),
        kind => needs_input(format!(
            "PriorityType=priority/multifactor, whose weights the rule checks: {}",
            kind.text()
        )),
    }
}

fn without_database(evidence: &Evidence) -> RuleResult {
    multifactor(evidence)?;
    let weight = evidence.conf_setting("PriorityWeightFairshare", Some("0"))?;
    let storage =
        evidence.conf_setting("AccountingStorageType", Some("accounting_storage/none"))?;
    let is_wrong = weight.number() > Some(0) && !storage.is("accounting_storage/slurmdbd");
    let says = format!("{}, and {}", weight.text(), storage.text());
    let finding = is_wrong.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&storage) });
    fail_if_any(finding.into_iter().collect(), says)
}

fn never_decays(evidence: &Evidence) -> RuleResult {
    multifactor(evidence)?;
    let half_life = evidence.conf_setting("PriorityDecayHalfLife", Some("7-0"))?;
    let reset = evidence.conf_setting("PriorityUsageResetPeriod", Some("NONE"))?;
    let is_zero = half_life.value.bytes().all(|byte| matches!(byte, b'0' | b':' | b'-'));
    let says = format!("{}, and {}", half_life.text(), reset.text());
    let finding = (is_zero && reset.is("none"))
        .then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&half_life) });
    fail_if_any(finding.into_iter().collect(), says)
}
