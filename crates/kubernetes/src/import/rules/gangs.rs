//! Rules on gangs: whether all pods start together, and restart together.

use muster_model::check::Severity;

use super::super::finding::{ObjectFacts, ObjectRule, RuleHit};

pub(in super::super) const RULES: &[ObjectRule] = &[ObjectRule {
    id: "gang-restarts-in-part",
    severity: Severity::High,
    title: "one pod of a gang is restarted while the others wait for it",
    cure: "restart all or none: `restartPolicy: Never` with `backoffLimit: 0`, and a JobSet with `failurePolicy: {maxRestarts: N}` for whole restarts",
    find: half_restarts,
}];

/// Pods of a gang that start again alone: the collective calls of the others fail or hang.
fn half_restarts(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter(|role| {
        role.job.draft.pods() > 1 && role.job.draft.service.is_none() && !role.job.is_own
    });
    hits.filter_map(|role| {
        let policy = role.object.peek_text(&format!("{}/spec/restartPolicy", role.at));
        if policy == Some("OnFailure") {
            return Some((
                role.line("restartPolicy"),
                format!("{}: restartPolicy: OnFailure", role.title()),
            ));
        }
        let spec = role.at.strip_suffix("/template")?;
        let limit = format!("{spec}/backoffLimit");
        let is_job = role.object.kind() == "Job" && role.object.group() == "batch"
            || role.object.kind() == "JobSet";
        let says = match role.object.peek_number(&limit) {
            Some(0) => return None,
            Some(count) => format!("backoffLimit: {count}"),
            None => "no backoffLimit, which means 6".to_owned(),
        };
        is_job.then(|| (role.object.line(&limit), format!("{}: {says}", role.title())))
    })
    .collect()
}
