//! Answers to queries of a scenario: the same views and texts that `muster` prints, without width
//! and colour, in UTC. It changes nothing.

use std::collections::BTreeMap;

use muster_model::view::{JobView, UsageView};
use muster_model::{ElementId, Event, JobId, JobSpec, Time};
use muster_report::timeline::TimelineStart;
use muster_report::{RenderContext, advance_reservations, explain, nodes, ps, queues, usage};
use muster_runtime::engine::Engine;

use super::command::ScriptQuestion;
use super::script_error::ScriptError;
use super::time_of_day::format_time;
use super::world::ScenarioWorld;

impl ScenarioWorld {
    /// Answers a query with lines.
    pub(crate) fn answer(
        &mut self,
        line: usize,
        question: &ScriptQuestion,
    ) -> Result<Vec<String>, ScriptError> {
        let context = RenderContext::plain().at(self.now);
        let text = match question {
            ScriptQuestion::Explain(who) => return self.explain(line, self.element(line, who)?),
            ScriptQuestion::Would { user, documents } => {
                let mut lines = Vec::new();
                match self.checked(line, user, documents)? {
                    Ok(checked) => {
                        for (job, _) in checked {
                            lines.extend(self.would(line, &job.spec)?);
                        }
                    }
                    Err(refused) => lines.push(refused),
                }
                return Ok(lines);
            }
            ScriptQuestion::Ps { all } => {
                let rows = self.rows(line, *all)?;
                let planned = self.planned(line)?;
                ps::jobs(&rows, &planned, context)
            }
            ScriptQuestion::Queues => queues::queues(&self.engine(line)?.queues(self.now), context),
            ScriptQuestion::Usage => usage::usage(&self.usage(line)?, context),
            ScriptQuestion::Nodes => nodes::nodes(&self.engine(line)?.nodes(), context),
            ScriptQuestion::Reservations => return self.reservations(line),
            ScriptQuestion::Windows => advance_reservations::windows(
                &self.engine(line)?.advance_reservations(self.now),
                context,
            ),
        };
        Ok(lines(&text))
    }

    fn explain(&mut self, line: usize, element: ElementId) -> Result<Vec<String>, ScriptError> {
        let now = self.now;
        let name = self.element_name(element);
        let known = self.engine_mut(line)?.explain(now, element);
        Ok(match known {
            Some(known) => lines(&explain::explain(&known, RenderContext::plain().at(now))),
            None => vec![format!("{name} has ended")],
        })
    }

    fn would(&mut self, line: usize, spec: &JobSpec) -> Result<Vec<String>, ScriptError> {
        let now = self.now;
        let number = JobId(u64::MAX);
        let event = Event::Submitted { job: number, spec: std::sync::Arc::new(spec.clone()) };
        if let Err(refusal) = self.engine(line)?.validate(&event) {
            return Ok(vec![self.refused(&refusal)]);
        }
        let known = self.engine_mut(line)?.explain_submission(now, spec);
        Ok(lines(&explain::dry_run(&known, RenderContext::plain().at(now))))
    }

    fn rows(&self, line: usize, all: bool) -> Result<Vec<JobView>, ScriptError> {
        let mut rows: BTreeMap<JobId, JobView> = BTreeMap::new();
        if all {
            rows.extend(self.ended.iter().map(|(job, view)| (*job, view.clone())));
        }
        rows.extend(self.engine(line)?.jobs(self.now).into_iter().map(|view| (view.job, view)));
        Ok(rows.into_values().collect())
    }

    fn planned(&self, line: usize) -> Result<Vec<TimelineStart>, ScriptError> {
        let engine = self.engine(line)?;
        let planned = engine.reservations().iter().map(|one| TimelineStart {
            element: one.element,
            name: self.element_name(one.element),
            start: one.start,
            predicted: engine.plans_by_predictions(),
        });
        Ok(planned.collect())
    }

    fn reservations(&self, line: usize) -> Result<Vec<String>, ScriptError> {
        let engine = self.engine(line)?;
        let text = |one: &muster_model::Reservation| {
            let places = self.places(one.element.job, &one.placement);
            let until = match one.end {
                Time::NEVER => "without an end".to_owned(),
                end => format!("until {}", format_time(end)),
            };
            format!(
                "{} from {} {until} on {places}",
                self.element_name(one.element),
                format_time(one.start)
            )
        };
        let lines: Vec<String> = engine.reservations().iter().map(text).collect();
        Ok(if lines.is_empty() { vec!["none".to_owned()] } else { lines })
    }

    fn usage(&self, line: usize) -> Result<Vec<UsageView>, ScriptError> {
        let engine: &Engine = self.engine(line)?;
        let decayed = engine.usage_decayed(self.now);
        let rows =
            self.account.rows(self.now).into_iter().map(|((user, queue), (jobs, gpu_secs))| {
                let counts =
                    decayed.iter().find(|(whose, whither, _)| (whose, whither) == (&user, &queue));
                let decayed_gpu_secs = counts.map_or(0, |(_, _, secs)| *secs);
                UsageView { user, queue, jobs, gpu_secs, decayed_gpu_secs }
            });
        Ok(rows.collect())
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
