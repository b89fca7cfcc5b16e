//! The decision about a site as an ordered list. Data only.

use muster_model::advice::{Fact, Page, Plane, Source, Threshold};

use crate::condition::Condition::{All, Always, Below, Is, Not};
use crate::rule::{Effect, Rule};

/// From the first question to the last. Choosing rules come first: the first that holds wins.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "no-scheduler",
        source: Source::new(Page::Kentino, "decision tree, step 1"),
        when: All(&[
            Below(Threshold::SchedulerGpus),
            Below(Threshold::SchedulerUsers),
            Is(Fact::Talk),
            Not(Fact::CoordinationFailing),
        ]),
        effect: Effect::Choose {
            primary: Plane::None,
            addon: "ssh, tmux, nvidia-smi and a page of conventions",
        },
        sentence: "few GPUs, few people, and they talk: a scheduler costs more than it saves",
    },
    Rule {
        id: "slurm-base",
        source: Source::new(Page::Kentino, "decision tree, step 2"),
        when: Always,
        effect: Effect::Choose { primary: Plane::Slurm, addon: "" },
        sentence: "work that starts and ends: Slurm is the base",
    },
];
