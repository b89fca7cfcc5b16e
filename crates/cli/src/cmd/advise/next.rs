//! Commands that are suggested after an answer. Each is a subcommand of this binary, with the numbers of the site
//! and the file of the job where they are known.

use std::path::Path;

use muster_model::advice::{Advice, ControlPlane, Fact, Label, SiteProfile};
use muster_model::payload::shell_word;

use crate::cmd::init::RayHost;

/// Question, as far as the commands depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NextInput<'a> {
    /// Site that was advised; `None` for one workload.
    pub site: Option<&'a SiteProfile>,
    /// Job file whose workload was advised.
    pub job: Option<&'a Path>,
    /// True if the answer has all details.
    pub details: bool,
}

/// Returns the suggested next commands, the shortest path first.
pub fn steps(advice: &Advice, input: NextInput<'_>) -> Vec<String> {
    let label = &advice.label;
    let mut steps = Vec::new();
    if !input.details {
        steps.push("muster advise … --more".to_owned());
    }
    if label.hybrid.is_some() {
        let services =
            service_nodes(input.site).map_or_else(|| "N".to_owned(), |nodes| nodes.to_string());
        steps.push(format!("muster init hybrid --cluster cluster.yaml --services {services}"));
    }
    let on = has_ray(label).then(|| RayHost::advised(label));
    if let Some(host) = on {
        steps.extend(start_ray(host, label, input.job));
    }
    match label.primary {
        ControlPlane::None => steps.extend(without_scheduler(input.site)),
        plane => {
            let other = advice.flips.iter().map(|flip| flip.label.primary);
            let other =
                other.into_iter().find(|other| *other != plane && *other != ControlPlane::None);
            steps.extend(other.map(|other| format!("muster compare {plane} {other}")));
        }
    }
    if label.hybrid.is_none() && input.site.is_none() && label.addon.contains("(REQUIRED)") {
        steps.push("muster prove gang".to_owned());
    }
    // The page of a divided fleet is full.
    if let Some(host) = on.filter(|_| label.hybrid.is_none()) {
        steps.push(format!("muster check ray --on {}", host.on()));
    }
    steps
}

/// Returns the number of nodes for services: their share of the fleet, at least one; `None` without a site or
/// shares.
fn service_nodes(site: Option<&SiteProfile>) -> Option<u32> {
    let site = site?;
    let services = site.mix.iter().filter(|entry| entry.facts.is(Fact::LongLivedServices));
    let percent: u32 = services.filter_map(|entry| entry.share_percent).sum();
    let nodes = site.facts.get(Fact::FleetNodes);
    let most = nodes.saturating_sub(1).max(1);
    (percent > 0)
        .then(|| (u64::from(nodes) * u64::from(percent)).div_ceil(100) as u32)
        .map(|part| part.clamp(1, most))
}

/// Returns the first step without a scheduler: one machine has no need of conventions on who uses which node.
fn without_scheduler(site: Option<&SiteProfile>) -> Vec<String> {
    let is_one = site.is_some_and(|site| site.facts.get(Fact::FleetNodes) == 1);
    let run = is_one.then(|| "muster run --gpus 1 -- python train.py".to_owned());
    run.into_iter().chain([conventions(site)]).collect()
}

fn conventions(site: Option<&SiteProfile>) -> String {
    let Some(site) = site else { return "muster init none --gpus N".to_owned() };
    let [nodes, gpus, users] =
        [Fact::FleetNodes, Fact::FleetGpus, Fact::Users].map(|fact| site.facts.get(fact));
    format!("muster init none --nodes {nodes} --gpus {gpus} --users {users}")
}

/// Returns true if Ray is a part of the answer, and not only an alternative for serving.
fn has_ray(label: &Label) -> bool {
    let is_ray = |part: &str| part.starts_with("KubeRay") || part.starts_with("Ray");
    label.primary == ControlPlane::Ray || label.addon.split(" + ").any(is_ray)
}

/// Returns what makes Ray a workload of the control plane, and starts the job that was asked about.
fn start_ray(host: RayHost, label: &Label, job: Option<&Path>) -> Vec<String> {
    let on = host.on();
    // What `init hybrid` writes for Slurm.
    let cluster = match label.hybrid {
        Some(_) if host == RayHost::Slurm => "hybrid/cluster-batch.yaml",
        _ => "cluster.yaml",
    };
    let job = job.filter(|job| job.as_os_str() != "-");
    let job = job.map(|job| shell_word(&job.to_string_lossy())).map(|job| match host {
        RayHost::Kubernetes => format!("muster export kuberay {job}"),
        RayHost::Machine | RayHost::Slurm => format!("muster run --on {on} {job}"),
    });
    let init = format!("muster init ray --cluster {cluster} --on {on}");
    std::iter::once(init).chain(job).collect()
}
