//! `muster prove gang`: one order of arrivals step by step, under both kinds of admission. Counts
//! over many orders are in `prove/counts.rs`. Nothing is decided or counted here.

mod counts;

use muster_model::proof::{
    AdmissionRun, GangNeed, GangProof, OrderVerdict, ProofStep, SubmissionDecision,
};
use muster_model::reason::Reason;

use crate::RenderContext;
use crate::amount::{count, gpus, ranges, times};
use crate::reason::short;
use crate::style::{Ink, shorten, wrap};
use crate::table::{Cell, Labels, Table};

pub use counts::{orders, sweep};

/// A larger pool is not drawn device by device.
const DRAWN_GPUS: u32 = 32;
/// With more gangs than this, those that hold nothing are left out of a row.
const NAMED_GANGS: usize = 4;
/// With more holders than this, they are counted and not named.
const NAMED_HOLDERS: usize = 6;
/// Letters of a longer order, or of pods that wait in one row, are cut.
const ORDER_LETTERS: usize = 60;
const ROW_LETTERS: usize = 12;
/// Width of the labels in front of closing lines.
const LABEL: usize = 6;

/// Returns one order under both kinds of admission, and why they differ.
#[must_use]
pub fn gang(proof: &GangProof, context: RenderContext) -> String {
    let requested = format!(
        "{}; {}; {}; arrivals {}",
        pool(proof.gpus),
        needs(&proof.gangs),
        per_pod(proof.gpus_per_pod),
        shorten(&proof.order, ORDER_LETTERS)
    );
    let mut text = line(&requested, context);
    text.push('\n');
    text += &line("pod by pod: each pod is a job of its own and takes what is free", context);
    text += &steps(&proof.per_pod, proof, "POD", context);
    text.push('\n');
    text += &line("gang admission: each gang is one job, whose pods all start together", context);
    text += &steps(&proof.gang, proof, "GANG", context);
    text.push('\n');
    text += &beside(proof, context);
    text.push('\n');
    text += &closing("why", &why(proof), context);
    text += &closing("next", &format!("{} --all-orders", command(proof)), context);
    text
}

/// Returns the submissions in order; neighbours that wait for the same reason share a row.
fn steps(
    run: &AdmissionRun,
    proof: &GangProof,
    heading: &'static str,
    context: RenderContext,
) -> String {
    let mut drawn = vec!['·'; proof.gpus as usize];
    let mut rows = Vec::new();
    for row in run.steps.chunk_by(waits_alike) {
        if let Some(SubmissionDecision::Placed { devices }) = row.first().map(|step| &step.decided)
        {
            for device in devices {
                if let Some(place) = drawn.get_mut(usize::from(*device)) {
                    *place = row[0].gang;
                }
            }
        }
        rows.push((row, drawn.iter().collect::<String>()));
    }
    Table::of(&rows)
        .right("STEP", |(row, _)| ranges(&row.iter().map(|step| step.at).collect::<Vec<_>>()))
        .left(heading, |(row, _)| {
            shorten(&row.iter().map(|step| step.gang).collect::<String>(), ROW_LETTERS)
        })
        .left("POOL", |(_, drawn)| if proof.gpus <= DRAWN_GPUS { drawn } else { "" })
        .left("HELD", |(row, _)| held_after(&row[row.len() - 1], proof))
        .right("FREE", |(row, _)| row[row.len() - 1].free_gpus.to_string())
        .left("", |(row, _)| note(&row[0], proof))
        .indented(2)
        .render(context)
}

/// Returns true if both steps wait, for the same reason.
fn waits_alike(one: &ProofStep, next: &ProofStep) -> bool {
    matches!(one.decided, SubmissionDecision::Waits { .. }) && one.decided == next.decided
}

/// Describes the engine's decision.
fn note(step: &ProofStep, proof: &GangProof) -> Cell {
    let (text, ink) = match &step.decided {
        SubmissionDecision::Placed { devices } => {
            let indices: Vec<u32> = devices.iter().copied().map(u32::from).collect();
            let noun = if indices.len() == 1 { "GPU" } else { "GPUs" };
            let need =
                proof.gangs.iter().find(|gang| gang.gang == step.gang).map(|gang| gang.need_pods);
            let is_whole = step.held_pods.get(&step.gang).copied() == need;
            let whole = if is_whole { format!(": {} runs", step.gang) } else { String::new() };
            (
                format!("gets {noun} {}{whole}", ranges(&indices)),
                if is_whole { Ink::Good } else { Ink::Plain },
            )
        }
        SubmissionDecision::Waits { reason } => {
            let reason = reason.as_ref().map(|reason| short(reason, RenderContext::plain()));
            (format!("waits: {}", reason.as_deref().unwrap_or("reason unknown")), Ink::Waiting)
        }
        SubmissionDecision::Refused { reason: Reason::NeverFits(gap) } => {
            let requested = times(gap.gpus_per_task, gap.tasks_needed);
            let total = gap.gpus_total;
            (format!("refused: needs {} together, the pool has {total}", gpus(requested)), Ink::Bad)
        }
        SubmissionDecision::Refused { reason } => {
            (format!("refused: {}", short(reason, RenderContext::plain())), Ink::Bad)
        }
    };
    Cell::inked(text, ink)
}

fn held_after(step: &ProofStep, proof: &GangProof) -> String {
    let held = |gang: &GangNeed| step.held_pods.get(&gang.gang).copied().unwrap_or(0);
    held_text(proof.gangs.iter().map(|gang| (gang.gang, held(gang), gang.need_pods)))
}

/// `a 4 of 5, b 4 of 5`; of many gangs, only those that hold GPUs.
fn held_text(gangs: impl Iterator<Item = (char, u32, u32)>) -> String {
    let gangs: Vec<_> = gangs.collect();
    let holders: Vec<_> = gangs.iter().filter(|(_, held, _)| *held > 0).collect();
    if holders.is_empty() && gangs.len() > NAMED_GANGS {
        return "nothing".to_owned();
    }
    if holders.len() > NAMED_HOLDERS {
        let pods: u32 = holders.iter().map(|(_, held, _)| held).sum();
        return format!("{} pods of {} gangs", pods, holders.len());
    }
    let shown = if gangs.len() > NAMED_GANGS { holders } else { gangs.iter().collect() };
    let words: Vec<String> =
        shown.iter().map(|(gang, held, need)| format!("{gang} {held} of {need}")).collect();
    words.join(", ")
}

/// Returns the table of the two verdicts.
fn beside(proof: &GangProof, context: RenderContext) -> String {
    Table::of(&[("pod by pod", &proof.per_pod), ("gang admission", &proof.gang)])
        .left("ADMISSION", |(name, _)| *name)
        .left("HELD", |(_, run)| {
            held_text(run.gangs.iter().map(|gang| (gang.gang, gang.held_pods, gang.need_pods)))
        })
        .left("RUNS", |(_, run)| {
            let runs = run.gangs.iter().filter(|gang| gang.runs);
            let runs: Vec<String> = runs.map(|gang| gang.gang.to_string()).collect();
            if runs.is_empty() { "nothing".to_owned() } else { runs.join(", ") }
        })
        .right("FREE", |(_, run)| run.free_gpus.to_string())
        .left("VERDICT", |(_, run)| Cell::inked(run.verdict.word(), ink(run.verdict)))
        .render(context)
}

fn ink(verdict: OrderVerdict) -> Ink {
    match verdict {
        OrderVerdict::Deadlock => Ink::Bad,
        OrderVerdict::Waste => Ink::Waiting,
        OrderVerdict::Whole => Ink::Good,
        OrderVerdict::Open => Ink::Faint,
    }
}

/// Explains the difference in one sentence.
fn why(proof: &GangProof) -> String {
    let run = &proof.per_pod;
    let parts = || run.gangs.iter().filter(|gang| gang.held_pods > 0 && !gang.runs);
    match run.verdict {
        OrderVerdict::Deadlock => {
            let missing: Vec<String> = parts()
                .map(|gang| format!("{} lacks {}", gang.gang, gang.need_pods - gang.held_pods))
                .collect();
            let missing = match missing.len() {
                0..=NAMED_HOLDERS => missing.join(", "),
                many => format!("{many} gangs lack pods"),
            };
            let refused = proof
                .gang
                .steps
                .iter()
                .any(|step| matches!(step.decided, SubmissionDecision::Refused { .. }));
            let whole = if refused {
                "gang admission refuses a gang that can never fit, and a waiting gang holds nothing"
            } else {
                "under gang admission a waiting gang holds nothing"
            };
            format!(
                "a pod keeps its GPU while the rest of its gang waits for one ({missing}), so nothing ever runs; {whole}"
            )
        }
        OrderVerdict::Waste => {
            let idle: u32 = parts().map(|gang| gang.held_pods * proof.gpus_per_pod).sum();
            let names: Vec<String> = parts().map(|gang| gang.gang.to_string()).collect();
            let (names, hold) = match names.len() {
                1 => (names.join(""), "holds"),
                2..=NAMED_HOLDERS => (names.join(", "), "hold"),
                many => (format!("{many} gangs"), "hold"),
            };
            let idle = count(idle.into(), "GPU");
            format!(
                "{names} {hold} {idle} and cannot run; under gang admission a waiting gang holds nothing"
            )
        }
        OrderVerdict::Whole => {
            "every gang that holds GPUs is complete, so in this order both have the same result"
                .to_owned()
        }
        OrderVerdict::Open => {
            let missing: u32 =
                run.gangs.iter().map(|gang| gang.need_pods - gang.arrived_pods).sum();
            let free = count(run.free_gpus.into(), "GPU");
            format!(
                "{} may still arrive and {free} stay free until then: the rest of the order decides",
                count(missing.into(), "pod")
            )
        }
    }
}

/// `pool of 8 GPUs`.
fn pool(gpus: u32) -> String {
    format!("pool of {}", count(gpus.into(), "GPU"))
}

/// `1 GPU per pod`.
fn per_pod(gpus: u32) -> String {
    format!("{} per pod", count(gpus.into(), "GPU"))
}

/// `a and b need 5 pods each`, `a to d need 1 pod each`, `a needs 2 pods, b needs 3 pods`.
fn needs(gangs: &[GangNeed]) -> String {
    let pods = |gang: &GangNeed| count(gang.need_pods.into(), "pod");
    if let [first, .., last] = gangs
        && gangs.iter().all(|gang| gang.need_pods == first.need_pods)
    {
        let between = if gangs.len() == 2 { "and" } else { "to" };
        return format!("{} {between} {} need {} each", first.gang, last.gang, pods(first));
    }
    let words: Vec<String> =
        gangs.iter().map(|gang| format!("{} needs {}", gang.gang, pods(gang))).collect();
    words.join(", ")
}

/// Returns the command for this pool and these gangs.
fn command(proof: &GangProof) -> String {
    let needs: Vec<String> = proof.gangs.iter().map(|gang| gang.need_pods.to_string()).collect();
    let per_pod = match proof.gpus_per_pod {
        1 => String::new(),
        gpus => format!(" --gpus-per-pod {gpus}"),
    };
    format!("muster prove gang --gpus {} --need {}{per_pod}", proof.gpus, needs.join(","))
}

/// Returns a sentence, wrapped to the terminal's width.
fn line(sentence: &str, context: RenderContext) -> String {
    let width = context.width.unwrap_or(usize::MAX);
    wrap(sentence, width).iter().map(|line| format!("{line}\n")).collect()
}

/// Returns a labelled sentence, wrapped with a hanging indent.
fn closing(label: &str, sentence: &str, context: RenderContext) -> String {
    let labels = Labels { indent: 0, width: LABEL, ink: Ink::Strong };
    labels.wrapped(label, sentence, context.width.unwrap_or(usize::MAX), LABEL, context)
}

#[cfg(test)]
mod tests;
