//! Disagreements about Slurm for one workload, about the Kubernetes pool beside it, and about the
//! nodes under either control plane. Data only.

use muster_model::advice::{CitedPage, DisputeKind, Fact};

use super::says;
use crate::condition::Condition::{All, Hybrid, Is, Not};
use crate::rule::Disagreement;
use crate::workload::terms::{COUPLED, ON_SLURM};

/// Disagreements about Slurm: first the split of the fleet, last the nodes under any control plane.
pub(super) const SLURM: &[Disagreement] = &[
    Disagreement {
        id: "split-or-nest",
        kind: DisputeKind::Pages,
        when: Hybrid,
        question: "does capacity have to move between batch and services within a day?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, last rule",
                "partition the nodes, with a clear boundary",
            ),
            says(
                CitedPage::Comparison,
                "hybrid",
                "Slurm on Kubernetes is the answer for both; pools are the simpler split",
            ),
            says(
                CitedPage::Guide,
                "how to scale it",
                "two pools, or Slurm as pods through Slinky or Soperator",
            ),
            says(
                CitedPage::Kentino,
                "where Slurm hits its ceiling",
                "two small clusters are often simpler; managed offerings run Slurm on Kubernetes",
            ),
        ],
        muster: "nodes that are split, because nothing new is to operate, and disjoint pools cannot contend; run \
                 Slurm on Kubernetes when the boundary has to move often",
    },
    Disagreement {
        id: "ray-in-a-hybrid",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::LongLivedServices), Is(Fact::PythonNativePipeline)]),
        question: "which part of the Ray program is coupled, and which part serves?",
        positions: &[
            says(
                CitedPage::Guide,
                "how to integrate",
                "Ray runs on Slurm where Slurm is the primary",
            ),
            says(
                CitedPage::Guide,
                "how to scale it",
                "Ray runs inside KubeRay, in the Kubernetes pool, so that there is no third control plane",
            ),
        ],
        muster: "both in the stack, because training starts inside a Slurm allocation, and serving runs under \
                 KubeRay in the other pool",
    },
    Disagreement {
        id: "slurm-multi-tenancy",
        kind: DisputeKind::Pages,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "are the tenants colleagues who compete, or customers who must not see each other?",
        positions: &[
            says(
                CitedPage::Guide,
                "how to scale it",
                "accounts, fair share and QOS are Slurm's multi-tenancy",
            ),
            says(
                CitedPage::Kentino,
                "where Slurm hits its ceiling",
                "Slurm is fine for a lab, not for a hosted service of many customers",
            ),
            says(
                CitedPage::Guide,
                "decision flow; labeller, rule 1",
                "coupling is tested before tenancy, so that tenancy has no effect: slurm",
            ),
        ],
        muster: "slurm, because it enforces fair shares, but does not isolate customers: these get separate clusters",
    },
    Disagreement {
        id: "slurm-gpu-isolation",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "does nvidia-smi -L in a one-GPU job list one GPU?",
        positions: &[
            says(
                CitedPage::Kentino,
                "where Slurm hits its ceiling",
                "GPUs are kept apart by CUDA_VISIBLE_DEVICES, and by code that respects it",
            ),
            says(
                CitedPage::Kentino,
                "slurm.conf",
                "cgroups isolate the GPUs that a job may see, by proctrack/cgroup",
            ),
            says(
                CitedPage::Upstream,
                "Slurm cgroup.conf: ConstrainDevices",
                "devices are fenced by task/cgroup with ConstrainDevices=yes; tracking processes alone fences nothing",
            ),
        ],
        muster: "GPUs that are fenced only with ConstrainDevices=yes, because tracking processes alone fences \
                 nothing, and neither of the page's two statements mentions it",
    },
    Disagreement {
        id: "what-fair-share-counts",
        kind: DisputeKind::Aged,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "what does one job of eight GPUs and one core add to RawUsage in sshare?",
        positions: &[
            says(
                CitedPage::Kentino,
                "slurm.conf: GPU accounting",
                "two lines, slurmdbd and tracked gres/gpu, make fair share count more than CPU-seconds",
            ),
            says(
                CitedPage::Upstream,
                "slurm.schedmd.com, tres.html: billing TRES, November 2026",
                "usage is billed by allocated CPUs until TRESBillingWeights says otherwise; tracking a GPU does not charge for it",
            ),
            says(
                CitedPage::Comparison,
                "slurm.conf: fairness",
                "priority weights and enforced limits; GPUs are not mentioned",
            ),
        ],
        muster: "the page's two lines and a GPU weight in TRESBillingWeights, because the two alone still charge CPUs",
    },
    Disagreement {
        id: "slurm-resize",
        kind: DisputeKind::Pages,
        when: ON_SLURM,
        question: "does the program itself survive a change of its size?",
        positions: &[
            says(
                CitedPage::Hyperstack,
                "Slurm failure modes, 1",
                "the allocation is fixed at submission",
            ),
            says(
                CitedPage::Upstream,
                "Slurm FAQ: change a job's size; SchedulerParameters=permit_job_expansion",
                "a running job can give nodes back, and can take over another job's where expansion is permitted",
            ),
        ],
        muster: "a fixed size, because resizing exists, but by hand, and the program has to follow",
    },
    Disagreement {
        id: "launchers-per-node",
        kind: DisputeKind::Pages,
        when: All(&[ON_SLURM, Not(Fact::PythonNativePipeline)]),
        question: "how many processes does one GPU of the running job have?",
        positions: &[
            says(
                CitedPage::Comparison,
                "Slurm job script",
                "a script has one task per node, which starts one process per GPU",
            ),
            says(
                CitedPage::Kentino,
                "Slurm job script",
                "a script has eight tasks per node, each of which starts eight processes",
            ),
        ],
        muster: "one launcher per node, because torchrun starts a process per GPU itself, so that eight launchers \
                 would be 64 processes for 8 GPUs",
    },
    Disagreement {
        id: "gang-word",
        kind: DisputeKind::Pages,
        when: ON_SLURM,
        question: "does the sentence speak of one job's tasks, or of several jobs on one node?",
        positions: &[
            says(
                CitedPage::Overview,
                "Slurm",
                "gang scheduling is among what Slurm has, for training",
            ),
            says(
                CitedPage::Guide,
                "failure modes, 2",
                "in Slurm the term means time-slicing of jobs; whole allocation is plain behaviour there",
            ),
            says(CitedPage::Kentino, "Slurm", "gang scheduling is built in"),
        ],
        muster: "`gang` for all-or-nothing placement only, because Slurm's option of that name is something else",
    },
    Disagreement {
        id: "node-stack",
        kind: DisputeKind::Itself,
        when: COUPLED,
        question: "which NCCL does a rank load, and who put it there?",
        positions: &[
            says(
                CitedPage::Guide,
                "composition stack",
                "every path has the same lowest layer, also Slurm's: driver, GPU Operator, DRA, NCCL, RDMA fabric",
            ),
            says(
                CitedPage::Guide,
                "labeller, rules 1 and 4",
                "the GPU Operator belongs to Kubernetes alone",
            ),
            says(
                CitedPage::Kentino,
                "Kubernetes for AI: the 2026 stack",
                "the GPU Operator brings drivers, CUDA and NCCL",
            ),
            says(
                CitedPage::Upstream,
                "NVIDIA GPU Operator 26.3, 2026: component matrix",
                "driver, container toolkit, device plugin, discovery, DCGM and MIG manager; CUDA's libraries and NCCL come with the image",
            ),
        ],
        muster: "the GPU Operator under Kubernetes only, and NCCL as a part of the image, because two images may \
                 have two versions of NCCL",
    },
];
