//! Disagreements about Slurm for one workload, about the pool beside it, and about what lies under
//! either plane. Data only.

use muster_model::advice::{DisputeKind, Fact, Page};

use super::says;
use crate::condition::Condition::{All, Hybrid, Is, Not};
use crate::rule::Disagreement;
use crate::workload::terms::{COUPLED, ON_SLURM};

/// Those about Slurm, first how the fleet is split; last what the nodes hold under any plane.
pub(super) const SLURM: &[Disagreement] = &[
    Disagreement {
        id: "split-or-nest",
        kind: DisputeKind::Pages,
        when: Hybrid,
        question: "does capacity have to move between batch and services within a day?",
        positions: &[
            says(Page::Guide, "labeller, last rule", "partition the nodes, with a clear boundary"),
            says(
                Page::Guide,
                "how to scale it",
                "two pools, or Slurm as pods through Slinky or Soperator",
            ),
            says(
                Page::Comparison,
                "hybrid",
                "Slurm on Kubernetes is the answer for both; pools are the simpler split",
            ),
            says(
                Page::Kentino,
                "where Slurm hits its ceiling",
                "two small clusters are often simpler; managed offerings nest them",
            ),
        ],
        muster: "splits: nothing new to operate, and disjoint pools cannot contend; nest when the boundary has to move often",
    },
    Disagreement {
        id: "ray-in-a-hybrid",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::LongLivedServices), Is(Fact::PythonNativePipeline)]),
        question: "which part of the Ray program is coupled, and which part serves?",
        positions: &[
            says(Page::Guide, "how to integrate", "Ray on Slurm where Slurm is the primary"),
            says(
                Page::Guide,
                "how to scale it",
                "Ray inside KubeRay, in the Kubernetes pool, so that there is no third plane",
            ),
        ],
        muster: "draws both: what trains inside a Slurm allocation, what serves under KubeRay in the other pool",
    },
    Disagreement {
        id: "slurm-multi-tenancy",
        kind: DisputeKind::Pages,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "are the tenants colleagues who compete, or customers who must not see each other?",
        positions: &[
            says(
                Page::Guide,
                "how to scale it",
                "accounts, fair share and QOS are Slurm's multi-tenancy",
            ),
            says(
                Page::Guide,
                "decision flow; labeller, rule 1",
                "coupling is asked before tenancy, which changes nothing: slurm",
            ),
            says(
                Page::Kentino,
                "where Slurm hits its ceiling",
                "fine for a lab, not for a hosted service of many customers",
            ),
        ],
        muster: "keeps slurm: fair shares it enforces, isolation between customers it does not; those get clusters of their own",
    },
    Disagreement {
        id: "slurm-gpu-isolation",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "does nvidia-smi -L in a one-GPU job list one GPU?",
        positions: &[
            says(
                Page::Kentino,
                "where Slurm hits its ceiling",
                "GPUs are kept apart by CUDA_VISIBLE_DEVICES, and by code that respects it",
            ),
            says(
                Page::Kentino,
                "slurm.conf",
                "cgroups isolate the GPUs that a job may see, by proctrack/cgroup",
            ),
            says(
                Page::Upstream,
                "Slurm cgroup.conf: ConstrainDevices",
                "devices are fenced by task/cgroup with ConstrainDevices=yes; tracking processes alone fences nothing",
            ),
        ],
        muster: "counts GPUs as fenced only with ConstrainDevices=yes, which neither of the page's two statements mentions",
    },
    Disagreement {
        id: "what-fair-share-counts",
        kind: DisputeKind::Aged,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "what does one job of eight GPUs and one core add to RawUsage in sshare?",
        positions: &[
            says(
                Page::Kentino,
                "slurm.conf: GPU accounting",
                "two lines, slurmdbd and tracked gres/gpu, without which fair share runs on CPU-seconds",
            ),
            says(
                Page::Comparison,
                "slurm.conf: fairness",
                "priority weights and enforced limits; no word of GPUs",
            ),
            says(
                Page::Upstream,
                "slurm.schedmd.com, tres.html: billing TRES, November 2026",
                "usage is billed by allocated CPUs until TRESBillingWeights says otherwise; tracking a GPU does not charge for it",
            ),
        ],
        muster: "asks for the page's two lines and for a GPU weight in TRESBillingWeights: the two alone still charge CPUs",
    },
    Disagreement {
        id: "slurm-resize",
        kind: DisputeKind::Pages,
        when: ON_SLURM,
        question: "does the program itself survive a change of its size?",
        positions: &[
            says(
                Page::Hyperstack,
                "Slurm failure modes, 1",
                "the allocation is fixed at submission",
            ),
            says(
                Page::Upstream,
                "Slurm FAQ: change a job's size; SchedulerParameters=permit_job_expansion",
                "a running job can give nodes back, and can take over another job's where expansion is permitted",
            ),
        ],
        muster: "plans with a fixed size: resizing exists, but by hand, and the program has to follow",
    },
    Disagreement {
        id: "launchers-per-node",
        kind: DisputeKind::Pages,
        when: All(&[ON_SLURM, Not(Fact::PythonNativePipeline)]),
        question: "how many processes does one GPU of the running job have?",
        positions: &[
            says(
                Page::Comparison,
                "Slurm job script",
                "one task per node, which starts one process per GPU",
            ),
            says(
                Page::Kentino,
                "Slurm job script",
                "eight tasks per node, each of which starts eight processes",
            ),
        ],
        muster: "starts one launcher per node: torchrun starts a process per GPU itself, so eight launchers would be 64 processes for 8 GPUs",
    },
    Disagreement {
        id: "gang-word",
        kind: DisputeKind::Pages,
        when: ON_SLURM,
        question: "does the sentence speak of one job's tasks, or of several jobs on one node?",
        positions: &[
            says(
                Page::Overview,
                "Slurm",
                "lists gang scheduling among what Slurm has, for training",
            ),
            says(Page::Kentino, "Slurm", "gang scheduling is built in"),
            says(
                Page::Guide,
                "failure modes, 2",
                "in Slurm the term means time-slicing of jobs; whole allocation is plain behaviour there",
            ),
        ],
        muster: "says gang for all-or-nothing only, and never asks for Slurm's option of that name",
    },
    Disagreement {
        id: "node-stack",
        kind: DisputeKind::Pages,
        when: COUPLED,
        question: "which NCCL does a rank load, and who put it there?",
        positions: &[
            says(
                Page::Guide,
                "composition stack",
                "every path lands on the same: driver, GPU Operator, DRA, NCCL, RDMA fabric; Slurm's, too",
            ),
            says(
                Page::Guide,
                "labeller, rules 1 and 4",
                "the GPU Operator belongs to Kubernetes alone",
            ),
            says(
                Page::Kentino,
                "Kubernetes for AI: the 2026 stack",
                "the GPU Operator brings drivers, CUDA and NCCL",
            ),
            says(
                Page::Upstream,
                "NVIDIA GPU Operator 26.3, 2026: component matrix",
                "driver, container toolkit, device plugin, discovery, DCGM and MIG manager; CUDA's libraries and NCCL are the image's",
            ),
        ],
        muster: "draws the GPU Operator under Kubernetes only, and counts NCCL as the image's: two images are two versions of NCCL",
    },
];
