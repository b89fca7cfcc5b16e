//! Consistency of the parts of a site file: contradictions are refused, and facts that one part
//! implies are filled in for the other, so that nothing is written twice. Unwise choices are left
//! to the advice.

use std::collections::BTreeMap;

use muster_model::advice::{Contradiction, Fact, Facts};
use muster_model::{ClusterName, DeviceSet};

use crate::advice::clusters::Clusters;
use crate::advice::names::operated;
use crate::advice::site_schema::{MixDocument, SiteDocument};
use crate::advice::written::Written;
use crate::diagnostic::{Problem, Problems, show};
use crate::field::Item;
use crate::source::Place;

/// A fact of work in the mix, and the needs of the site of which it implies at least one: the
/// first, unless the site says otherwise.
const NEEDS: [(Fact, &[Fact], &str); 3] = [
    (Fact::LongLivedServices, &[Fact::Services], "this is a service"),
    (
        Fact::TightlyCoupled,
        &[Fact::CoupledTraining, Fact::Mpi],
        "coupled nodes train together or run MPI",
    ),
    (
        Fact::PythonNativePipeline,
        &[Fact::DistributedPython, Fact::Rl, Fact::Sweeps],
        "such a pipeline is distributed Python, RL or tuning",
    ),
];

/// Reports contradictions, and fills in implied facts.
pub(super) fn settle(site: &mut SiteDocument, problems: &mut Problems) {
    let SiteDocument { written, mix, clusters, .. } = site;
    let before = problems.len();
    // 1. The mix by itself, then against the site.
    names(mix, problems);
    shares(mix, problems);
    for item in mix.iter() {
        if let (Some(name), Some(facts)) = (&item.value.name, &item.value.facts) {
            spans(written, &name.value.0, &facts.value.0, problems);
            tenants(written, &name.value.0, &facts.value.0, problems);
            needs(written, &name.value.0, &facts.value.0, problems);
        }
    }
    mainly(written, mix, problems);
    in_operation(written, clusters, problems);
    // 2. The facts of the site among each other.
    for Contradiction { one, other, why } in Fact::IMPLIES {
        let Some(spot) = written.spot(one).filter(|_| written.facts.is(one)) else { continue };
        if written.denies(other) {
            problems.add(contradiction(written, one, why, other));
        } else if !written.facts.is(other) {
            written.set(other, 1, spot);
        }
    }
    // After another problem, this one would mostly be a consequence of it.
    if let Some(found) = written.facts.contradiction().filter(|_| problems.len() == before) {
        problems.add(contradiction(written, found.one, found.why, found.other));
    }
    devices(written, problems);
    nodes_by_model(site, problems);
}

fn contradiction(site: &Written, one: Fact, why: &str, other: Fact) -> Problem {
    let one_name = spelled(one);
    let other_name = spelled(other);
    let problem = Problem::new(format!("`{one_name}` contradicts `{other_name}`"));
    match (site.spot(one), site.spot(other)) {
        (Some(one), Some(other)) => problem.at(one.value, why).also(other.value, "beside this"),
        (Some(one), None) => problem
            .at(one.value, why)
            .hint(format!("`{other_name}` is not written; add it, or remove this")),
        (None, Some(other)) => problem.at(other.value, why),
        (None, None) => problem,
    }
}

/// Returns the field of a site file that sets a fact.
fn spelled(fact: Fact) -> &'static str {
    match fact {
        Fact::FleetRdma => "fleet.fabric",
        Fact::FleetBareMetal => "fleet.hosting",
        Fact::FleetMig => "fleet.models",
        fact if operated(fact).is_some() => "people.operates",
        fact => fact.name(),
    }
}

/// Refuses more GPUs in a fixed fleet than its nodes can hold.
fn devices(site: &Written, problems: &mut Problems) {
    let most = u64::from(site.facts.get(Fact::FleetNodes)) * DeviceSet::MAX_DEVICES as u64;
    let nodes = site.spot(Fact::FleetNodes);
    let gpus = site.spot(Fact::FleetGpus);
    if let (Some(nodes), Some(gpus)) = (nodes, gpus)
        && u64::from(site.facts.get(Fact::FleetGpus)) > most
        && !site.facts.is(Fact::FleetElastic)
    {
        let why = format!("a node holds at most {}", DeviceSet::MAX_DEVICES);
        let problem = Problem::new("`fleet.gpus` is more than its nodes can hold");
        problems.add(problem.at(gpus.value, why).also(nodes.value, "in these"));
    }
}

/// Reports nodes of the models that are more or fewer than those of the fleet.
fn nodes_by_model(site: &SiteDocument, problems: &mut Problems) {
    let sum: u64 = site.nodes_by_model.iter().map(|(_, nodes)| u64::from(*nodes)).sum();
    let all = u64::from(site.written.facts.get(Fact::FleetNodes));
    if let (Some(models), Some(nodes)) = (site.models_place, site.written.spot(Fact::FleetNodes))
        && sum != all
    {
        let problem =
            Problem::new(format!("`fleet.models` counts {sum} nodes, and `fleet.nodes` is {all}"));
        let why = "each node counts for one model";
        problems.add(problem.at(models, why).also(nodes.value, "all nodes"));
    }
}

/// Sets that the control planes of the site's clusters are in operation, and refuses those that
/// `people.operates` leaves out.
fn in_operation(site: &mut Written, clusters: &Clusters, problems: &mut Problems) {
    for (kind, (cluster, spot)) in &clusters.0 {
        let planes: &[Fact] = match cluster {
            ClusterName::Local => continue,
            ClusterName::Slurm | ClusterName::SlurmAt(_) => &[Fact::OperatesSlurm],
            ClusterName::Kubernetes(_) => &[Fact::OperatesKubernetes, Fact::OperatesK3s],
        };
        if planes.iter().any(|plane| site.facts.is(*plane)) {
            continue;
        }
        let plane = operated(planes[0]).unwrap_or_default();
        match site.spot(planes[0]) {
            None => site.set(planes[0], 1, *spot),
            Some(operates) => problems.add(
                Problem::new(format!("`clusters.{kind}` contradicts `people.operates`"))
                    .at(spot.value, format!("jobs are sent to {plane}"))
                    .also(operates.value, format!("{plane} is not in operation"))
                    .hint(format!("add {plane} to `operates`, or send them elsewhere")),
            ),
        }
    }
}

/// Refuses two entries of the mix with the same name.
fn names(mix: &[Item<MixDocument>], problems: &mut Problems) {
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for name in mix.iter().filter_map(|item| item.value.name.as_ref()) {
        match seen.get(name.value.0.as_str()) {
            Some(first) => problems.add(
                Problem::new(format!("two entries of the mix are named {}", show(&name.value.0)))
                    .at(name.place, "again here")
                    .also(*first, "first here"),
            ),
            None => drop(seen.insert(&name.value.0, name.place)),
        }
    }
}

/// Refuses shares that add up to more than 100 %.
fn shares(mix: &[Item<MixDocument>], problems: &mut Problems) {
    let mut sum = 0;
    for share in mix.iter().filter_map(|item| item.value.share.as_ref()) {
        sum += share.value.0;
        if sum > 100 {
            let hint =
                "shares are parts of the fleet's GPU-hours; leave out unknown ones".to_owned();
            let problem = Problem::new("the shares of the mix are more than 100%");
            problems.add(problem.at(share.place, format!("{sum}% up to here")).hint(hint));
            return;
        }
    }
}

/// Refuses jobs that span more nodes than a fixed fleet has.
fn spans(site: &Written, name: &str, work: &Written, problems: &mut Problems) {
    let fleet = site.facts.get(Fact::FleetNodes);
    if let (Some(nodes), Some(have)) = (work.spot(Fact::Nodes), site.spot(Fact::FleetNodes))
        && work.facts.get(Fact::Nodes) > fleet
        && !site.facts.is(Fact::FleetElastic)
    {
        let message = format!("{} spans more nodes than the fleet has", show(name));
        let hint = "if nodes come and go, write `elastic: true` under `fleet`".to_owned();
        let problem = Problem::new(message).at(nodes.value, format!("at most {fleet}"));
        problems.add(problem.also(have.value, "the fleet").hint(hint));
    }
}

/// Refuses work shared by several teams on a site with one team. Isolated customers may still be
/// served by one team.
fn tenants(site: &Written, name: &str, work: &Written, problems: &mut Problems) {
    if let (Some(here), Some(teams)) = (work.spot(Fact::MultiTenant), site.spot(Fact::Teams))
        && work.facts.is(Fact::MultiTenant)
        && site.facts.get(Fact::Teams) == 1
        && !site.facts.is(Fact::HostileTenants)
    {
        let message = format!("several teams share {}, but there is one", show(name));
        problems.add(
            Problem::new(message).at(here.value, "several teams").also(teams.value, "one team"),
        );
    }
}

/// Sets the needs of the site that work of the mix implies, and refuses contradictions.
fn needs(site: &mut Written, name: &str, work: &Written, problems: &mut Problems) {
    for (fact, needs, why) in NEEDS {
        let Some(spot) = work.spot(fact).filter(|_| means(&work.facts, fact)) else { continue };
        if needs.iter().any(|need| site.facts.is(*need)) {
            continue;
        }
        match needs.iter().find(|need| !site.denies(**need)) {
            Some(need) => site.set(*need, 1, spot),
            None => {
                let message =
                    format!("`{}: false` contradicts {} of the mix", needs[0], show(name));
                let problem = Problem::new(message).at(spot.value, why);
                let denials = needs.iter().filter_map(|need| site.spot(*need));
                problems.add(
                    denials.fold(problem, |problem, spot| problem.also(spot.value, "denied here")),
                );
            }
        }
    }
}

/// Returns true if a fact implies the needs in [`NEEDS`]: coupling on one node implies none.
fn means(facts: &Facts, fact: Fact) -> bool {
    facts.is(fact) && (fact != Fact::TightlyCoupled || facts.get(Fact::Nodes) > 1)
}

/// Derives from the shares whether coupled training takes most of the GPU-hours.
fn mainly(site: &mut Written, mix: &[Item<MixDocument>], problems: &mut Problems) {
    let mut coupled = 0;
    let mut all = 0;
    let mut widest = None;
    for MixDocument { share, facts, .. } in mix.iter().map(|item| &item.value) {
        let (Some(share), Some(facts)) = (share, facts) else { continue };
        all += share.value.0;
        if means(&facts.value.0.facts, Fact::TightlyCoupled) {
            coupled += share.value.0;
            widest = widest.or(facts.value.0.spot(Fact::TightlyCoupled));
        }
    }
    let written = site.spot(Fact::MainlyCoupled);
    let trains = site.facts.is(Fact::CoupledTraining);
    match (written, widest) {
        (None, Some(spot)) if coupled > 50 && trains => site.set(Fact::MainlyCoupled, 1, spot),
        (Some(spot), _)
            if all == 100 && trains && site.facts.is(Fact::MainlyCoupled) != (coupled > 50) =>
        {
            let message = format!("`{}` contradicts the shares of the mix", Fact::MainlyCoupled);
            let label = format!("coupled work across nodes has {coupled}%");
            problems.add(Problem::new(message).at(spot.value, label));
        }
        _ => {}
    }
}
