//! What the parts of a site file say about each other. Only what cannot be true at once is refused; what is unwise is
//! for advice to say.

use std::collections::BTreeMap;

use muster_model::DeviceSet;
use muster_model::advice::{Fact, Facts};

use crate::advice::site::{MixDocument, SiteDocument};
use crate::advice::written::Written;
use crate::diagnostic::{Problem, Problems, show};
use crate::field::Item;
use crate::source::Place;

/// A fact of the site that implies another.
const IMPLIES: [(Fact, Fact, &str); 3] = [
    (Fact::CoupledTraining, Fact::Training, "this is training"),
    (Fact::Autoscaling, Fact::Services, "what scales with its load is a service"),
    (Fact::IsolatedSlices, Fact::SharedGpus, "a slice is a part of a shared GPU"),
];

/// A fact of work in the mix, and the needs of which it is at least one.
const NEEDS: [(Fact, &[Fact], &str); 3] = [
    (Fact::LongLivedServices, &[Fact::Services], "a service runs here"),
    (Fact::TightlyCoupled, &[Fact::CoupledTraining, Fact::Mpi], "coupled nodes train together or run MPI"),
    (
        Fact::PythonNativePipeline,
        &[Fact::Rl, Fact::Sweeps, Fact::Batch, Fact::Training],
        "such a pipeline is RL, tuning, data processing or training",
    ),
];

/// Adds a complaint for everything that cannot be true at once.
pub(super) fn check(site: &SiteDocument, problems: &mut Problems) {
    facts(&site.written, problems);
    devices(&site.written, problems);
    shares(&site.mix, problems);
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for item in &site.mix {
        let Some(name) = &item.value.name else { continue };
        match seen.get(name.value.0.as_str()) {
            Some(first) => problems.add(
                Problem::new(format!("two entries of the mix are named {}", show(&name.value.0)))
                    .at(name.place, "again here")
                    .also(*first, "first here"),
            ),
            None => drop(seen.insert(&name.value.0, name.place)),
        }
        if let Some(facts) = &item.value.facts {
            work(&site.written, &name.value.0, &facts.value.0, problems);
        }
    }
}

/// The facts of the site among each other.
fn facts(site: &Written, problems: &mut Problems) {
    if let Some(found) = site.facts.contradiction() {
        let message = format!("`{}` contradicts `{}`", spelled(found.one), spelled(found.other));
        problems.add(pointed(Problem::new(message), site, found.one, found.why, found.other));
    }
    for (one, other, why) in IMPLIES {
        if site.facts.is(one) && site.denies(other) {
            let message = format!("`{}` contradicts `{}`", spelled(one), spelled(other));
            problems.add(pointed(Problem::new(message), site, one, why, other));
        }
    }
}

/// Points at the first fact and, where the text gives it, at the other.
fn pointed(problem: Problem, site: &Written, one: Fact, why: &str, other: Fact) -> Problem {
    let (one, other) = (site.spot(one), site.spot(other));
    match (one, other) {
        (Some(one), Some(other)) => problem.at(one.value, why).also(other.value, "beside this"),
        (Some(spot), None) | (None, Some(spot)) => problem.at(spot.value, why),
        (None, None) => problem,
    }
}

/// The field of a site file that says a fact.
fn spelled(fact: Fact) -> &'static str {
    match fact {
        Fact::FleetRdma => "fleet.fabric",
        Fact::FleetBareMetal => "fleet.hosting",
        Fact::FleetMig => "fleet.models",
        fact if super::names::operated(fact).is_some() => "people.operates",
        fact => fact.name(),
    }
}

/// A fixed fleet cannot hold more GPUs than its nodes have places for.
fn devices(site: &Written, problems: &mut Problems) {
    let most = u64::from(site.facts.get(Fact::FleetNodes)) * DeviceSet::MAX_DEVICES as u64;
    if u64::from(site.facts.get(Fact::FleetGpus)) > most && !site.facts.is(Fact::FleetElastic) {
        let why = format!("at most {} each", DeviceSet::MAX_DEVICES);
        let problem = Problem::new("`fleet.gpus` is more than its nodes can hold");
        problems.add(pointed(problem, site, Fact::FleetGpus, &why, Fact::FleetNodes));
    }
}

/// Parts of a whole are no more than the whole.
fn shares(mix: &[Item<MixDocument>], problems: &mut Problems) {
    let mut sum = 0;
    for share in mix.iter().filter_map(|item| item.value.share.as_ref()) {
        sum += share.value.0;
        if sum > 100 {
            let label = format!("{sum}% up to here");
            let hint = "shares are parts of the fleet's GPU-hours; leave out what nobody knows".to_owned();
            problems.add(
                Problem::new("the shares of the mix are more than 100%").at(share.place, label).hint(hint),
            );
            return;
        }
    }
}

/// Work of the mix against what the site says of itself.
fn work(site: &Written, name: &str, written: &Written, problems: &mut Problems) {
    let (facts, place) = (&written.facts, |fact| written.spot(fact).map(|spot| spot.value));
    let fleet = site.facts.get(Fact::FleetNodes);
    if let (Some(nodes), Some(have)) = (place(Fact::Nodes), site.spot(Fact::FleetNodes))
        && facts.get(Fact::Nodes) > fleet
        && !site.facts.is(Fact::FleetElastic)
    {
        let message = format!("{} spans more nodes than the fleet has", show(name));
        let hint = "if nodes come and go, say `elastic: true` under `fleet`".to_owned();
        let problem = Problem::new(message).at(nodes, format!("at most {fleet}"));
        problems.add(problem.also(have.value, "the fleet").hint(hint));
    }
    for (fact, needs, why) in NEEDS {
        let denied = needs.iter().all(|need| site.denies(*need));
        if let (true, true, Some(here)) = (denied, means(facts, fact), place(fact)) {
            let message = format!("`{}: false` contradicts {} of the mix", needs[0], show(name));
            let problem = Problem::new(message).at(here, why);
            let denials = needs.iter().filter_map(|need| site.spot(*need));
            problems.add(denials.fold(problem, |problem, spot| problem.also(spot.value, "denied here")));
        }
    }
    let one_team = site.facts.get(Fact::Teams) == 1 && !site.facts.is(Fact::HostileTenants);
    if let (true, true, Some(here), Some(teams)) =
        (one_team, facts.is(Fact::MultiTenant), place(Fact::MultiTenant), site.spot(Fact::Teams))
    {
        let message = format!("{} is shared by several teams of one", show(name));
        problems.add(Problem::new(message).at(here, "several teams").also(teams.value, "one team"));
    }
}

/// Whether a fact has the meaning that [`NEEDS`] takes it for: coupling on one node needs nothing of a site.
fn means(facts: &Facts, fact: Fact) -> bool {
    facts.is(fact) && (fact != Fact::TightlyCoupled || facts.get(Fact::Nodes) > 1)
}
