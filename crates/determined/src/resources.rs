//! Slots, pools and restarts.

use crate::NotAnExperiment;
use crate::draft::ExperimentDraft;
use crate::fields::ExperimentFields;

/// GPUs of a node that is assumed for a trial of more.
const GPUS_PER_NODE: u64 = 8;

/// Converts the resources of a trial.
pub(crate) fn convert(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    let at = "/resources/slots_per_trial";
    draft.slots = fields.whole(at)?.unwrap_or(1);
    let is_on_one = fields.get("/resources/is_single_node") == Some(&true.into());
    let per_node = fields.whole("/slurm/slots_per_node")?.or(fields.whole("/pbs/slots_per_node")?);
    let size = per_node.filter(|size| *size > 0).unwrap_or(GPUS_PER_NODE);
    if draft.slots > size && !is_on_one {
        if !draft.slots.is_multiple_of(size) {
            return Err(NotAnExperiment::BadField {
                line: fields.line(at),
                why: format!(
                    "{} slots do not divide into nodes of {size} GPUs; `slots_per_node` in `slurm` has another size",
                    draft.slots
                ),
            });
        }
        draft.nodes = Some(draft.slots / size);
        fields.near(at, format!("nodes and gpus: nodes of {size} GPUs"));
    } else {
        fields.field(at, "gpus");
    }
    fields.field("/resources/is_single_node", "gpus: the nodes that have them");
    fields.field("/slurm/slots_per_node", "gpus: of a node");
    convert_limit(fields, draft)?;
    convert_pool(fields, draft);
    convert_slurm(fields, draft);
    draft.restarts = fields.whole("/max_restarts")?;
    fields.field("/max_restarts", "restart");
    draft.grace_secs = fields.whole("/preemption_timeout")?;
    fields.field("/preemption_timeout", "grace");
    Ok(())
}

/// Converts the limit on slots of all trials to one on the trials that run at once.
fn convert_limit(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    let at = "/resources/max_slots";
    let Some(slots) = fields.whole(at)? else { return Ok(()) };
    let most = (slots / draft.slots.max(1)).max(1);
    draft.max_running = Some(draft.max_running.map_or(most, |known| known.min(most)));
    fields.field(at, "max-running");
    Ok(())
}

fn convert_pool(fields: &mut ExperimentFields, draft: &mut ExperimentDraft) {
    let at = "/resources/resource_pool";
    if let Some(pool) = fields.text(at).filter(|pool| !pool.is_empty()) {
        fields.near(at, "queue: of that name, which must exist");
        draft.queue = Some(pool);
    } else {
        fields.field(at, "the default queue");
    }
}

fn convert_slurm(fields: &mut ExperimentFields, draft: &mut ExperimentDraft) {
    draft.gpu = fields.text("/slurm/gpu_type");
    fields.field("/slurm/gpu_type", "gpu");
    let options = fields.get("/slurm/sbatch_args").and_then(|list| list.as_array().cloned());
    let options = options.unwrap_or_default();
    draft.slurm_options =
        options.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
    fields.raw("/slurm/sbatch_args", "slurm: {options: …}");
}
