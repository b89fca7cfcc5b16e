//! What a program that ran under Determined must do differently, or cannot do here. Nothing is guessed: each
//! finding rests on a field of the experiment.

use muster_model::check::Severity;
use muster_model::imported::ImportFinding;

use crate::draft::ExperimentDraft;
use crate::fields::ExperimentFields;
use crate::program::LAUNCHERS;

/// ExperimentRule with a function that examines an experiment: it returns the field, and the evidence there.
struct ExperimentRule {
    id: &'static str,
    severity: Severity,
    title: &'static str,
    cure: &'static str,
    find: fn(&ExperimentFields, &ExperimentDraft) -> Option<(&'static str, String)>,
}

const RULES: &[ExperimentRule] = &[
    ExperimentRule {
        id: "determined-launcher",
        severity: Severity::High,
        title: "the program is started by a launcher of Determined",
        cure: "start it with the launcher of its library: `deepspeed`, `horovodrun`, or the script itself; Muster sets the ranks, their number and the address of rank 0",
        find: launcher,
    },
    ExperimentRule {
        id: "determined-parameters",
        severity: Severity::Medium,
        title: "the program gets its hyperparameters from Determined",
        cure: "read the variables, or insert the values into `run` as `{name}`",
        find: parameters,
    },
    ExperimentRule {
        id: "determined-metric",
        severity: Severity::Medium,
        title: "the program reports its metric to Determined",
        cure: "append a line of JSON to `$MUSTER_REPORT_FILE` for each report, or write `pattern` for what it prints",
        find: metric,
    },
    ExperimentRule {
        id: "determined-checkpoints",
        severity: Severity::Medium,
        title: "the program saves and restores its checkpoints through Determined",
        cure: "write them to a folder of the job, and restore `$MUSTER_LAST_CHECKPOINT` at the start; `checkpoint` has when it is asked to save",
        find: checkpoints,
    },
    ExperimentRule {
        id: "determined-image",
        severity: Severity::Medium,
        title: "the program ran in Determined's default image, which the job does not name",
        cure: "write `image`, `venv`, `conda` or `uv`",
        find: image,
    },
];

/// Returns the ids of all rules.
pub fn ids() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.id)
}

/// Returns the findings of an experiment, the most severe first.
pub(crate) fn find(fields: &ExperimentFields, draft: &ExperimentDraft) -> Vec<ImportFinding> {
    let found = RULES.iter().filter_map(|rule| {
        let (at, evidence) = (rule.find)(fields, draft)?;
        Some(ImportFinding {
            rule: rule.id,
            severity: rule.severity,
            title: rule.title,
            line: fields.get(at).map(|_| fields.line(at)),
            evidence,
            cure: rule.cure,
        })
    });
    found.collect()
}

fn launcher(_: &ExperimentFields, draft: &ExperimentDraft) -> Option<(&'static str, String)> {
    let run = draft.run.to_string();
    let name = run.split_once(LAUNCHERS)?.1;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(("/entrypoint", format!("`{LAUNCHERS}{}` is part of Determined", &name[..end])))
}

fn parameters(_: &ExperimentFields, draft: &ExperimentDraft) -> Option<(&'static str, String)> {
    let first = draft.parameters.first()?;
    let variable: String =
        first.name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let others = draft.parameters.len() - 1;
    let more = match others {
        0 => String::new(),
        1 => ", and likewise the other one".to_owned(),
        others => format!(", and likewise the other {others}"),
    };
    let text = format!(
        "`{}` is `$MUSTER_PARAM_{}` in a job{more}",
        first.name,
        variable.to_ascii_uppercase()
    );
    Some(("/hyperparameters", text))
}

fn metric(_: &ExperimentFields, draft: &ExperimentDraft) -> Option<(&'static str, String)> {
    let metric = draft.metric.as_ref().filter(|_| draft.is_sweep())?;
    let step = metric.step.as_deref().unwrap_or("step");
    let text = format!("a report is a line such as {{\"{step}\": 100, \"{}\": 0.5}}", metric.name);
    Some(("/searcher/metric", text))
}

fn checkpoints(
    fields: &ExperimentFields,
    draft: &ExperimentDraft,
) -> Option<(&'static str, String)> {
    let named =
        ["/checkpoint_storage", "/min_checkpoint_period", "/checkpoint_policy", "/max_restarts"];
    let at = named.into_iter().find(|at| fields.get(at).is_some())?;
    let restarts = draft.restarts.is_some_and(|restarts| restarts > 0);
    let text = if restarts {
        "a restarted trial continues from its last checkpoint, a restarted element where its program does"
    } else {
        "a paused or preempted trial continues from its last checkpoint, an element where its program does"
    };
    Some((at, text.to_owned()))
}

fn image(fields: &ExperimentFields, draft: &ExperimentDraft) -> Option<(&'static str, String)> {
    let at = if fields.get("/environment").is_some() { "/environment" } else { "" };
    draft
        .image
        .is_none()
        .then(|| (at, "the job runs with the programs that its submitter has".to_owned()))
}
