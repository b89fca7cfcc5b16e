//! The guide's labeller as an ordered list. Labels are the guide's own words, to the letter:
//! programs compare them.

use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, Ruleset};

use super::terms::{COUPLED, ON_KUBERNETES};
use crate::condition::Condition::{All, Always, Any, Chosen, Is, Under};
use crate::rule::{Rule, RuleChange};

/// Requires a gang scheduler, in the guide's words.
const GANG: RuleChange = RuleChange::Require("Volcano/Kueue/KAI gang scheduler (REQUIRED)");

/// Rules in order of evaluation. Choosing rules come first: the first that holds chooses.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "slurm-coupled",
        source: Citation::new(CitedPage::Guide, "labeller, rule 1; matrix, row 1"),
        when: All(&[COUPLED, Is(Fact::BareMetal)]),
        effect: RuleChange::Choose {
            primary: ControlPlane::Slurm,
            addon: "topology.conf for rail-aware placement",
        },
        sentence: "Slurm grants coupled training on bare metal its nodes as a whole, and places it by topology",
    },
    Rule {
        id: "ray-on-k3s",
        source: Citation::new(CitedPage::Guide, "labeller, rule 2; edge 3"),
        when: All(&[Is(Fact::PythonNativePipeline), Is(Fact::EdgeOrDev)]),
        effect: RuleChange::Choose { primary: ControlPlane::Ray, addon: "KubeRay on k3s" },
        sentence: "a pipeline of Python tasks and actors on few machines runs on Ray, hosted by k3s",
    },
    Rule {
        id: "ray-pipeline",
        source: Citation::new(CitedPage::Guide, "labeller, rule 2; matrix, row 4"),
        when: Is(Fact::PythonNativePipeline),
        effect: RuleChange::Choose { primary: ControlPlane::Ray, addon: "KubeRay on kubernetes" },
        sentence: "a pipeline of Python tasks and actors runs on Ray, hosted by a platform that owns the nodes",
    },
    Rule {
        id: "k3s-small",
        source: Citation::new(CitedPage::Guide, "labeller, rule 3; matrix, row 3"),
        when: Is(Fact::EdgeOrDev),
        effect: RuleChange::Choose { primary: ControlPlane::K3s, addon: "GPU Operator" },
        sentence: "edge, development or CI needs the API of Kubernetes with a smaller footprint",
    },
    Rule {
        id: "kubernetes-rest",
        source: Citation::new(CitedPage::Guide, "labeller, rule 4; matrix, row 2"),
        when: Always,
        effect: RuleChange::Choose { primary: ControlPlane::Kubernetes, addon: "GPU Operator" },
        sentence: "services, many teams or containerised batch are what Kubernetes is for",
    },
    Rule {
        id: "gang-required",
        source: Citation::new(CitedPage::Guide, "the load-bearing invariant; labeller, edge 1"),
        when: All(&[COUPLED, Any(&[ON_KUBERNETES, Chosen(&[ControlPlane::K3s])])]),
        effect: GANG,
        sentence: "without a gang scheduler coupled tasks on several nodes are placed partly, hold GPUs and wait forever",
    },
    Rule {
        id: "gang-required-on-k3s",
        source: Citation::new(
            CitedPage::Guide,
            "the load-bearing invariant, against the labeller's own code",
        ),
        when: All(&[
            Under(Ruleset::Corrected),
            COUPLED,
            Chosen(&[ControlPlane::Ray]),
            Is(Fact::EdgeOrDev),
        ]),
        effect: GANG,
        sentence: "Ray on k3s is under the same pod-by-pod scheduler: the guide says so, but its labeller omits it",
    },
    Rule {
        id: "hybrid-services",
        source: Citation::new(CitedPage::Guide, "labeller, last rule; edge 4"),
        when: All(&[Chosen(&[ControlPlane::Slurm]), Is(Fact::LongLivedServices)]),
        effect: RuleChange::Split("partition nodes: Slurm pool + K8s pool, clear boundary"),
        sentence: "services stay up beside coupled batch: each gets a pool of nodes and the control plane that was built for it",
    },
];
