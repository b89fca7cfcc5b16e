//! Run time prediction: how long a job will probably run, from the last jobs of its user. Time limits
//! exceed run times by far, so a site may plan by this instead; limits stay the hard end.

use std::collections::{BTreeMap, VecDeque};

use muster_model::outcome::Outcome;
use muster_model::{JobSpec, Span, TaskGroup, UserName, WorkloadKind};
use serde::{Deserialize, Serialize};

use crate::fact::AccountingFact;

/// Ended jobs remembered of each user: enough for 128 kinds of jobs.
const REMEMBERED: usize = 256;
/// Ended jobs on which a prediction rests, and that are remembered of each kind.
const ENOUGH: usize = 2;
/// Ended jobs of a user by which predictions are judged.
const JUDGED: usize = 32;
/// Mean improvement from which predictions are trusted: they must have been 1.5 times closer than time limits. A
/// prediction may also be too short, and a limit hardly ever is, so that as close is worse.
const TRUSTED: i64 = 599;
/// Parts of a doubling in which improvements are measured.
const PER_DOUBLING_BITS: u32 = 10;

/// Predicts the run time of a job as the longer one of the last two of its user: of those with the same time limit
/// and size, else with the same time limit, else of all. Two as in Tsafrir, Etsion and Feitelson (2007), "Backfilling
/// using system-generated predictions rather than user runtime estimates", who take their mean, of all jobs; on the
/// public traces the longer of similar ones delays wide jobs less (docs/adr/0057). A job with a time limit has a prediction
/// only while those of its user were much closer than the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuntimePredictor {
    /// Last runs of each user, the latest first; of each kind of job two.
    recent: BTreeMap<UserName, VecDeque<EndedRun>>,
}

/// Properties of a job by which similar ones are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLikeness {
    /// Time limit; `None` means no limit.
    pub limit: Option<Span>,
    /// Size: thousandths of GPUs of all tasks, or of another unit that is the same for all jobs.
    pub width_milli: u64,
}

/// A job that ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EndedRun {
    job: JobLikeness,
    ran: Span,
    /// [`improvement`] of its prediction on its time limit; `None` if it had only one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    improvement: Option<i64>,
}

impl RuntimePredictor {
    /// Takes the run time of an ended job.
    pub fn observe(&mut self, user: &UserName, job: JobLikeness, ran: Span) {
        let known = self.recent.get(user).and_then(|runs| predict_from(runs, job)).zip(job.limit);
        let improvement = known.map(|(predicted, limit)| improvement(predicted, limit, ran));
        let runs = match self.recent.get_mut(user) {
            Some(runs) => runs,
            None => self.recent.entry(user.clone()).or_default(),
        };
        let mut of_kind = 0;
        runs.retain(|run| {
            of_kind += usize::from(run.job == job);
            run.job != job || of_kind < ENOUGH
        });
        runs.truncate(REMEMBERED - 1);
        runs.push_front(EndedRun { job, ran, improvement });
    }

    /// Takes the run times of all elements that ended by themselves. What was cancelled, preempted or
    /// lost says nothing about how long it would have run.
    pub fn learn(&mut self, facts: &[AccountingFact]) {
        let mut last = None;
        for fact in facts {
            match fact {
                AccountingFact::AttemptEnded {
                    id,
                    user,
                    held_from,
                    running_from,
                    at,
                    gpu_millis,
                    time_limit,
                    ..
                } => {
                    let width_milli = gpu_millis / at.since(*held_from).0.max(1);
                    let job = JobLikeness { limit: *time_limit, width_milli };
                    last = running_from.map(|from| (id.element, user, job, at.since(from)));
                }
                AccountingFact::ElementEnded { element, outcome, .. } if is_own_end(outcome) => {
                    if let Some((_, user, job, ran)) = last.filter(|(ended, ..)| ended == element) {
                        self.observe(user, job, ran);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the predicted run time of a job; `None` for services and notebooks, which run until they
    /// are ended.
    #[must_use]
    pub fn predict_job(&self, spec: &JobSpec) -> Option<Span> {
        let of_group =
            |group: &TaskGroup| u64::from(group.min_tasks) * u64::from(group.task.gpu.milli().0);
        let width_milli = spec.groups.iter().map(of_group).sum();
        let job = JobLikeness { limit: spec.time_limit, width_milli };
        self.predict(&spec.user, job).filter(|_| spec.kind == WorkloadKind::Task)
    }

    /// Returns the predicted run time; `None` if too few jobs of the user have ended, or if the time
    /// limit is not longer or has been about as close.
    #[must_use]
    pub fn predict(&self, user: &UserName, job: JobLikeness) -> Option<Span> {
        let runs = self.recent.get(user)?;
        let predicted = predict_from(runs, job)?;
        let is_better = |limit| predicted < limit && are_trusted(runs);
        job.limit.is_none_or(is_better).then_some(predicted)
    }
}

/// Returns the longer run time of the last two jobs that are most alike.
fn predict_from(runs: &VecDeque<EndedRun>, job: JobLikeness) -> Option<Span> {
    let longest = |is_alike: &dyn Fn(&EndedRun) -> bool| {
        let mut alike = runs.iter().filter(|run| is_alike(run)).map(|run| run.ran);
        let last: Vec<Span> = alike.by_ref().take(ENOUGH).collect();
        last.iter().max().copied().filter(|_| last.len() == ENOUGH)
    };
    let longest = longest(&|run| run.job == job)
        .or_else(|| longest(&|run| run.job.limit == job.limit))
        .or_else(|| longest(&|_| true))?;
    Some(longest.max(Span(1)))
}

/// Returns true unless the last predictions were hardly closer than time limits.
fn are_trusted(runs: &VecDeque<EndedRun>) -> bool {
    let judged = runs.iter().filter_map(|run| run.improvement).take(JUDGED);
    let (sum, count) = judged.fold((0, 0), |(sum, count), one| (sum + one, count + 1));
    sum >= TRUSTED * count
}

/// Returns by which factor a prediction was closer to the run time than the time limit, as a binary logarithm in
/// 1024ths; negative if the limit was closer. The error of an estimate is its ratio to the run time, or the inverse.
fn improvement(predicted: Span, limit: Span, ran: Span) -> i64 {
    let log_error = |estimate: Span| log2(estimate.0).abs_diff(log2(ran.0)) as i64;
    log_error(limit) - log_error(predicted)
}

/// Returns the binary logarithm in 1024ths, rounded down; that of 0 as that of 1. Each squaring of the mantissa
/// yields a digit.
fn log2(number: u64) -> u64 {
    let number = number.max(1);
    let mut log = u64::from(number.ilog2());
    // Between 1 and 2, with 31 fractional bits.
    let mut mantissa = (number << number.leading_zeros()) >> 32;
    for _ in 0..PER_DOUBLING_BITS {
        mantissa = (mantissa * mantissa) >> 31;
        let digit = mantissa >> 32;
        mantissa >>= digit;
        log = (log << 1) | digit;
    }
    log
}

fn is_own_end(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Succeeded
            | Outcome::Failed { .. }
            | Outcome::Signaled { .. }
            | Outcome::OutOfMemory { .. }
            | Outcome::TimedOut
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(limit_secs: Option<u64>, gpus: u64) -> JobLikeness {
        JobLikeness { limit: limit_secs.map(Span::from_secs), width_milli: 1000 * gpus }
    }

    #[test]
    fn a_run_time_is_predicted_from_the_last_two_similar_jobs_of_the_user() {
        let mut predictor = RuntimePredictor::default();
        let ann = UserName::from("ann");
        let secs = Span::from_secs;
        predictor.observe(&ann, like(None, 1), secs(100));
        assert_eq!(predictor.predict(&ann, like(None, 1)), None, "one run says little");
        predictor.observe(&ann, like(None, 1), secs(300));
        predictor.observe(&UserName::from("bob"), like(None, 1), secs(7));
        assert_eq!(predictor.predict(&ann, like(None, 1)), Some(secs(300)));
        assert_eq!(predictor.predict(&UserName::from("bob"), like(None, 1)), None);
        // Of the same size and limit, else of the same limit, else of all.
        predictor.observe(&ann, like(None, 8), secs(500));
        predictor.observe(&ann, like(None, 8), secs(400));
        assert_eq!(predictor.predict(&ann, like(None, 8)), Some(secs(500)));
        assert_eq!(predictor.predict(&ann, like(None, 1)), Some(secs(300)));
        assert_eq!(predictor.predict(&ann, like(None, 2)), Some(secs(500)));
        assert_eq!(predictor.predict(&ann, like(Some(1000), 1)), Some(secs(500)));
        assert_eq!(predictor.predict(&ann, like(Some(500), 1)), None, "the limit says as much");
    }

    #[test]
    fn limits_are_kept_while_they_are_about_as_close() {
        let mut predictor = RuntimePredictor::default();
        let ann = UserName::from("ann");
        let observe = |predictor: &mut RuntimePredictor, ran, limit, times| {
            for _ in 0..times {
                predictor.observe(&ann, like(Some(limit), 1), Span::from_secs(ran));
            }
        };
        // All jobs run for 100 s, and so are predicted, once two have ended.
        observe(&mut predictor, 100, 1000, 2);
        let predicted = Some(Span::from_secs(100));
        assert_eq!(predictor.predict(&ann, like(Some(1000), 1)), predicted, "nothing is known");
        for (ran, limit) in [(100, 120), (100, 119), (100, 118), (100, 117)] {
            observe(&mut predictor, ran, limit, 1);
        }
        assert_eq!(
            predictor.predict(&ann, like(Some(1000), 1)),
            None,
            "limits are 1.2 times as long"
        );
        assert_eq!(predictor.predict(&ann, like(None, 1)), predicted, "there is no limit");
        observe(&mut predictor, 100, 5000, 2);
        assert_eq!(
            predictor.predict(&ann, like(Some(1000), 1)),
            predicted,
            "limits are worse again"
        );
    }

    #[test]
    fn an_improvement_is_the_ratio_of_two_errors() {
        let secs = Span::from_secs;
        // The limit is four times the run time, the prediction half of it: twice as close.
        assert_eq!(improvement(secs(50), secs(400), secs(100)), 1024);
        assert_eq!(improvement(secs(800), secs(400), secs(100)), -1024);
        assert_eq!(improvement(secs(400), secs(400), secs(100)), 0);
    }

    #[test]
    fn logarithms_are_exact_to_a_1024th() {
        assert_eq!((log2(0), log2(1), log2(2), log2(1 << 40)), (0, 0, 1024, 40 * 1024));
        assert_eq!((log2(3) - log2(2)) as i64, TRUSTED);
        let limit = (1..200_000).filter(|number| log2(*number) < log2(number - 1)).count();
        assert_eq!(limit, 0, "it grows");
    }

    #[test]
    fn rare_jobs_are_remembered_beside_frequent_ones_and_forgotten_at_last() {
        let mut predictor = RuntimePredictor::default();
        let ann = UserName::from("ann");
        for hours in [2, 3] {
            predictor.observe(&ann, like(None, 4), Span::from_secs(3600 * hours));
        }
        for _ in 0..1000 {
            predictor.observe(&ann, like(Some(900), 1), Span::from_secs(60));
        }
        assert_eq!(predictor.recent[&ann].len(), 4);
        assert_eq!(predictor.predict(&ann, like(None, 4)), Some(Span::from_secs(3600 * 3)));
        for limit in 1..1000 {
            predictor.observe(&ann, like(Some(limit), 1), Span::from_secs(1));
        }
        assert_eq!(predictor.recent[&ann].len(), REMEMBERED);
        assert_eq!(predictor.predict(&ann, like(None, 4)), Some(Span::from_secs(1)));
    }
}
