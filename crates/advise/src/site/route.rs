//! Chooses the cluster that jobs of a kind are sent to: what the site file says, else an ordered list of
//! control planes for each kind. Only clusters that the site has are chosen.

use std::fmt;

use muster_model::ClusterName;
use muster_model::advice::{Fact, SiteProfile, WorkKind};

/// Cluster for jobs of a kind, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Cluster that the jobs are sent to.
    pub cluster: ClusterName,
    /// Reason, a fragment whose subject is the site file.
    pub reason: String,
}

/// Reason why no cluster can be chosen, a fragment whose subject is the site file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// The site file names no cluster at all.
    NoCluster,
    /// The site has these clusters only, and none suits the kind of job, for this reason.
    Unsuited(Vec<ClusterName>, &'static str),
    /// The site has these clusters of the control plane that suits.
    Several(Vec<ClusterName>),
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undecided::NoCluster => {
                f.write_str("names no cluster that takes jobs: none under `clusters`, and neither Slurm nor Kubernetes under `people.operates`")
            }
            Undecided::Unsuited(clusters, why) => {
                write!(f, "has no line for them, and only {}: {why}", names(clusters))
            }
            Undecided::Several(clusters) => {
                let clusters = names(clusters);
                write!(f, "has no line for them, and several clusters that suit: {clusters}")
            }
        }
    }
}

impl std::error::Error for Undecided {}

/// Control planes in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plane {
    Slurm,
    Kubernetes,
    Local,
}

/// Order of control planes for a kind of job, and the reason for the first of them.
struct Preference {
    kind: WorkKind,
    order: &'static [Plane],
    reason: &'static str,
}

/// Preferences of every kind. Source: guide, matrix, rows 1 and 2: coupled jobs on Slurm, services on
/// Kubernetes. Slurm is not in the order for services, because it ends and does not restart them.
const PREFERENCES: [Preference; 5] = [
    Preference {
        kind: WorkKind::Batch,
        order: &[Plane::Slurm, Plane::Kubernetes, Plane::Local],
        reason: "Slurm keeps the queue and the shares of batch jobs",
    },
    Preference {
        kind: WorkKind::Arrays,
        order: &[Plane::Slurm, Plane::Kubernetes, Plane::Local],
        reason: "Slurm keeps a long array as one entry of its queue",
    },
    Preference {
        kind: WorkKind::Gangs,
        order: &[Plane::Slurm, Plane::Kubernetes, Plane::Local],
        reason: "Slurm grants the whole allocation at once",
    },
    Preference {
        kind: WorkKind::Services,
        order: &[Plane::Kubernetes, Plane::Local],
        reason: "Kubernetes restarts it and gives it an address, Slurm does neither",
    },
    Preference {
        kind: WorkKind::Notebooks,
        order: &[Plane::Kubernetes, Plane::Slurm, Plane::Local],
        reason: "`kubectl port-forward` reaches it there, without an account on its node",
    },
];

/// Returns the cluster for jobs of a kind.
///
/// # Errors
/// When neither the site file nor the order of control planes leads to one cluster.
pub fn route(site: &SiteProfile, kind: WorkKind) -> Result<Route, Undecided> {
    // 1. The site file: the line of the kind, else that of batch jobs for what is submitted like them.
    let as_batch = matches!(kind, WorkKind::Arrays | WorkKind::Gangs);
    let lines = [Some(kind), as_batch.then_some(WorkKind::Batch)];
    for line in lines.into_iter().flatten() {
        if let Some(cluster) = site.clusters.get(&line) {
            let reason = format!("says `{line}: {cluster}`");
            return Ok(Route { cluster: cluster.clone(), reason });
        }
    }

    // 2. The order of control planes, over the clusters that the site has.
    let clusters = route_targets(site);
    let preference = PREFERENCES.iter().find(|preference| preference.kind == kind);
    let preference = preference.expect("every kind has a preference");
    if clusters.is_empty() {
        return Err(Undecided::NoCluster);
    }
    for plane in preference.order {
        let is_of_plane = |cluster: &&ClusterName| plane_of(cluster) == *plane;
        let of_plane: Vec<ClusterName> = clusters.iter().filter(is_of_plane).cloned().collect();
        match of_plane.as_slice() {
            [] => {}
            [cluster] => {
                let why = match clusters.len() {
                    1 => "it is the only cluster of the site".to_owned(),
                    _ if *plane == preference.order[0] => preference.reason.to_owned(),
                    _ => format!("of {} it comes first for {kind}", names(&clusters)),
                };
                let reason = format!("has no line for {kind}, and {why}");
                return Ok(Route { cluster: cluster.clone(), reason });
            }
            _ => return Err(Undecided::Several(of_plane)),
        }
    }
    Err(Undecided::Unsuited(clusters, preference.reason))
}

/// Returns the clusters of a site, each once: those that it names, and one of each control plane in
/// operation of which it names none.
#[must_use]
pub fn route_targets(site: &SiteProfile) -> Vec<ClusterName> {
    let mut clusters: Vec<ClusterName> = site.clusters.values().cloned().collect();
    clusters.sort();
    clusters.dedup();
    let operates = [
        (Fact::OperatesSlurm, ClusterName::Slurm),
        (Fact::OperatesKubernetes, ClusterName::Kubernetes(None)),
        (Fact::OperatesK3s, ClusterName::Kubernetes(None)),
    ];
    for (fact, cluster) in operates {
        let is_named = clusters.iter().any(|other| plane_of(other) == plane_of(&cluster));
        if site.facts.is(fact) && !is_named {
            clusters.push(cluster);
        }
    }
    clusters
}

fn names(clusters: &[ClusterName]) -> String {
    clusters.iter().map(ClusterName::to_string).collect::<Vec<_>>().join(", ")
}

fn plane_of(cluster: &ClusterName) -> Plane {
    match cluster {
        ClusterName::Local => Plane::Local,
        ClusterName::Slurm | ClusterName::SlurmAt(_) => Plane::Slurm,
        ClusterName::Kubernetes(_) => Plane::Kubernetes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a site of lines such as `batch: slurm`, and of planes in operation such as `+slurm`.
    fn site(text: &str) -> SiteProfile {
        let mut site = SiteProfile::default();
        for line in text.split(", ").filter(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some((kind, cluster)) => {
                    let kind = WorkKind::ALL.into_iter().find(|one| one.name() == kind).unwrap();
                    site.clusters.insert(kind, cluster.parse().unwrap());
                }
                None => {
                    let name = format!("people.operates-{}", line.strip_prefix('+').unwrap());
                    let fact = Fact::SITE.iter().find(|fact| fact.name() == name).unwrap();
                    site.facts.set(*fact, 1);
                }
            }
        }
        site
    }

    fn check(text: &str, kind: WorkKind, expected: &str) {
        let said = match route(&site(text), kind) {
            Ok(Route { cluster, reason }) => format!("{cluster}: {reason}"),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(said, expected, "{text}: {kind}");
    }

    #[test]
    fn the_line_of_the_kind_is_first() {
        let lines = "batch: slurm@login, gangs: kubernetes@train, services: kubernetes";
        check(lines, WorkKind::Batch, "slurm@login: says `batch: slurm@login`");
        check(lines, WorkKind::Arrays, "slurm@login: says `batch: slurm@login`");
        check(lines, WorkKind::Gangs, "kubernetes@train: says `gangs: kubernetes@train`");
        check(lines, WorkKind::Services, "kubernetes: says `services: kubernetes`");
        // A service is not submitted like a batch job.
        check(
            "batch: local",
            WorkKind::Services,
            "local: has no line for services, and it is the only cluster of the site",
        );
    }

    #[test]
    fn without_a_line_the_order_of_control_planes_decides() {
        let both = "+slurm, +kubernetes";
        for (kind, expected) in [
            (
                WorkKind::Batch,
                "slurm: has no line for batch, and Slurm keeps the queue and the shares of batch jobs",
            ),
            (
                WorkKind::Gangs,
                "slurm: has no line for gangs, and Slurm grants the whole allocation at once",
            ),
            (
                WorkKind::Services,
                "kubernetes: has no line for services, and Kubernetes restarts it and gives it an address, Slurm does neither",
            ),
            (
                WorkKind::Notebooks,
                "kubernetes: has no line for notebooks, and `kubectl port-forward` reaches it there, without an account on its node",
            ),
        ] {
            check(both, kind, expected);
        }
        check(
            "+k3s, batch: local",
            WorkKind::Notebooks,
            "kubernetes: has no line for notebooks, and `kubectl port-forward` reaches it there, without an account on its node",
        );
        check(
            "+slurm, batch: local",
            WorkKind::Notebooks,
            "slurm: has no line for notebooks, and of local, slurm it comes first for notebooks",
        );
        // A named cluster replaces the nameless one of its control plane.
        check(
            "+slurm, services: kubernetes, batch: slurm@login",
            WorkKind::Notebooks,
            "kubernetes: has no line for notebooks, and `kubectl port-forward` reaches it there, without an account on its node",
        );
        assert_eq!(route_targets(&site("+slurm, +k3s, +kubernetes, batch: slurm@login")).len(), 2);
    }

    #[test]
    fn what_cannot_be_decided_is_an_error() {
        check(
            "",
            WorkKind::Batch,
            "error: names no cluster that takes jobs: none under `clusters`, and neither Slurm nor Kubernetes under `people.operates`",
        );
        check(
            "+ray",
            WorkKind::Batch,
            "error: names no cluster that takes jobs: none under `clusters`, and neither Slurm nor Kubernetes under `people.operates`",
        );
        check(
            "+slurm",
            WorkKind::Services,
            "error: has no line for them, and only slurm: Kubernetes restarts it and gives it an address, Slurm does neither",
        );
        check(
            "services: kubernetes@a, batch: kubernetes@b",
            WorkKind::Notebooks,
            "error: has no line for them, and several clusters that suit: kubernetes@a, kubernetes@b",
        );
        for kind in WorkKind::ALL {
            assert!(PREFERENCES.iter().any(|preference| preference.kind == kind), "{kind}");
        }
    }
}
