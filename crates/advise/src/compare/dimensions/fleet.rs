//! Dimensions: operating the control plane itself. Data only.

use muster_model::advice::{Fact, SupportLevel};

use super::super::dimension::{
    Dimension, SMALL_TEAM, absent, addon, comparison, guide, hyperstack, kentino, muster, native,
    overview, upstream, weak,
};
use crate::condition::Condition::Is;
use crate::workload::terms::COUPLED;

/// Dimensions of operation, in the order in which they are shown.
pub(crate) const FLEET: &[Dimension] = &[
    Dimension {
        id: "operations",
        title: "people and parts to run it",
        matters: &[Is(Fact::EdgeOrDev), Is(Fact::FleetEdge), Is(Fact::FleetDev)],
        none: native("nothing to install; a page of conventions to maintain", SMALL_TEAM),
        slurm: native("one part-time SRE", kentino("SLURM is right when")),
        kubernetes: weak(
            "20 components at least, 0.5 to 1.0 FTE for six months, then 0.25: 5 to 10 times Slurm for pure batch",
            kentino("what Kubernetes costs; decision tree, step 3"),
        ),
        k3s: Some(native(
            "one binary, the same API; not sized for a datacentre's control plane",
            overview("Kubernetes & k3s; failure modes, 4"),
        )),
        ray: weak(
            "light for one owner; as a second control plane it doubles scheduling and loses quota",
            guide("failure mode: Ray as a second, ungoverned control plane"),
        ),
        muster: addon(
            "one binary and no database on one machine; otherwise on top of the cluster, which needs its own people",
            muster("operations.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "operating-model",
        title: "scripts on bare metal",
        matters: &[Is(Fact::BareMetal), Is(Fact::FleetBareMetal), Is(Fact::HpcFluent)],
        none: native("ssh, tmux, python", SMALL_TEAM),
        slurm: native("sbatch and srun: imperative, bare metal first", comparison("table: operating model")),
        kubernetes: weak(
            "containers first, desired state in YAML; a real cost for a team fluent in another model",
            comparison("table: operating model"),
        ),
        k3s: None,
        ray: native("`ray start` on any machine, a Python program from there", kentino("Ray standalone")),
        muster: native(
            "`muster run python train.py`: processes on the host, in a container only where the job names one",
            muster("jobs.md"),
        ),
    },
    Dimension {
        id: "gitops",
        title: "declared in a repository (GitOps)",
        matters: &[Is(Fact::Gitops), Is(Fact::LongLivedServices)],
        none: absent("a page of conventions in a repository, at best", SMALL_TEAM),
        slurm: absent("not native: configuration files and commands", comparison("table: GitOps")),
        kubernetes: native("Argo CD or Flux reconcile everything", comparison("table: GitOps")),
        k3s: None,
        ray: addon("as KubeRay's objects on a Kubernetes host", overview("composition: KubeRay")),
        muster: weak(
            "queues are objects in Kubernetes; elsewhere they are files, which somebody applies by a command",
            muster("queues.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "environments",
        title: "the same environment everywhere",
        matters: &[Is(Fact::MultiTenant), Is(Fact::Regulated), Is(Fact::Reproducible)],
        none: weak("whatever is installed there today", SMALL_TEAM),
        slurm: addon(
            "modules, Conda, or a container runtime such as Apptainer: a matter of care",
            hyperstack("environment and dependency control"),
        ),
        kubernetes: native(
            "images are pinned and immutable: structural, not procedural",
            hyperstack("factors: reproducibility"),
        ),
        k3s: None,
        ray: weak("runtime environments install packages at start", upstream("Ray documentation 2026: environments")),
        muster: addon(
            "venv, modules or an image, named in the job; the container runtime is the site's",
            muster("jobs.md"),
        ),
    },
    Dimension {
        id: "elasticity",
        title: "nodes that come and go",
        matters: &[Is(Fact::FleetElastic), Is(Fact::Autoscaling), Is(Fact::LongLivedServices)],
        none: absent("only by buying a machine", SMALL_TEAM),
        slurm: weak("a fixed pool; bursting to a cloud by plugins", comparison("table: node elasticity")),
        kubernetes: addon("Cluster Autoscaler or Karpenter grow node groups", comparison("table: node elasticity")),
        k3s: Some(weak("joining a node is one command, but no controller runs it", overview("Kubernetes & k3s"))),
        ray: native(
            "scales workers on pending tasks, as far as its host has nodes",
            kentino("Ray and KubeRay"),
        ),
        muster: weak(
            "nodes are the cluster's: elastic gangs use those that come, nothing here orders any",
            muster("jobs.md"),
        ),
    },
    Dimension {
        id: "resize",
        title: "running jobs that grow or shrink",
        matters: &[Is(Fact::Grow), Is(Fact::PythonNativePipeline)],
        none: absent("stop it and start it larger", SMALL_TEAM),
        slurm: absent(
            "the allocation is fixed at submission; elastic frameworks need custom tooling",
            hyperstack("Slurm failure modes"),
        )
        .today(
            SupportLevel::Weak,
            "a job can give nodes back, and take more with permit_job_expansion; 26.05 gives memory back. The program must cope",
            upstream("Slurm FAQ: job size; 26.05 release notes"),
        ),
        kubernetes: addon(
            "through operators of elastic frameworks; Pods are added and removed one by one anyway",
            muster("what Hyperstack's Slurm failure modes leave open; KubeRay scales worker groups"),
        ),
        k3s: None,
        ray: native("actors come and go while the program runs", overview("Ray")),
        muster: weak(
            "elastic gangs restart when their size changes, nodes of a Ray job come and go while it runs; services change by command",
            muster("jobs.md, ray.md"),
        ),
    },
    Dimension {
        id: "recovery",
        title: "a training run after a node is lost",
        matters: &[COUPLED, Is(Fact::CoupledTraining)],
        none: absent("restarted by hand from the checkpoint", SMALL_TEAM),
        slurm: weak(
            "the job fails and is requeued; checkpoints are the program's own",
            hyperstack("fault tolerance and job recovery"),
        )
        .today(
            SupportLevel::Weak,
            "--requeue with torchrun's --max-restarts is common; 25.11 adds an expedited requeue on the same nodes",
            upstream("Slurm 25.11 release notes"),
        ),
        kubernetes: weak(
            "Pods restart fast, a coupled run does not: checkpoints are the program's own here too",
            hyperstack("fault tolerance and job recovery"),
        ),
        k3s: None,
        ray: weak(
            "tasks and actors are retried; a coupled run needs its checkpoint as anywhere",
            upstream("Ray documentation 2026: fault tolerance"),
        ),
        muster: weak(
            "the gang restarts whole, away from the failed node; checkpoints are the program's own here, too",
            muster("jobs.md"),
        ),
    },
    Dimension {
        id: "debugging",
        title: "finding out why a rank died",
        matters: &[COUPLED, Is(Fact::CoupledTraining)],
        none: native("its terminal is open in tmux", SMALL_TEAM),
        slurm: native(
            "topology, node health and the place of a failure are visible; scripts must be solid",
            hyperstack("conclusion"),
        ),
        kubernetes: weak(
            "layers hide the topology; logs are scattered, and one lost rank shows as a timeout",
            hyperstack("things that break: distributed run debugging; conclusion"),
        ),
        k3s: None,
        ray: weak("logs per worker on every node, a dashboard over them", muster("tried on Ray 2.60, November 2026")),
        muster: native(
            "exit and signal of every rank, logs of all ranks in one command, and verify",
            muster("jobs.md, verify.md"),
        ),
    },
    Dimension {
        id: "state",
        title: "what its failure takes down",
        matters: &[Is(Fact::LongLivedServices), Is(Fact::Services)],
        none: native("no central state that could fail", SMALL_TEAM),
        slurm: addon(
            "slurmctld, with a backup if you set one up, and slurmdbd",
            comparison("table: state / SPOF"),
        )
        .today(
            SupportLevel::AddOn,
            "the backup needs a shared file system; what was acknowledged seconds before a crash may be lost",
            muster("slurmctld 22.05 killed two seconds after sbatch, November 2026"),
        ),
        kubernetes: native("etcd quorum behind the api-server", comparison("table: state / SPOF")),
        k3s: Some(addon(
            "SQLite on one server; embedded etcd on three if configured",
            upstream("k3s documentation 2026: architecture"),
        )),
        ray: weak(
            "the head's control store is in memory: when it dies, all of it dies, unless Redis is set up",
            upstream("Ray documentation 2026: GCS fault tolerance"),
        ),
        muster: weak(
            "one daemon without a standby: running tasks go on without it, nothing starts; in Kubernetes two replicas",
            muster("operations.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "multi-cluster",
        title: "one queue over several clusters",
        matters: &[Is(Fact::MultiCluster)],
        none: absent("another ssh host", SMALL_TEAM),
        slurm: native("federation", upstream("Slurm documentation: federation")),
        kubernetes: addon(
            "the same manifests everywhere; MultiKueue dispatches",
            kentino("Kueue and quota borrowing"),
        ),
        k3s: None,
        ray: absent("a cluster is one cluster", upstream("Ray documentation 2026: clusters")),
        muster: absent(
            "one job file and one list for several clusters, but no queue over them",
            muster("jobs.md, site.md"),
        ),
    },
];
