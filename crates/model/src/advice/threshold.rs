//! Thresholds: numbers in rules that a site may override. One table holds them, each with its
//! source.

use super::fact::{Fact, FactValue};
use super::source::{Citation, CitedPage};

/// Declares [`Threshold`] and its table from one list.
macro_rules! thresholds {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal of $fact:ident = $default:literal, $page:ident $section:literal, $meaning:literal;)+) => {
        /// Number in a rule that a site may override.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Threshold { $($(#[doc = $doc])+ $variant,)+ }

        impl Threshold {
            /// Every threshold, in order.
            pub const ALL: &'static [Threshold] = &[$(Threshold::$variant,)+];

            /// Returns the name under `rules:`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Threshold::$variant => $name,)+ }
            }

            /// Returns the fact that it is compared with, which has the same type and bounds.
            #[must_use]
            pub const fn fact(self) -> Fact {
                match self { $(Threshold::$variant => Fact::$fact,)+ }
            }

            /// Returns the default number, as stored.
            #[must_use]
            pub const fn default(self) -> u32 {
                match self { $(Threshold::$variant => $default,)+ }
            }

            /// Returns the source of the default.
            #[must_use]
            pub const fn source(self) -> Citation {
                match self { $(Threshold::$variant => Citation::new(CitedPage::$page, $section),)+ }
            }

            /// Returns the meaning of the threshold, as a fragment.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Threshold::$variant => $meaning,)+ }
            }
        }
    };
}

thresholds! {
    /// Nodes from which a coupled job needs gang scheduling.
    MultiNode "multi-node" of Nodes = 2, Guide "labeller, edge 2", "nodes from which a coupled job counts as multi-node";
    /// Nodes of one job from which k3s is unsuitable.
    K3sNodes "k3s-nodes" of Nodes = 9, Muster "the sources give no number; more nodes than a small cluster has", "nodes of one job from which k3s is no longer suitable";
    /// GPUs from which a scheduler pays for itself.
    SchedulerGpus "scheduler-gpus" of FleetGpus = 16, Kentino "decision tree, step 1", "GPUs from which a scheduler pays for itself";
    /// Users from which a scheduler pays for itself.
    SchedulerUsers "scheduler-users" of Users = 8, Kentino "decision tree, step 1", "users from which a scheduler pays for itself";
    /// GPUs from which no source recommends conventions alone.
    ConventionGpus "convention-gpus" of FleetGpus = 33, Kentino "the honest small-team reality: 4 to 32 GPUs", "GPUs from which no source recommends conventions alone";
    /// Users from which no source recommends conventions alone.
    ConventionUsers "convention-users" of Users = 7, Kentino "summary table: 2 to 6 users", "users from which no source recommends conventions alone";
    /// Nodes from which no source recommends conventions alone.
    ConventionNodes "convention-nodes" of FleetNodes = 5, Kentino "the honest small-team reality: 1 to 4 nodes", "nodes from which no source recommends conventions alone";
    /// Users from which a fleet has more than one owner.
    SharedUsers "shared-users" of Users = 2, Kentino "Ray standalone: one person owns the cluster", "users from which a fleet has more than one owner";
    /// Teams from which a fleet is shared by teams.
    SeveralTeams "several-teams" of Teams = 2, Guide "labeller: many teams share the fleet", "teams from which a fleet counts as multi-tenant";
    /// Nodes from which a run can span nodes.
    SeveralNodes "several-nodes" of FleetNodes = 2, Guide "labeller, edge 2", "nodes from which a run can span nodes";
    /// Steady platform staff that Kubernetes requires.
    PlatformFte "platform-fte" of PlatformFte = 25, Kentino "decision tree, step 3", "full-time staff that operating Kubernetes needs";
    /// Staff that the set-up of Kubernetes requires.
    PlatformBuildFte "platform-build-fte" of PlatformFte = 50, Kentino "decision tree, step 3", "full-time staff that the first six months of Kubernetes need";
    /// Teams from which a commercial scheduler such as Run:ai is evaluated.
    CommercialTeams "commercial-teams" of Teams = 10, Kentino "summary table: 10+ teams", "teams from which a commercial scheduler is worth its price";
    /// Teams from which the decision tree of the source asks for Run:ai.
    CommercialTeamsTree "commercial-teams-tree" of Teams = 11, Kentino "decision tree, step 4: more than 10 teams", "teams from which also the stricter statement asks for a commercial scheduler";
    /// GPUs from which batch and services get a control plane each.
    FederatedGpus "federated-gpus" of FleetGpus = 200, Kentino "summary table: 200+ GPUs", "GPUs from which batch and services get a control plane each";
    /// Places from which no run can span the whole fleet.
    SeveralPlaces "several-places" of FleetPlaces = 2, Muster "a collective between two data centres is as slow as the line between them", "places from which each gets a queue of its own";
    /// Nodes of the fleet from which k3s is unsuitable.
    K3sFleetNodes "k3s-fleet-nodes" of FleetNodes = 9, Muster "the sources give no number; more nodes than a small cluster has", "nodes of the fleet from which k3s is no longer suitable";
}

impl Threshold {
    /// Returns the threshold with this name; `None` when there is none.
    #[must_use]
    pub fn find(name: &str) -> Option<Threshold> {
        Threshold::ALL.iter().copied().find(|threshold| threshold.name() == name)
    }
}

/// Values of all thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thresholds([u32; Threshold::ALL.len()]);

impl Default for Thresholds {
    fn default() -> Self {
        let mut values = [0; Threshold::ALL.len()];
        for threshold in Threshold::ALL {
            values[*threshold as usize] = threshold.default();
        }
        Self(values)
    }
}

impl Thresholds {
    /// Returns the stored number of a threshold.
    #[must_use]
    pub const fn get(&self, threshold: Threshold) -> u32 {
        self.0[threshold as usize]
    }

    /// Returns the value of a threshold.
    #[must_use]
    pub const fn value(&self, threshold: Threshold) -> FactValue {
        threshold.fact().value(self.get(threshold))
    }

    /// Sets a number, which must be within the bounds of its fact.
    pub fn set(&mut self, threshold: Threshold, stored: u32) {
        self.0[threshold as usize] = stored;
    }

    /// Returns the thresholds that the site overrides, in order.
    pub fn overridden(&self) -> impl Iterator<Item = Threshold> + '_ {
        Threshold::ALL
            .iter()
            .copied()
            .filter(|threshold| self.get(*threshold) != threshold.default())
    }
}
