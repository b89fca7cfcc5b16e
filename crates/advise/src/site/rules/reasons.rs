//! Reasons: statements of the pages for or about the answer, where they apply. They change nothing.
//! Data only.

use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, Threshold};

use crate::condition::Condition::{self, All, Any, Below, Chosen, Is, Never, Not, Reaches};
use crate::rule::Rule;
use crate::site::terms::{
    COUPLED, FINITE, KUBERNETES, MIXED, NOTHING, PROVIDED, PURE_SERVICES, RUNAI, SLURM, SMALL,
    SMALL_BAND, SUBSTRATE, TRAINS,
};

/// Reasons, in the order in which they are shown.
pub(super) const REASONS: &[Rule] = &[
    Rule::reason(
        "working-batch-scheduler",
        Citation::new(
            CitedPage::Muster,
            "the guide's \"when not to switch\", applied to PBS and LSF",
        ),
        All(&[Any(&[Is(Fact::OperatesPbs), Is(Fact::OperatesLsf)]), Is(Fact::Works)]),
        "PBS or LSF is there and works: stay with it while it does; this answer is for the day on which you replace it",
    ),
    Rule::reason(
        "modern-is-no-need",
        Citation::new(CitedPage::Guide, "failure modes, 4"),
        All(&[Is(Fact::Modernise), Is(Fact::Works)]),
        "modernity alone is no reason to switch: services, isolated tenants or declared state would be one",
    ),
    Rule::reason(
        "revisit-conventions",
        Citation::new(CitedPage::Kentino, "the honest small-team reality; decision tree, step 1"),
        All(&[NOTHING, SMALL]),
        "write the conventions down, and ask again when coordination breaks, at 16 GPUs or at 8 users",
    ),
    Rule::reason(
        "revisit-conventions-soon",
        Citation::new(
            CitedPage::Kentino,
            "the honest small-team reality: 4 to 32 GPUs, 2 to 6 users",
        ),
        All(&[NOTHING, SMALL_BAND]),
        "write the conventions down, and ask again at the first collision: the site is above the limits of the first \
         question, and no page recommends conventions beyond 32 GPUs on 4 nodes with 6 users",
    ),
    Rule::reason(
        "whole-allocation",
        Citation::new(CitedPage::Hyperstack, "multi-node coordination behaviour"),
        All(&[SLURM, COUPLED]),
        "Slurm reserves every node of a job before any of its ranks starts",
    ),
    Rule::reason(
        "known-hardware",
        Citation::new(
            CitedPage::Hyperstack,
            "how to map your workload: performance-sensitive single-tenant deployments",
        ),
        All(&[
            SLURM,
            Is(Fact::FleetRdma),
            Is(Fact::FleetBareMetal),
            Not(Fact::FleetElastic),
            Never(&SUBSTRATE),
        ]),
        "a fixed pool of nodes on a fast fabric: no container network stands between ranks and the fabric",
    ),
    Rule::reason(
        "part-time-operator",
        Citation::new(CitedPage::Kentino, "Slurm is right when"),
        All(&[SLURM, Not(Fact::Services), Below(Threshold::FederatedGpus)]),
        "one part-time person can operate it",
    ),
    Rule::reason(
        "job-scripts",
        Citation::new(CitedPage::Kentino, "Slurm is right when; hyperstack: row 2"),
        All(&[SLURM, Is(Fact::HpcFluent)]),
        "people who write job scripts can use it at once",
    ),
    Rule::reason(
        "arrays-for-sweeps",
        Citation::new(CitedPage::Kentino, "batch jobs and services table, row 2"),
        All(&[SLURM, Is(Fact::Sweeps)]),
        "a sweep without early stopping is one job array; Ray Tune pays where bad trials are stopped early",
    ),
    Rule::reason(
        "no-batch-scheduler",
        Citation::new(CitedPage::Kentino, "when you do not need Volcano"),
        All(&[KUBERNETES, PURE_SERVICES]),
        "no batch scheduler: every pod owns its GPUs and none waits for another, so the default scheduler is enough",
    ),
    Rule::reason(
        "one-substrate",
        Citation::new(CitedPage::Hyperstack, "how to map your workload, rows 3 and 4"),
        All(&[KUBERNETES, MIXED]),
        "on shared machines with diverse work, flexibility outweighs the simpler scheduler",
    ),
    Rule::reason(
        "images-are-structural",
        Citation::new(CitedPage::Hyperstack, "environment and dependency control"),
        All(&[KUBERNETES, Is(Fact::Reproducible)]),
        "images pinned by digest make the same environment everywhere, by structure and not by discipline",
    ),
    Rule::reason(
        "queue-above-gang",
        Citation::new(CitedPage::Kentino, "why naive Kubernetes is wrong for AI"),
        All(&[KUBERNETES, Condition::Gang, Never(&RUNAI)]),
        "Kueue decides which jobs may start, the gang scheduler below it places all or nothing: neither replaces the other",
    ),
    Rule::reason(
        "cohorts-borrow",
        Citation::new(CitedPage::Kentino, "Kueue and quota borrowing; decision tree, step 4"),
        All(&[
            KUBERNETES,
            FINITE,
            Any(&[Is(Fact::StrictQuotas), Reaches(Threshold::SeveralTeams)]),
            Never(&RUNAI),
        ]),
        "a cohort gives each team a quota, lends what is idle, and takes it back once reclaiming is configured: 80 % of what \
         Run:ai would give",
    ),
    Rule::reason(
        "limits-without-lending",
        Citation::new(CitedPage::Upstream, "Slurm 26.05: QOS and association limits"),
        All(&[SLURM, Is(Fact::StrictQuotas)]),
        "Slurm enforces caps per team and fair share by past use; it cannot guarantee a quota and lend it while it is idle",
    ),
    Rule::reason(
        "regulated-either",
        Citation::new(CitedPage::Hyperstack, "how to map your workload, row 5"),
        Is(Fact::Regulated),
        "for isolation and audit either control plane will do, on machines with no other tenant",
    ),
    Rule::reason(
        "whole-gpus",
        Citation::new(CitedPage::Kentino, "decision tree, step 6"),
        All(&[Is(Fact::IsolatedSlices), Not(Fact::FleetMig)]),
        "no GPU of this fleet is known to be cut by hardware: give each tenant whole GPUs",
    ),
    Rule::reason(
        "tracking-is-a-library",
        Citation::new(
            CitedPage::Muster,
            "Determined is no longer developed; separate tools provide its functions",
        ),
        Is(Fact::Tracking),
        "experiment tracking works on any control plane: a tracking server such as MLflow, with Ray Tune or arrays for search",
    ),
    Rule::reason(
        "jobs-stay-yours",
        Citation::new(CitedPage::Hyperstack, "what Hyperstack manages, what you manage"),
        All(&[Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes]), PROVIDED]),
        "you still manage queues and quotas, images and environments, checkpoints, and slow runs",
    ),
    Rule::reason(
        "place-by-place",
        Citation::new(
            CitedPage::Muster,
            "a collective between two data centres is as slow as the line between them",
        ),
        Reaches(Threshold::SeveralPlaces),
        "the nodes stand in several places: one queue or cluster in each, and no run that spans two of them",
    ),
    Rule::reason(
        "many-need-both",
        Citation::new(CitedPage::Comparison, "rule of thumb"),
        All(&[Condition::Hybrid, MIXED, TRAINS, Reaches(Threshold::FederatedGpus)]),
        "most large sites end up with both control planes",
    ),
];
