//! Sweeps: points from parameters, and the checks of what belongs together.

pub(super) mod fields;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::Array;
use muster_model::payload::TaskCommand;
use muster_model::sweep::{EarlyStop, Metric, Param, Points, Sweep};
use muster_sweep::{Distribution, MetricReader, draw, references};

use self::fields::{MetricDocument, NamedParam, Params, StopRule};
pub use self::table::{BadTable, read_table};
use crate::diagnostic::{Problem, Problems, show};
use crate::field::Located;
use crate::job::ParsedJob;
use crate::job::document::JobDocument;
use crate::job::fields::Program;
use crate::job::kind::KindValue;
use crate::job::shape::contradiction;
use crate::quantity::MAX_ELEMENTS;
use crate::suggest::nearest;

/// Most values that are drawn: they are stored with the job, about 10 bytes each.
const MAX_DRAWN: usize = 1_000_000;
/// Default factor of successive halving, as in the paper's experiments (Li et al. 2020, section 5).
const DEFAULT_FACTOR: u32 = 4;
/// Default number of other elements that the median rule needs.
const DEFAULT_OTHERS: u32 = 3;

/// Returns the sweep of a job of that kind, and the indices of its elements.
pub(super) fn of_job(
    document: &ParsedJob,
    word: KindValue,
    problems: &mut Problems,
) -> Option<(Sweep, Array)> {
    let job = &document.fields;
    if word != KindValue::Sweep {
        return None;
    }
    let Some(written) = &job.params else {
        problems.add(
            Problem::new("`params` is missing")
                .at(document.place, "a sweep needs the values to try")
                .hint("add `params: {lr: [1e-4, 3e-4]}`".to_owned()),
        );
        return None;
    };
    let before = problems.len();
    let (params, points) = points(written, job, problems)?;
    check_names(&params, written, problems);
    check_references(&params, job, problems);
    check_other_fields(&params, job, problems);
    let metric = job.metric.as_ref().and_then(|metric| self::metric(metric, job, problems));
    let early_stop = early_stop(job, problems);
    let sweep = Sweep { params, points, metric, early_stop };
    let array = elements(&sweep, written, job, problems)?;
    (problems.len() == before).then_some((sweep, array))
}

/// Returns the values of the parameters, and how they are combined.
fn points(
    written: &Located<Params>,
    job: &JobDocument,
    problems: &mut Problems,
) -> Option<(Vec<Param>, Points)> {
    let of_random = [
        ("samples", job.samples.as_ref().map(|field| field.key)),
        ("seed", job.seed.as_ref().map(|field| field.key)),
    ];
    let named = match &written.value {
        Params::Named(named) => named,
        Params::Rows(rows) => {
            for (name, place) in of_random {
                if let Some(place) = place {
                    let label = "a list of rows is complete: nothing is drawn";
                    problems.add(
                        Problem::new(format!("`{name}` has no meaning here")).at(place, label),
                    );
                }
            }
            return Some((rows.clone(), Points::Rows));
        }
        Params::File(path) => {
            problems.add(
                Problem::new(format!("the parameters in {} were not read", show(path)))
                    .at(
                        written.place,
                        "only the command line reads files, and for one job at a time",
                    )
                    .hint("write the rows here: `params: [{lr: 1e-4}, {lr: 3e-4}]`".to_owned()),
            );
            return None;
        }
    };
    let Some(samples) = &job.samples else { return grid(named, job, problems) };
    let seed = job.seed.as_ref().map_or(0, |seed| seed.value.0 as u64);
    let count = samples.value.0 as u32;
    let drawn = named.len() * count as usize;
    if drawn > MAX_DRAWN {
        let label = format!("{drawn} values of all parameters; at most {MAX_DRAWN}");
        problems.add(Problem::new("`samples` is too large").at(samples.place, label));
        return None;
    }
    let param = |(position, param): (u64, &NamedParam)| Param {
        name: Arc::clone(&param.name),
        values: draw(&param.values, count, seed, position),
    };
    Some(((0..).zip(named).map(param).collect(), Points::Rows))
}

/// Returns the values of a grid; ranges of real numbers have no place in one.
fn grid(
    named: &[NamedParam],
    job: &JobDocument,
    problems: &mut Problems,
) -> Option<(Vec<Param>, Points)> {
    if let Some(seed) = &job.seed {
        let hint = "add `samples: 20`, or remove it".to_owned();
        problems.add(
            Problem::new("`seed` needs `samples`").at(seed.key, "nothing is drawn").hint(hint),
        );
    }
    let mut params = Vec::new();
    for NamedParam { name, place, values } in named {
        let values = match values {
            Distribution::Choice(values) => values.clone(),
            Distribution::Whole { low, high } if high.abs_diff(*low) < MAX_ELEMENTS => {
                (*low..=*high).map(|number| number.to_string().into()).collect()
            }
            Distribution::Whole { .. }
            | Distribution::Uniform { .. }
            | Distribution::Log { .. } => {
                problems.add(
                    Problem::new("a range needs `samples`")
                        .at(*place, "how many values of it?")
                        .hint(
                        "add `samples: 20` to draw every parameter 20 times, or list the values"
                            .to_owned(),
                    ),
                );
                continue;
            }
        };
        params.push(Param { name: Arc::clone(name), values });
    }
    (params.len() == named.len()).then_some((params, Points::Grid))
}

/// Refuses two parameters whose values would be in one variable.
fn check_names(params: &[Param], written: &Located<Params>, problems: &mut Problems) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for param in params {
        let variable = param.variable();
        if let Some(other) = seen.get(&variable) {
            let message = match param.name.as_ref() {
                name if name == *other => format!("two parameters are named {}", show(name)),
                name => format!("{} and {} are too alike", show(other), show(name)),
            };
            let label = format!("both would be ${variable}");
            problems.add(Problem::new(message).at(written.key, label));
        }
        seen.insert(variable, &param.name);
    }
}

/// Refuses references to parameters that do not exist.
fn check_references(params: &[Param], job: &JobDocument, problems: &mut Problems) {
    let of_groups = job.groups.iter().flat_map(|groups| &groups.value.0);
    let programs = job.run.iter().chain(of_groups.filter_map(|group| group.value.run.as_ref()));
    for program in programs {
        let unknown = |name: &&str| !params.iter().any(|param| param.name.as_ref() == *name);
        let parts = parts(program);
        let names = parts.iter().flat_map(|part| references(part)).map(|reference| reference.name);
        for name in names.filter(unknown) {
            let known = params.iter().map(|param| param.name.as_ref());
            let hint = match nearest(name, known) {
                Some(near) => format!(
                    "did you mean `{{{near}}}`? `{{{{{name}}}}}` stands for `{{{name}}}` itself"
                ),
                None => {
                    format!("add it to `params`; `{{{{{name}}}}}` stands for `{{{name}}}` itself")
                }
            };
            let problem = Problem::new(format!("there is no parameter {}", show(name)));
            problems
                .add(problem.at(program.place, format!("this refers to `{{{name}}}`")).hint(hint));
        }
    }
}

/// Refuses references in fields where they are not replaced.
fn check_other_fields(params: &[Param], job: &JobDocument, problems: &mut Problems) {
    let texts = [("output", &job.output), ("error", &job.error), ("workdir", &job.workdir)];
    let texts = texts.into_iter().filter_map(|(field, text)| {
        let text = text.as_ref()?;
        Some((field, text.value.0.as_str(), text.place))
    });
    let env = job.env.iter().flat_map(|env| &env.value.0);
    let texts = texts.chain(env.map(|item| ("env", item.value.0.as_str(), item.place)));
    for (field, text, place) in texts {
        let is_param = |name: &str| params.iter().any(|param| param.name.as_ref() == name);
        let found = references(text).into_iter().find(|reference| is_param(reference.name));
        let Some(reference) = found else { continue };
        let hint = match field {
            "output" | "error" => "`%a` is the index of the element: `runs/%a.log`",
            _ => "the program finds its values in variables: `$MUSTER_PARAM_LR` for `lr`",
        };
        let message = format!("`{field}` cannot refer to the parameter {}", show(reference.name));
        let problem = Problem::new(message).at(place, "only `run` can");
        problems.add(problem.hint(hint.to_owned()));
    }
}

fn parts(program: &Located<Program>) -> Vec<&str> {
    let command: &TaskCommand = &program.value.0;
    command.parts()
}

fn metric(
    written: &Located<MetricDocument>,
    job: &JobDocument,
    problems: &mut Problems,
) -> Option<Metric> {
    let MetricDocument { name, goal, pattern, step } = &written.value;
    let metric = Metric {
        name: name.as_ref()?.value.0.as_str().into(),
        goal: goal.as_ref()?.value.0,
        pattern: pattern.as_ref().map(|pattern| pattern.value.0.as_str().into()),
        step: step.as_ref().map_or("step", |step| &step.value.0).into(),
    };
    let Some(pattern) = pattern else { return Some(metric) };
    if let Err(bad) = MetricReader::new(metric.clone()) {
        let problem = Problem::new("`pattern` cannot be used");
        problems.add(problem.at(pattern.place, bad.to_string()));
    }
    if let Some(step) = step {
        let hint = r"name a group of the pattern: `(?<step>\d+)`".to_owned();
        problems.add(contradiction("step", step.key, "pattern", pattern.key).hint(hint));
    }
    if let Some(output) = &job.output {
        let hint = "leave `output` out, or write the metric to `$MUSTER_REPORT_FILE`".to_owned();
        problems.add(contradiction("pattern", pattern.key, "output", output.key).hint(hint));
    }
    Some(metric)
}

fn early_stop(job: &JobDocument, problems: &mut Problems) -> Option<EarlyStop> {
    let written = job.early_stop.as_ref()?;
    if job.metric.is_none() {
        problems.add(
            Problem::new("`early-stop` needs `metric`")
                .at(written.key, "by what are the elements compared?")
                .hint("add `metric: {name: loss, goal: min}`".to_owned()),
        );
    }
    let terms = &written.value.0;
    let rule = terms.rule.as_ref()?.value;
    let asha = [
        ("first", terms.first.as_ref().map(|field| field.key)),
        ("factor", terms.factor.as_ref().map(|field| field.key)),
    ];
    let median = [
        ("every", terms.every.as_ref().map(|field| field.key)),
        ("others", terms.others.as_ref().map(|field| field.key)),
    ];
    let (foreign, other) = match rule {
        StopRule::Asha => (median, "median"),
        StopRule::Median => (asha, "asha"),
    };
    for (name, place) in foreign {
        if let Some(place) = place {
            let problem = Problem::new(format!("`{name}` belongs to the rule `{other}`"));
            problems.add(problem.at(place, "this rule has no such number"));
        }
    }
    Some(match rule {
        StopRule::Asha => EarlyStop::Asha {
            first: terms.first.as_ref().map_or(1, |first| first.value.0 as u64),
            factor: terms.factor.as_ref().map_or(DEFAULT_FACTOR, |factor| factor.value.0 as u32),
        },
        StopRule::Median => EarlyStop::Median {
            every: terms.every.as_ref().map_or(1, |every| every.value.0 as u64),
            others: terms.others.as_ref().map_or(DEFAULT_OTHERS, |others| others.value.0 as u32),
        },
    })
}

/// Returns the indices: all points, or those that `array` names.
fn elements(
    sweep: &Sweep,
    written: &Located<Params>,
    job: &JobDocument,
    problems: &mut Problems,
) -> Option<Array> {
    let count = sweep.count().filter(|count| u64::from(*count) <= MAX_ELEMENTS);
    let Some(count) = count else {
        let points: f64 = sweep.params.iter().map(|param| param.values.len() as f64).product();
        problems.add(
            Problem::new("the sweep is too large")
                .at(written.key, format!("{points} combinations; at most {MAX_ELEMENTS}"))
                .hint("`samples: 200` draws 200 of them".to_owned()),
        );
        return None;
    };
    let most = job.max_running.as_ref().map(|most| most.value.0 as u32);
    let Some(array) = &job.array else { return Some(Array::range(0, count - 1, 1, most)) };
    if let (Some(most), Some(_)) = (&job.max_running, array.value.0.max_running) {
        problems.add(contradiction("max-running", most.key, "array", array.key));
    }
    let last = array.value.0.indices().last().unwrap_or(0);
    if last >= count {
        problems.add(
            Problem::new("the sweep has no such element")
                .at(array.place, format!("its indices are 0 to {}", count - 1)),
        );
    }
    let cap = array.value.0.max_running.or(most);
    Some(Array { max_running: cap, ..array.value.0.clone() })
}
