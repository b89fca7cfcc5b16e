//! Failure modes of the people who run a platform, and of the decision itself. Data only.

use muster_model::advice::{Fact, Page, Source, Threshold};

use crate::condition::Condition::{All, Any, Below, Is, Never, Not, Reaches};
use crate::rule::Hazard;
use crate::site::terms::{COUPLED, FINITE, KUBERNETES, ON_KUBERNETES, POOL, SLURM, STAFFED};

/// Most dangerous first.
pub(super) const PEOPLE: &[Hazard] = &[
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
        id: "build-phase",
        source: Source::new(Page::Kentino, "decision tree, step 3"),
        when: All(&[
            Any(&[KUBERNETES, POOL]),
            Reaches(Threshold::PlatformFte),
            Below(Threshold::PlatformBuildFte),
            Not(Fact::Managed),
            Not(Fact::OperatesKubernetes),
        ]),
        sentence: "staff for running it, not for building it: the first six months take 0.5 to 1.0 full-time people",
        tell: "after three months training still runs by hand",
        cure: "lend people for six months, build in stages (GPU Operator, Kueue, then gang scheduling), or buy it managed",
    },
    Hazard {
        id: "moved-for-fashion",
        source: Source::new(Page::Guide, "when not to switch; failure modes, 4"),
        when: All(&[Is(Fact::Modernise), Is(Fact::Works), Is(Fact::OperatesSlurm)]),
        sentence: "a working Slurm replaced for fashion: the deadlock of partly placed runs is inherited, nothing is gained",
        tell: "the plan names no service, tenant or repository that needs it",
        cure: "write down the need that Slurm does not meet; put that beside it, and leave training where it is",
    },
    Hazard {
        id: "fluency-tax",
        source: Source::new(Page::Comparison, "why it's needed: operational model"),
        when: Any(&[
            All(&[ON_KUBERNETES, Is(Fact::HpcFluent), Not(Fact::KubernetesFluent)]),
            All(&[SLURM, Is(Fact::KubernetesFluent), Not(Fact::HpcFluent)]),
        ]),
        sentence: "the team is at home in the other model, and pays to learn to operate this one",
        tell: "wrappers appear that imitate the commands people know",
        cure: "plan for the learning, take one outside review of the first set-up; or weigh the other plane again",
    },
    Hazard {
        id: "gang-means-two-things",
        source: Source::new(Page::Guide, "failure modes, 2; comparison: failure modes, 3"),
        when: All(&[COUPLED, Any(&[SLURM, Is(Fact::OperatesSlurm), Is(Fact::HpcFluent)])]),
        sentence: "in Slurm's own words gang scheduling is time-slicing: jobs that share nodes are suspended in turns",
        tell: "somebody sets PreemptMode=GANG to start ranks together",
        cure: "nothing to install: one Slurm job is always granted whole, which is what Kubernetes calls a gang",
    },
    Hazard {
        id: "mix-shifts",
        source: Source::new(Page::Guide, "how to maintain it"),
        when: Any(&[
            All(&[SLURM, FINITE, Not(Fact::Services)]),
            All(&[ON_KUBERNETES, Is(Fact::Services), Never(&FINITE)]),
        ]),
        sentence: "the decision is right for today's mix, which shifts: an endpoint on a training cluster, training on a serving \
                   one, or two teams merged",
        tell: "somebody asks how to keep a job running for ever, or how to start 16 pods together",
        cure: "keep site.yaml in a repository and compare the answer in CI (`--expect`)",
    },
];
