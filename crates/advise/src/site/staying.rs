//! Cost of staying with each product that a site operates. Reasons as data; they change nothing.

use muster_model::advice::{Citation, CitedPage, Fact, FiredRule};

use crate::case::FactsCase;
use crate::condition::Condition::{All, Is, Not};
use crate::rule::Rule;

const SOURCE: Citation = Citation::new(
    CitedPage::Muster,
    "our judgement of what its operators do; no source was read for it",
);

/// Cost of staying, by product.
pub(crate) const STAYING: &[Rule] = &[
    Rule::reason(
        "staying-slinky",
        SOURCE,
        Is(Fact::OperatesSlinky),
        "Slinky: staying costs upgrades of Kubernetes and Slurm together; leaving it buys nothing while both kinds of work run",
    ),
    Rule::reason(
        "staying-soperator",
        SOURCE,
        Is(Fact::OperatesSoperator),
        "Soperator: staying costs upgrades of Kubernetes and Slurm together, and the shared root file system",
    ),
    Rule::reason(
        "staying-sunk",
        SOURCE,
        Is(Fact::OperatesSunk),
        "SUNK: staying costs the dependence on its one provider; job scripts move to any Slurm with new partitions and paths",
    ),
    Rule::reason(
        "staying-kuberay",
        SOURCE,
        Is(Fact::OperatesKuberay),
        "KubeRay: staying costs one operator; it needs a queue above it (Kueue) before teams share",
    ),
    Rule::reason(
        "staying-volcano",
        SOURCE,
        Is(Fact::OperatesVolcano),
        "Volcano: staying costs its own job kind; its queues suffice, and Kueue above it is a choice, not a need",
    ),
    Rule::reason(
        "staying-kueue",
        SOURCE,
        Is(Fact::OperatesKueue),
        "Kueue: staying costs nothing new; for coupled runs add a gang scheduler below it, or set waitForPodsReady",
    ),
    Rule::reason(
        "staying-kai",
        SOURCE,
        Is(Fact::OperatesKai),
        "KAI: staying costs little: gangs and queues are in it; replace it only for a job kind that it lacks",
    ),
    Rule::reason(
        "staying-runai",
        SOURCE,
        Is(Fact::OperatesRunai),
        "Run:ai: staying costs the licence per GPU; KAI and Kueue replace the scheduler, not the user interface",
    ),
    Rule::reason(
        "staying-pbs",
        SOURCE,
        All(&[Is(Fact::OperatesPbs), Not(Fact::Works)]),
        "PBS: staying costs coarser GPU scheduling and fewer tools around it; moving to Slurm costs every job script and its tests",
    ),
    Rule::reason(
        "staying-lsf",
        SOURCE,
        All(&[Is(Fact::OperatesLsf), Not(Fact::Works)]),
        "LSF: staying costs the licence; moving to Slurm costs every job script and its tests",
    ),
    Rule::reason(
        "staying-pbs-works",
        SOURCE,
        All(&[Is(Fact::OperatesPbs), Is(Fact::Works)]),
        "PBS works: stay with it; the answer above is for the day on which you replace it, and costs every job script",
    ),
    Rule::reason(
        "staying-lsf-works",
        SOURCE,
        All(&[Is(Fact::OperatesLsf), Is(Fact::Works)]),
        "LSF works: stay with it; the answer above is for the day on which you replace it, and costs every job script",
    ),
];

/// Returns the cost of staying with each product that the site operates.
pub(crate) fn of(case: &FactsCase<'_>) -> Vec<FiredRule> {
    STAYING.iter().filter(|rule| rule.when.holds(case)).map(FiredRule::from).collect()
}
