//! What makes a decision void before it is carried out: nodes with two masters, a migration that
//! buys nothing, a plane that nobody runs. Data only.

use muster_model::advice::{Fact, Page, Source};

use crate::condition::Condition::{All, Is, Never};
use crate::rule::Hazard;
use crate::site::terms::{KUBERNETES, STAFFED};

/// Most dangerous first.
pub(super) const DECISION: &[Hazard] = &[
    Hazard {
        id: "shared-nodes",
        source: Source::new(Page::Overview, "failure modes, 2; comparison: failure modes, 4"),
        when: Is(Fact::FleetSharedNodes),
        sentence: "two orchestrators start work on the same nodes: each sees the other's GPUs as free",
        tell: "out of memory at start, on a node that its scheduler calls idle",
        cure: "give every node to one of them: partition the fleet, or run one inside the other (Slinky, Soperator, KubeRay)",
    },
    Hazard {
        id: "nobody-runs-it",
        source: Source::new(Page::Kentino, "decision tree, step 3"),
        when: All(&[
            KUBERNETES,
            Never(&STAFFED),
            Never(&All(&[Is(Fact::OperatesKubernetes), Is(Fact::Works)])),
        ]),
        sentence: "Kubernetes with nobody to run it: the tax of a quarter of a person is paid by everybody",
        tell: "upgrades are put off, and one person alone can say why a pod is pending",
        cure: "0.25 full-time people, steadily, or a provider who runs it",
    },
    Hazard {
        id: "moved-for-fashion",
        source: Source::new(Page::Guide, "when not to switch; failure modes, 4"),
        when: All(&[Is(Fact::Modernise), Is(Fact::Works), Is(Fact::OperatesSlurm)]),
        sentence: "a working Slurm replaced for fashion: the deadlock of partly placed runs is inherited, nothing is gained",
        tell: "the plan names no service, tenant or repository that needs it",
        cure: "write down the need that Slurm does not meet; put that beside it, and leave training where it is",
    },
];
