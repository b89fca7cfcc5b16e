//! How notebooks run on a site: the three workable patterns, the two that do not work, and the
//! limit that all of them need. Rules as data; which plane is the base was decided before.

use muster_model::advice::{Fact, FiredRule, Page, Plane, Source};

use crate::case::Case;
use crate::condition::Condition::{All, Any, Chosen, Is, Never};
use crate::rule::Rule;
use crate::site::terms::{ON_KUBERNETES, QUEUED, RUNAI};

/// The page's section on notebooks.
const KENTINO: Source = Source::new(Page::Kentino, "the interactive notebook problem");

/// Notebooks, the pattern first.
pub(crate) const RULES: &[Rule] = &[
    Rule::reason(
        "notebook-salloc",
        KENTINO,
        All(&[Is(Fact::Notebooks), Chosen(&[Plane::Slurm])]),
        "salloc a GPU for some hours, start Jupyter on the allocated node, tunnel in: the limit is hard and the GPU is \
         accounted for",
    ),
    Rule::reason(
        "notebook-fractions",
        KENTINO,
        All(&[Is(Fact::Notebooks), RUNAI]),
        "Run:ai gives a notebook 0.25 or 0.5 of a GPU: for the budget that is there, the least waste",
    ),
    Rule::reason(
        "notebook-hub",
        KENTINO,
        All(&[Is(Fact::Notebooks), QUEUED]),
        "JupyterHub, its Pods in a low-priority Kueue queue: training preempts idle notebooks",
    ),
    Rule::reason(
        "notebook-hub-without-queue",
        Source::new(
            Page::Muster,
            "Kentino's second pattern, where no queue is installed that could preempt",
        ),
        All(&[Is(Fact::Notebooks), ON_KUBERNETES, Never(&Any(&[QUEUED, RUNAI]))]),
        "JupyterHub, its Pods with a lower priority class than everything else: the default scheduler preempts them for it",
    ),
    Rule::reason(
        "notebook-beside-ray",
        Source::new(
            Page::Muster,
            "Ray has no hub; Kentino: Ray is not a shared cluster's scheduler",
        ),
        All(&[Is(Fact::Notebooks), Chosen(&[Plane::Ray])]),
        "Ray hands out no notebooks: its host does, JupyterHub behind Kueue on Kubernetes, salloc on Slurm",
    ),
    Rule::reason(
        "notebook-conventions",
        Source::new(Page::Kentino, "the honest small-team reality"),
        All(&[Is(Fact::Notebooks), Chosen(&[Plane::None])]),
        "the conventions name the GPUs for notebooks and until when a session may hold one; `muster run --time` on the \
         machine enforces it",
    ),
    Rule::reason(
        "notebook-limit",
        KENTINO,
        Is(Fact::Notebooks),
        "every interactive session has a time limit: a notebook without one is a GPU retired for good",
    ),
    Rule::reason(
        "notebook-not",
        KENTINO,
        Is(Fact::Notebooks),
        "neither a GPU of its own for every notebook (most of the cluster idles) nor batch jobs for everything (people \
         go back to laptops)",
    ),
];

/// What a site is told about notebooks; nothing when nobody wants them.
pub(crate) fn of(case: &Case<'_>) -> Vec<FiredRule> {
    RULES.iter().filter(|rule| rule.when.holds(case)).map(FiredRule::from).collect()
}
