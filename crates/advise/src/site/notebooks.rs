//! Notebooks on a site: the three workable patterns, the two that do not work, and the time limit
//! that all of them need. Rules as data, evaluated after the base control plane is chosen.

use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, FiredRule};

use crate::case::FactsCase;
use crate::condition::Condition::{All, Any, Chosen, Is, Never};
use crate::rule::Rule;
use crate::site::terms::{ON_KUBERNETES, QUEUED, RUNAI};

/// The page's section on notebooks.
const KENTINO: Citation = Citation::new(CitedPage::Kentino, "the interactive notebook problem");

/// Rules for notebooks, the patterns first.
pub(crate) const RULES: &[Rule] = &[
    Rule::reason(
        "notebook-salloc",
        KENTINO,
        All(&[Is(Fact::Notebooks), Chosen(&[ControlPlane::Slurm])]),
        "salloc a GPU for some hours, start Jupyter on the allocated node, tunnel in: the limit is hard and the GPU is \
         accounted for",
    ),
    Rule::reason(
        "notebook-fractions",
        KENTINO,
        All(&[Is(Fact::Notebooks), RUNAI]),
        "Run:ai gives a notebook 0.25 or 0.5 of a GPU, which wastes least",
    ),
    Rule::reason(
        "notebook-hub",
        KENTINO,
        All(&[Is(Fact::Notebooks), QUEUED]),
        "JupyterHub, its Pods in a low-priority Kueue queue: training preempts idle notebooks",
    ),
    Rule::reason(
        "notebook-hub-without-queue",
        Citation::new(
            CitedPage::Muster,
            "Kentino's second pattern, where no queue is installed that could preempt",
        ),
        All(&[Is(Fact::Notebooks), ON_KUBERNETES, Never(&Any(&[QUEUED, RUNAI]))]),
        "JupyterHub, its Pods with a lower priority class than everything else: the default scheduler preempts them for it",
    ),
    Rule::reason(
        "notebook-beside-ray",
        Citation::new(
            CitedPage::Muster,
            "Ray has no hub; Kentino: Ray is not a shared cluster's scheduler",
        ),
        All(&[Is(Fact::Notebooks), Chosen(&[ControlPlane::Ray])]),
        "Ray hands out no notebooks: its host does, JupyterHub behind Kueue on Kubernetes, salloc on Slurm",
    ),
    Rule::reason(
        "notebook-conventions",
        Citation::new(CitedPage::Kentino, "the honest small-team reality"),
        All(&[Is(Fact::Notebooks), Chosen(&[ControlPlane::None])]),
        "the conventions name the GPUs for notebooks and until when a session may hold one; `muster run --time` on the \
         machine enforces it",
    ),
    Rule::reason(
        "notebook-limit",
        KENTINO,
        Is(Fact::Notebooks),
        "every interactive session has a time limit: a notebook without one holds its GPU forever",
    ),
    Rule::reason(
        "notebook-not",
        KENTINO,
        Is(Fact::Notebooks),
        "neither a GPU of its own for every notebook (most of the cluster idles) nor batch jobs for everything (people \
         go back to laptops)",
    ),
];

/// Returns the statements about notebooks; empty if the site does not ask for them.
pub(crate) fn of(case: &FactsCase<'_>) -> Vec<FiredRule> {
    RULES.iter().filter(|rule| rule.when.holds(case)).map(FiredRule::from).collect()
}
