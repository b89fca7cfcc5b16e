//! Failure modes of the people who run a platform. Data only.

use muster_model::advice::{Citation, CitedPage, Fact, Threshold};

use crate::condition::Condition::{All, Any, Below, Is, Never, Not, Reaches};
use crate::rule::Hazard;
use crate::site::terms::{COUPLED, FINITE, KUBERNETES, ON_KUBERNETES, POOL, SLURM};

/// Failure modes of people, most dangerous first.
pub(super) const PEOPLE: &[Hazard] = &[
    Hazard {
        id: "build-phase",
        source: Citation::new(CitedPage::Kentino, "decision tree, step 3"),
        when: All(&[
            Any(&[KUBERNETES, POOL]),
            Reaches(Threshold::PlatformFte),
            Below(Threshold::PlatformBuildFte),
            Not(Fact::Managed),
            Not(Fact::OperatesKubernetes),
        ]),
        sentence: "there is staff to run it, but not to build it: the first six months take 0.5 to 1.0 full-time people",
        tell: "after three months training still runs by hand",
        cure: "lend people for six months, build in stages (GPU Operator, Kueue, then gang scheduling), or buy it managed",
    },
    Hazard {
        id: "fluency-tax",
        source: Citation::new(CitedPage::Comparison, "why it's needed: operational model"),
        when: Any(&[
            All(&[ON_KUBERNETES, Is(Fact::HpcFluent), Not(Fact::KubernetesFluent)]),
            All(&[SLURM, Is(Fact::KubernetesFluent), Not(Fact::HpcFluent)]),
        ]),
        sentence: "the team knows the other model, and has to learn to operate this one",
        tell: "wrappers appear that imitate the commands people know",
        cure: "plan for the learning, take one outside review of the first set-up; or weigh the other control plane again",
    },
    Hazard {
        id: "gang-means-two-things",
        source: Citation::new(CitedPage::Guide, "failure modes, 2; comparison: failure modes, 3"),
        when: Any(&[
            All(&[
                COUPLED,
                SLURM,
                Any(&[Is(Fact::KubernetesFluent), Is(Fact::OperatesKubernetes), POOL]),
            ]),
            All(&[COUPLED, ON_KUBERNETES, Any(&[Is(Fact::OperatesSlurm), Is(Fact::HpcFluent)])]),
        ]),
        sentence: "in Slurm's own words gang scheduling is time-slicing: jobs that share nodes are suspended in turns",
        tell: "PreemptMode=GANG is set to start ranks together",
        cure: "nothing to install: one Slurm job is always granted whole, which is what Kubernetes calls a gang",
    },
    Hazard {
        id: "mix-shifts",
        source: Citation::new(CitedPage::Guide, "how to maintain it"),
        when: Any(&[
            All(&[SLURM, FINITE, Not(Fact::Services)]),
            All(&[ON_KUBERNETES, Is(Fact::Services), Never(&FINITE)]),
        ]),
        sentence: "the decision is right for today's mix, which shifts: an endpoint on a training cluster, training on a serving \
                   one, or two teams merged",
        tell: "users ask how to keep a job running forever, or how to start 16 pods together",
        cure: "keep site.yaml in a repository and compare the answer in CI (`--expect`)",
    },
];
