//! What kind of jobs an entry of a mix stands for. The mix says what is coupled, over how many
//! nodes, and what stays up; how long jobs run it does not say. That is assumed here, in one table,
//! the same for every control plane.

use std::borrow::Cow;
use std::sync::Arc;

use muster_model::advice::{Fact, Facts, MixEntry, SiteProfile};
use muster_model::{NodeSpec, Span};
use muster_spec::recipe::Lengths;

const fn hours(hours: u64) -> Span {
    Span::from_secs(hours * 3600)
}

const fn minutes(minutes: u64) -> Span {
    Span::from_secs(minutes * 60)
}

/// How many GPUs a job of a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// All of as many nodes as its facts say.
    Nodes,
    /// All of one node.
    Node,
    /// One.
    Gpu,
}

/// A kind of job.
struct Nature {
    /// Whose jobs are such.
    is: fn(&MixEntry, &Facts) -> bool,
    /// In words.
    what: &'static str,
    width: Width,
    /// Median, 95th percentile and longest; `None` for what is there all the time.
    runs: Option<[Span; 3]>,
}

/// The first whose condition holds. Lengths are assumptions in the order of what published traces
/// of GPU clusters show: most jobs are small and over within the hour, wide ones run for hours, and
/// a few of each for a day and more.
const NATURES: [Nature; 7] = [
    Nature {
        is: |entry, _| entry.facts.is(Fact::LongLivedServices),
        what: "replicas that fill whole nodes, there all the time",
        width: Width::Node,
        runs: None,
    },
    Nature {
        is: |entry, _| entry.facts.is(Fact::TightlyCoupled) && entry.facts.get(Fact::Nodes) > 1,
        what: "gangs over whole nodes",
        width: Width::Nodes,
        runs: Some([hours(4), hours(24), hours(48)]),
    },
    Nature {
        is: |entry, _| entry.facts.is(Fact::PythonNativePipeline),
        what: "pipelines on whole nodes, started whole",
        width: Width::Nodes,
        runs: Some([hours(2), hours(12), hours(24)]),
    },
    Nature {
        is: |entry, _| entry.facts.is(Fact::TightlyCoupled) || entry.facts.get(Fact::Nodes) > 1,
        what: "jobs of a whole node, each by itself",
        width: Width::Node,
        runs: Some([hours(2), hours(12), hours(24)]),
    },
    Nature {
        is: |entry, _| entry.name.to_lowercase().contains("notebook"),
        what: "notebooks, by their name: 1 GPU",
        width: Width::Gpu,
        runs: Some([hours(2), hours(8), hours(12)]),
    },
    Nature {
        is: |_, site| site.is(Fact::ShortRuns),
        what: "short jobs of 1 GPU",
        width: Width::Gpu,
        runs: Some([minutes(5), minutes(30), hours(2)]),
    },
    Nature {
        is: |_, _| true,
        what: "jobs of 1 GPU",
        width: Width::Gpu,
        runs: Some([minutes(30), hours(8), hours(24)]),
    },
];

/// A fact and its value.
type Given = (Fact, u32);

/// Work as the needs of a site name it, for one that has no mix; parts are equal.
const OF_NEEDS: [(Fact, &str, &[Given]); 8] = [
    (Fact::CoupledTraining, "coupled-training", &[(Fact::TightlyCoupled, 1), (Fact::Nodes, 2)]),
    (Fact::Mpi, "mpi", &[(Fact::TightlyCoupled, 1), (Fact::Nodes, 2)]),
    (Fact::Training, "training", &[(Fact::TightlyCoupled, 1)]),
    (Fact::Services, "services", &[(Fact::LongLivedServices, 1)]),
    (Fact::Rl, "rl", &[(Fact::PythonNativePipeline, 1)]),
    (Fact::Sweeps, "sweeps", &[]),
    (Fact::Notebooks, "notebooks", &[]),
    (Fact::Batch, "batch", &[]),
];

/// Jobs of one kind, of which it is open how many there are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    /// As the mix calls it.
    pub(super) name: Arc<str>,
    /// Part of the GPU-hours, from 0 to 1.
    pub(super) part: f64,
    /// Tasks of each.
    pub(super) tasks: u32,
    /// GPUs of each task; of services at most, since they take as many as their part comes to.
    pub(super) gpus: u32,
    /// How long they run; `None` for what is there all the time.
    pub(super) runs: Option<Lengths>,
}

/// The kinds of work of a site on these nodes, and what was assumed of them. Their parts are 1
/// together.
pub(super) fn kinds(
    site: &SiteProfile,
    nodes: &[NodeSpec],
    assumed: &mut Vec<String>,
) -> Vec<Kind> {
    let mix = mix(site, assumed);
    let parts = parts(&mix, assumed);
    let mut kinds = Vec::new();
    for (entry, part) in mix.iter().zip(parts).filter(|(_, part)| *part > 0.0) {
        let nature = NATURES.iter().find(|nature| (nature.is)(entry, &site.facts));
        let nature = nature.expect("the last of the natures is that of every job");
        let (tasks, gpus) = match nature.width {
            Width::Nodes => {
                (entry.facts.get(Fact::Nodes), node_gpus(nodes, entry.facts.get(Fact::Nodes)))
            }
            Width::Node => (1, node_gpus(nodes, 1)),
            Width::Gpu => (1, 1),
        };
        let lengths = nature.runs.map_or_else(String::new, |[median, p95, _]| {
            format!("; half run up to {median}, 95 % up to {p95}")
        });
        assumed.push(format!("{}: {}{lengths}", entry.name, nature.what));
        kinds.push(Kind {
            name: Arc::clone(&entry.name),
            part,
            tasks,
            gpus,
            runs: nature.runs.map(|[median, p95, max]| Lengths::LogNormal(median, p95, Some(max))),
        });
    }
    kinds
}

/// The mix of a site, or one made of its needs.
fn mix<'s>(site: &'s SiteProfile, assumed: &mut Vec<String>) -> Cow<'s, [MixEntry]> {
    if !site.mix.is_empty() {
        return Cow::Borrowed(&site.mix);
    }
    let needed = OF_NEEDS.iter().filter(|(need, ..)| site.facts.is(*need));
    let entry = |name: &str, facts: &[Given]| MixEntry {
        name: name.into(),
        share_percent: None,
        facts: facts.iter().fold(Facts::default(), |all, (fact, value)| all.with(*fact, *value)),
    };
    let mut mix: Vec<MixEntry> = needed.map(|(_, name, facts)| entry(name, facts)).collect();
    if mix.is_empty() {
        mix.push(entry("batch", &[]));
    }
    assumed.push("no mix is written: its kinds are what `needs` names".to_owned());
    Cow::Owned(mix)
}

/// The part of each entry in the GPU-hours, all together 1.
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
            assumed.push(format!("shares are {known} % together, and taken for the whole"));
            known
        }
        (_, 0) => {
            assumed.push(format!(
                "{}: left out, since the others have all GPU-hours",
                open.join(", ")
            ));
            100
        }
        _ => {
            let each = if open.len() > 1 { ", equally" } else { "" };
            assumed.push(format!("{}: no share is written; {rest} %{each}", open.join(", ")));
            100
        }
    };
    let of_open = f64::from(rest) / open.len().max(1) as f64;
    mix.iter()
        .map(|entry| entry.share_percent.map_or(of_open, f64::from) / f64::from(whole))
        .collect()
}

/// GPUs that a job has on each of so many nodes: those of the usual node, or fewer where so many
/// nodes do not have that many.
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

    fn site(nodes: u32, gpus: u32, mix: &[(&str, Option<u32>, &[Given])]) -> SiteProfile {
        let entry = |(name, share, facts): &(&str, Option<u32>, &[Given])| MixEntry {
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

    fn made(site: &SiteProfile) -> (Vec<Kind>, Vec<String>) {
        let mut assumed = Vec::new();
        let nodes = machines::nodes(site, &mut assumed).unwrap();
        (kinds(site, &nodes, &mut assumed), assumed)
    }

    #[test]
    fn facts_say_how_wide_jobs_are_and_whether_they_end() {
        let coupled = |nodes| [(Fact::TightlyCoupled, 1), (Fact::Nodes, nodes)];
        let check = |name: &str, facts: &[Given], expected: (u32, u32, bool)| {
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
    fn a_job_asks_on_each_node_for_what_so_many_nodes_have() {
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
    fn what_no_share_says_is_dealt_out_and_told() {
        let check = |shares: &[Option<u32>], expected: &[f64], told: &str| {
            let mut assumed = Vec::new();
            let mix =
                site(1, 1, &shares.iter().map(|share| ("w", *share, &[][..])).collect::<Vec<_>>())
                    .mix;
            let parts = parts(&mix, &mut assumed);
            assert_eq!(parts, expected);
            assert!(assumed.concat().starts_with(told), "{assumed:?}");
        };
        check(&[Some(60), Some(40)], &[0.6, 0.4], "");
        check(&[Some(30), Some(20)], &[0.6, 0.4], "shares are 50 % together");
        check(
            &[Some(60), None, None],
            &[0.6, 0.2, 0.2],
            "w, w: no share is written; 40 %, equally",
        );
        check(&[Some(100), None], &[1.0, 0.0], "w: left out");
    }

    #[test]
    fn a_site_without_a_mix_does_what_it_needs() {
        let mut site = site(2, 16, &[]);
        assert_eq!(made(&site).0[0].name.as_ref(), "batch");
        site.facts = site.facts.with(Fact::CoupledTraining, 1).with(Fact::Services, 1);
        let (kinds, assumed) = made(&site);
        let shown: Vec<(&str, f64, u32)> =
            kinds.iter().map(|kind| (&*kind.name, kind.part, kind.tasks)).collect();
        assert_eq!(shown, [("coupled-training", 0.5, 2), ("services", 0.5, 1)]);
        assert!(assumed.iter().any(|line| line.starts_with("no mix is written")), "{assumed:?}");
    }
}
