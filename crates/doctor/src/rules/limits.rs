//! Rules on how many jobs there may be, and how many tasks an array may have.

use muster_model::check::Severity::{Low, Medium};

use crate::evidence::{Evidence, untested};
use crate::rule::{Judged, Page, Rule, Trip, none_of, right};

/// The manual's own default; who sets less cut a limit that scripts in circulation count on.
const USUAL_ARRAY: u64 = 1001;
/// The manual speaks of a few hundred thousand as what still performs; a job takes some kilobytes,
/// ten times that is gigabytes.
const MOST_JOBS: u64 = 1_000_000;
/// "Much larger", says the manual; less than twice is that for nobody.
const TIMES: u64 = 2;
/// Records of jobs that have just ended, which tools read for a while.
const SHORTEST_AGE_SECS: u64 = 60;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "few-jobs-for-arrays",
        severity: Medium,
        title: "a few arrays fill the queue for everybody",
        meaning: "every task of an array counts as a job; once MaxJobCount is reached, all submissions of all users fail",
        cure: "MaxJobCount much larger than MaxArraySize, and MaxSubmitJobs per user",
        page: Page::Man("slurm.conf", "MaxJobCount"),
        check: few_jobs,
    },
    Rule {
        id: "too-many-jobs-kept",
        severity: Medium,
        title: "more jobs may queue than a controller can hold",
        meaning: "slurmctld keeps every job in memory and walks all of them; long before such a number it stops answering in time",
        cure: "MaxJobCount of some hundred thousand at most, and MaxSubmitJobs per user",
        page: Page::Man("slurm.conf", "MaxJobCount"),
        check: |evidence| {
            let jobs = evidence.said("MaxJobCount", Some("10000"))?;
            right(&jobs, jobs.number().is_some_and(|count| count <= MOST_JOBS))
        },
    },
    Rule {
        id: "arrays-small",
        severity: Low,
        title: "arrays are cut short",
        meaning: "the largest index is one less than MaxArraySize; larger arrays are refused",
        cure: "MaxArraySize of 1001 or more, with MaxJobCount to go with it",
        page: Page::Man("slurm.conf", "MaxArraySize"),
        check: |evidence| {
            let size = evidence.said("MaxArraySize", Some("1001"))?;
            right(&size, size.number() >= Some(USUAL_ARRAY))
        },
    },
    Rule {
        id: "ended-jobs-vanish",
        severity: Low,
        title: "jobs vanish as soon as they have ended",
        meaning: "who asks squeue or scontrol for the end of a job finds none, and without accounting never learns of it",
        cure: "MinJobAge=300",
        page: Page::Man("slurm.conf", "MinJobAge"),
        check: |evidence| {
            let age = evidence.said("MinJobAge", Some("300"))?;
            // Zero means that none is ever purged.
            right(&age, age.number() == Some(0) || age.number() >= Some(SHORTEST_AGE_SECS))
        },
    },
];

fn few_jobs(evidence: &Evidence) -> Judged {
    let jobs = evidence.said("MaxJobCount", Some("10000"))?;
    let array = evidence.said("MaxArraySize", Some("1001"))?;
    let (Some(count), Some(size)) = (jobs.number(), array.number()) else {
        return untested("numbers in MaxJobCount and MaxArraySize");
    };
    let says = format!("{}, and {}", jobs.text(), array.text());
    let is_few = count < size.saturating_mul(TIMES);
    let trip = is_few.then(|| Trip { says: says.clone(), ..jobs.trip() });
    none_of(trip.into_iter().collect(), says)
}
