//! Kinds of jobs that the entries of a mix stand for. The mix tells which jobs are coupled, over
//! how many nodes, and which are services, but not how long they run: that is assumed here, in one
//! table for all schedulers.

use std::borrow::Cow;
use std::sync::Arc;

use muster_model::advice::{Fact, Facts, MixEntry, SiteProfile};
use muster_model::{NodeSpec, Span};
use muster_spec::recipe::RuntimeDistribution;

const fn hours(hours: u64) -> Span {
    Span::from_secs(hours * 3600)
}

const fn minutes(minutes: u64) -> Span {
    Span::from_secs(minutes * 60)
}

/// Number of GPUs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// Whole nodes, as many as its facts say.
    Nodes,
    /// All GPUs of one node.
    Node,
    Gpu,
}

/// Rule that gives the jobs of an entry their width and runtimes.
struct KindRule {
    /// Condition for the rule.
    is: fn(&MixEntry, &Facts) -> bool,
    /// Description in the list of assumptions.
    what: &'static str,
    width: Width,
    /// Median, 95th percentile and longest runtime; `None` for services.
    runs: Option<[Span; 3]>,
}

/// Rules in order; the first whose condition holds applies. Runtimes are assumptions, in line with
/// published traces of GPU clusters: most jobs are small and end within the hour, wide ones run for
/// hours, and a few of each for a day and more.
const KIND_RULES: [KindRule; 7] = [
    KindRule {
        is: |entry, _| entry.facts.is(Fact::LongLivedServices),
        what: "replicas that fill whole nodes and run all the time",
        width: Width::Node,
        runs: None,
    },
    KindRule {
        is: |entry, _| entry.facts.is(Fact::TightlyCoupled) && entry.facts.get(Fact::Nodes) > 1,
        what: "gangs over whole nodes",
        width: Width::Nodes,
        runs: Some([hours(4), hours(24), hours(48)]),
    },
    KindRule {
        is: |entry, _| entry.facts.is(Fact::PythonNativePipeline),
        what: "pipelines on whole nodes; all tasks start together",
        width: Width::Nodes,
        runs: Some([hours(2), hours(12), hours(24)]),
    },
    KindRule {
        is: |entry, _| entry.facts.is(Fact::TightlyCoupled) || entry.facts.get(Fact::Nodes) > 1,
        what: "single-node jobs that use the whole node",
        width: Width::Node,
        runs: Some([hours(2), hours(12), hours(24)]),
    },
    KindRule {
        is: |entry, _| entry.name.to_lowercase().contains("notebook"),
        what: "notebooks, recognised by the name: 1 GPU",
        width: Width::Gpu,
        runs: Some([hours(2), hours(8), hours(12)]),
    },
    KindRule {
        is: |_, site| site.is(Fact::ShortRuns),
        what: "short jobs of 1 GPU",
        width: Width::Gpu,
        runs: Some([minutes(5), minutes(30), hours(2)]),
    },
    KindRule {
        is: |_, _| true,
        what: "jobs of 1 GPU",
        width: Width::Gpu,
        runs: Some([minutes(30), hours(8), hours(24)]),
    },
];

/// A fact with its value.
type FactSetting = (Fact, u32);

/// Entries for a site without a mix, by its needs, with equal shares.
const OF_NEEDS: [(Fact, &str, &[FactSetting]); 8] = [
    (Fact::CoupledTraining, "coupled-training", &[(Fact::TightlyCoupled, 1), (Fact::Nodes, 2)]),
    (Fact::Mpi, "mpi", &[(Fact::TightlyCoupled, 1), (Fact::Nodes, 2)]),
    (Fact::Training, "training", &[(Fact::TightlyCoupled, 1)]),
    (Fact::Services, "services", &[(Fact::LongLivedServices, 1)]),
    (Fact::Rl, "rl", &[(Fact::PythonNativePipeline, 1)]),
    (Fact::Sweeps, "sweeps", &[]),
    (Fact::Notebooks, "notebooks", &[]),
    (Fact::Batch, "batch", &[]),
];

/// Jobs of one kind, whose number is not yet known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkKind {
    /// Name of the entry in the mix.
    pub(super) name: Arc<str>,
    /// Share of the GPU-hours, from 0 to 1.
    pub(super) part: f64,
    /// Tasks of each job.
    pub(super) tasks: u32,
    /// GPUs of each task; for services the most, since they take as many as their share allows.
    pub(super) gpus: u32,
    /// Distribution of runtimes; `None` for services, which run all the time.
    pub(super) runs: Option<RuntimeDistribution>,
}

/// Returns the kinds of work of a site on these nodes. Their shares add up to 1; what is assumed is
/// added to `assumed`.
pub(super) fn kinds(
    site: &SiteProfile,
    nodes: &[NodeSpec],
    assumed: &mut Vec<String>,
) -> Vec<WorkKind> {
    let mix = mix(site, assumed);
    let parts = parts(&mix, assumed);
    let mut kinds = Vec::new();
    for (entry, part) in mix.iter().zip(parts).filter(|(_, part)| *part > 0.0) {
        let rule = KIND_RULES.iter().find(|rule| (rule.is)(entry, &site.facts));
        let rule = rule.expect("the last rule holds for every entry");
        let (tasks, gpus) = match rule.width {
            Width::Nodes => {
                (entry.facts.get(Fact::Nodes), node_gpus(nodes, entry.facts.get(Fact::Nodes)))
            }
            Width::Node => (1, node_gpus(nodes, 1)),
            Width::Gpu => (1, 1),
        };
        let lengths = rule.runs.map_or_else(String::new, |[median, p95, _]| {
            format!("; half run up to {median}, 95 % up to {p95}")
        });
        assumed.push(format!("{}: {}{lengths}", entry.name, rule.what));
        kinds.push(WorkKind {
            name: Arc::clone(&entry.name),
            part,
            tasks,
            gpus,
            runs: rule
                .runs
                .map(|[median, p95, max]| RuntimeDistribution::LogNormal(median, p95, Some(max))),
        });
    }
    kinds
}

/// Returns the mix of a site, or one made from its needs.
fn mix<'s>(site: &'s SiteProfile, assumed: &mut Vec<String>) -> Cow<'s, [MixEntry]> {
    if !site.mix.is_empty() {
        return Cow::Borrowed(&site.mix);
    }
    let needed = OF_NEEDS.iter().filter(|(need, ..)| site.facts.is(*need));
    let entry = |name: &str, facts: &[FactSetting]| MixEntry {
        name: name.into(),
        share_percent: None,
        facts: facts.iter().fold(Facts::default(), |all, (fact, value)| all.with(*fact, *value)),
    };
    let mut mix: Vec<MixEntry> = needed.map(|(_, name, facts)| entry(name, facts)).collect();
    if mix.is_empty() {
        mix.push(entry("batch", &[]));
    }
    assumed.push(
        "the site has no `mix`: one kind of job for each of its `needs`, with equal shares"
            .to_owned(),
    );
    Cow::Owned(mix)
}

/// Returns the share of each entry in the GPU-hours; they add up to 1.
fn parts(mix: &[MixEntry], assumed: &mut Vec<String>) -> Vec<f64> {
    let known: u32 = mix.iter().filter_map(|entry| entry.share_percent).sum();
    let open: Vec<&str> = mix
        .iter()
        .filter(|entry| entry.share_percent.is_none())
        .map(|entry| &*entry.name)
        .collect();
    let rest = 100u32.saturating_sub(known);
    let whole = match (open.len(), rest) {
        (0, 0) => 100,
        (0, _) => {
            assumed.push(format!("shares add up to {known} %; they are scaled to 100 %"));
            known
        }
        (_, 0) => {
            assumed.push(format!(
                "{}: left out, since the shares of the others add up to 100 %",
                open.join(", ")
            ));
            100
        }
        _ => {
            let each = if open.len() > 1 { ", divided equally" } else { "" };
            assumed
                .push(format!("{}: without a share in the file; {rest} %{each}", open.join(", ")));
            100
        }
    };
    let of_open = f64::from(rest) / open.len().max(1) as f64;
    mix.iter()
        .map(|entry| entry.share_percent.map_or(of_open, f64::from) / f64::from(whole))
        .collect()
}

/// Returns the GPUs that a job gets on each of `count` nodes: those of the most common node, or
/// fewer if not so many nodes have them.
fn node_gpus(nodes: &[NodeSpec], count: u32) -> u32 {
    let mut sizes: Vec<usize> =
        nodes.iter().map(|node| node.devices.len()).filter(|size| *size > 0).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let frequency = |size: &usize| sizes.iter().filter(|other| *other == size).count();
    let usual = sizes.iter().copied().max_by_key(|size| (frequency(size), *size)).unwrap_or(1);
    let reached = sizes.get(count as usize - 1).copied().unwrap_or(usual);
    usual.min(reached) as u32
}

#[cfg(test)]
mod tests {
    use super::super::machines;
    use super::*;

    fn site(nodes: u32, gpus: u32, mix: &[(&str, Option<u32>, &[FactSetting])]) -> SiteProfile {
        let entry = |(name, share, facts): &(&str, Option<u32>, &[FactSetting])| MixEntry {
            name: (*name).into(),
            share_percent: *share,
            facts: facts
                .iter()
                .fold(Facts::default(), |all, (fact, value)| all.with(*fact, *value)),
        };
        SiteProfile {
            facts: Facts::default().with(Fact::FleetNodes, nodes).with(Fact::FleetGpus, gpus),
            mix: mix.iter().map(entry).collect(),
            ..SiteProfile::default()
        }
    }

    fn made(site: &SiteProfile) -> (Vec<WorkKind>, Vec<String>) {
        let mut assumed = Vec::new();
        let nodes = machines::nodes(site, &mut assumed).unwrap();
        (kinds(site, &nodes, &mut assumed), assumed)
    }

    #[test]
    fn facts_say_how_wide_jobs_are_and_whether_they_end() {
        let coupled = |nodes| [(Fact::TightlyCoupled, 1), (Fact::Nodes, nodes)];
        let check = |name: &str, facts: &[FactSetting], expected: (u32, u32, bool)| {
            let (kinds, assumed) = made(&site(4, 32, &[(name, Some(100), facts)]));
            let [kind] = kinds.as_slice() else { panic!("{name}: {kinds:?}") };
            assert_eq!((kind.tasks, kind.gpus, kind.runs.is_some()), expected, "{name}");
            assert!(assumed.last().unwrap().starts_with(&format!("{name}: ")), "{assumed:?}");
        };
        check("gang", &coupled(2), (2, 8, true));
        check("one-node", &coupled(1), (1, 8, true));
        check("apart", &[(Fact::Nodes, 4)], (1, 8, true));
        check("pipeline", &[(Fact::PythonNativePipeline, 1), (Fact::Nodes, 2)], (2, 8, true));
        check("endpoint", &[(Fact::LongLivedServices, 1)], (1, 8, false));
        check("Notebooks", &[], (1, 1, true));
        check("else", &[], (1, 1, true));
    }

    #[test]
    fn a_gang_requests_as_many_gpus_per_node_as_enough_nodes_have() {
        let check = |nodes, gpus, span, expected| {
            let facts = [(Fact::TightlyCoupled, 1), (Fact::Nodes, span)];
            let (kinds, _) = made(&site(nodes, gpus, &[("gang", None, &facts)]));
            assert_eq!(kinds[0].gpus, expected, "{gpus} on {nodes}, over {span}");
        };
        check(4, 32, 4, 8);
        check(3, 11, 2, 4);
        check(3, 11, 3, 3);
        check(3, 10, 2, 3);
        check(4, 2, 2, 1);
    }

    #[test]
    fn missing_shares_are_distributed_and_listed() {
        let check = |shares: &[Option<u32>], expected: &[f64], described: &str| {
            let mut assumed = Vec::new();
            let mix =
                site(1, 1, &shares.iter().map(|share| ("w", *share, &[][..])).collect::<Vec<_>>())
                    .mix;
            let parts = parts(&mix, &mut assumed);
            assert_eq!(parts, expected);
            assert!(assumed.concat().starts_with(described), "{assumed:?}");
        };
        check(&[Some(60), Some(40)], &[0.6, 0.4], "");
        check(&[Some(30), Some(20)], &[0.6, 0.4], "shares add up to 50 %");
        check(
            &[Some(60), None, None],
            &[0.6, 0.2, 0.2],
            "w, w: without a share in the file; 40 %, divided equally",
        );
        check(&[Some(100), None], &[1.0, 0.0], "w: left out");
    }

    #[test]
    fn a_site_without_a_mix_gets_a_default_load() {
        let mut site = site(2, 16, &[]);
        assert_eq!(made(&site).0[0].name.as_ref(), "batch");
        site.facts = site.facts.with(Fact::CoupledTraining, 1).with(Fact::Services, 1);
        let (kinds, assumed) = made(&site);
        let shown: Vec<(&str, f64, u32)> =
            kinds.iter().map(|kind| (&*kind.name, kind.part, kind.tasks)).collect();
        assert_eq!(shown, [("coupled-training", 0.5, 2), ("services", 0.5, 1)]);
        assert!(
            assumed.iter().any(|line| line.starts_with("the site has no `mix`")),
            "{assumed:?}"
        );
    }
}
