//! The base control plane, which owns the nodes. The first rule that holds chooses. Data only, with
//! the argument for the order.
//!
//! The pages ask in different orders: the tree of Kentino by size first, the flow of the guide by
//! coupling first, the table of Hyperstack by team. This order keeps each of their answers where it
//! is undisputed:
//!
//! 1. What works stays. The guide's only "do not" about Slurm is unconditional, and no page
//!    recommends a migration that buys nothing.
//! 2. One owner with more than one node and dynamic Python: the one case for which a page allows
//!    Ray to own nodes. It stands before the question of size, because its premise (one person) is
//!    narrower than "few people".
//! 3. The edge, before size: conventions between people need people who log in.
//! 4. Size: the tree's first question, where the first "yes" decides; unless something must be
//!    enforced, which an agreement cannot do.
//! 5. Tenants who must be kept apart, before staff: neither conventions nor Slurm can do it with
//!    any staff.
//! 6. Services, alone or mixed; for mixed work the question of staff stands before the wish, as in
//!    the tree's step 3.
//! 7. Coupled training on bare metal, before declared state: the labeller asks for coupling first.
//! 8. What is left is work that starts and ends.

use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, Threshold};

use crate::condition::Condition::{All, Always, Any, Below, Is, Never, Not, Reaches};
use crate::rule::{Rule, RuleChange};
use crate::site::terms::{
    COMMERCIAL, COUPLED, DECLARED, EDGE, ENFORCED, FEDERATED, FINITE, MIXED, PLATFORM_NEEDS,
    PURE_SERVICES, PYTHON, SLURM_ARRIVES, SMALL, SMALL_BAND, STAFFED,
};

const CONVENTIONS: RuleChange = RuleChange::Choose {
    primary: ControlPlane::None,
    addon: "ssh, tmux, nvidia-smi and a page of conventions",
};
const SLURM: RuleChange = RuleChange::Choose { primary: ControlPlane::Slurm, addon: "" };
const KUBERNETES: RuleChange =
    RuleChange::Choose { primary: ControlPlane::Kubernetes, addon: "GPU Operator" };
const K3S: RuleChange = RuleChange::Choose { primary: ControlPlane::K3s, addon: "GPU Operator" };
const RAY: RuleChange =
    RuleChange::Choose { primary: ControlPlane::Ray, addon: "standalone, started by its owner" };

/// Choosing rules, in order of evaluation.
pub(super) const BASE: &[Rule] = &[
    Rule {
        id: "working-slurm-stays",
        source: Citation::new(CitedPage::Guide, "when not to switch; failure modes, 4"),
        when: All(&[
            Is(Fact::OperatesSlurm),
            Is(Fact::Works),
            FINITE,
            Any(&[Never(&PLATFORM_NEEDS), Is(Fact::Services)]),
        ]),
        effect: SLURM,
        sentence: "Slurm is there, works, and has work that it was built for: it stays, and unmet needs are served beside it",
    },
    Rule {
        id: "slurm-on-working-kubernetes",
        source: Citation::new(CitedPage::Comparison, "hybrid: real Slurm on Kubernetes"),
        when: SLURM_ARRIVES,
        effect: SLURM,
        sentence: "Kubernetes is there and works, and people who know Slurm bring coupled runs: a real Slurm inside it \
                   schedules those",
    },
    Rule {
        id: "working-kubernetes-stays",
        source: Citation::new(
            CitedPage::Muster,
            "the guide's \"when not to switch\", applied to Kubernetes",
        ),
        when: All(&[Is(Fact::OperatesKubernetes), Is(Fact::Works)]),
        effect: KUBERNETES,
        sentence: "Kubernetes is there and works: batch is added to it, rather than a second orchestrator beside it",
    },
    Rule {
        id: "working-k3s-stays",
        source: Citation::new(
            CitedPage::Muster,
            "the guide's \"when not to switch\", applied to k3s within its envelope",
        ),
        when: All(&[Is(Fact::OperatesK3s), Is(Fact::Works), Below(Threshold::K3sFleetNodes)]),
        effect: K3S,
        sentence: "k3s is there, works, and the fleet is within what it was sized for",
    },
    Rule {
        id: "ray-standalone",
        source: Citation::new(CitedPage::Kentino, "when Ray standalone is right"),
        when: All(&[
            PYTHON,
            Below(Threshold::SharedUsers),
            Reaches(Threshold::SeveralNodes),
            Not(Fact::Services),
            Not(Fact::Mpi),
            Never(&EDGE),
            Never(&ENFORCED),
            Never(&Any(&[
                Is(Fact::OperatesSlurm),
                Is(Fact::OperatesKubernetes),
                Is(Fact::OperatesK3s),
            ])),
        ]),
        effect: RAY,
        sentence: "one person owns the nodes, and the work is reinforcement learning, search or distributed Python: Ray may \
                   own them too",
    },
    Rule {
        id: "edge-k3s",
        source: Citation::new(CitedPage::Guide, "constraint table, row 3; labeller, rule 3"),
        when: All(&[EDGE, Never(&All(&[COUPLED, Is(Fact::FleetBareMetal)]))]),
        effect: K3S,
        sentence: "edge, development or CI needs the API of Kubernetes with a smaller footprint",
    },
    Rule {
        id: "no-scheduler",
        source: Citation::new(CitedPage::Kentino, "decision tree, step 1"),
        when: All(&[SMALL, Not(Fact::CoordinationFailing), Never(&ENFORCED)]),
        effect: CONVENTIONS,
        sentence: "there are few GPUs and few people, and they talk: a scheduler costs more than it saves",
    },
    Rule {
        id: "no-scheduler-while-it-works",
        source: Citation::new(CitedPage::Kentino, "the honest small-team reality"),
        when: All(&[SMALL_BAND, Not(Fact::CoordinationFailing), Never(&ENFORCED)]),
        effect: CONVENTIONS,
        sentence: "there are more GPUs than the first question allows, but few people on few nodes who still coordinate: install a \
                   scheduler when that fails, not before",
    },
    Rule {
        id: "tenants-apart",
        source: Citation::new(CitedPage::Kentino, "where Slurm hits its ceiling, third place"),
        when: Is(Fact::HostileTenants),
        effect: KUBERNETES,
        sentence: "customers must be kept apart: namespaces, network policy and admission per tenant, none of which Slurm has",
    },
    Rule {
        id: "small-inference-k3s",
        source: Citation::new(CitedPage::Guide, "constraint table, row 3"),
        when: All(&[PURE_SERVICES, Never(&STAFFED), Below(Threshold::K3sFleetNodes)]),
        effect: K3S,
        sentence: "there are only endpoints, few nodes and no platform team: the smallest thing that restarts and updates them is k3s",
    },
    Rule {
        id: "pure-inference",
        source: Citation::new(CitedPage::Kentino, "summary table, row 3"),
        when: PURE_SERVICES,
        effect: KUBERNETES,
        sentence: "there are only endpoints: restart, rolling update, address and scaling are what Kubernetes was built for",
    },
    Rule {
        id: "no-platform-team",
        source: Citation::new(CitedPage::Kentino, "decision tree, step 3"),
        when: All(&[MIXED, Never(&STAFFED)]),
        effect: SLURM,
        sentence: "services run beside training, but no platform team runs Kubernetes: Slurm, whatever the mix",
    },
    Rule {
        id: "commercial-scheduler",
        source: Citation::new(CitedPage::Kentino, "summary table, row 6; decision tree, step 4"),
        when: All(&[COMMERCIAL, STAFFED, Not(Fact::MainlyCoupled)]),
        effect: KUBERNETES,
        sentence: "there are many teams, enforced shares and a budget: buying the queue is cheaper than building it, and it is sold for \
                   Kubernetes",
    },
    Rule {
        id: "federated",
        source: Citation::new(CitedPage::Kentino, "summary table, row 8"),
        when: FEDERATED,
        effect: SLURM,
        sentence: "a large fleet of several teams with both kinds of work can afford the right control plane for each",
    },
    Rule {
        id: "coupled-comes-first",
        source: Citation::new(
            CitedPage::Guide,
            "labeller, rule 1 and last rule; constraint table, rows 1 and 6",
        ),
        when: All(&[
            MIXED,
            COUPLED,
            Is(Fact::FleetBareMetal),
            Any(&[Is(Fact::MainlyCoupled), Is(Fact::OperatesSlurm), Is(Fact::HpcFluent)]),
        ]),
        effect: SLURM,
        sentence: "coupled training on bare metal is the main work, or Slurm is established here: it keeps Slurm, and services get \
                   nodes of their own",
    },
    Rule {
        id: "mixed-cluster",
        source: Citation::new(CitedPage::Kentino, "summary table, row 4; decision tree, step 2"),
        when: MIXED,
        effect: KUBERNETES,
        sentence: "services and work that ends share one fleet, with staff to run it: one substrate holds both",
    },
    Rule {
        id: "coupled-before-declared",
        source: Citation::new(
            CitedPage::Guide,
            "labeller, rule 1; decision flow: coupling is asked first",
        ),
        when: All(&[
            DECLARED,
            STAFFED,
            COUPLED,
            Is(Fact::FleetBareMetal),
            Any(&[Is(Fact::MainlyCoupled), Is(Fact::OperatesSlurm), Is(Fact::HpcFluent)]),
        ]),
        effect: SLURM,
        sentence: "coupled training on bare metal is the main work, or Slurm is established here: that is asked before declared \
                   state, and Slurm's configuration can live in a repository, too",
    },
    Rule {
        id: "declared-platform",
        source: Citation::new(
            CitedPage::Guide,
            "constraint table, row 2; kentino: Kubernetes is the right choice when",
        ),
        when: All(&[DECLARED, STAFFED]),
        effect: KUBERNETES,
        sentence: "declared state or several clusters are native on Kubernetes, not on Slurm, and there is staff to run it",
    },
    Rule {
        id: "slurm-base",
        source: Citation::new(CitedPage::Kentino, "decision tree, step 2; summary table, row 2"),
        when: Always,
        effect: SLURM,
        sentence: "the work starts and ends: Slurm is the base",
    },
];
