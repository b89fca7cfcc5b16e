//! Facts: what can be known of a workload or of a site, each a flag or a count. One closed table
//! names, bounds and asks for them, so that files, options, questions, rules and documentation
//! cannot disagree. What follows from a fact is not said here.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// What a fact's value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false; false when not given.
    Flag,
    /// A whole number within bounds, both included.
    Count {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
        /// When not given.
        default: u32,
    },
    /// Hundredths of a whole, from 0 to this many: 25 is written 0.25.
    Hundredths {
        /// Largest, in hundredths.
        max: u32,
    },
}

/// A value as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Of a flag.
    Flag(bool),
    /// Of a count.
    Count(u32),
    /// Of hundredths.
    Hundredths(u32),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Count(count) => write!(f, "{count}"),
            Value::Hundredths(value) => write!(f, "{}.{:02}", value / 100, value % 100),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Count(count) => serializer.serialize_u32(*count),
            Value::Hundredths(_) => {
                let number: serde_json::Number =
                    self.to_string().parse().expect("digits, a point, two digits");
                number.serialize(serializer)
            }
        }
    }
}

/// Declares [`Fact`] and its table from one list.
macro_rules! facts {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $kind:expr, $question:literal;)+) => {
        /// One thing that can be known.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fact { $($(#[doc = $doc])+ $variant,)+ }

        impl Fact {
            /// Every fact, in the order of files and questions.
            pub const ALL: &'static [Fact] = &[$(Fact::$variant,)+];

            /// The name in files, on the command line and in JSON; of a site's facts with its
            /// section before a dot.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Fact::$variant => $name,)+ }
            }

            /// What its value can be.
            #[must_use]
            pub const fn kind(self) -> Kind {
                match self { $(Fact::$variant => $kind,)+ }
            }

            /// The question that it answers, for people.
            #[must_use]
            pub const fn question(self) -> &'static str {
                match self { $(Fact::$variant => $question,)+ }
            }
        }
    };
}

const fn count(min: u32, max: u32, default: u32) -> Kind {
    Kind::Count { min, max, default }
}

/// More nodes, GPUs or people than any one site has; it keeps sums far from overflow.
const MANY: u32 = 10_000_000;

facts! {
    /// Nodes that a single job spans.
    Nodes "nodes" count(1, MANY, 1), "how many nodes does a single job span?";
    /// NCCL or MPI collectives across nodes.
    TightlyCoupled "tightly_coupled" Kind::Flag, "do its tasks synchronise with each other at every step (all-reduce, MPI)?";
    /// Can run without a container platform.
    BareMetal "bare_metal" Kind::Flag, "can it run on bare metal, without a container platform?";
    /// Endpoints that stay up.
    LongLivedServices "long_lived_services" Kind::Flag, "are there services beside it that must stay up (inference endpoints, databases)?";
    /// Many teams share the fleet.
    MultiTenant "multi_tenant" Kind::Flag, "do several teams share the fleet?";
    /// Tasks and actors written in Python: RL, rollout and trainer, data pipelines.
    PythonNativePipeline "python_native_pipeline" Kind::Flag, "is it a pipeline of Python tasks or actors (RL, Ray Data, tuning)?";
    /// Small, continuous integration, or one node.
    EdgeOrDev "edge_or_dev" Kind::Flag, "is it for the edge, for development or for CI, on few machines?";

    /// Nodes of the fleet.
    FleetNodes "fleet.nodes" count(1, MANY, 1), "how many nodes does the fleet have?";
    /// GPUs of the fleet, all together.
    FleetGpus "fleet.gpus" count(1, MANY, 1), "how many GPUs does it have, all together?";
    /// InfiniBand or RoCE between nodes.
    FleetRdma "fleet.rdma" Kind::Flag, "is there InfiniBand or RoCE between the nodes?";
    /// No hypervisor and no container platform is forced upon it.
    FleetBareMetal "fleet.bare-metal" Kind::Flag, "does it run on bare metal, rather than on a cloud's machines?";
    /// Nodes come and go with the load.
    FleetElastic "fleet.elastic" Kind::Flag, "do nodes come and go with the load?";
    /// Many small places rather than one room.
    FleetEdge "fleet.edge" Kind::Flag, "is it at the edge: many small places, or one small box?";
    /// For development or continuous integration only.
    FleetDev "fleet.dev" Kind::Flag, "is it for development or CI only?";
    /// Nobody else is on these machines.
    FleetSingleTenant "fleet.single-tenant" Kind::Flag, "are the machines of one owner, with no other tenant on them?";
    /// Two schedulers start work on the same nodes today.
    FleetSharedNodes "fleet.shared-nodes" Kind::Flag, "do two orchestrators start work on the same nodes?";
    /// Some GPU model can be cut into MIG slices. Follows from the models; nobody writes it.
    FleetMig "fleet.mig" Kind::Flag, "can its GPUs be cut into hardware slices (MIG)?";

    /// People who start jobs.
    Users "people.users" count(1, MANY, 1), "how many people start jobs?";
    /// Teams that they are in.
    Teams "people.teams" count(1, MANY, 1), "in how many teams?";
    /// They talk to each other every day.
    Talk "people.talk" Kind::Flag, "do they all talk to each other?";
    /// People wait for each other, or take each other's GPUs.
    CoordinationFailing "people.coordination-failing" Kind::Flag, "is coordination failing: do people collide, or wait for someone who forgot?";
    /// People who run the platform, steady state.
    PlatformFte "people.platform-fte" Kind::Hundredths { max: 100_000 }, "how many full-time people can run the platform, steadily?";
    /// Money for products.
    ToolingBudget "people.tooling-budget" Kind::Flag, "is there a budget to buy scheduling software?";
    /// Somebody else may run it.
    Managed "people.managed" Kind::Flag, "may a provider run the orchestrator for you?";
    /// Used to job scripts and MPI.
    HpcFluent "people.hpc-fluent" Kind::Flag, "is the team at home in HPC tools and job scripts?";
    /// Used to manifests and operators.
    KubernetesFluent "people.kubernetes-fluent" Kind::Flag, "is the team at home in Kubernetes?";
    /// Slurm runs there today.
    OperatesSlurm "people.operates-slurm" Kind::Flag, "do you operate Slurm today?";
    /// Kubernetes runs there today.
    OperatesKubernetes "people.operates-kubernetes" Kind::Flag, "do you operate Kubernetes today?";
    /// k3s runs there today.
    OperatesK3s "people.operates-k3s" Kind::Flag, "do you operate k3s today?";
    /// Ray clusters run there today, as a plane of their own.
    OperatesRay "people.operates-ray" Kind::Flag, "do you operate Ray clusters today, beside any other scheduler?";
    /// What runs there does what it should.
    Works "people.works" Kind::Flag, "does what you operate work?";
    /// Somebody wants to replace what works.
    Modernise "people.modernise" Kind::Flag, "does somebody want to replace it, to be modern?";

    /// Training runs.
    Training "needs.training" Kind::Flag, "do you train models?";
    /// Training that couples GPUs across nodes.
    CoupledTraining "needs.coupled-training" Kind::Flag, "do single training runs span several nodes?";
    /// Most of the GPU-hours go to training that couples GPUs across nodes.
    MainlyCoupled "needs.mainly-coupled" Kind::Flag, "does such training take most of the GPU-hours?";
    /// Runs that start, end and answer nobody.
    Batch "needs.batch" Kind::Flag, "do you run batch jobs (processing, offline inference, simulation)?";
    /// Many short trials.
    Sweeps "needs.sweeps" Kind::Flag, "do you run sweeps of many trials?";
    /// Endpoints that must stay up.
    Services "needs.services" Kind::Flag, "do you serve models or other endpoints that must stay up?";
    /// Interactive sessions on GPUs.
    Notebooks "needs.notebooks" Kind::Flag, "do people want notebooks on GPUs?";
    /// Reinforcement learning.
    Rl "needs.rl" Kind::Flag, "do you do reinforcement learning with rollouts and trainers?";
    /// Tasks and actors written in Python, beside reinforcement learning.
    DistributedPython "needs.distributed-python" Kind::Flag, "do you run distributed Python (Ray Data, actors, multi-stage pipelines)?";
    /// MPI programs.
    Mpi "needs.mpi" Kind::Flag, "do you run MPI programs?";
    /// Isolation and audit demanded by law or contract.
    Regulated "needs.regulated" Kind::Flag, "do rules or contracts demand strict isolation and audit trails?";
    /// Hosted customers, who must not see each other.
    HostileTenants "needs.hostile-tenants" Kind::Flag, "do customers share it who must be kept apart from each other?";
    /// Quotas that are enforced.
    StrictQuotas "needs.strict-quotas" Kind::Flag, "must teams' shares be enforced, not only agreed?";
    /// Declared state in a repository.
    Gitops "needs.gitops" Kind::Flag, "must the platform be declared in a repository (GitOps)?";
    /// Services that follow the load.
    Autoscaling "needs.autoscaling" Kind::Flag, "must services scale with their load?";
    /// Jobs that change their size while they run.
    Grow "needs.grow" Kind::Flag, "must running jobs grow or shrink?";
    /// Slices of GPUs that are isolated by hardware.
    IsolatedSlices "needs.isolated-slices" Kind::Flag, "must several tenants share one GPU, isolated by hardware?";
    /// Slices of GPUs, isolated or not.
    SharedGpus "needs.shared-gpus" Kind::Flag, "do small jobs that need less than one GPU share GPUs?";
    /// Runs so short that the wait before them is felt.
    ShortRuns "needs.short-runs" Kind::Flag, "are most runs over within minutes?";
    /// Environments that are the same to the bit.
    Reproducible "needs.reproducible" Kind::Flag, "must a run's environment be identical to the bit, today and next year?";
    /// A dashboard of experiments.
    Tracking "needs.tracking" Kind::Flag, "do you want experiment tracking in the same product?";
    /// Several clusters behind one queue.
    MultiCluster "needs.multi-cluster" Kind::Flag, "must the same jobs run in several clusters?";
}

impl Fact {
    /// The facts of one workload, in the order of the guide.
    pub const WORKLOAD: &'static [Fact] = Fact::ALL.split_at(7).0;

    /// The facts of a site.
    pub const SITE: &'static [Fact] = Fact::ALL.split_at(7).1;

    /// Facts of a site that are only said where another holds too. What the other implies stands in
    /// later entries.
    pub const IMPLIES: [Contradiction; 4] = [
        implies(
            Fact::MainlyCoupled,
            Fact::CoupledTraining,
            "training that does not span nodes cannot be the main part",
        ),
        implies(Fact::CoupledTraining, Fact::Training, "what spans nodes here is training"),
        implies(Fact::Autoscaling, Fact::Services, "what scales with its load is a service"),
        implies(Fact::IsolatedSlices, Fact::SharedGpus, "a slice is a part of a shared GPU"),
    ];

    /// Finds a fact by its name.
    #[must_use]
    pub fn find(name: &str) -> Option<Fact> {
        Fact::ALL.iter().copied().find(|fact| fact.name() == name)
    }

    /// Value when nobody gave one, as stored.
    #[must_use]
    pub const fn default(self) -> u32 {
        match self.kind() {
            Kind::Count { default, .. } => default,
            Kind::Flag | Kind::Hundredths { .. } => 0,
        }
    }

    /// A stored number as people write it.
    #[must_use]
    pub const fn value(self, stored: u32) -> Value {
        match self.kind() {
            Kind::Flag => Value::Flag(stored != 0),
            Kind::Count { .. } => Value::Count(stored),
            Kind::Hundredths { .. } => Value::Hundredths(stored),
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As its name.
impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A value for every fact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facts([u32; Fact::ALL.len()]);

impl Default for Facts {
    fn default() -> Self {
        let mut values = [0; Fact::ALL.len()];
        for fact in Fact::ALL {
            values[*fact as usize] = fact.default();
        }
        Self(values)
    }
}

impl Facts {
    /// The number of a fact: 0 or 1 of a flag, hundredths of hundredths.
    #[must_use]
    pub const fn get(&self, fact: Fact) -> u32 {
        self.0[fact as usize]
    }

    /// Whether a flag is set, or a number is not 0.
    #[must_use]
    pub const fn is(&self, fact: Fact) -> bool {
        self.get(fact) != 0
    }

    /// The value as people write it.
    #[must_use]
    pub const fn value(&self, fact: Fact) -> Value {
        fact.value(self.get(fact))
    }

    /// Sets the number of a fact, which must be within its bounds.
    pub fn set(&mut self, fact: Fact, stored: u32) {
        self.0[fact as usize] = stored;
    }

    /// The same facts with one changed.
    #[must_use]
    pub fn with(mut self, fact: Fact, stored: u32) -> Self {
        self.set(fact, stored);
        self
    }

    /// Facts that differ from what they are when nobody gave them, in order.
    pub fn given(&self) -> impl Iterator<Item = (Fact, Value)> + '_ {
        let differs = |fact: &&Fact| self.get(**fact) != fact.default();
        Fact::ALL.iter().filter(differs).map(|fact| (*fact, self.value(*fact)))
    }

    /// The first pair of facts that cannot both hold. Facts of one workload never contradict each
    /// other: the guide answers every combination.
    #[must_use]
    pub fn contradiction(&self) -> Option<Contradiction> {
        let operates =
            [Fact::OperatesSlurm, Fact::OperatesKubernetes, Fact::OperatesK3s, Fact::OperatesRay];
        let nothing = !operates.iter().any(|plane| self.is(*plane));
        let pair =
            |holds: bool, one, other, why| holds.then_some(Contradiction { one, other, why });
        let more_teams = self.get(Fact::Teams) > self.get(Fact::Users);
        let alone = self.get(Fact::Users) == 1 && self.is(Fact::CoordinationFailing);
        let coupled = self.is(Fact::CoupledTraining)
            && self.get(Fact::FleetNodes) == 1
            && !self.is(Fact::FleetElastic);
        pair(more_teams, Fact::Teams, Fact::Users, "there are more teams than users")
            .or(pair(
                alone,
                Fact::CoordinationFailing,
                Fact::Users,
                "one user has nobody to coordinate with",
            ))
            .or(pair(
                nothing && self.is(Fact::Works),
                Fact::Works,
                Fact::OperatesSlurm,
                "nothing is operated that could work",
            ))
            .or(pair(
                nothing && self.is(Fact::Modernise),
                Fact::Modernise,
                Fact::OperatesSlurm,
                "nothing is operated that could be replaced",
            ))
            .or(pair(
                coupled,
                Fact::CoupledTraining,
                Fact::FleetNodes,
                "training cannot span nodes of a fleet of one",
            ))
            .or(self.unmet())
    }
}

impl Facts {
    /// The first fact that holds without the one that it implies.
    fn unmet(&self) -> Option<Contradiction> {
        Fact::IMPLIES.into_iter().find(|pair| self.is(pair.one) && !self.is(pair.other))
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.given().map(|(fact, value)| (fact.name(), value.to_string())))
            .finish()
    }
}

/// As a mapping of the facts that were given.
impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (fact, value) in self.given() {
            map.serialize_entry(fact.name(), &value)?;
        }
        map.end()
    }
}

const fn implies(one: Fact, other: Fact, why: &'static str) -> Contradiction {
    Contradiction { one, other, why }
}

/// Two facts that cannot be as they are: the values of both at once, or the first without the
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The fact to complain about.
    pub one: Fact,
    /// The other.
    pub other: Fact,
    /// A lowercase fragment.
    pub why: &'static str,
}
