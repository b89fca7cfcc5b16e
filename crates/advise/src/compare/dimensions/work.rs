//! Dimensions: the kinds of work that a control plane was built for. Data only.

use muster_model::advice::Fact;

use super::super::dimension::{
    Dimension, SMALL_TEAM, absent, addon, comparison, guide, hyperstack, kentino, muster, native,
    overview, upstream, weak,
};
use crate::condition::Condition::{All, Is};

/// Dimensions of work, in the order in which they are shown.
pub(crate) const WORK: &[Dimension] = &[
    Dimension {
        id: "batch",
        title: "runs that start and end",
        matters: &[Is(Fact::TightlyCoupled), Is(Fact::Training), Is(Fact::Batch), Is(Fact::Mpi)],
        none: weak("started by hand in tmux; nothing queues them", SMALL_TEAM),
        slurm: native(
            "finite jobs with declared resources are what it was built for",
            comparison("table: primary workload"),
        ),
        kubernetes: addon(
            "runs them beside services; queueing them is Kueue's or Volcano's work",
            kentino("workload table: 8-hour training run"),
        ),
        k3s: None,
        ray: weak(
            "runs one application's tasks; it is no batch queue for a shared cluster",
            kentino("Ray and KubeRay: what Ray is not"),
        ),
        muster: native(
            "one job file for this machine, Slurm, Kubernetes and Ray: finite jobs with declared resources",
            muster("jobs.md"),
        ),
    },
    Dimension {
        id: "sweeps",
        title: "hundreds of short trials",
        matters: &[Is(Fact::PythonNativePipeline), Is(Fact::Sweeps)],
        none: weak("a shell loop over the GPUs of one machine", SMALL_TEAM),
        slurm: native("job arrays", kentino("workload table: 200-job hyperparameter sweep")),
        kubernetes: weak(
            "awkward: a Pod and its overhead per trial",
            kentino("workload table: 200-job hyperparameter sweep"),
        ),
        k3s: None,
        ray: native(
            "Ray Tune runs trials in parallel and stops bad ones early: best in class",
            kentino("Ray and KubeRay: where Ray fits"),
        ),
        muster: weak(
            "a grid or draws in the job file, an array on Slurm and an Indexed Job in Kubernetes; early stops on one machine only",
            muster("jobs.md, slurm.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "serving",
        title: "endpoints that stay up",
        matters: &[Is(Fact::LongLivedServices), Is(Fact::Services), Is(Fact::Autoscaling)],
        none: weak("a server in tmux, until the session ends", SMALL_TEAM),
        slurm: weak(
            "as a job without end: no ingress, health checks or scaling; it holds nodes that batch waits for",
            comparison("table: online serving"),
        ),
        kubernetes: native(
            "Service, ingress, rolling updates, scaling on load (HPA, KEDA, KServe)",
            comparison("table: online serving"),
        ),
        k3s: None,
        ray: native(
            "Ray Serve; its machines and the way in come from the host",
            kentino("Ray and KubeRay: where Ray fits"),
        ),
        muster: weak(
            "replicas that restart; in Kubernetes a Deployment or InferenceService with an autoscaler's range. Ingress is the cluster's",
            muster("jobs.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "restart",
        title: "a crashed service comes back",
        matters: &[Is(Fact::LongLivedServices), Is(Fact::Services)],
        none: absent("restarted by hand", SMALL_TEAM),
        slurm: absent(
            "no notion of it: a job that ends has ended",
            kentino("workload table: auto-restart crashed services"),
        ),
        kubernetes: native(
            "controllers keep what was declared running",
            kentino("workload table: auto-restart crashed services"),
        ),
        k3s: None,
        ray: native(
            "actors and Serve replicas come back; the head does not by itself",
            upstream("Ray documentation 2026: fault tolerance"),
        ),
        muster: weak(
            "a replica restarts after every end, on its machine: when that dies, only a cluster starts it elsewhere",
            muster("jobs.md"),
        ),
    },
    Dimension {
        id: "mixed",
        title: "training, services and tools on one fleet",
        matters: &[
            All(&[Is(Fact::LongLivedServices), Is(Fact::TightlyCoupled)]),
            All(&[Is(Fact::Services), Is(Fact::Training)]),
        ],
        none: absent("first come, first served", SMALL_TEAM),
        slurm: weak(
            "painful: services get a partition of their own, or starve the jobs behind them",
            kentino("workload table: mixed"),
        ),
        kubernetes: native(
            "one fleet for all of it, with Kueue in front of the batch part",
            kentino("workload table: mixed"),
        ),
        k3s: None,
        ray: weak(
            "assumes that one application owns the cluster",
            kentino("Ray and KubeRay: what Ray is not"),
        ),
        muster: native(
            "services, notebooks and batch in one queue tree; opportunistic replicas give way to batch",
            muster("queues.md, jobs.md"),
        ),
    },
    Dimension {
        id: "python",
        title: "pipelines of Python tasks and actors",
        matters: &[Is(Fact::PythonNativePipeline), Is(Fact::Rl), Is(Fact::DistributedPython)],
        none: weak("`ray start` on one machine that one person owns", kentino("Ray standalone")),
        slurm: addon(
            "Ray inside an allocation: head on the first node, workers on the others",
            overview("composition: Ray-on-Slurm"),
        ),
        kubernetes: addon(
            "KubeRay: RayCluster, RayJob, RayService, under the platform's quota",
            overview("composition: KubeRay"),
        ),
        k3s: None,
        ray: native(
            "tasks and actors, with Train, Serve, Data, Tune and RLlib on top",
            guide("matrix: RL, data, train and rollout"),
        ),
        muster: addon(
            "a Ray cluster per job (kind: ray), on this machine, Slurm and Kubernetes",
            muster("ray.md"),
        ),
    },
    Dimension {
        id: "notebooks",
        title: "notebooks on GPUs",
        matters: &[Is(Fact::Notebooks)],
        none: weak("by agreement, with the time limit written on a page", SMALL_TEAM),
        slurm: native(
            "salloc and Jupyter: a hard time limit, and the GPU is accounted for",
            kentino("the interactive notebook problem"),
        ),
        kubernetes: addon(
            "JupyterHub behind a low-priority Kueue queue: training preempts idle notebooks",
            kentino("the interactive notebook problem"),
        ),
        k3s: None,
        ray: weak(
            "drives a cluster from a notebook, but hands out none",
            muster("Ray has no hub of its own"),
        ),
        muster: native(
            "kind: notebook has a time limit and is stopped when idle; on Kubernetes idle time is not watched",
            muster("jobs.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "mlops",
        title: "pipelines from data to serving",
        matters: &[
            All(&[Is(Fact::LongLivedServices), Is(Fact::MultiTenant)]),
            All(&[Is(Fact::Services), Is(Fact::Gitops)]),
        ],
        none: absent("scripts, run by hand", SMALL_TEAM),
        slurm: weak(
            "made for batch; continuous or event-driven pipelines need tools around it",
            hyperstack("factors: workload fit"),
        ),
        kubernetes: native(
            "inference, MLOps and mixed work, with the tools of the CNCF",
            hyperstack("factors: workload fit"),
        ),
        k3s: None,
        ray: addon("Data, Train and Serve in one program; the rest from the host", overview("Ray")),
        muster: weak(
            "jobs after jobs, and a Python client; pipelines need tools around it",
            muster("jobs.md, python.md"),
        ),
    },
];
