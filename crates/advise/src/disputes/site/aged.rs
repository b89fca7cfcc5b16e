//! Statements of the pages that changed since they were written. Every entry gives the date at
//! which Muster checked. Data only.

use muster_model::advice::CitedPage::{Comparison, Guide, Hyperstack, Kentino, Upstream};
use muster_model::advice::DisputeKind::Aged;
use muster_model::advice::{Fact, Threshold};

use super::{dispute, says};
use crate::condition::Condition::{All, Any, Gang, Is, Never, Reaches};
use crate::rule::Disagreement;
use crate::site::terms::{
    COUNTED_SHARES, COUPLED, FINITE, KUBERNETES, MIXED, ON_KUBERNETES, RUNAI, SLURM, TRAINS,
};

/// Outdated statements, in the order of the decisions that they would change.
pub(super) const AGED: &[Disagreement] = &[
    dispute(
        "native-gang",
        Aged,
        All(&[ON_KUBERNETES, Gang, Never(&RUNAI)]),
        "which Kubernetes version runs there, and may you switch a beta feature on?",
        &[
            says(Guide, "why use it; footnote 1", "the stock scheduler has no gang scheduling"),
            says(
                Upstream,
                "kubernetes.io, 8 September 2026: v1.37, workload-aware scheduling; kube_features.go of 1.37",
                "gangs by PodGroup and preemption of whole workloads are alpha since 1.35, beta in 1.37, off by \
                 default in all",
            ),
            says(
                Kentino,
                "why naive Kubernetes is wrong",
                "first in, first out, without gangs: 7 of 8 pods start",
            ),
            says(
                Hyperstack,
                "multi-node coordination behaviour",
                "no native equivalent of a whole allocation",
            ),
            says(
                Kentino,
                "what a scheduler actually does",
                "every scheduler in the article places, queues and starts all ranks at once",
            ),
            says(
                Upstream,
                "kubernetes.io: pod priority and preemption, stable since 1.14",
                "pods are ordered by priority and the highest preempt; between equals that helps no gang",
            ),
        ],
        "Volcano or KAI today, because the native API counts only where the feature and its API are switched on, \
         which a managed cluster may not allow, and it has no queues, quotas or fair share of its own: Kueue queues \
         above it. Nothing is whole unless it is asked for",
    ),
    dispute(
        "determined-ended",
        Aged,
        Is(Fact::Tracking),
        "which of its parts do you miss: the search, the tracking, the notebooks or the queue?",
        &[
            says(
                Kentino,
                "summary table, row 7",
                "managed experiments with tracking: Determined.AI",
            ),
            says(
                Upstream,
                "determined-ai/determined issues 10251 (March 2025) and 10266",
                "the product is discontinued and no longer sold; version 0.38.1 of March 2025 is the newest that was found",
            ),
            says(
                Kentino,
                "Run:ai and Determined",
                "one product for research teams that would not integrate five tools",
            ),
        ],
        "not Determined, because it is no longer sold: the base control plane for the queue, Ray Tune or arrays for \
         search, a tracking server such as MLflow beside them",
    ),
    dispute(
        "growing-in-slurm",
        Aged,
        All(&[Is(Fact::Grow), SLURM]),
        "must the same job grow, or may a larger one take over from its checkpoint?",
        &[
            says(
                Hyperstack,
                "SLURM failure modes",
                "an allocation is fixed at submission; a run cannot grow from 64 to 128 GPUs",
            ),
            says(
                Upstream,
                "openpmix/prrte issue 2699 and pull request 2710, August 2026, tried on Slurm 24.11",
                "a job grows by a second job, with the first's remaining time, and not in place",
            ),
            says(
                Upstream,
                "Slurm user group: dynamic allocation; sbatch: a range of nodes",
                "a range is chosen from at the start, and a running job can give nodes back",
            ),
        ],
        "a size that is fixed, because a running job can give nodes back but not grow; a second job that joins it \
         is today's way to grow",
    ),
    dispute(
        "growing-on-kubernetes",
        Aged,
        All(&[Is(Fact::Grow), ON_KUBERNETES]),
        "what would make a running job larger when GPUs fall free?",
        &[
            says(
                Hyperstack,
                "SLURM failure modes",
                "Slurm is a poor match for dynamic scaling; the other side is left unsaid",
            ),
            says(
                Upstream,
                "Kueue issues 9891 and 16052, August 2026",
                "partial admission starts smaller, nothing grows by itself",
            ),
            says(
                Kentino,
                "Ray and KubeRay",
                "KubeRay scales a group of workers between two bounds, by pending tasks",
            ),
            says(
                Upstream,
                "ray-project/ray pull request 61115, 2026",
                "Ray Train's elastic mode restarts from the last checkpoint with more workers when nodes appear",
            ),
        ],
        "no promise of growth on either control plane, because nothing grows by itself: Ray Train's elastic mode on \
         nodes that are already the job's or are autoscaled",
    ),
    dispute(
        "yield-in-sixty-seconds",
        Aged,
        All(&[KUBERNETES, TRAINS, Never(&RUNAI)]),
        "how many GPU-hours does one preempted run lose?",
        &[
            says(
                Kentino,
                "Kueue and quota borrowing",
                "the 2026 roadmap has cooperative preemption: save and yield in 60 seconds",
            ),
            says(
                Upstream,
                "Kueue issue 477, open since December 2022",
                "there was no such handshake as of August 2026; a preempted job is ended",
            ),
        ],
        "checkpoints by time and a grace period long enough for one, because a preempted job is told nothing earlier",
    ),
    dispute(
        "lent-and-not-returned",
        Aged,
        All(&[
            KUBERNETES,
            FINITE,
            Any(&[Is(Fact::StrictQuotas), Reaches(Threshold::SeveralTeams)]),
            Never(&RUNAI),
        ]),
        "when a team wants its lent GPUs back, who ends what runs on them?",
        &[
            says(
                Kentino,
                "Kueue and quota borrowing",
                "each team has its quota guaranteed, and preempts what was borrowed",
            ),
            says(
                Upstream,
                "Kueue, ClusterQueue in v1beta2, November 2026",
                "reclaimWithinCohort and withinClusterQueue are Never until they are set; v1beta1, which the page uses, is the older API",
            ),
            says(
                Kentino,
                "Kueue and quota borrowing: its manifest",
                "quota and a limit on borrowing; preemption is not mentioned",
            ),
        ],
        "reclaimWithinCohort: Any and withinClusterQueue: LowerPriority in every queue, because with the page's \
         manifest what is lent comes back only when the borrower is done",
    ),
    dispute(
        "training-jobs-renamed",
        Aged,
        All(&[KUBERNETES, MIXED, TRAINS, Never(&RUNAI)]),
        "do your manifests say PyTorchJob or TrainJob?",
        &[
            says(
                Kentino,
                "Kubernetes for AI: the 2026 stack",
                "Kubeflow Trainer with PyTorchJob, TFJob and MPIJob",
            ),
            says(
                Upstream,
                "kubeflow.org: migrating to Trainer v2; kubeflow/trainer 2.4, 2026",
                "one TrainJob with a runtime replaces these; the old kinds are kept on a branch of their own",
            ),
            says(
                Hyperstack,
                "multi-node coordination behaviour",
                "MPI Operator, Kubeflow Training Operator",
            ),
        ],
        "TrainJob for what is new, because it replaces the old kinds; its default runtime asks for no \
         group of pods, so that the gang is set up in the runtime",
    ),
    dispute(
        "what-is-charged",
        Aged,
        COUNTED_SHARES,
        "what does one job of eight GPUs and one core add to RawUsage in sshare?",
        &[
            says(
                Kentino,
                "a minimal slurm.conf: GPU accounting",
                "two lines, slurmdbd and tracked gres/gpu, make fair share count more than CPU-seconds",
            ),
            says(
                Upstream,
                "slurm.schedmd.com, tres.html: billing TRES, November 2026",
                "usage is billed by allocated CPUs until TRESBillingWeights says otherwise; tracking a GPU does not charge for it",
            ),
            says(
                Comparison,
                "how it's set up: multi-tenancy",
                "priority weights and enforced limits; GPUs are not mentioned",
            ),
        ],
        "the page's two lines and a GPU weight in TRESBillingWeights, because the two alone still charge CPUs",
    ),
    dispute(
        "slices-by-hand",
        Aged,
        All(&[SLURM, Is(Fact::FleetMig), Is(Fact::IsolatedSlices)]),
        "which AutoDetect does gres.conf name, and was Slurm built with NVML?",
        &[
            says(
                Kentino,
                "gres.conf",
                "AutoDetect=nvml finds slices by itself and saves writing device paths",
            ),
            says(
                Upstream,
                "slurm.schedmd.com, gres.conf, November 2026",
                "nvml needs NVML when Slurm is built; nvidia, since 24.11, does not, and sees no slices; slices are cut beforehand",
            ),
            says(
                Kentino,
                "gres.conf: its listing",
                "AutoDetect=nvml, and the device paths by hand under it",
            ),
        ],
        "AutoDetect=nvml from a build that has it, and slices cut before slurmd starts, because Slurm hands them \
         out and cuts none",
    ),
    dispute(
        "share-of-top500",
        Aged,
        All(&[SLURM, COUPLED]),
        "does it matter to your work what others run?",
        &[
            says(
                Kentino,
                "Slurm: the HPC default",
                "Slurm runs more than 65 % of the TOP500, and most published frontier training runs",
            ),
            says(
                Upstream,
                "descriptions of Slurm in distributions and encyclopaedias",
                "it is about 60 % of the TOP500, more than half of the first ten; no list of its own counts it",
            ),
            says(Comparison, "footnote 10", "SchedMD is part of NVIDIA"),
        ],
        "no share of a list as a reason, because it says nothing of this site; that much published training runs on \
         Slurm means that its pitfalls are written down",
    ),
];
