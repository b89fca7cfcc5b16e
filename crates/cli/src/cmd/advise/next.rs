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
    /// File of the site, `-` for stdin; `None` for one workload.
    pub site_file: Option<&'a Path>,
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
        let question = input.site_file.map(|path| shell_word(&path.to_string_lossy()));
        let question = question.map_or_else(|| "…".to_owned(), |file| format!("--site {file}"));
        steps.push(format!("muster advise {question} --more"));
    }
    let is_divided = has_two_pools(advice, input.site);
    if is_divided {
        let (services, note) = match service_nodes(input.site) {
            Some(nodes) => (nodes, ""),
            None => (quarter(input.site), " # a start"),
        };
        steps
            .push(format!("muster init hybrid --cluster cluster.yaml --services {services}{note}"));
    }
    if let Some(site) = input.site {
        steps.extend(queues_and_gangs(label, site));
    }
    let on = has_ray(label).then(|| RayHost::advised(label));
    if let Some(host) = on {
        steps.extend(start_ray(host, is_divided, input.job));
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
    let needs_gangs = label.addon.contains("(REQUIRED)");
    if needs_gangs && input.site.is_none() {
        steps.push("muster prove gang".to_owned());
    }
    if needs_gangs {
        steps.push("muster check kubernetes --prove".to_owned());
    }
    // That check tests Ray on Kubernetes, too, and the page of a divided fleet is full.
    if let Some(host) = on.filter(|_| label.hybrid.is_none() && !needs_gangs) {
        steps.push(format!("muster check ray --on {}", host.on()));
    }
    steps
}

/// Returns true if the answer divides the nodes between Slurm and Kubernetes. Slurm inside Kubernetes and a
/// partition of Slurm have no pool of Kubernetes.
fn has_two_pools(advice: &Advice, site: Option<&SiteProfile>) -> bool {
    let divides = ["split-federated", "split-partition"];
    match site {
        Some(_) => advice.rules.iter().any(|rule| divides.contains(&rule.id)),
        None => advice.label.hybrid.is_some(),
    }
}

/// Returns a quarter of the nodes of the site, at least one: a number to start with. One workload has no fleet.
fn quarter(site: Option<&SiteProfile>) -> u32 {
    site.map_or(1, |site| (site.facts.get(Fact::FleetNodes) / 4).max(1))
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

/// Returns what writes the files of the gang scheduler and of the queue above it: for one queue, unless the user writes
/// a queue file. Run:ai has its own installer, and MultiKueue several clusters, for which no file is written.
fn queues_and_gangs(label: &Label, site: &SiteProfile) -> Vec<String> {
    let is_part = |name: &str| label.addon.split(" + ").any(|part| part.starts_with(name));
    let is_shared = site.facts.get(Fact::Teams) > 1 || site.facts.is(Fact::StrictQuotas);
    let of_teams = if is_shared { " # --queues FILE for teams" } else { "" };
    let init = |(part, word, note): (&str, &str, &str)| {
        is_part(part).then(|| format!("muster init {word} --cluster cluster.yaml{note}"))
    };
    let known =
        [("Volcano", "volcano", ""), ("KAI", "kai", of_teams), ("Kueue", "kueue", of_teams)];
    known.into_iter().filter_map(init).collect()
}

/// Returns true if Ray is a part of the answer, and not only an alternative for serving.
fn has_ray(label: &Label) -> bool {
    let is_ray = |part: &str| part.starts_with("KubeRay") || part.starts_with("Ray");
    label.primary == ControlPlane::Ray || label.addon.split(" + ").any(is_ray)
}

/// Returns what makes Ray a workload of the control plane, and starts the job that was asked about.
fn start_ray(host: RayHost, is_divided: bool, job: Option<&Path>) -> Vec<String> {
    let on = host.on();
    // What `init hybrid` writes for Slurm.
    let in_pool = is_divided && host == RayHost::Slurm;
    let cluster = if in_pool { "hybrid/cluster-batch.yaml" } else { "cluster.yaml" };
    let job = job.filter(|job| job.as_os_str() != "-");
    let job = job.map(|job| shell_word(&job.to_string_lossy())).map(|job| match host {
        RayHost::Kubernetes => format!("muster export kuberay {job}"),
        RayHost::Machine | RayHost::Slurm => format!("muster run --on {on} {job}"),
    });
    let init = format!("muster init ray --cluster {cluster} --on {on}");
    std::iter::once(init).chain(job).collect()
}
