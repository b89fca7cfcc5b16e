//! Failure modes of the decision itself: nodes in two clusters, a migration without benefit, a
//! control plane without operators. Data only.

use muster_model::advice::{Citation, CitedPage, Fact};

use crate::condition::Condition::{All, Is, Never};
use crate::rule::Hazard;
use crate::site::terms::{KUBERNETES, STAFFED};

/// Failure modes of the decision, most dangerous first.
pub(super) const DECISION: &[Hazard] = &[
    Hazard {
        id: "shared-nodes",
        source: Citation::new(
            CitedPage::Overview,
            "failure modes, 2; comparison: failure modes, 4",
        ),
        when: Is(Fact::FleetSharedNodes),
        sentence: "two orchestrators start work on the same nodes: each sees the other's GPUs as free",
        tell: "out of memory at start, on a node that its scheduler calls idle",
        cure: "give every node to one of them: partition the fleet, or run one inside the other (Slinky, Soperator, KubeRay)",
    },
    Hazard {
        id: "nobody-runs-it",
        source: Citation::new(CitedPage::Kentino, "decision tree, step 3"),
        when: All(&[
            KUBERNETES,
            Never(&STAFFED),
            Never(&All(&[Is(Fact::OperatesKubernetes), Is(Fact::Works)])),
        ]),
        sentence: "nobody has time to run Kubernetes: its operating load, a quarter of a person, falls on the users",
        tell: "upgrades are put off, and one person alone can say why a pod is pending",
        cure: "0.25 full-time people, steadily, or a provider who runs it",
    },
    Hazard {
        id: "moved-for-fashion",
        source: Citation::new(CitedPage::Guide, "when not to switch; failure modes, 4"),
        when: All(&[Is(Fact::Modernise), Is(Fact::Works), Is(Fact::OperatesSlurm)]),
        sentence: "a working Slurm is replaced for fashion: the deadlock of partly placed runs is inherited, and nothing is gained",
        tell: "the plan names no service, tenant or repository that needs it",
        cure: "write down the need that Slurm does not meet; put that beside it, and leave training where it is",
    },
];
