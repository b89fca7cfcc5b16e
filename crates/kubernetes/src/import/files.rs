//! Files that a job of `muster export` brings: what copies or fetches them is left out, and the job names their
//! folder or repository again. Files that are sent stay in their ConfigMap.

use muster_document::child;

use super::draft::{GitDraft, JobDraft};
use super::object::ImportedObject;
use crate::names;
use crate::render::{COPY, CREDENTIALS, SENT, WORKDIR, fetched_source, is_copier};

/// Folder of a job whose ConfigMap names none.
const HERE: &str = ".";

/// Reads the container of an exported pod that brings its files, and the volumes that it uses.
pub(super) fn read(object: &mut ImportedObject, spec: &str, tasks: &[String], job: &mut JobDraft) {
    let copier = format!("{spec}/initContainers/0");
    let command = object.children(&format!("{copier}/command"));
    let command: Vec<&str> = command.iter().filter_map(|at| object.peek_text(at)).collect();
    let volumes = object.children(&format!("{spec}/volumes"));
    let of_volumes = |path: &str| {
        let text = |at: &String| object.peek_text(&format!("{at}/{path}")).map(str::to_owned);
        volumes.iter().find_map(text)
    };
    let says = if is_copier(&command) {
        job.kubernetes.send.get_or_insert(HERE.to_owned());
        job.sent_from = of_volumes("configMap/name");
        "kubernetes: {send}"
    } else if let Some((url, reference)) = fetched_source(&command) {
        let image = object.peek_text(&format!("{copier}/image")).map(str::to_owned);
        job.kubernetes.git.get_or_insert(GitDraft {
            url: url.to_owned(),
            reference: reference.map(str::to_owned),
            image: image.filter(|image| job.kubernetes.image.as_ref() != Some(image)),
            secret: of_volumes("secret/secretName"),
        });
        "kubernetes: {git}"
    } else {
        return;
    };
    object.field(&copier, says);
    let mounts = tasks.iter().flat_map(|at| object.children(&format!("{at}/volumeMounts")));
    let all: Vec<String> = volumes.into_iter().chain(mounts).collect();
    for at in all {
        if matches!(object.peek_text(&format!("{at}/name")), Some(SENT | COPY | CREDENTIALS)) {
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

/// Removes the working directory that a job has because it brings files.
pub(super) fn remove_workdir(job: &mut JobDraft) {
    let brings_files = job.kubernetes.send.is_some() || job.kubernetes.git.is_some();
    if brings_files && job.workdir.as_deref() == Some(WORKDIR) {
        job.workdir = None;
    }
}
