//! `muster whatif`: waiting and past jobs, with and without a change. The figures are computed in
//! `sim`.

use std::cmp::Ordering;

use muster_model::Time;
use muster_model::simulation::{
    FleetFigures, FleetUnit, PastReplay, PendingJob, StartTimes, WhatIf,
};
use serde::Serialize;

use crate::RenderContext;
use crate::amount::{gpus, grouped, grouped_count};
use crate::clock;
use crate::fleet::words::{amount, at_least, percent, span};
use crate::reason::short;
use crate::style::{clean, wrap};
use crate::table::Table;

/// Columns if the output is not a terminal.
const WIDTH: usize = 100;
/// Most jobs shown; the sentence below counts all.
const ROWS: usize = 30;

/// Words for an answer, as the command prints them, for other displays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhatIfWords {
    /// Words for each pending job, in their order.
    pub waiting: Vec<PendingWords>,
    /// Sentence about all of them; empty when no job waits.
    pub sums: String,
    /// Replay of past jobs; `None` when no job has run.
    pub past: Option<PastWords>,
}

/// Words for a pending job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingWords {
    /// Time until it starts without the change.
    pub as_it_is: String,
    /// Time until it starts with the change.
    pub changed: String,
    /// Reason why it then does not start at once; empty when it does.
    pub still: String,
    /// Effect of the change on its start.
    pub effect: StartEffect,
}

/// Effect of a change on the start of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StartEffect {
    /// An earlier start, or a start where none was known.
    Sooner,
    /// A later start, or none that is known.
    Later,
    /// A start at the same instant, or none known in both.
    None,
}

/// Words for the replay of past jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastWords {
    /// Sentence about the jobs that are replayed, and those that are left out.
    pub sentence: String,
    /// Name, measured value, value without and with the change; empty when no job is replayed.
    pub rows: Vec<[String; 4]>,
}

/// Returns the words for an answer.
#[must_use]
pub fn words(answer: &WhatIf, context: RenderContext) -> WhatIfWords {
    let context = context.at(answer.taken);
    let pending = |job: &PendingJob| PendingWords {
        as_it_is: starts_in(&job.as_it_is, job, context.now),
        changed: starts_in(&job.changed, job, context.now),
        still: still(job, context),
        effect: effect(job),
    };
    WhatIfWords {
        waiting: answer.waiting.iter().map(pending).collect(),
        sums: if answer.waiting.is_empty() { String::new() } else { sums(answer) },
        past: answer.past.as_ref().map(|past| past_words(past, context)),
    }
}

/// Returns the change, the waiting jobs, and the jobs that have run.
#[must_use]
pub fn whatif(answer: &WhatIf, context: RenderContext) -> String {
    let context = context.at(answer.taken);
    let width = context.width.unwrap_or(WIDTH);
    let mut text = format!("what if: {}\n", answer.changes.join("; "));
    text.push('\n');
    if answer.past.as_ref().is_some_and(|past| past.trace.is_some()) {
        text.push_str("pending jobs are not covered: a trace does not say what is pending now\n");
    } else {
        text.push_str(&waiting(answer, width, context));
    }
    if let Some(past) = &answer.past {
        text.push('\n');
        text.push_str(&replayed(past, width, context));
    } else {
        text.push_str("no job has run in that time\n");
    }
    if answer.is_partial {
        text.push_str("interrupted: the figures cover only what was simulated by then\n");
    }
    text
}

/// Returns a sentence, wrapped.
fn wrapped(sentence: &str, width: usize) -> String {
    wrap(sentence, width).join("\n") + "\n"
}

fn waiting(answer: &WhatIf, width: usize, context: RenderContext) -> String {
    if answer.waiting.is_empty() {
        return "no job waits now\n".to_owned();
    }
    let shown = &answer.waiting[..answer.waiting.len().min(ROWS)];
    let starts = |job: &PendingJob, starts: &StartTimes| starts_in(starts, job, context.now);
    let mut text = Table::of(shown)
        .right("JOB", |job| job.job.to_string())
        .left("NAME", |job| &job.name)
        .left("USER", |job| job.user.as_str())
        .left("QUEUE", |job| job.queue.as_str())
        .right("GPUS", |job| gpus(job.gpus))
        .right("WAITED", |job| clock::elapsed(context.now.since(job.submitted)))
        .right("STARTS IN", |job| starts(job, &job.as_it_is))
        .right("CHANGED", |job| starts(job, &job.changed))
        .left("THEN WAITS FOR", |job| still(job, context))
        .render(context);
    if answer.waiting.len() > ROWS {
        text.push_str(&format!("and {} more\n", grouped((answer.waiting.len() - ROWS) as u64)));
    }
    text.push_str(&wrapped(&sums(answer), width));
    text
}

fn still(job: &PendingJob, context: RenderContext) -> String {
    job.still.as_ref().map_or(String::new(), |still| short(still, context))
}

/// `now`, `3h10m`, `1h to 5h` for the elements of an array, `not known`.
fn starts_in(starts: &StartTimes, job: &PendingJob, taken: Time) -> String {
    let ahead =
        |at: Time| if at <= taken { "now".to_owned() } else { clock::remaining(at.since(taken)) };
    let text = match (starts.first, starts.last) {
        (Some(first), Some(last)) if job.elements > 1 && last > first => {
            format!("{} to {}", ahead(first), ahead(last))
        }
        (Some(first), _) => ahead(first),
        (None, _) => return "not known".to_owned(),
    };
    if starts.begun < job.elements {
        format!(
            "{text} ({} of {})",
            grouped(u64::from(starts.begun)),
            grouped(u64::from(job.elements))
        )
    } else {
        text
    }
}

/// Compares the starts of the last element, if all start, then those of the first.
fn effect(job: &PendingJob) -> StartEffect {
    let at = |starts: &StartTimes| {
        let last = starts.last.filter(|_| starts.begun == job.elements);
        (last.unwrap_or(Time::NEVER), starts.first.unwrap_or(Time::NEVER))
    };
    match at(&job.changed).cmp(&at(&job.as_it_is)) {
        Ordering::Less => StartEffect::Sooner,
        Ordering::Equal => StartEffect::None,
        Ordering::Greater => StartEffect::Later,
    }
}

/// Counts the jobs that start sooner, later and at once.
fn sums(answer: &WhatIf) -> String {
    let count = |is: &dyn Fn(&&PendingJob) -> bool| answer.waiting.iter().filter(is).count() as u64;
    let sooner = count(&|job| effect(job) == StartEffect::Sooner);
    let later = count(&|job| effect(job) == StartEffect::Later);
    let now = |of: fn(&PendingJob) -> &StartTimes| {
        count(&|job| of(job).first.is_some_and(|first| first <= answer.taken))
    };
    let verb = |count: u64| if count == 1 { "starts" } else { "start" };
    format!(
        "with the change {} of {} {} sooner and {} later; {} at once, {} without the change. Starts are predictions from assumed run times, without further submissions.",
        grouped(sooner),
        grouped_count(answer.waiting.len() as u64, "job"),
        verb(sooner),
        grouped(later),
        grouped(now(|job| &job.changed)),
        grouped(now(|job| &job.as_it_is)),
    )
}

fn replayed(past: &PastReplay, width: usize, context: RenderContext) -> String {
    let PastWords { sentence, rows } = past_words(past, context);
    if rows.is_empty() {
        return wrapped(&sentence, width);
    }
    let table = Table::of(&rows)
        .left("", |row| &row[0])
        .right("IN FACT", |row| &row[1])
        .right("AS IT IS", |row| &row[2])
        .right("CHANGED", |row| &row[3]);
    wrapped(&sentence, width) + &table.render(context)
}

fn past_words(past: &PastReplay, context: RenderContext) -> PastWords {
    let unit = match past.unit {
        FleetUnit::Gpu => "GPU",
        FleetUnit::Cpu => "CPU",
    };
    let left_out = [
        (past.never_ran, "that never ran"),
        (past.too_large, "that do not fit the idle site"),
        (past.no_longer_fit, "that would no longer fit"),
    ];
    let left_out = left_out.into_iter().filter(|(number, _)| *number > 0);
    let mut left_out: String =
        left_out.map(|(number, why)| format!(", {} {why} left out", grouped(number))).collect();
    if past.strangers > 0 {
        left_out +=
            &format!(", {} in the default queue for lack of theirs", grouped(past.strangers));
    }
    let sentence = match &past.trace {
        Some(trace) => format!(
            "{} of {}{left_out}, replayed by Muster's scheduler from an idle site:",
            grouped_count(past.runs, "job"),
            clean(trace),
        ),
        None => format!(
            "jobs submitted since {}, {}{left_out}, replayed from an idle site:",
            clock::time(past.since, context),
            grouped_count(past.runs, "run"),
        ),
    };
    let mut rows: Vec<[String; 4]> = Vec::new();
    if past.replayed == 0 {
        return PastWords { sentence: format!("no past run can be replayed{left_out}"), rows };
    }
    let mut row = |name: String, fact: String, of: &dyn Fn(&FleetFigures) -> String| {
        rows.push([name, fact, of(&past.as_it_is), of(&past.changed)]);
    };
    let fact = &past.first_start_secs;
    let measured = |secs| if past.first_starts > 0 { span(secs) } else { String::new() };
    row("turnaround: mean".into(), String::new(), &|run| {
        at_least(run).to_owned() + &span(run.turnaround_secs.mean)
    });
    row("waited in all: mean".into(), String::new(), &|run| {
        at_least(run).to_owned() + &span(run.waited_secs.mean)
    });
    row("first start after: mean".into(), measured(fact.mean), &|run| {
        span(run.first_start_secs.mean)
    });
    row("first start after: half".into(), measured(fact.p50), &|run| {
        span(run.first_start_secs.p50)
    });
    row("first start after: 95 %".into(), measured(fact.p95), &|run| {
        span(run.first_start_secs.p95)
    });
    row(format!("{unit}s used"), String::new(), &|run| {
        percent(ratio(run.hours.ran, run.hours.all))
    });
    row(format!("{unit}-hours idle"), String::new(), &|run| {
        amount((run.hours.all - run.hours.ran).max(0.0))
    });
    row(format!("{unit}-hours stranded"), String::new(), &|run| amount(run.hours.stranded));
    row(format!("{unit}-hours lost"), String::new(), &|run| amount(run.hours.lost));
    row("evicted".into(), String::new(), &|run| grouped(run.evictions));
    row("fairness of users".into(), String::new(), &|run| format!("{:.2}", run.user_fairness));
    row("never ended or refused".into(), String::new(), &|run| grouped(run.left + run.refused));
    PastWords { sentence, rows }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use muster_model::simulation::Spread;
    use muster_model::{GpuMilli, JobId, Reason, Span};

    use super::*;
    use crate::fleet::sample;
    use crate::sample::NOON;

    fn starts(begun: u32, first_secs: u64, last_secs: u64) -> StartTimes {
        let at = |secs| Some(NOON + Span::from_secs(secs));
        StartTimes { begun, first: at(first_secs), last: at(last_secs) }
    }

    fn waiting(job: u64, elements: u32, as_it_is: StartTimes, changed: StartTimes) -> PendingJob {
        PendingJob {
            job: JobId(job),
            name: format!("job-{job}"),
            user: "ann".into(),
            queue: "research".into(),
            gpus: GpuMilli(8000),
            submitted: NOON - Span::from_secs(90),
            elements,
            as_it_is,
            changed,
            still: (changed.first != Some(NOON)).then_some(Reason::Held),
        }
    }

    fn answer() -> WhatIf {
        WhatIf {
            taken: NOON,
            changes: vec![
                "2 nodes more, each with 8 GPUs (h100)".to_owned(),
                "no quota for prod".to_owned(),
            ],
            waiting: vec![
                waiting(1, 1, starts(1, 3600, 3600), starts(1, 0, 0)),
                waiting(2, 10, starts(4, 60, 600), starts(10, 30, 7200)),
                waiting(3, 1, StartTimes::default(), StartTimes::default()),
            ],
            past: Some(PastReplay {
                trace: None,
                since: NOON - Span::from_secs(86_400),
                runs: 1204,
                replayed: 1200,
                never_ran: 3,
                too_large: 0,
                no_longer_fit: 1,
                strangers: 0,
                unit: FleetUnit::Gpu,
                first_start_secs: Spread {
                    mean: 754.2,
                    p50: 61.0,
                    p95: 3600.0,
                    p99: 7200.0,
                    max: 9000.0,
                },
                first_starts: 1200,
                as_it_is: sample::run("muster", 760.0),
                changed: sample::run("muster", 120.0),
            }),
            is_partial: false,
        }
    }

    #[test]
    fn what_waits_and_what_has_run_stand_beside_what_they_would_be() {
        assert_snapshot!(whatif(&answer(), RenderContext::plain()));
    }

    #[test]
    fn an_answer_from_a_trace_says_what_it_does_not_cover() {
        let past = answer().past.unwrap();
        let trace = Some("jobs.txt".to_owned());
        let past = PastReplay { trace, strangers: 7, first_starts: 0, ..past };
        let answer = WhatIf { waiting: Vec::new(), past: Some(past), ..answer() };
        let text = whatif(&answer, RenderContext::plain());
        let flat = text.replace('\n', " ");
        for part in [
            "pending jobs are not covered: a trace does not say what is pending now",
            "1,204 jobs of jobs.txt, 3 that never ran left out, 1 that would no longer fit left out, \
             7 in the default queue for lack of theirs, replayed by Muster's scheduler from an idle site:",
        ] {
            assert!(flat.contains(part), "{part:?} is not in:\n{text}");
        }
        // No start is recorded.
        assert!(!text.contains("12m34s") && !text.contains("no job waits"), "{text}");
    }

    #[test]
    fn words_of_other_displays_are_those_of_the_command() {
        let words = words(&answer(), RenderContext::plain());
        let text = whatif(&answer(), RenderContext::plain()).replace('\n', " ");
        for each in &words.waiting {
            assert!(text.contains(&each.as_it_is) && text.contains(&each.changed), "{each:?}");
        }
        assert!(text.contains(&words.sums), "{text}");
        assert!(text.contains(&words.past.unwrap().sentence), "{text}");
        let effects: Vec<StartEffect> = words.waiting.iter().map(|each| each.effect).collect();
        assert_eq!(effects, [StartEffect::Sooner, StartEffect::Sooner, StartEffect::None]);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let none = WhatIf { waiting: Vec::new(), past: None, is_partial: true, ..answer() };
        let text = whatif(&none, RenderContext::plain());
        assert!(
            text.contains("no job waits now\n") && text.contains("no job has run in that time"),
            "{text}"
        );
        assert!(text.contains("interrupted: "), "{text}");
    }
}
