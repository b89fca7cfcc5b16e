//! Disagreements about the sizes below which no scheduler is needed, and above which one control
//! plane is not enough. Data only.

use muster_model::advice::CitedPage::{Guide, Hyperstack, Kentino, Muster, Upstream};
use muster_model::advice::DisputeKind::{Itself, Pages};
use muster_model::advice::{Fact, Threshold};

use super::{dispute, says};
use crate::condition::Condition::{All, Any, Below, Is, Never, Not, Reaches};
use crate::rule::Disagreement;
use crate::site::terms::{AGREE, EDGE, ENFORCED, FEDERATED, NOTHING, SMALL, SMALL_BAND};

/// Disagreements in order of size.
pub(super) const SIZE: &[Disagreement] = &[
    dispute(
        "no-scheduler-boundary",
        Itself,
        All(&[SMALL_BAND, Never(&ENFORCED)]),
        "is coordination failing today?",
        &[
            says(
                Kentino,
                "decision tree, step 1",
                "fewer than 16 GPUs and fewer than 8 users: no scheduler",
            ),
            says(
                Kentino,
                "the honest small-team reality",
                "4 to 32 GPUs on 1 to 4 nodes, 2 to 6 users: no scheduler",
            ),
            says(
                Kentino,
                "the honest small-team reality, last sentence",
                "Slurm pays around 16 GPUs or 8 users, whichever comes first",
            ),
            says(
                Kentino,
                "summary table, row 1",
                "4 to 16 GPUs on 1 or 2 nodes, 2 to 6 users: no scheduler",
            ),
            says(Kentino, "summary table, row 2", "from 4 nodes with batch training: Slurm"),
        ],
        "no scheduler while people still coordinate, and a scheduler as soon as they do not, because all of these \
         statements rest on that",
    ),
    dispute(
        "how-many-users",
        Itself,
        All(&[
            Below(Threshold::SchedulerGpus),
            Reaches(Threshold::ConventionUsers),
            Below(Threshold::SchedulerUsers),
            AGREE,
            Never(&ENFORCED),
        ]),
        "do all users still talk to each other?",
        &[
            says(Kentino, "decision tree, step 1", "fewer than 8 users: no scheduler"),
            says(Kentino, "summary table, row 1", "2 to 6 users: no scheduler"),
            says(Kentino, "the honest small-team reality", "2 to 6 users: no scheduler"),
        ],
        "the number of the decision tree, 8, because it is meant as a boundary, and the others describe a usual team",
    ),
    dispute(
        "second-team",
        Itself,
        All(&[NOTHING, Reaches(Threshold::SeveralTeams)]),
        "do the teams talk to each other, or each among themselves?",
        &[
            says(
                Kentino,
                "decision tree, step 1",
                "few GPUs and few users who talk: no scheduler, whatever their teams",
            ),
            says(
                Kentino,
                "what a scheduler actually does",
                "beyond a single team: quotas, fair share, preemption and accounting",
            ),
        ],
        "no scheduler while all users talk to each other, because no share is claimed; install one when a team \
         claims one",
    ),
    dispute(
        "working-scheduler-on-few-gpus",
        Pages,
        All(&[
            SMALL,
            Never(&NOTHING),
            Any(&[Is(Fact::OperatesSlurm), Is(Fact::OperatesKubernetes), Is(Fact::OperatesK3s)]),
        ]),
        "which users depend on the scheduler that is there?",
        &[
            says(
                Kentino,
                "decision tree, step 1",
                "fewer than 16 GPUs and fewer than 8 users: no scheduler",
            ),
            says(Guide, "when not to switch", "what works is not replaced for fashion"),
        ],
        "the scheduler that is there, because most of its cost was the installation, and its removal saves little",
    ),
    dispute(
        "edge-or-nothing",
        Pages,
        All(&[SMALL, EDGE]),
        "do users log in to these machines?",
        &[
            says(
                Kentino,
                "decision tree, step 1",
                "fewer than 16 GPUs and fewer than 8 users: no scheduler",
            ),
            says(Guide, "constraint table, row 3", "edge, small, CI or development: k3s"),
        ],
        "k3s, because conventions between people need users who log in",
    ),
    dispute(
        "endpoint-on-few-gpus",
        Itself,
        All(&[SMALL, Is(Fact::Services)]),
        "who is woken when the endpoint is down?",
        &[
            says(
                Kentino,
                "decision tree, step 1",
                "fewer than 16 GPUs and fewer than 8 users: no scheduler",
            ),
            says(
                Kentino,
                "summary table, row 3",
                "serving customer traffic: Kubernetes with the GPU Operator",
            ),
            says(Kentino, "the big split", "a service must come back after a crash by itself"),
        ],
        "no scheduler and the endpoint under systemd, because the first yes of the tree decides; with autoscaling \
         or tenants it is Kubernetes",
    ),
    dispute(
        "conventions-cannot-enforce",
        Itself,
        All(&[Any(&[SMALL, SMALL_BAND]), ENFORCED]),
        "what happens to a user who breaks the convention?",
        &[
            says(
                Kentino,
                "decision tree, step 1",
                "fewer than 16 GPUs and fewer than 8 users: no scheduler",
            ),
            says(
                Kentino,
                "what a scheduler actually does",
                "more than a single team needs quotas, fair share, preemption and accounting",
            ),
            says(
                Muster,
                "a convention is kept, not enforced",
                "shares, tenants, audit and declared state need something that refuses",
            ),
        ],
        "a scheduler, however small the fleet, because an agreement cannot reject a job",
    ),
    dispute(
        "one-large-fleet",
        Itself,
        FEDERATED,
        "would one queue over all GPUs be worth more than the right scheduler for each half?",
        &[
            says(
                Kentino,
                "summary table, row 8",
                "200 GPUs or more, several teams, mixed: federated, Slurm for batch, Kubernetes for services",
            ),
            says(
                Kentino,
                "summary table, row 4",
                "training, inference and tools, without a limit of size: Kubernetes, Kueue, Volcano, Kubeflow",
            ),
            says(
                Kentino,
                "summary table, row 6",
                "10 teams or more with a budget: Run:ai on Kubernetes",
            ),
            says(
                Guide,
                "how to scale it",
                "a hard partition, or Slurm on Kubernetes through Slinky or Soperator",
            ),
        ],
        "federated from 200 GPUs on, because that row names size and mix; a commercial scheduler where teams, \
         quotas and budget ask for one and coupled training is not the main work, because that row is the narrower; \
         what works stays in any case",
    ),
    dispute(
        "size-of-k3s",
        Pages,
        All(&[
            Any(&[EDGE, Is(Fact::OperatesK3s), Is(Fact::FleetDev)]),
            Reaches(Threshold::K3sFleetNodes),
        ]),
        "is it one location with many nodes, or many locations with few?",
        &[
            says(
                Guide,
                "when not to switch",
                "k3s was never sized for a large datacentre; no number",
            ),
            says(
                Upstream,
                "docs.k3s.io, requirements, since October 2024",
                "there is a sizing guide for servers of large clusters",
            ),
            says(
                Guide,
                "constraint table, row 3",
                "edge, small, CI or development: k3s, whatever the number of nodes",
            ),
        ],
        "k3s at every small place of an edge fleet; full Kubernetes or Slurm for one place with 9 nodes or more \
         (k3s-fleet-nodes), because a GPU fleet brings operators that load the API more than its agents do",
    ),
    dispute(
        "small-platform-k3s",
        Pages,
        All(&[
            Is(Fact::Services),
            Never(&EDGE),
            Never(&SMALL),
            Not(Fact::Managed),
            Below(Threshold::PlatformFte),
            Below(Threshold::K3sFleetNodes),
        ]),
        "is this endpoint your product, or a help to colleagues?",
        &[
            says(Guide, "constraint table, row 3", "small: k3s"),
            says(
                Kentino,
                "summary table, row 3",
                "serving customer traffic: Kubernetes with the GPU Operator",
            ),
            says(Kentino, "decision tree, step 3", "no platform team: Slurm regardless of the mix"),
            says(
                Hyperstack,
                "Hyperstack Secure Private Cloud",
                "no team for it: a managed cluster",
            ),
        ],
        "k3s for endpoints alone, and Slurm where work that ends is there too, because no one is there to run more; \
         a provider, if that is possible, makes it Kubernetes",
    ),
];
