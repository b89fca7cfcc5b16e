//! Named conditions on a site, shared by rules, warnings and disputes. Data only.

use muster_model::advice::{ControlPlane, Fact, Threshold};

use crate::condition::Condition::{self, All, Any, Below, Chosen, Is, Never, Not, Reaches};

/// Runs can span nodes: the fleet has several, or can grow.
pub(crate) const SEVERAL_NODES: Condition =
    Any(&[Reaches(Threshold::SeveralNodes), Is(Fact::FleetElastic)]);

/// Training of any size.
pub(crate) const TRAINS: Condition = Any(&[Is(Fact::Training), Is(Fact::CoupledTraining)]);

/// Tasks that wait for each other across nodes. An MPI program on several nodes is that by
/// construction.
pub(crate) const COUPLED: Condition =
    Any(&[Is(Fact::CoupledTraining), All(&[Is(Fact::Mpi), SEVERAL_NODES])]);

/// Runs that a scheduler which binds pod by pod must not place: coupled runs, and rollouts with a
/// trainer that spans nodes, which hold GPUs while they wait for each other.
pub(crate) const GANGS: Condition = Any(&[COUPLED, All(&[Is(Fact::Rl), SEVERAL_NODES])]);

/// Work that Ray was made for, in the words of the tree: reinforcement learning, hyperparameter
/// search, distributed Python.
pub(crate) const PYTHON: Condition =
    Any(&[Is(Fact::Rl), Is(Fact::Sweeps), Is(Fact::DistributedPython)]);

/// Work that starts and ends, as opposed to services.
pub(crate) const FINITE: Condition = Any(&[TRAINS, Is(Fact::Batch), Is(Fact::Mpi), PYTHON]);

/// Services beside work that ends: "mixed" on every page.
pub(crate) const MIXED: Condition = All(&[Is(Fact::Services), FINITE]);

/// Services and nothing else.
pub(crate) const PURE_SERVICES: Condition = All(&[Is(Fact::Services), Never(&FINITE)]);

/// The platform has operators: a team, or a provider.
pub(crate) const STAFFED: Condition = Any(&[Reaches(Threshold::PlatformFte), Is(Fact::Managed)]);

/// A provider operates the platform, because there is no team for it.
pub(crate) const PROVIDED: Condition = All(&[Is(Fact::Managed), Below(Threshold::PlatformFte)]);

/// Users can coordinate: they talk, or there is only one.
pub(crate) const AGREE: Condition = Any(&[Is(Fact::Talk), Below(Threshold::SharedUsers)]);

/// Needs that must be enforced, which conventions between people cannot do.
pub(crate) const ENFORCED: Condition = Any(&[
    Is(Fact::HostileTenants),
    Is(Fact::StrictQuotas),
    Is(Fact::Regulated),
    Is(Fact::IsolatedSlices),
    Is(Fact::Gitops),
    Is(Fact::Autoscaling),
    Is(Fact::MultiCluster),
]);

/// Declared state, or several clusters that look alike.
pub(crate) const DECLARED: Condition = Any(&[Is(Fact::Gitops), Is(Fact::MultiCluster)]);

/// Needs that Slurm does not meet.
pub(crate) const PLATFORM_NEEDS: Condition = Any(&[
    Is(Fact::HostileTenants),
    Is(Fact::Gitops),
    Is(Fact::Autoscaling),
    Is(Fact::MultiCluster),
]);

/// Below both numbers of the tree's first question, with users who can coordinate.
pub(crate) const SMALL: Condition =
    All(&[Below(Threshold::SchedulerGpus), Below(Threshold::SchedulerUsers), AGREE]);

/// Sizes for which only the looser statements of the pages say "no scheduler".
pub(crate) const SMALL_BAND: Condition = All(&[
    Reaches(Threshold::SchedulerGpus),
    Below(Threshold::ConventionGpus),
    Below(Threshold::ConventionUsers),
    Below(Threshold::ConventionNodes),
    AGREE,
]);

/// At the edge, or a development cluster that k3s was sized for.
pub(crate) const EDGE: Condition =
    Any(&[Is(Fact::FleetEdge), All(&[Is(Fact::FleetDev), Below(Threshold::K3sFleetNodes)])]);

/// The three conditions under which a commercial scheduler is worth its price.
pub(crate) const COMMERCIAL: Condition =
    All(&[Reaches(Threshold::CommercialTeams), Is(Fact::StrictQuotas), Is(Fact::ToolingBudget)]);

/// Run:ai is there and works: it queues and places gangs, and nothing is added that does the same.
pub(crate) const RUNAI_WORKS: Condition = All(&[Is(Fact::OperatesRunai), Is(Fact::Works)]);

/// Run:ai queues and places the work.
pub(crate) const RUNAI: Condition = All(&[KUBERNETES, Any(&[COMMERCIAL, RUNAI_WORKS])]);

/// Large, shared by teams, and mixed.
pub(crate) const FEDERATED: Condition =
    All(&[MIXED, Reaches(Threshold::FederatedGpus), Reaches(Threshold::SeveralTeams)]);

/// Kubernetes is there and works, and people who know Slurm bring coupled work.
pub(crate) const SLURM_ARRIVES: Condition = All(&[
    Is(Fact::OperatesKubernetes),
    Is(Fact::Works),
    Not(Fact::OperatesSlurm),
    Is(Fact::HpcFluent),
    COUPLED,
    STAFFED,
]);

/// Kubernetes is the substrate of Slurm: a product that does this works here, or Slurm arrives on a
/// Kubernetes that works.
pub(crate) const SUBSTRATE: Condition = Any(&[
    SLURM_ARRIVES,
    All(&[
        Any(&[Is(Fact::OperatesSlinky), Is(Fact::OperatesSoperator), Is(Fact::OperatesSunk)]),
        Is(Fact::Works),
    ]),
]);

/// KAI is there and works: it places gangs, and no second gang scheduler is added.
pub(crate) const KAI_WORKS: Condition = All(&[Is(Fact::OperatesKai), Is(Fact::Works)]);

/// Two orchestrators, each brought by a team of its own.
pub(crate) const BOTH_OPERATED: Condition =
    All(&[Is(Fact::OperatesSlurm), Is(Fact::OperatesKubernetes)]);

/// Slurm is the chosen control plane.
pub(crate) const SLURM: Condition = Chosen(&[ControlPlane::Slurm]);

/// Full Kubernetes was chosen.
pub(crate) const KUBERNETES: Condition = Chosen(&[ControlPlane::Kubernetes]);

/// Kubernetes of any size was chosen.
pub(crate) const ON_KUBERNETES: Condition = Chosen(&[ControlPlane::Kubernetes, ControlPlane::K3s]);

/// No scheduler was chosen: conventions between people.
pub(crate) const NOTHING: Condition = Chosen(&[ControlPlane::None]);

/// Slurm, with Kubernetes beside or below it for services.
pub(crate) const POOL: Condition =
    All(&[SLURM, Any(&[All(&[Is(Fact::Services), STAFFED]), BOTH_OPERATED, SUBSTRATE])]);

/// Kueue admits the work: work that ends, on full Kubernetes, or on k3s that teams share.
pub(crate) const QUEUED: Condition = All(&[
    FINITE,
    Any(&[
        All(&[KUBERNETES, Never(&RUNAI)]),
        All(&[Chosen(&[ControlPlane::K3s]), Reaches(Threshold::SeveralTeams)]),
    ]),
]);

/// Kubeflow turns training into pods, beside services.
pub(crate) const KUBEFLOW: Condition = All(&[KUBERNETES, MIXED, TRAINS, Never(&RUNAI)]);

/// One queue dispatches to several clusters.
pub(crate) const MULTIKUEUE: Condition =
    All(&[KUBERNETES, FINITE, Is(Fact::MultiCluster), Never(&RUNAI)]);

/// Shares on Slurm are enforced by accounting rather than by agreement.
pub(crate) const COUNTED_SHARES: Condition = All(&[
    SLURM,
    Any(&[
        Reaches(Threshold::SeveralTeams),
        Is(Fact::StrictQuotas),
        All(&[Reaches(Threshold::SharedUsers), Not(Fact::Talk)]),
    ]),
]);

/// Slurm alone has to run the services.
pub(crate) const SLURM_SERVES: Condition = All(&[SLURM, Is(Fact::Services), Never(&POOL)]);
