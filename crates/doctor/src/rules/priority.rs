//! Rules on the order of jobs: whether past use counts, and for how long.

use muster_model::check::Severity::{High, Low, Medium};

use crate::evidence::{Evidence, Untested, untested};
use crate::rule::{Judged, Page, Rule, Trip, none_of, right};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "priority-basic",
        severity: High,
        title: "jobs run in the order in which they came",
        meaning: "who submits first and most gets the cluster; shares of accounts have no effect",
        cure: "PriorityType=priority/multifactor with PriorityWeightFairshare above 0",
        page: Page::Man("slurm.conf", "PriorityType"),
        check: |evidence| {
            let kind = evidence.said("PriorityType", None)?;
            right(&kind, !kind.is("priority/basic"))
        },
    },
    Rule {
        id: "fair-share-weight-zero",
        severity: High,
        title: "fair share has no weight",
        meaning: "past use is recorded and does not change anybody's priority",
        cure: "PriorityWeightFairshare above the other weights, such as 10000",
        page: Page::Man("slurm.conf", "PriorityWeightFairshare"),
        check: |evidence| {
            multifactor(evidence)?;
            let weight = evidence.said("PriorityWeightFairshare", Some("0"))?;
            right(&weight, weight.number() > Some(0))
        },
    },
    Rule {
        id: "fair-share-without-slurmdbd",
        severity: High,
        title: "fair share without a database",
        meaning: "the factor needs shares and usage from slurmdbd; without them it is the same for all",
        cure: "AccountingStorageType=accounting_storage/slurmdbd, with a running slurmdbd",
        page: Page::Man("slurm.conf", "PriorityWeightFairshare"),
        check: without_database,
    },
    Rule {
        id: "usage-never-decays",
        severity: High,
        title: "past use is never forgotten",
        meaning: "an account that used much once stays behind for ever, as usage is neither halved nor reset",
        cure: "PriorityDecayHalfLife=7-0, or PriorityUsageResetPeriod",
        page: Page::Man("slurm.conf", "PriorityDecayHalfLife"),
        check: never_decays,
    },
    Rule {
        id: "age-weight-zero",
        severity: Low,
        title: "waiting does not raise priority",
        meaning: "a job of an account behind its share can be overtaken without end",
        cure: "PriorityWeightAge above 0, with PriorityMaxAge",
        page: Page::Man("slurm.conf", "PriorityWeightAge"),
        check: |evidence| {
            multifactor(evidence)?;
            let weight = evidence.said("PriorityWeightAge", Some("0"))?;
            right(&weight, weight.number() > Some(0))
        },
    },
    Rule {
        id: "age-over-fair-share",
        severity: Medium,
        title: "waiting counts far more than fair share",
        meaning: "once jobs have waited for a while the order is that of their submission, and whoever submits most in advance gets the cluster",
        cure: "PriorityWeightFairshare at least as large as PriorityWeightAge",
        page: Page::Man("slurm.conf", "PriorityWeightAge"),
        check: |evidence| {
            multifactor(evidence)?;
            let age = evidence.said("PriorityWeightAge", Some("0"))?;
            let share = evidence.said("PriorityWeightFairshare", Some("0"))?;
            let says = format!("{}, and {}", age.text(), share.text());
            // Without a weight of fair share another rule speaks.
            let is_far = share.number().is_some_and(|share| {
                share > 0 && age.number().is_some_and(|age| age >= share.saturating_mul(FAR))
            });
            let trip = is_far.then(|| Trip { says: says.clone(), ..age.trip() });
            none_of(trip.into_iter().collect(), says)
        },
    },
];

/// Both factors go from 0 to 1: with ten times the weight a tenth of PriorityMaxAge makes up for
/// the worst share.
const FAR: u64 = 10;

/// The weights are read by this plugin only. Who gave no PriorityType means them all the same.
fn multifactor(evidence: &Evidence) -> Result<(), Untested> {
    match evidence.said("PriorityType", Some("priority/multifactor"))? {
        kind if kind.is("priority/multifactor") => Ok(()),
        kind => untested(format!(
            "PriorityType=priority/multifactor: the rule is about its weights, and {}",
            kind.text()
        )),
    }
}

fn without_database(evidence: &Evidence) -> Judged {
    multifactor(evidence)?;
    let weight = evidence.said("PriorityWeightFairshare", Some("0"))?;
    let storage = evidence.said("AccountingStorageType", Some("accounting_storage/none"))?;
    let is_wrong = weight.number() > Some(0) && !storage.is("accounting_storage/slurmdbd");
    let says = format!("{}, and {}", weight.text(), storage.text());
    let trip = is_wrong.then(|| Trip { says: says.clone(), ..storage.trip() });
    none_of(trip.into_iter().collect(), says)
}

fn never_decays(evidence: &Evidence) -> Judged {
    multifactor(evidence)?;
    let half_life = evidence.said("PriorityDecayHalfLife", Some("7-0"))?;
    let reset = evidence.said("PriorityUsageResetPeriod", Some("NONE"))?;
    let is_zero = half_life.value.bytes().all(|byte| matches!(byte, b'0' | b':' | b'-'));
    let says = format!("{}, and {}", half_life.text(), reset.text());
    let trip =
        (is_zero && reset.is("none")).then(|| Trip { says: says.clone(), ..half_life.trip() });
    none_of(trip.into_iter().collect(), says)
}
