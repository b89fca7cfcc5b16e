//! Fixes of findings that can be applied to the job on request: the script's options, changed as
//! its author would. Without a request the job follows the script, even where it is wrong.

use super::option::GivenOption;
use super::read::BatchScript;
use super::sizes::RequestedSizes;

/// Rule: each task of srun starts workers for all GPUs of its node.
pub(super) const SQUARED: &str = "processes-squared";

/// Returns the script with one task per node, which gets the resources of all tasks there.
pub(super) fn one_task_a_node<'a>(script: &BatchScript<'a>) -> BatchScript<'a> {
    let mut cured = script.clone();
    for given in &mut cured.components {
        let sizes = RequestedSizes::of(given);
        let Some(per_node) =
            sizes.per_node().or_else(|| sizes.task_count()).filter(|tasks| *tasks > 1)
        else {
            continue;
        };
        let nodes = sizes.node_count().unwrap_or(1);
        for one in given.iter_mut() {
            let number = |each: &str| each.parse::<u64>().ok().map(|each| each * per_node);
            let value = one.value.as_deref().unwrap_or_default();
            let (name, new) = match one.name {
                Some("ntasks-per-node") => ("ntasks-per-node", "1".to_owned()),
                Some("ntasks") => ("ntasks", nodes.to_string()),
                Some("cpus-per-task") => match number(value) {
                    Some(all) => ("cpus-per-task", all.to_string()),
                    None => continue,
                },
                // The number may follow a type.
                Some("gpus-per-task") => {
                    let (kind, each) =
                        value.rsplit_once(':').map_or(("", value), |(kind, each)| (kind, each));
                    let Some(all) = number(each) else { continue };
                    let kind = if kind.is_empty() { String::new() } else { format!("{kind}:") };
                    ("gpus-per-node", format!("{kind}{all}"))
                }
                _ => continue,
            };
            *one = GivenOption {
                written: format!("{} → --{name}={new}", one.written),
                name: Some(name),
                value: Some(new),
                ..one.clone()
            };
        }
    }
    cured
}
