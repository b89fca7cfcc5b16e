//! Simulation results shown with advice: the load, a row per control plane, and a verdict. The
//! figures are computed and evaluated elsewhere.

use std::collections::BTreeSet;

use muster_model::Span;
use muster_model::advice::{ProofConclusion, ProvedPlane, ProvedRole, SiteProof};
use muster_model::simulation::Figure;

use super::changes;
use super::layout::{AdvicePage, PageSection, SectionItem};
use crate::RenderContext;
use crate::amount::{grouped, grouped_count};
use crate::fleet::findings::sized;
use crate::fleet::words::{amount, with_margin};
use crate::style::{Ink, clean};
use crate::table::{Align, Cell, Table};

/// Blanks before a row of the table.
const INDENT: usize = 2;
/// Control planes named in the verdict; more are counted.
const NAMED: usize = 3;

/// Heading, alignment and cell text of a column; a column without text is left out.
type ProofColumn = (&'static str, Align, fn(&ProvedPlane) -> String);

const COLUMNS: [ProofColumn; 11] = [
    ("MODEL", Align::Left, |plane| {
        format!("{}{}", plane.scheduler, if plane.is_partial { "*" } else { "" })
    }),
    ("TURNAROUND", Align::Right, |plane| over_jobs(plane, "turnaround_secs.mean")),
    ("WAITED", Align::Right, |plane| over_jobs(plane, "waited_secs.mean")),
    ("95 %", Align::Right, |plane| over_jobs(plane, "waited_secs.p95")),
    ("LARGEST", Align::Right, |plane| over_jobs(plane, "largest_waited_secs")),
    // These follow from the idle GPU-hours, and so do their margins.
    ("GPU USE", Align::Right, |plane| {
        plane
            .figure("gpu_use_percent")
            .map(|figure| format!("{:.1} %", figure.value))
            .unwrap_or_default()
    }),
    ("IDLE", Align::Right, |plane| known(plane, "idle_gpu_hours", amount)),
    ("LOST", Align::Right, |plane| {
        let lost = plane.figure("lost_gpu_hours").filter(|hours| hours.value > 0.0);
        lost.map(|hours| with_margin(hours, amount)).unwrap_or_default()
    }),
    ("COST", Align::Right, |plane| {
        plane.figure("idle_cost").map(|figure| amount(figure.value)).unwrap_or_default()
    }),
    ("UNDONE", Align::Right, |plane| {
        undone(plane).map(|jobs| with_margin(jobs, amount)).unwrap_or_default()
    }),
    ("STANDS FOR", Align::Left, |plane| match plane.role {
        ProvedRole::Advised => format!("advised: {}", plane.name),
        ProvedRole::RunnerUp => format!("flip: {}", plane.name),
        ProvedRole::Other | ProvedRole::Muster => plane.name.clone(),
    }),
];
/// Columns that are left out first on a narrow terminal.
const SPARED: [&str; 5] = ["LARGEST", "95 %", "GPU USE", "LOST", "COST"];

/// Returns the number of jobs that never end or are refused, if any; `None` for an interrupted run,
/// where it is unknown.
fn undone(plane: &ProvedPlane) -> Option<Figure> {
    plane.figure("undone").filter(|jobs| jobs.value > 0.0 && !plane.is_partial)
}

/// Returns a duration over all jobs, marked `≥` if some of them never end.
fn over_jobs(plane: &ProvedPlane, name: &str) -> String {
    let at_least = if plane.left > 0 && !plane.is_partial { "≥ " } else { "" };
    plane
        .figure(name)
        .map_or_else(|| "-".to_owned(), |figure| format!("{at_least}{}", with_margin(figure, span)))
}

/// Returns a duration in whole seconds.
fn span(secs: f64) -> String {
    Span::from_secs(secs.round() as u64).to_string()
}

/// Returns a figure as text; `-` where the run does not have it, such as the wait if no job began.
fn known(plane: &ProvedPlane, name: &str, words: fn(f64) -> String) -> String {
    plane.figure(name).map_or_else(|| "-".to_owned(), |figure| with_margin(figure, words))
}

/// Returns the lines of the proof, to be shown below the advice.
pub(super) fn lines(proof: &SiteProof, context: RenderContext) -> Vec<String> {
    let page = AdvicePage::new(context);
    let section = |label, items: Vec<String>| PageSection {
        label,
        items: items.into_iter().map(SectionItem::new).collect(),
        rank: 0,
        apart: false,
        is_whole: false,
    };
    let mut lines = page.whole(&[section("proved", vec![load(proof), counted(proof)])]);
    lines.push(String::new());
    lines.extend(table(proof, page.width(), context).lines().map(str::to_owned));
    lines.push(String::new());
    lines.extend(page.whole(&[
        section("figures", std::iter::once(verdict(proof)).chain(losses(proof)).collect()),
        section("largest", vec![largest(proof)]),
        section("never ran", vec![never_ran(proof)]),
        section("unseen", unseen(proof)),
        section("no model", without_model(proof)),
        section("assumed", proof.assumed.iter().map(|line| clean(line).into_owned()).collect()),
    ]));
    lines
}

/// Describes the load and the cluster, and what is left out of the load.
fn load(proof: &SiteProof) -> String {
    let of = proof.trace.as_deref().map_or("the mix".into(), clean);
    let jobs = grouped_count(proof.jobs, "job");
    let nodes = grouped_count(proof.nodes, "node");
    let gpus = grouped_count(proof.gpus, "GPU");
    let mut text = format!(
        "{jobs} of {of} on {nodes} with {gpus}, {} GPU-hours",
        amount(proof.asked_gpu_hours)
    );
    let left_out = [
        (proof.never_ran, "have no known runtime"),
        (proof.too_large, "do not fit the idle cluster"),
        (proof.bad_rows, "cannot be read"),
    ];
    for (number, why) in left_out.into_iter().filter(|(number, _)| *number > 0) {
        text.push_str(&format!("; left out: {} that {why}", grouped(number)));
    }
    if proof.strangers > 0 {
        let jobs = grouped_count(proof.strangers, "job");
        text.push_str(&format!("; in the default queue: {jobs} whose queue does not exist"));
    }
    text + "; " + &seeds(proof)
}

/// Describes the random seeds, and what depends on them.
fn seeds(proof: &SiteProof) -> String {
    let (first, last) = match proof.seeds.as_slice() {
        [first, .., last] => (first, last),
        _ => return format!("seed {}", proof.seed),
    };
    match proof.trace {
        None => format!(
            "seeds {first} to {last}, the jobs of the mix generated anew for each: jobs and GPU-hours are those of seed {first}"
        ),
        Some(_) => format!(
            "seeds {first} to {last}: the jobs are the same, only random choices of the models differ"
        ),
    }
}

/// Explains the columns of the table.
fn counted(proof: &SiteProof) -> String {
    let hours = amount(proof.gpu_hours);
    let time = span(proof.counted_hours * 3600.0);
    let mut text = format!(
        "use and idleness are those of the first {time}, {hours} GPU-hours; turnaround and waits are those of all jobs: \
         waited is all the time between submission and end in which a job did not run; idle and lost are GPU-hours"
    );
    text.push_str(&format!("; largest: {}", sized(&proof.largest, "GPU")));
    if let Some(price) = proof.gpu_hour_price {
        text.push_str(&format!("; cost: idle GPU-hours at {price} each"));
    }
    if proof.planes.iter().any(|plane| undone(plane).is_some()) {
        text.push_str("; undone: jobs that never end or are refused; the former count until the last instant of any control plane (≥)");
    }
    if proof.planes.iter().any(|plane| !plane.intervals.is_empty()) {
        text.push_str("; means over the seeds, ±: half-width of the 95 % confidence interval");
    }
    text
}

fn table(proof: &SiteProof, width: usize, context: RenderContext) -> String {
    let of = |spared: &[&str], context: RenderContext| {
        let columns = COLUMNS.iter().filter(|(heading, ..)| !spared.contains(heading));
        let table = Table::of(&proof.planes).indented(INDENT);
        let table = columns.fold(table, |table, (heading, align, text)| {
            table.column(heading, *align, |plane| {
                let is_advised = plane.role == ProvedRole::Advised;
                Cell::inked(text(plane), if is_advised { Ink::Strong } else { Ink::Plain })
            })
        });
        table.render(context.with_width(width))
    };
    let lines_of = |spared: &[&str]| of(spared, RenderContext::plain().with_width(width));
    let is_within = |line: &str| line.chars().count() <= width;
    let fits = |spared: &&&[&str]| {
        lines_of(spared).lines().all(|line| is_within(line) && !line.contains('…'))
    };
    // Names are shortened before the last of these columns, the price, is left out.
    let choices = [0, 1, 2, 3, 4].map(|count| &SPARED[..count]);
    let cut = Some(&choices[4]).filter(|spared| lines_of(spared).lines().all(is_within));
    of(choices.iter().find(fits).or(cut).copied().unwrap_or(&SPARED), context)
}

/// Returns one sentence on whether the figures support the advice, with the figures that do.
fn verdict(proof: &SiteProof) -> String {
    let advised = proof.planes.iter().find(|plane| plane.role == ProvedRole::Advised);
    let Some(advised) = advised else { return String::new() };
    let shown = |plane: &ProvedPlane| {
        let never = undone(plane).map(|jobs| format!(", {} never end", with_margin(jobs, amount)));
        let takes = over_jobs(plane, "turnaround_secs.mean");
        let waited = over_jobs(plane, "waited_secs.mean");
        let idle = known(plane, "idle_gpu_hours", amount);
        let never = never.unwrap_or_default();
        format!(
            "under {} jobs take {takes}, of which they wait {waited}, and {idle} GPU-hours are idle{never}",
            plane.scheduler
        )
    };
    match proof.verdict.conclusion {
        ProofConclusion::Interrupted => {
            "interrupted (*): they cover only the simulated time so far and do not judge the advice"
                .to_owned()
        }
        ProofConclusion::Neither => {
            format!(
                "neither support nor contradict the advice at this load: nothing does clearly better or worse than {}",
                advised.scheduler
            )
        }
        ProofConclusion::Supports => format!(
            "support the advice at this load: nothing does clearly better than {}, and {} worse",
            advised.scheduler,
            named(&proof.verdict.worse)
        ),
        ProofConclusion::Contradicts => {
            let better = |plane: &&ProvedPlane| proof.verdict.better.contains(&plane.scheduler);
            let wait = |plane: &ProvedPlane| {
                plane.figure("turnaround_secs.mean").map_or(0.0, |figure| figure.value)
            };
            let by_wait =
                |one: &&ProvedPlane, other: &&ProvedPlane| wait(one).total_cmp(&wait(other));
            let best = proof.planes.iter().filter(better).min_by(by_wait).unwrap_or(advised);
            format!(
                "contradict the advice at this load: {} clearly better; {}, {}. The advice follows the rules and does not change",
                named(&proof.verdict.better),
                shown(best),
                shown(advised)
            )
        }
    }
}

/// Returns the wait of the largest jobs under each control plane, on a terminal of any width.
fn largest(proof: &SiteProof) -> String {
    let wait = |plane: &ProvedPlane| {
        let wait = plane.figure("largest_waited_secs");
        let wait = wait.map_or_else(|| "unknown".to_owned(), |figure| with_margin(figure, span));
        format!("{} {wait}", plane.scheduler)
    };
    let waits: Vec<String> = proof.planes.iter().map(wait).collect();
    format!("{} wait: {}", sized(&proof.largest, "GPU"), waits.join(", "))
}

/// Returns the jobs that never end or are refused under each control plane; `none` where there are none.
fn never_ran(proof: &SiteProof) -> String {
    let jobs = |plane: &ProvedPlane| {
        let jobs = undone(plane)?;
        Some(format!("{} {}", plane.scheduler, with_margin(jobs, amount)))
    };
    let jobs: Vec<String> = proof.planes.iter().filter_map(jobs).collect();
    if proof.planes.iter().any(|plane| plane.is_partial) {
        return "unknown: the runs were stopped".to_owned();
    }
    if jobs.is_empty() { "none".to_owned() } else { jobs.join(", ") }
}

/// Returns why each control plane that does clearly worse loses, one sentence each.
fn losses(proof: &SiteProof) -> Vec<String> {
    let advised = proof.planes.iter().find(|plane| plane.role == ProvedRole::Advised);
    let Some(advised) = advised else { return Vec::new() };
    let value = |plane: &ProvedPlane, name| plane.figure(name).map_or(0.0, |figure| figure.value);
    let worse = proof.planes.iter().filter(|plane| proof.verdict.worse.contains(&plane.scheduler));
    let loss = |plane: &ProvedPlane| {
        let name = &plane.scheduler;
        let undone = value(plane, "undone");
        if undone > value(advised, "undone") {
            return format!(
                "{name} loses: {} jobs never end under it or are refused",
                amount(undone)
            );
        }
        let longer = value(plane, "turnaround_secs.mean") - value(advised, "turnaround_secs.mean");
        let unused = value(plane, "unused_gpu_hours") - value(advised, "unused_gpu_hours");
        if longer > 0.0 {
            return format!("{name} loses: each job ends {} later on average", span(longer));
        }
        format!("{name} loses: {} GPU-hours more are idle or lost", amount(unused))
    };
    worse.map(loss).collect()
}

/// `a, b and c do`.
fn named(names: &[String]) -> String {
    match names {
        [] => "nothing does".to_owned(),
        [one] => format!("{one} does"),
        [first @ .., last] if names.len() <= NAMED => format!("{} and {last} do", first.join(", ")),
        _ => format!("{} and {} more do", names[..NAMED - 1].join(", "), names.len() - NAMED + 1),
    }
}

/// Lists what no simulation covers, and the reasons of the advice that depend on it.
fn unseen(proof: &SiteProof) -> Vec<String> {
    let what = "service availability, operations, staff and existing systems";
    vec![match proof.unseen.as_slice() {
        [] => what.to_owned(),
        reasons => format!("{what}: {}", reasons.join(", ")),
    }]
}

/// Lists the parts of labels that no model covers, each once: of the advised control plane and of
/// those that flips lead to.
fn without_model(proof: &SiteProof) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut items = Vec::new();
    for plane in &proof.planes {
        let new: Vec<&str> = plane
            .without_model
            .iter()
            .map(String::as_str)
            .filter(|part| seen.insert(*part))
            .collect();
        if new.is_empty() {
            continue;
        }
        let at = match &plane.change {
            Some(change) => format!("{}, if {}", plane.name, changes(change)),
            None => plane.name.clone(),
        };
        items.push(format!("{at}: {}", new.join(", ")));
    }
    items
}

#[cfg(test)]
mod tests {
    use muster_model::advice::ProofVerdict;
    use muster_model::simulation::{ConfidenceInterval, Spread};

    use super::*;

    fn plane(scheduler: &str, role: ProvedRole, wait: f64, idle: f64) -> ProvedPlane {
        ProvedPlane {
            name: format!("kubernetes with {scheduler}"),
            role,
            change: None,
            scheduler: scheduler.to_owned(),
            without_model: vec!["KubeRay".to_owned()],
            is_partial: false,
            ended: 8,
            refused: 0,
            left: 0,
            turnaround_secs: Spread { mean: wait + 7200.0, ..Spread::default() },
            waited_secs: Spread { mean: wait, p95: wait * 3.0, ..Spread::default() },
            largest_waited_secs: (wait > 100.0).then_some(wait * 2.0),
            gpu_use_percent: 81.25,
            idle_gpu_hours: idle,
            held_idle_gpu_hours: 0.0,
            stranded_gpu_hours: 0.0,
            lost_gpu_hours: 0.0,
            idle_cost: Some(idle * 2.5),
            intervals: Vec::new(),
        }
    }

    fn proof(says: ProofConclusion, better: &[&str], worse: &[&str]) -> SiteProof {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        SiteProof {
            trace: None,
            cluster: None,
            queues: None,
            seed: 1,
            seeds: vec![1],
            nodes: 16,
            gpus: 128,
            jobs: 4321,
            never_ran: 0,
            too_large: 2,
            strangers: 0,
            bad_rows: 0,
            asked_gpu_hours: 19353.6,
            counted_hours: 168.0,
            gpu_hours: 21504.0,
            gpu_hour_price: Some(2.5),
            kinds: Vec::new(),
            assumed: vec!["one switch".to_owned()],
            largest: "9 to 64".to_owned(),
            planes: vec![
                plane("slurm", ProvedRole::Advised, 3600.0, 4032.0),
                plane("kai", ProvedRole::RunnerUp, 60.0, 3000.0),
                ProvedPlane {
                    left: 12,
                    ..plane("kube-default", ProvedRole::Other, 999_999.0, 21_000.0)
                },
            ],
            verdict: ProofVerdict { conclusion: says, better: names(better), worse: names(worse) },
            unseen: vec!["working-slurm-stays".to_owned()],
        }
    }

    /// Returns a proof of an interrupted run, where the outcome of the remaining jobs is unknown.
    fn interrupted() -> SiteProof {
        let mut proof = proof(ProofConclusion::Interrupted, &[], &[]);
        proof.planes.iter_mut().for_each(|plane| plane.is_partial = true);
        proof
    }

    #[test]
    fn rows_stand_in_any_width_and_the_advised_first() {
        for width in [80, 100] {
            let context = RenderContext::plain().with_width(width);
            let shown = lines(&proof(ProofConclusion::Contradicts, &["kai"], &[]), context);
            assert!(
                shown.iter().all(|line| line.chars().count() <= width),
                "{width}:\n{}",
                shown.join("\n")
            );
            let rows: Vec<&String> = shown
                .iter()
                .filter(|line| line.starts_with("  slurm ") || line.starts_with("  kai "))
                .collect();
            let words: Vec<&str> = rows[0].split_whitespace().collect();
            assert!(
                words.contains(&"10,080")
                    && words.contains(&"4,032")
                    && rows[0].contains("advised:"),
                "{rows:?}"
            );
            assert!(rows[1].contains("flip:"), "{rows:?}");
            let stuck = shown.iter().find(|line| line.starts_with("  kube-default ")).unwrap();
            assert!(stuck.contains(" 12  "), "{stuck}");
            let partial = lines(&interrupted(), context).concat();
            assert!(partial.contains("kube-default*") && !partial.contains("UNDONE"), "{partial}");
            assert!(shown.concat().contains("left out: 2"), "{shown:?}");
        }
    }

    #[test]
    fn figures_of_several_seeds_have_margins() {
        let mut proof = proof(ProofConclusion::Contradicts, &["kai"], &[]);
        proof.seeds = vec![1, 2, 3];
        let interval =
            |name: &str, mean, margin| ConfidenceInterval { figure: name.to_owned(), mean, margin };
        for plane in &mut proof.planes[..2] {
            plane.intervals = vec![
                interval("turnaround_secs.mean", 7290.0, 40.0),
                interval("waited_secs.mean", 90.0, 30.0),
                interval("idle_gpu_hours", 4000.0, 120.0),
                interval("idle_cost", 10_000.0, 300.0),
            ];
        }
        for width in [80, 100] {
            let shown = lines(&proof, RenderContext::plain().with_width(width)).join("\n");
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{width}:\n{shown}");
            let row = shown.lines().find(|line| line.starts_with("  kai ")).unwrap();
            assert!(
                row.contains("2h01m ± 40s  1m30s ± 30s ") && row.contains(" 4,000 ± 120 "),
                "{row}"
            );
        }
        let shown = lines(&proof, RenderContext::plain()).join(" ");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let reported = [
            "seeds 1 to 3, the jobs of the mix generated anew for each",
            "half-width of the 95 % confidence interval",
            "under kai jobs take 2h01m ± 40s, of which they wait 1m30s ± 30s, and 4,000 ± 120 GPU-hours are idle",
        ];
        assert!(reported.iter().all(|part| shown.contains(part)), "{shown}");
        proof.trace = Some("jobs.csv".to_owned());
        assert_eq!(
            seeds(&proof),
            "seeds 1 to 3: the jobs are the same, only random choices of the models differ"
        );
    }

    #[test]
    fn the_verdict_is_plain() {
        let check = |says, better: &[&str], worse: &[&str], expected: &str| {
            assert_eq!(verdict(&proof(says, better, worse)), expected);
        };
        check(
            ProofConclusion::Contradicts,
            &["kai"],
            &[],
            "contradict the advice at this load: kai does clearly better; under kai jobs take 2h01m, of which they wait \
             1m, and 3,000 GPU-hours are idle, under slurm jobs take 3h, of which they wait 1h, and 4,032 GPU-hours are idle. The advice follows the rules and does not change",
        );
        check(
            ProofConclusion::Supports,
            &[],
            &["ray", "none"],
            "support the advice at this load: nothing does clearly better than slurm, and ray and none do worse",
        );
        check(
            ProofConclusion::Neither,
            &[],
            &[],
            "neither support nor contradict the advice at this load: nothing does clearly better or worse than slurm",
        );
        assert!(
            verdict(&proof(ProofConclusion::Interrupted, &[], &[])).starts_with("interrupted (*)")
        );
        let four: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(
            (named(&four[..3]), named(&four)),
            ("a, b and c do".to_owned(), "a, b and 2 more do".to_owned())
        );
    }
}
