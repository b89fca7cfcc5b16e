//! Rules on the maximum number of jobs, and of tasks in an array.

use muster_model::check::Severity::{Low, Medium};

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::evidence::{Evidence, needs_input};

/// Slurm's default; with a smaller limit, scripts in circulation are rejected.
const USUAL_ARRAY: u64 = 1001;
/// Maximum that the manual says still performs is a few hundred thousand; at some kilobytes per
/// job, ten times as many are gigabytes.
const MOST_JOBS: u64 = 1_000_000;
/// Minimum ratio: the manual says "much larger", which less than twice is not.
const TIMES: u64 = 2;
/// Minimum time in seconds for which records of ended jobs stay readable for tools.
const SHORTEST_AGE_SECS: u64 = 60;

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "few-jobs-for-arrays",
        severity: Medium,
        title: "a few arrays can fill the queue for all users",
        meaning: "every task of an array counts as a job; once MaxJobCount is reached, all submissions of all users fail",
        cure: "MaxJobCount much larger than MaxArraySize, and MaxSubmitJobs per user",
        page: DocPage::Man("slurm.conf", "MaxJobCount"),
        check: few_jobs,
    },
    CheckRule {
        id: "too-many-jobs-kept",
        severity: Medium,
        title: "more jobs can be queued than the controller can handle",
        meaning: "slurmctld keeps every job in memory and iterates over all of them; long before that number it stops answering in time",
        cure: "MaxJobCount of at most some hundred thousand, and MaxSubmitJobs per user",
        page: DocPage::Man("slurm.conf", "MaxJobCount"),
        check: |evidence| {
            let jobs = evidence.conf_setting("MaxJobCount", Some("10000"))?;
            check_setting(&jobs, jobs.number().is_some_and(|count| count <= MOST_JOBS))
        },
    },
    CheckRule {
        id: "arrays-small",
        severity: Low,
        title: "array sizes are limited below the default",
        meaning: "the largest index is MaxArraySize minus one; larger arrays are rejected",
        cure: "MaxArraySize of 1001 or more, with a MaxJobCount to match",
        page: DocPage::Man("slurm.conf", "MaxArraySize"),
        check: |evidence| {
            let size = evidence.conf_setting("MaxArraySize", Some("1001"))?;
            check_setting(&size, size.number() >= Some(USUAL_ARRAY))
        },
    },
    CheckRule {
        id: "ended-jobs-vanish",
        severity: Low,
        title: "ended jobs vanish at once",
        meaning: "squeue and scontrol no longer show how a job ended, and without accounting nothing does",
        cure: "MinJobAge=300",
        page: DocPage::Man("slurm.conf", "MinJobAge"),
        check: |evidence| {
            let age = evidence.conf_setting("MinJobAge", Some("300"))?;
            // Zero means that no job is purged.
            check_setting(&age, age.number() == Some(0) || age.number() >= Some(SHORTEST_AGE_SECS))
        },
    },
];

fn few_jobs(evidence: &Evidence) -> RuleResult {
    let jobs = evidence.conf_setting("MaxJobCount", Some("10000"))?;
    let array = evidence.conf_setting("MaxArraySize", Some("1001"))?;
    let (Some(count), Some(size)) = (jobs.number(), array.number()) else {
        return needs_input("numeric MaxJobCount and MaxArraySize");
    };
    let says = format!("{}, and {}", jobs.text(), array.text());
    let is_few = count < size.saturating_mul(TIMES);
    let finding = is_few.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&jobs) });
    fail_if_any(finding.into_iter().collect(), says)
}
