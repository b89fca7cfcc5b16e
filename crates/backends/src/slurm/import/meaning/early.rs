//! What holds between options: a field that another one makes impossible is taken out again before
//! anybody reads the job file. And one way of writing for the value of each option.

use muster_model::imported::{Becomes, ImportedOption};

use super::super::draft::{Checkpoint, Draft};
use super::super::option::Given;
use super::super::value::{self, Limit};
use super::single;

/// Takes out what the job file would be refused for.
pub(super) fn checks(draft: &mut Draft, answers: &mut [ImportedOption]) {
    let limit = draft.time.map(|minutes| minutes * 60);
    if let (Some(Checkpoint { lead_secs: lead, .. }), Some(limit)) = (&draft.checkpoint, limit)
        && *lead >= limit
    {
        draft.checkpoint = None;
        unmap(
            answers,
            "signal",
            "it would come before the job begins: its lead is as long as the time limit",
        );
    }
    if draft.array.is_some() && draft.groups.len() > 1 {
        draft.array = None;
        unmap(answers, "array", "Slurm has no arrays of heterogeneous jobs");
    }
    // Without --nodes Slurm would take as many as are named; a job says how many it has.
    let most =
        draft.groups.iter().map(|group| group.nodes.or(group.tasks).unwrap_or(1)).sum::<u64>();
    let named: Option<u64> = draft.slurm.nodelist.iter().map(|part| value::named(part)).sum();
    if named.is_none_or(|named| named > most) {
        draft.slurm.nodelist.clear();
        unmap(
            answers,
            "nodelist",
            "it names more nodes than the job asks for: ask for as many by --nodes",
        );
    }
    if draft.slurm.container.is_none() && !draft.slurm.container_mounts.is_empty() {
        draft.slurm.container_mounts.clear();
        unmap(answers, "container-mounts", "they are those of an image, and none is named");
    }
    if draft.slurm.switches.is_none() {
        draft.slurm.switches_wait = None;
    }
}

fn unmap(answers: &mut [ImportedOption], option: &str, why: &str) {
    for answer in answers.iter_mut().filter(|answer| answer.option == option) {
        (answer.becomes, answer.says) = (Becomes::NotMapped, why.to_owned());
    }
}

/// The value of an option in one way of writing.
pub(in super::super) fn normal(
    scratch: &mut Draft,
    one: &Given,
    name: &'static str,
    text: &str,
) -> String {
    match name {
        "time" | "time-min" => match value::limit(text) {
            Some(Limit::Minutes(count)) => format!("{count}m"),
            Some(Limit::None) => "none".to_owned(),
            None => text.to_owned(),
        },
        "requeue" => "yes".to_owned(),
        "no-requeue" => "no".to_owned(),
        "partition" | "licenses" | "exclude" | "nodelist" => value::list(text).join(","),
        "begin" => value::from_now(text)
            .map_or_else(|| text.to_owned(), |seconds| format!("now+{seconds}")),
        // These have a form of their own in the job file, from which it is told.
        "array" | "dependency" | "signal" | "switches" | "nice" => {
            *scratch = Draft::default();
            let _ = single(scratch, one, name);
            match name {
                "array" => scratch.array.clone().unwrap_or_else(|| text.to_owned()),
                "dependency" if !scratch.after.is_empty() => scratch.after.join(","),
                "signal" => match &scratch.checkpoint {
                    Some(Checkpoint { signal, lead_secs, .. }) => format!("{signal}@{lead_secs}"),
                    None => text.to_owned(),
                },
                "switches" => match (scratch.slurm.switches, scratch.slurm.switches_wait) {
                    (Some(count), Some(wait)) => format!("{count}@{wait}m"),
                    (Some(count), None) => count.to_string(),
                    (None, _) => text.to_owned(),
                },
                "nice" => scratch.priority.unwrap_or_default().to_string(),
                _ => text.to_owned(),
            }
        }
        _ => text.to_owned(),
    }
}
