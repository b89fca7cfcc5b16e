//! Dimensions: placement and start of jobs. Data only.

use muster_model::advice::{Fact, SupportLevel};

use super::super::dimension::{
    Dimension, SMALL_TEAM, absent, addon, comparison, guide, hyperstack, kentino, muster, native,
    overview, upstream, weak,
};
use crate::condition::Condition::Is;
use crate::workload::terms::COUPLED;

/// Dimensions of placement, in the order in which they are shown.
pub(crate) const PLACEMENT: &[Dimension] = &[
    Dimension {
        id: "gang",
        title: "all ranks of a job at once, or none",
        matters: &[COUPLED, Is(Fact::CoupledTraining)],
        none: absent("people agree on a time", SMALL_TEAM),
        slurm: native(
            "an allocation is granted whole. What Slurm itself calls gang scheduling is time-slicing",
            comparison("table: gang / co-allocation"),
        ),
        kubernetes: addon(
            "binds Pods one at a time; Volcano, KAI, Kueue or Coscheduling make it whole, else jobs deadlock",
            comparison("table: gang / co-allocation"),
        )
        .today(
            SupportLevel::AddOn,
            "a gang API of its own (Workload, PodGroup) is beta in 1.37, alpha in 1.35 and 1.36, off by default; queue and quota stay add-ons",
            upstream("Kubernetes blog, 8 September 2026: workload-aware scheduling in 1.37"),
        ),
        k3s: None,
        ray: weak(
            "placement groups are whole inside one Ray cluster; its own nodes come one by one from the host",
            guide("the load-bearing invariant"),
        ),
        muster: native(
            "whole or not at all, also as scheduler in Kubernetes; verify tests that it started whole",
            muster("jobs.md, kubernetes.md, verify.md"),
        ),
    },
    Dimension {
        id: "launch",
        title: "starting the ranks (MPI, torchrun)",
        matters: &[COUPLED, Is(Fact::CoupledTraining), Is(Fact::Mpi)],
        none: weak("ssh to every node", SMALL_TEAM),
        slurm: native(
            "srun starts every rank, with MPI and PMIx; few layers in between",
            hyperstack("factors: multi-node training"),
        ),
        kubernetes: addon(
            "operators (MPI, PyTorch, Kubeflow); fragile when DNS or network policies are wrong",
            hyperstack("factors: multi-node training"),
        ),
        k3s: None,
        ray: native("Ray Train wraps torch and FSDP", overview("Ray")),
        muster: addon(
            "every task knows its rank and the address of rank 0 (torch.distributed); MPI programs bring their own launcher",
            muster("jobs.md"),
        ),
    },
    Dimension {
        id: "topology",
        title: "ranks close on the fabric",
        matters: &[COUPLED, Is(Fact::CoupledTraining)],
        none: weak("nodes picked by hand, by their cabling", SMALL_TEAM),
        slurm: native(
            "topology.conf, tree or block: fewest leaf switches",
            comparison("table: topology placement"),
        )
        .today(
            SupportLevel::Native,
            "ring and torus3d as well",
            upstream("Slurm 26.05 release notes"),
        ),
        kubernetes: addon(
            "Topology Manager within a node; KAI or Volcano across nodes",
            comparison("table: topology placement"),
        )
        .today(
            SupportLevel::AddOn,
            "Kueue places by topology too; PodGroups can ask for one level since 1.36 (alpha then)",
            upstream("KEP-5732; Kueue documentation 2026: topology-aware scheduling"),
        ),
        k3s: None,
        ray: weak("packs or spreads over nodes, without regard to switches", upstream("Ray documentation 2026: placement groups")),
        muster: native(
            "levels as labels of nodes, required or preferred; on Slurm what topology.conf says",
            muster("jobs.md, slurm.md"),
        ),
    },
    Dimension {
        id: "interconnect",
        title: "InfiniBand or RoCE inside the job",
        matters: &[COUPLED, Is(Fact::CoupledTraining), Is(Fact::FleetRdma)],
        none: native("processes on the host use it directly", SMALL_TEAM),
        slurm: native(
            "processes on the host: no container network to bypass",
            hyperstack("factors: interconnect"),
        ),
        kubernetes: addon(
            "RDMA device plugin, with hostNetwork or SR-IOV; without them NCCL goes through sockets",
            hyperstack("factors: interconnect"),
        ),
        k3s: None,
        ray: weak(
            "as far as its host exposes it; workers without RDMA run NCCL on TCP",
            overview("failure modes, 3"),
        ),
        muster: addon(
            "what host or cluster exposes; verify says whether NCCL took it or fell back to TCP",
            muster("verify.md"),
        ),
    },
    Dimension {
        id: "packing",
        title: "uneven jobs packed onto nodes",
        matters: &[Is(Fact::Sweeps), Is(Fact::Batch), Is(Fact::SharedGpus)],
        none: weak("nvidia-smi and a message", SMALL_TEAM),
        slurm: weak(
            "whole nodes per job, by partition and priority: clean for long runs, coarse for uneven ones",
            hyperstack("factors: scheduling"),
        )
        .today(
            SupportLevel::Native,
            "cons_tres gives out cores, memory and single GPUs; the comparison page says so, against Hyperstack's",
            upstream("Slurm documentation: cons_tres"),
        ),
        kubernetes: native(
            "bin-packing with fine control, all of it to be configured",
            hyperstack("scheduling model"),
        )
        .today(
            SupportLevel::Weak,
            "as shipped it spreads Pods (LeastAllocated), which fragments 8-GPU nodes; packing must be switched on",
            upstream("kube-scheduler 1.36: NodeResourcesFit"),
        ),
        k3s: None,
        ray: weak("packs by declared numbers; tasks are not confined to them", upstream("Ray documentation 2026: FAQ")),
        muster: native(
            "places where least of the free GPUs becomes useless for the expected jobs; on Slurm as Slurm does",
            muster("queues.md, slurm.md"),
        ),
    },
    Dimension {
        id: "gpus",
        title: "GPUs as a resource",
        matters: &[Is(Fact::IsolatedSlices), Is(Fact::SharedGpus)],
        none: weak("CUDA_VISIBLE_DEVICES, by agreement", SMALL_TEAM),
        slurm: native(
            "GRES and TRES: --gres=gpu:N, by model; AutoDetect finds devices and MIG slices",
            comparison("table: GPU model"),
        ),
        kubernetes: addon(
            "GPU Operator with device plugin or DRA; core Kubernetes has no GPU support",
            comparison("table: GPU model"),
        )
        .today(
            SupportLevel::AddOn,
            "DRA is stable since 1.34, its drivers are still installed; slices cut on demand are beta since 1.36",
            upstream("Kubernetes blog, 27 April 2026: DRA in 1.36"),
        ),
        k3s: None,
        ray: weak("a number per task and CUDA_VISIBLE_DEVICES; not enforced", upstream("Ray documentation 2026: FAQ")),
        muster: native(
            "whole GPUs by model, MIG and shares, found by NVML on one machine, by the cluster's means elsewhere",
            muster("inventory.md, operations.md"),
        ),
    },
    Dimension {
        id: "sharing",
        title: "several jobs on one GPU",
        matters: &[Is(Fact::SharedGpus), Is(Fact::IsolatedSlices), Is(Fact::Notebooks)],
        none: weak("two processes on one GPU, without isolation", SMALL_TEAM),
        slurm: native(
            "MIG slices by AutoDetect; shards and MPS without isolation",
            kentino("SLURM: gres.conf"),
        ),
        kubernetes: addon(
            "MIG, MPS and time-slicing by the GPU Operator; only MIG isolates. Kentino: not on its cards",
            kentino("MIG and GPU sharing"),
        )
        .today(
            SupportLevel::AddOn,
            "RTX PRO 6000 Blackwell has MIG, up to 4 slices",
            crate::gpus::MIG_SOURCE,
        ),
        k3s: None,
        ray: weak("fractions of a GPU are book-keeping only", upstream("Ray documentation 2026: FAQ")),
        muster: native(
            "MIG, and shares of a GPU that isolate nothing; in Kubernetes by a pod that holds the GPU",
            muster("isolation.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "backfill",
        title: "short jobs in the gaps (backfill)",
        matters: &[Is(Fact::MultiTenant), Is(Fact::Batch), Is(Fact::Training)],
        none: absent("none: idle GPUs are found by hand", SMALL_TEAM),
        slurm: native(
            "comes with it, from time limits: a reservation is never delayed",
            kentino("SLURM: what you get for free"),
        ),
        kubernetes: absent(
            "nothing plans by time limits: neither kube-scheduler nor Kueue, Volcano or KAI",
            upstream("Kueue issue 6587, KAI issue 1969, Volcano issue 2384, 2026"),
        ),
        k3s: None,
        ray: absent("no priorities and no time limits", upstream("Ray documentation 2026: FAQ")),
        muster: native(
            "from time limits or predicted run times; what is reserved is not delayed. On Slurm what Slurm does",
            muster("queues.md, proof.md"),
        ),
    },
    Dimension {
        id: "latency",
        title: "time from submission to start",
        matters: &[Is(Fact::ShortRuns), Is(Fact::Sweeps), Is(Fact::EdgeOrDev)],
        none: native("at once, if a GPU is free", SMALL_TEAM),
        slurm: native(
            "an order of queues; short runs slip into gaps",
            hyperstack("things that break: scheduling latency"),
        ),
        kubernetes: native(
            "at once when it fits; when it does not, the queue is an add-on's",
            hyperstack("things that break: scheduling latency"),
        ),
        k3s: None,
        ray: native(
            "milliseconds once the cluster is up; minutes when its nodes must come first",
            muster("measured on Ray 2.60, November 2026"),
        ),
        muster: native(
            "some 10 ms on one machine if a GPU is free; elsewhere the cluster's own time",
            muster("PERFORMANCE.md"),
        ),
    },
];
