//! Facts about a workload or a site, each a flag or a number. One table holds their names, bounds
//! and questions, for files, options, dialogues, rules and documentation alike. The conclusions are
//! in `advise`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Type and bounds of a fact's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactKind {
    /// True or false; false by default.
    Flag,
    /// Whole number within bounds, both included.
    Count {
        /// Smallest accepted value, included.
        min: u32,
        /// Largest accepted value, included.
        max: u32,
        /// Value when the fact is not given.
        default: u32,
    },
    /// Hundredths of a whole, from 0 to `max`: 25 is written 0.25.
    Hundredths {
        /// Largest accepted value, in hundredths.
        max: u32,
    },
}

/// Value of a fact, as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactValue {
    /// Value of a flag.
    Flag(bool),
    /// Value of a whole number.
    Count(u32),
    /// Value in hundredths of a whole.
    Hundredths(u32),
}

impl fmt::Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactValue::Flag(flag) => write!(f, "{flag}"),
            FactValue::Count(count) => write!(f, "{count}"),
            FactValue::Hundredths(value) => write!(f, "{}.{:02}", value / 100, value % 100),
        }
    }
}

impl Serialize for FactValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FactValue::Flag(flag) => serializer.serialize_bool(*flag),
            FactValue::Count(count) => serializer.serialize_u32(*count),
            FactValue::Hundredths(_) => {
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
        /// Fact about a workload or a site.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fact { $($(#[doc = $doc])+ $variant,)+ }

        impl Fact {
            /// Every fact, in the order of files and questions.
            pub const ALL: &'static [Fact] = &[$(Fact::$variant,)+];

            /// Returns the name in files, on the command line and in JSON; for a fact about a site
            /// with its section before a dot.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Fact::$variant => $name,)+ }
            }

            /// Returns the type and bounds of its value.
            #[must_use]
            pub const fn kind(self) -> FactKind {
                match self { $(Fact::$variant => $kind,)+ }
            }

            /// Returns the question that asks the user for it.
            #[must_use]
            pub const fn question(self) -> &'static str {
                match self { $(Fact::$variant => $question,)+ }
            }
        }
    };
}

const fn count(min: u32, max: u32, default: u32) -> FactKind {
    FactKind::Count { min, max, default }
}

/// More nodes, GPUs or users than any site has; keeps sums far from overflow.
const MANY: u32 = 10_000_000;

facts! {
    /// Number of nodes that a single job spans.
    Nodes "nodes" count(1, MANY, 1), "how many nodes does a single job span?";
    /// Tasks synchronise across nodes at every step (NCCL or MPI collectives).
    TightlyCoupled "tightly_coupled" FactKind::Flag, "do its tasks synchronise with each other at every step (all-reduce, MPI)?";
    /// The workload can run without a container platform.
    BareMetal "bare_metal" FactKind::Flag, "can it run on bare metal, without a container platform?";
    /// Endpoints that must stay up run beside the workload.
    LongLivedServices "long_lived_services" FactKind::Flag, "are there services beside it that must stay up (inference endpoints, databases)?";
    /// Several teams share the fleet.
    MultiTenant "multi_tenant" FactKind::Flag, "do several teams share the fleet?";
    /// Tasks and actors written in Python: RL, rollout and trainer, data pipelines.
    PythonNativePipeline "python_native_pipeline" FactKind::Flag, "is it a pipeline of Python tasks or actors (RL, Ray Data, tuning)?";
    /// Development, continuous integration, edge, or a single node.
    EdgeOrDev "edge_or_dev" FactKind::Flag, "is it for the edge, for development or for CI, on few machines?";

    /// Number of nodes of the fleet.
    FleetNodes "fleet.nodes" count(1, MANY, 1), "how many nodes does the fleet have?";
    /// Number of GPUs of the fleet, over all nodes.
    FleetGpus "fleet.gpus" count(1, MANY, 1), "how many GPUs does it have, all together?";
    /// Nodes are connected by InfiniBand or RoCE.
    FleetRdma "fleet.rdma" FactKind::Flag, "is there InfiniBand or RoCE between the nodes?";
    /// Nodes run without a hypervisor or container platform.
    FleetBareMetal "fleet.bare-metal" FactKind::Flag, "does it run on bare metal, rather than on a cloud's machines?";
    /// Nodes are added and removed with the load.
    FleetElastic "fleet.elastic" FactKind::Flag, "do nodes come and go with the load?";
    /// The fleet consists of many small places, not of one data centre.
    FleetEdge "fleet.edge" FactKind::Flag, "does it stand at the edge, in shops, factories or other small places?";
    /// The fleet is for development or continuous integration only.
    FleetDev "fleet.dev" FactKind::Flag, "is it for development or CI only?";
    /// The machines have one owner and no other tenant.
    FleetSingleTenant "fleet.single-tenant" FactKind::Flag, "are the machines of one owner, with no other tenant on them?";
    /// Number of places, such as data centres or branches, that the nodes stand in.
    FleetPlaces "fleet.places" count(1, MANY, 1), "in how many places do the nodes stand?";
    /// Two schedulers start work on the same nodes today.
    FleetSharedNodes "fleet.shared-nodes" FactKind::Flag, "do two orchestrators start work on the same nodes?";
    /// A GPU model of the fleet can be cut into MIG slices. Derived from the models, never given.
    FleetMig "fleet.mig" FactKind::Flag, "can its GPUs be cut into hardware slices (MIG)?";

    /// Number of users who start jobs.
    Users "people.users" count(1, MANY, 1), "how many people start jobs?";
    /// Number of teams that the users are in.
    Teams "people.teams" count(1, MANY, 1), "in how many teams?";
    /// All users talk to each other every day.
    Talk "people.talk" FactKind::Flag, "do they all talk to each other?";
    /// Users wait for each other, or take each other's GPUs.
    CoordinationFailing "people.coordination-failing" FactKind::Flag, "is coordination failing: do people collide, or wait for someone who forgot?";
    /// Full-time staff who can run the platform, steadily.
    PlatformFte "people.platform-fte" FactKind::Hundredths { max: 100_000 }, "how many full-time people can run the platform, steadily?";
    /// A budget to buy scheduling software exists.
    ToolingBudget "people.tooling-budget" FactKind::Flag, "is there a budget to buy scheduling software?";
    /// A provider may run the platform.
    Managed "people.managed" FactKind::Flag, "may a provider run the orchestrator for you?";
    /// A provider runs the control plane today, such as EKS, GKE or AKS.
    ManagedPlane "people.managed-plane" FactKind::Flag, "does a provider run the control plane today (EKS, GKE, AKS or the like)?";
    /// The team is experienced with HPC tools and job scripts.
    HpcFluent "people.hpc-fluent" FactKind::Flag, "is the team at home in HPC tools and job scripts?";
    /// The team is experienced with Kubernetes.
    KubernetesFluent "people.kubernetes-fluent" FactKind::Flag, "is the team at home in Kubernetes?";
    /// The site operates Slurm today.
    OperatesSlurm "people.operates-slurm" FactKind::Flag, "do you operate Slurm today?";
    /// The site operates Kubernetes today.
    OperatesKubernetes "people.operates-kubernetes" FactKind::Flag, "do you operate Kubernetes today?";
    /// The site operates k3s today.
    OperatesK3s "people.operates-k3s" FactKind::Flag, "do you operate k3s today?";
    /// The site operates Ray clusters today, beside any other scheduler.
    OperatesRay "people.operates-ray" FactKind::Flag, "do you operate Ray clusters today, beside any other scheduler?";
    /// The site operates Slinky today.
    OperatesSlinky "people.operates-slinky" FactKind::Flag, "do you operate Slinky (Slurm on Kubernetes) today?";
    /// The site operates Soperator today.
    OperatesSoperator "people.operates-soperator" FactKind::Flag, "do you operate Soperator (Slurm on Kubernetes) today?";
    /// The site operates SUNK today.
    OperatesSunk "people.operates-sunk" FactKind::Flag, "do you operate SUNK (Slurm on Kubernetes) today?";
    /// The site operates KubeRay today.
    OperatesKuberay "people.operates-kuberay" FactKind::Flag, "do you operate KubeRay today?";
    /// The site operates Volcano today.
    OperatesVolcano "people.operates-volcano" FactKind::Flag, "do you operate Volcano today?";
    /// The site operates Kueue today.
    OperatesKueue "people.operates-kueue" FactKind::Flag, "do you operate Kueue today?";
    /// The site operates the KAI scheduler today.
    OperatesKai "people.operates-kai" FactKind::Flag, "do you operate the KAI scheduler today?";
    /// The site operates Run:ai today.
    OperatesRunai "people.operates-runai" FactKind::Flag, "do you operate Run:ai today?";
    /// The site operates PBS today.
    OperatesPbs "people.operates-pbs" FactKind::Flag, "do you operate PBS (OpenPBS or PBS Professional) today?";
    /// The site operates LSF today.
    OperatesLsf "people.operates-lsf" FactKind::Flag, "do you operate LSF today?";
    /// The control plane that the site operates works.
    Works "people.works" FactKind::Flag, "does what you operate work?";
    /// The site wants to replace a working control plane to be modern.
    Modernise "people.modernise" FactKind::Flag, "does the team want to replace it, only to be modern?";

    /// The site trains models.
    Training "needs.training" FactKind::Flag, "do you train models?";
    /// Single training runs span several nodes.
    CoupledTraining "needs.coupled-training" FactKind::Flag, "do single training runs span several nodes?";
    /// Training across nodes takes most of the GPU-hours.
    MainlyCoupled "needs.mainly-coupled" FactKind::Flag, "does such training take most of the GPU-hours?";
    /// The site runs batch jobs (processing, offline inference, simulation).
    Batch "needs.batch" FactKind::Flag, "do you run batch jobs (processing, offline inference, simulation)?";
    /// The site runs sweeps of many short trials.
    Sweeps "needs.sweeps" FactKind::Flag, "do you run sweeps of many trials?";
    /// The site serves endpoints that must stay up.
    Services "needs.services" FactKind::Flag, "do you serve models or other endpoints that must stay up?";
    /// Users want notebooks on GPUs.
    Notebooks "needs.notebooks" FactKind::Flag, "do people want notebooks on GPUs?";
    /// The site does reinforcement learning.
    Rl "needs.rl" FactKind::Flag, "do you do reinforcement learning with rollouts and trainers?";
    /// The site runs distributed Python (tasks and actors), beside reinforcement learning.
    DistributedPython "needs.distributed-python" FactKind::Flag, "do you run distributed Python (Ray Data, actors, multi-stage pipelines)?";
    /// The site runs MPI programs.
    Mpi "needs.mpi" FactKind::Flag, "do you run MPI programs?";
    /// Law or contracts require isolation and audit.
    Regulated "needs.regulated" FactKind::Flag, "do rules or contracts demand strict isolation and audit trails?";
    /// Customers share the fleet and must be isolated from each other.
    HostileTenants "needs.hostile-tenants" FactKind::Flag, "do customers share it who must be kept apart from each other?";
    /// Quotas must be enforced.
    StrictQuotas "needs.strict-quotas" FactKind::Flag, "must teams' shares be enforced, not only agreed?";
    /// The platform must be declared in a repository (GitOps).
    Gitops "needs.gitops" FactKind::Flag, "must the platform be declared in a repository (GitOps)?";
    /// Services must scale with their load.
    Autoscaling "needs.autoscaling" FactKind::Flag, "must services scale with their load?";
    /// Running jobs must grow or shrink.
    Grow "needs.grow" FactKind::Flag, "must running jobs grow or shrink?";
    /// Several tenants must share one GPU, isolated by hardware.
    IsolatedSlices "needs.isolated-slices" FactKind::Flag, "must several tenants share one GPU, isolated by hardware?";
    /// Small jobs share GPUs, isolated or not.
    SharedGpus "needs.shared-gpus" FactKind::Flag, "do small jobs that need less than one GPU share GPUs?";
    /// Most runs last minutes, so that the wait before them matters.
    ShortRuns "needs.short-runs" FactKind::Flag, "are most runs over within minutes?";
    /// The environment of a run must be identical to the bit.
    Reproducible "needs.reproducible" FactKind::Flag, "must a run's environment be identical to the bit, today and next year?";
    /// Experiment tracking must be part of the product.
    Tracking "needs.tracking" FactKind::Flag, "do you want experiment tracking in the same product?";
    /// The same jobs must run in several clusters.
    MultiCluster "needs.multi-cluster" FactKind::Flag, "must the same jobs run in several clusters?";
    /// The site asks whether to add Ray.
    Ray "needs.ray" FactKind::Flag, "do you want Ray, or ask whether to add it?";
    /// Language models are served with vLLM.
    Vllm "needs.vllm" FactKind::Flag, "do you serve language models with vLLM?";
    /// Models are trained with DeepSpeed.
    Deepspeed "needs.deepspeed" FactKind::Flag, "do you train with DeepSpeed?";
    /// Data is processed with Spark.
    Spark "needs.spark" FactKind::Flag, "do you process data with Spark?";
}

impl Fact {
    /// Facts about one workload, in the order of the guide.
    pub const WORKLOAD: &'static [Fact] = Fact::ALL.split_at(7).0;

    /// Facts about a site.
    pub const SITE: &'static [Fact] = Fact::ALL.split_at(7).1;

    /// Facts about a site that require another one. An implied fact is only used as `one` in later
    /// entries.
    pub const IMPLIES: [Contradiction; 18] = [
        implies(
            Fact::MainlyCoupled,
            Fact::CoupledTraining,
            "training that does not span nodes cannot be the main part",
        ),
        implies(Fact::CoupledTraining, Fact::Training, "what spans nodes here is training"),
        implies(Fact::Autoscaling, Fact::Services, "what scales with its load is a service"),
        implies(Fact::IsolatedSlices, Fact::SharedGpus, "a slice is a part of a shared GPU"),
        implies(Fact::Vllm, Fact::Services, "vLLM serves models"),
        implies(Fact::Deepspeed, Fact::Training, "DeepSpeed trains models"),
        implies(Fact::OperatesSlinky, Fact::OperatesSlurm, "it is Slurm"),
        implies(Fact::OperatesSlinky, Fact::OperatesKubernetes, "it runs on Kubernetes"),
        implies(Fact::OperatesSoperator, Fact::OperatesSlurm, "it is Slurm"),
        implies(Fact::OperatesSoperator, Fact::OperatesKubernetes, "it runs on Kubernetes"),
        implies(Fact::OperatesSunk, Fact::OperatesSlurm, "it is Slurm"),
        implies(Fact::OperatesSunk, Fact::OperatesKubernetes, "it runs on Kubernetes"),
        implies(Fact::OperatesKuberay, Fact::OperatesRay, "it starts Ray clusters"),
        implies(Fact::OperatesKuberay, Fact::OperatesKubernetes, "it runs on Kubernetes"),
        implies(Fact::OperatesVolcano, Fact::OperatesKubernetes, "it runs on Kubernetes"),
        implies(Fact::OperatesKueue, Fact::OperatesKubernetes, "it runs on Kubernetes"),
        implies(Fact::OperatesKai, Fact::OperatesKubernetes, "it runs on Kubernetes"),
        implies(Fact::OperatesRunai, Fact::OperatesKubernetes, "it runs on Kubernetes"),
    ];

    /// Control planes and schedulers that the site operates; the others in the table imply one.
    pub const OPERATED: [Fact; 6] = [
        Fact::OperatesSlurm,
        Fact::OperatesKubernetes,
        Fact::OperatesK3s,
        Fact::OperatesRay,
        Fact::OperatesPbs,
        Fact::OperatesLsf,
    ];

    /// Returns the fact with this name; `None` when there is none.
    #[must_use]
    pub fn find(name: &str) -> Option<Fact> {
        Fact::ALL.iter().copied().find(|fact| fact.name() == name)
    }

    /// Returns the default value, as stored.
    #[must_use]
    pub const fn default(self) -> u32 {
        match self.kind() {
            FactKind::Count { default, .. } => default,
            FactKind::Flag | FactKind::Hundredths { .. } => 0,
        }
    }

    /// Returns a stored number as a value.
    #[must_use]
    pub const fn value(self, stored: u32) -> FactValue {
        match self.kind() {
            FactKind::Flag => FactValue::Flag(stored != 0),
            FactKind::Count { .. } => FactValue::Count(stored),
            FactKind::Hundredths { .. } => FactValue::Hundredths(stored),
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Serialises as the name.
impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Values of all facts.
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
    /// Returns the stored number of a fact: 0 or 1 for a flag, hundredths for hundredths.
    #[must_use]
    pub const fn get(&self, fact: Fact) -> u32 {
        self.0[fact as usize]
    }

    /// Returns true when a flag is set, or a number is not 0.
    #[must_use]
    pub const fn is(&self, fact: Fact) -> bool {
        self.get(fact) != 0
    }

    /// Returns the value of a fact.
    #[must_use]
    pub const fn value(&self, fact: Fact) -> FactValue {
        fact.value(self.get(fact))
    }

    /// Sets the stored number of a fact, which must be within its bounds.
    pub fn set(&mut self, fact: Fact, stored: u32) {
        self.0[fact as usize] = stored;
    }

    /// Returns the same facts with one changed.
    #[must_use]
    pub fn with(mut self, fact: Fact, stored: u32) -> Self {
        self.set(fact, stored);
        self
    }

    /// Returns the facts that differ from their defaults, in order.
    pub fn given(&self) -> impl Iterator<Item = (Fact, FactValue)> + '_ {
        let differs = |fact: &&Fact| self.get(**fact) != fact.default();
        Fact::ALL.iter().filter(differs).map(|fact| (*fact, self.value(*fact)))
    }

    /// Returns the first pair of facts that cannot both hold; `None` when there is none. Facts of
    /// one workload never contradict each other: the guide answers every combination.
    #[must_use]
    pub fn contradiction(&self) -> Option<Contradiction> {
        let nothing = !Fact::OPERATED.iter().any(|plane| self.is(*plane));
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
                "coordination cannot fail with a single user",
            ))
            .or(pair(
                nothing && self.is(Fact::Works),
                Fact::Works,
                Fact::OperatesSlurm,
                "nothing is operated that could work",
            ))
            .or(pair(
                nothing && self.is(Fact::ManagedPlane),
                Fact::ManagedPlane,
                Fact::OperatesSlurm,
                "no control plane is in operation that a provider could run",
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
    /// Returns the first fact that holds without one that it requires; `None` when there is none.
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

/// Serialises as a mapping of the facts that differ from their defaults.
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

/// Two facts that contradict each other: their values together, or the first without the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Fact that the error message is about.
    pub one: Fact,
    /// Fact that contradicts it.
    pub other: Fact,
    /// Reason, as a lowercase fragment.
    pub why: &'static str,
}

/// New values of facts, in the order of facts; a mapping in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FactChanges(pub Vec<(Fact, FactValue)>);

impl Serialize for FactChanges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (fact, value) in &self.0 {
            map.serialize_entry(fact.name(), value)?;
        }
        map.end()
    }
}

impl JsonSchema for FactChanges {
    fn schema_name() -> Cow<'static, str> {
        "FactChanges".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "new values of facts, by name",
            "type": "object",
            "additionalProperties": { "type": ["boolean", "number"] }
        })
    }
}
