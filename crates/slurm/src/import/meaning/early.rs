//! Rules between options: removes a field that another one makes invalid before the job file is
//! written. Also normalises the value of each option.

use muster_model::hostlist::HostPattern;
use muster_model::imported::{ImportOutcome, ImportedOption};

use super::super::draft::{DraftCheckpoint, ImportedJob};
use super::super::option::GivenOption;
use super::super::value::{self, Limit};
use super::single;

/// Removes fields for which the job file would be rejected.
pub(super) fn checks(draft: &mut ImportedJob, answers: &mut [ImportedOption]) {
    let limit = draft.time.map(|minutes| minutes * 60);
    if let (Some(DraftCheckpoint { lead_secs: lead, .. }), Some(limit)) = (&draft.checkpoint, limit)
        && *lead >= limit
    {
        draft.checkpoint = None;
        unmap(
            answers,
            "signal",
            "it would be sent before the job begins: its lead is as long as the time limit",
        );
    }
    if draft.array.is_some() && draft.groups.len() > 1 {
        draft.array = None;
        unmap(answers, "array", "Slurm has no arrays of heterogeneous jobs");
    }
    // Without --nodes Slurm takes all nodes of the list; a job has a fixed number.
    let most =
        draft.groups.iter().map(|group| group.nodes.or(group.tasks).unwrap_or(1)).sum::<u64>();
    let named = draft.slurm.nodelist.iter().map(|part| HostPattern::parse(part));
    let named: Option<u64> = named.map(|part| Some(part.ok()?.count() as u64)).sum();
    if named.is_none_or(|named| named > most) {
        draft.slurm.nodelist.clear();
        unmap(
            answers,
            "nodelist",
            "it lists more nodes than the job requests: request as many by --nodes",
        );
    }
    if draft.slurm.container.is_none() && !draft.slurm.container_mounts.is_empty() {
        draft.slurm.container_mounts.clear();
        unmap(answers, "container-mounts", "they need an image, and none is set");
    }
    if draft.slurm.switches.is_none() {
        draft.slurm.switches_wait = None;
    }
}

fn unmap(answers: &mut [ImportedOption], option: &str, why: &str) {
    for answer in answers.iter_mut().filter(|answer| answer.option == option) {
        (answer.becomes, answer.text) = (ImportOutcome::NotMapped, why.to_owned());
    }
}

/// Returns the value of an option in normal form.
pub(in super::super) fn normal(
    scratch: &mut ImportedJob,
    one: &GivenOption,
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
        // These have their own form in the job file, which is compared instead.
        "array" | "dependency" | "signal" | "switches" | "nice" => {
            *scratch = ImportedJob::default();
            let _ = single(scratch, one, name);
            match name {
                "array" => scratch.array.clone().unwrap_or_else(|| text.to_owned()),
                "dependency" if !scratch.after.is_empty() => scratch.after.join(","),
                "signal" => match &scratch.checkpoint {
                    Some(DraftCheckpoint { signal, lead_secs, .. }) => {
                        format!("{signal}@{lead_secs}")
                    }
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
