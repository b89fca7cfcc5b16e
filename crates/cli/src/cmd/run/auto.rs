//! `--on auto`: the cluster of each text of a submission. The site file and the advisor's rules decide,
//! and each decision is told before anything is submitted.

use anyhow::Result;
use muster_advise::Undecided;
use muster_model::advice::WorkKind;
use muster_model::{ClusterName, QueueName, UserName};
use muster_spec::SubmissionSite;
use serde_json::{Map, Value};

use crate::app::App;
use crate::exit::Failure;
use crate::site_file::SiteFile;
use crate::source::SourceText;

/// Names that are listed in a line; further jobs are counted.
const LISTED: usize = 3;

/// Texts that are submitted to the same cluster.
pub struct Destination {
    /// Cluster that they are sent to.
    pub cluster: ClusterName,
    /// Texts, in the order of the command line.
    pub texts: Vec<SourceText>,
}

/// Jobs of one kind, and where they go.
struct RoutedJobs {
    kind: WorkKind,
    cluster: ClusterName,
    reason: String,
    names: Vec<String>,
}

/// Returns the texts by cluster, in the order of the command line, after telling where each job goes
/// and why.
///
/// # Errors
/// When a job is wrong by itself, when its cluster cannot be decided, or when one text has jobs for
/// several clusters: it is accepted or refused as a whole.
pub fn destinations(
    app: &App,
    site: &SiteFile,
    texts: Vec<SourceText>,
    fields: &Map<String, Value>,
) -> Result<Vec<Destination>> {
    let mut routed: Vec<RoutedJobs> = Vec::new();
    let mut destinations: Vec<Destination> = Vec::new();
    for text in texts {
        let mut cluster: Option<(ClusterName, String)> = None;
        for (name, kind) in jobs(&text, fields)? {
            let one = route(site, &name, kind)?;
            match &cluster {
                Some((other, first)) if *other != one.cluster => {
                    return Err(apart(&text, (first, other), (&name, &one.cluster)).into());
                }
                _ => cluster = Some((one.cluster.clone(), name.clone())),
            }
            match routed.iter_mut().find(|other| other.kind == kind) {
                Some(same) => same.names.push(name),
                None => routed.push(RoutedJobs { names: vec![name], ..one }),
            }
        }
        // A text without a job is refused when it is parsed.
        let Some((cluster, _)) = cluster else { continue };
        match destinations.iter_mut().find(|other| other.cluster == cluster) {
            Some(same) => same.texts.push(text),
            None => destinations.push(Destination { cluster, texts: vec![text] }),
        }
    }
    for RoutedJobs { cluster, reason, names, .. } in &routed {
        let goes = if names.len() == 1 { "goes" } else { "go" };
        let file = &site.name;
        app.ui.status(&format!("{} {goes} to {cluster}: {file} {reason}", listed(names)));
    }
    Ok(destinations)
}

/// Returns name and kind of each job of a text.
fn jobs(text: &SourceText, fields: &Map<String, Value>) -> Result<Vec<(String, WorkKind)>> {
    // Names of jobs that are already submitted are known to their cluster only.
    let mut fields = fields.clone();
    fields.remove("after");
    let documents = muster_spec::parse(&text.source, text.file.as_deref(), &fields);
    let documents = documents.map_err(Failure::from)?;
    let queue = QueueName("default".into());
    let site = SubmissionSite::unknown(UserName::from("nobody"), &queue);
    let jobs = muster_spec::check_all(&documents, &site).map_err(Failure::from)?;
    Ok(jobs.iter().map(|job| (job.spec.name.to_string(), WorkKind::of(&job.spec))).collect())
}

fn route(site: &SiteFile, name: &str, kind: WorkKind) -> Result<RoutedJobs> {
    let route = muster_advise::route(&site.profile, kind);
    let route = route.map_err(|error| undecided(site, name, kind, &error))?;
    Ok(RoutedJobs { kind, cluster: route.cluster, reason: route.reason, names: Vec::new() })
}

/// Returns the error of a job whose cluster cannot be decided, with the line to add.
fn undecided(site: &SiteFile, name: &str, kind: WorkKind, error: &Undecided) -> Failure {
    let file = &site.name;
    let cluster = match error {
        Undecided::Several(clusters) => clusters[0].clone(),
        _ if kind == WorkKind::Services => ClusterName::Kubernetes(None),
        Undecided::NoCluster | Undecided::Unsuited(..) => ClusterName::Slurm,
    };
    let failure = Failure::usage(format!("no cluster for {name} ({}): {file} {error}", kind.one()))
        .hint(format!("add a line to `clusters` in {file}, such as `{kind}: {cluster}`"));
    let is_known = muster_advise::route_targets(&site.profile).contains(&cluster);
    if is_known {
        return failure;
    }
    failure.hint(format!("if the file has `people.operates`, add {cluster} there, too"))
}

/// Returns the error of a text with jobs for two clusters.
fn apart(text: &SourceText, one: (&str, &ClusterName), other: (&str, &ClusterName)) -> Failure {
    let file = text.file.as_deref().unwrap_or("the command line");
    Failure::usage(format!(
        "jobs of {file} belong to two clusters: {} to {}, {} to {}",
        one.0, one.1, other.0, other.1
    ))
    .hint("the jobs of one file are accepted all or none; write them into a file for each cluster")
    .hint(format!("--on {} sends all of them there", one.1))
}

fn listed(names: &[String]) -> String {
    let (first, others) = names.split_at(names.len().min(LISTED));
    match (first, others.len()) {
        ([one], 0) => one.clone(),
        ([before @ .., last], 0) => format!("{} and {last}", before.join(", ")),
        (first, more) => format!("{} and {more} more", first.join(", ")),
    }
}
