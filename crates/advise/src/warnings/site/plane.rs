//! Failure modes of work on the chosen control plane. Data only.

use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, Threshold};

use crate::condition::Condition::{All, Any, Chosen, Is, Never, Not, Reaches};
use crate::rule::Hazard;
use crate::site::terms::{
    COUNTED_SHARES, COUPLED, FINITE, GANGS, KUBERNETES, NOTHING, ON_KUBERNETES, PYTHON,
    SEVERAL_NODES, SLURM, SLURM_SERVES, TRAINS,
};

/// Failure modes of the control plane, most dangerous first.
pub(super) const PLANE: &[Hazard] = &[
    Hazard {
        id: "nothing-but-agreement",
        source: Citation::new(CitedPage::Kentino, "introduction; the honest small-team reality"),
        when: All(&[NOTHING, Reaches(Threshold::SharedUsers)]),
        sentence: "nothing but agreement keeps two people off one GPU",
        tell: "out of memory at start, and a question in the chat who is on node 3",
        cure: "CUDA_VISIBLE_DEVICES in every command, one page of conventions; a scheduler when people stop asking",
    },
    Hazard {
        id: "nothing-restarts",
        source: Citation::new(CitedPage::Kentino, "the big split: services restart on crash"),
        when: All(&[NOTHING, Is(Fact::Services)]),
        sentence: "an endpoint in tmux stays down until it is restarted by hand",
        tell: "users report the outage",
        cure: "systemd or a container with a restart policy, on GPUs that the conventions reserve for it",
    },
    Hazard {
        id: "half-a-run-by-hand",
        source: Citation::new(
            CitedPage::Kentino,
            "what a scheduler actually does: a barrier waits for the missing rank",
        ),
        when: All(&[NOTHING, COUPLED]),
        sentence: "ranks are started by hand on several nodes: the first hold GPUs until those of the last are free",
        tell: "processes at a barrier, GPUs held and idle",
        cure: "agree on all nodes before the first rank starts, from one script",
    },
    Hazard {
        id: "second-user-of-ray",
        source: Citation::new(CitedPage::Kentino, "what Ray is not"),
        when: Chosen(&[ControlPlane::Ray]),
        sentence: "Ray assumes that one application owns the cluster: a second user has no queue, quota or account in it",
        tell: "a second person asks for access",
        cure: "a base control plane below, Ray inside it, before the second user comes",
    },
    Hazard {
        id: "k3s-past-its-envelope",
        source: Citation::new(CitedPage::Overview, "failure modes, 4; guide: failure modes, 6"),
        when: All(&[
            Any(&[Chosen(&[ControlPlane::K3s]), Is(Fact::OperatesK3s)]),
            Reaches(Threshold::K3sFleetNodes),
        ]),
        sentence: "k3s controls more nodes than it was sized for",
        tell: "slow API calls and leader changes while nodes join or jobs start together",
        cure: "one k3s for each small place at the edge; full Kubernetes for a datacentre",
    },
    Hazard {
        id: "time-counted-in-cpus",
        source: Citation::new(CitedPage::Kentino, "a minimal slurm.conf: GPU accounting"),
        when: COUNTED_SHARES,
        sentence: "fair share counts CPU seconds unless it is configured to count GPUs, and is meaningless then",
        tell: "sshare is flat, and sacct shows jobs without gres/gpu",
        cure: "AccountingStorageTRES=gres/gpu, slurmdbd, and a GPU weight in TRESBillingWeights",
    },
    Hazard {
        id: "limits-not-enforced",
        source: Citation::new(CitedPage::Comparison, "how it's set up: multi-tenancy"),
        when: All(&[SLURM, Is(Fact::StrictQuotas)]),
        sentence: "the accounting database has limits that the scheduler does not enforce",
        tell: "a team above its limit has running jobs",
        cure: "AccountingStorageEnforce=associations,limits,qos, non-zero priority weights; a QOS limit overrides that of the \
               association",
    },
    Hazard {
        id: "whole-node-for-one-gpu",
        source: Citation::new(
            CitedPage::Comparison,
            "how it's set up: GPU sharing within a node; note 2",
        ),
        when: All(&[SLURM, Any(&[Is(Fact::Notebooks), Is(Fact::SharedGpus)])]),
        sentence: "a notebook or a job of one GPU takes a whole node where Slurm gives out nodes and not parts of them",
        tell: "seven of eight GPUs idle, and squeue says that the node is allocated",
        cure: "SelectType=select/cons_tres with CR_Core_Memory, written down: what is the default depends on version and package",
    },
    Hazard {
        id: "fixed-allocation",
        source: Citation::new(CitedPage::Hyperstack, "SLURM failure modes: dynamic scaling"),
        when: All(&[SLURM, Is(Fact::Grow)]),
        sentence: "jobs that should grow cannot: an allocation stays as large as it was submitted",
        tell: "a run at 64 GPUs beside 64 idle ones",
        cure: "ask for a range of nodes at submission, checkpoint and resubmit larger, or a second job that joins the first",
    },
    Hazard {
        id: "grows-only-if-asked",
        source: Citation::new(
            CitedPage::Upstream,
            "Kueue issues 9891 and 16052: no automatic growth, August 2026",
        ),
        when: All(&[KUBERNETES, Is(Fact::Grow)]),
        sentence: "elastic jobs start smaller when the queue is full; nothing makes them larger when it empties",
        tell: "a job admitted with half its workers stays at half",
        cure: "a controller of your own, Ray Train's elastic mode, or checkpoint and resubmit",
    },
    Hazard {
        id: "elastic-nodes-fixed-pool",
        source: Citation::new(
            CitedPage::Comparison,
            "comparison table: node elasticity; SchedMD's framing",
        ),
        when: All(&[SLURM, Is(Fact::FleetElastic)]),
        sentence: "Slurm expects a fixed pool, and nodes of this one come and go",
        tell: "nodes marked DOWN that were only returned",
        cure: "cloud nodes with suspend and resume programs; or Kubernetes, if most work is elastic",
    },
    Hazard {
        id: "one-pool-many-kinds",
        source: Citation::new(CitedPage::Kentino, "where Slurm hits its ceiling, second place"),
        when: All(&[SLURM, TRAINS, Is(Fact::Notebooks), Any(&[SLURM_SERVES, Is(Fact::Batch)])]),
        sentence: "training, notebooks, preparation and services share what Slurm treats as one pool",
        tell: "partitions multiply, and each has idle nodes that another waits for",
        cure: "few partitions by kind of node, limits by QOS; a second control plane for services",
    },
    Hazard {
        id: "drifting-environments",
        source: Citation::new(CitedPage::Hyperstack, "environment and dependency control"),
        when: All(&[SLURM, Is(Fact::Reproducible)]),
        sentence: "jobs run on the node's own system: modules and Python environments differ between nodes and months",
        tell: "the same script gives other numbers on another node",
        cure: "container images pinned by digest, through Pyxis with Enroot, or Apptainer",
    },
    Hazard {
        id: "launch-depends-on-dns",
        source: Citation::new(CitedPage::Hyperstack, "comparison: multi-node training"),
        when: All(&[ON_KUBERNETES, GANGS]),
        sentence: "ranks find each other through operators, DNS and network policies: if one of them is wrong, none starts",
        tell: "all pods Running, the rendezvous times out",
        cure: "test name resolution and ports between two pods before the first run, and after every policy change",
    },
    Hazard {
        id: "rank-fails-unseen",
        source: Citation::new(CitedPage::Hyperstack, "things that break, 3"),
        when: All(&[GANGS, Never(&NOTHING)]),
        sentence: "one rank fails and the others wait for it: the error shows as a timeout",
        tell: "GPUs at 100 % without training progress; the last log line is an all-reduce",
        cure: "short collective timeouts, logs of all ranks in one place, the whole run ended when one rank ends",
    },
    Hazard {
        id: "recovery-is-yours",
        source: Citation::new(CitedPage::Hyperstack, "fault tolerance and job recovery"),
        when: All(&[
            TRAINS,
            Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes, ControlPlane::K3s]),
        ]),
        sentence: "no scheduler resumes training: it only starts the program again",
        tell: "a requeued run begins at step 0",
        cure: "checkpoints by time, a start that looks for the last one, and a test that kills a rank",
    },
    Hazard {
        id: "sweep-of-pods",
        source: Citation::new(CitedPage::Kentino, "batch jobs and services table, row 2"),
        when: All(&[ON_KUBERNETES, Is(Fact::Sweeps)]),
        sentence: "a sweep is hundreds of single Jobs",
        tell: "the list of pods is too long to read, and the queue thrashes",
        cure: "Ray Tune through KubeRay, or one indexed Job with a limit on how many run at a time",
    },
    Hazard {
        id: "wait-longer-than-run",
        source: Citation::new(CitedPage::Hyperstack, "things that break, 2"),
        when: All(&[
            Is(Fact::ShortRuns),
            Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes, ControlPlane::K3s]),
        ]),
        sentence: "runs of minutes wait longer than they run",
        tell: "people hold an interactive allocation all day, not to queue again",
        cure: "a small queue with a short limit for them, time limits on all jobs so that short ones are backfilled, or Ray inside \
               one allocation",
    },
    Hazard {
        id: "notebook-without-end",
        source: Citation::new(CitedPage::Kentino, "the interactive notebook problem"),
        when: Is(Fact::Notebooks),
        sentence: "a notebook without a time limit holds its GPU forever",
        tell: "GPUs held by kernels that ran nothing since yesterday",
        cure: "a time limit on every interactive session, and idle sessions ended",
    },
    Hazard {
        id: "twenty-components",
        source: Citation::new(CitedPage::Kentino, "what Kubernetes is good at, what you pay"),
        when: All(&[KUBERNETES, FINITE, Not(Fact::OperatesKubernetes)]),
        sentence: "about 20 components have releases of their own: 5 to 10 times the load of Slurm where all is batch",
        tell: "an upgrade of one breaks another, and the last working set is unknown",
        cure: "pin every version, upgrade the set in a small copy first",
    },
    Hazard {
        id: "head-starved-of-its-node",
        source: Citation::new(
            CitedPage::Upstream,
            "KubeRay pull request 3592: workers can starve the head; no gang by default",
        ),
        when: All(&[ON_KUBERNETES, PYTHON, SEVERAL_NODES]),
        sentence: "two Ray clusters start together and neither starts completely: KubeRay has no gang scheduling by default",
        tell: "Ray workers Running, their head Pending",
        cure: "one batch scheduler configured in KubeRay, and RayJobs admitted by the queue",
    },
];
