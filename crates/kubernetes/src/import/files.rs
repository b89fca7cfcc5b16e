//! Files that `muster export` sends with a job: what copies them is left out, and the job names their
//! folder again. The files themselves stay in their ConfigMap.

use super::draft::JobDraft;
use super::object::ImportedObject;
use crate::names;
use crate::render::{COPY, SENT, WORKDIR, is_copier};
use muster_document::child;

/// Folder of a job whose ConfigMap names none.
const HERE: &str = ".";

/// Reads the container of an exported pod that copies its files, and the volumes between which it does.
pub(super) fn read(object: &mut ImportedObject, spec: &str, tasks: &[String], job: &mut JobDraft) {
    let copier = format!("{spec}/initContainers/0");
    let command = object.children(&format!("{copier}/command"));
    let command: Vec<&str> = command.iter().filter_map(|at| object.peek_text(at)).collect();
    if !is_copier(&command) {
        return;
    }
    job.kubernetes.send.get_or_insert(HERE.to_owned());
    let volumes = object.children(&format!("{spec}/volumes"));
    let named = |at: &String| object.peek_text(&format!("{at}/configMap/name")).map(str::to_owned);
    job.sent_from = volumes.iter().find_map(named);
    let says = "kubernetes: {send}";
    object.field(&copier, says);
    let mounts = tasks.iter().flat_map(|at| object.children(&format!("{at}/volumeMounts")));
    let all: Vec<String> = volumes.into_iter().chain(mounts).collect();
    for at in all {
        if matches!(object.peek_text(&format!("{at}/name")), Some(SENT | COPY)) {
            object.field(&at, says);
        }
    }
}

/// Reads the folder from the ConfigMap of an exported job.
pub(super) fn config_map<'a>(
    object: &mut ImportedObject,
    mut jobs: impl Iterator<Item = &'a mut JobDraft>,
) {
    let name = object.name().to_owned();
    let Some(job) = jobs.find(|job| job.sent_from.as_ref() == Some(&name)) else { return };
    let folder = object.text(&child("/metadata/annotations", names::SENT), "kubernetes: {send}");
    job.kubernetes.send = folder.or(Some(HERE.to_owned()));
    object.field("/metadata", "kubernetes: {send}");
    for at in ["/data", "/binaryData"] {
        object.near(
            at,
            "kubernetes: {send}: the files must be in that folder when the job is submitted",
        );
    }
}

/// Removes the working directory that a job has because it sends files.
pub(super) fn remove_workdir(job: &mut JobDraft) {
    if job.kubernetes.send.is_some() && job.workdir.as_deref() == Some(WORKDIR) {
        job.workdir = None;
    }
}
