//! Cures of findings that can be written into the job where they are chosen: the script's options,
//! changed as its author would. It decides nothing; without a choice a job is what the script says,
//! also where that is wrong.

use super::option::Given;
use super::read::Script;
use super::sizes::Sizes;

/// Tasks of srun that each start workers for all GPUs of their node.
pub(super) const SQUARED: &str = "processes-squared";

/// The same script with one task on each node, which has what all had there.
pub(super) fn one_task_a_node<'a>(script: &Script<'a>) -> Script<'a> {
    let mut cured = script.clone();
    for given in &mut cured.components {
        let sizes = Sizes::of(given);
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
                // Perhaps with a type before the number.
                Some("gpus-per-task") => {
                    let (kind, each) =
                        value.rsplit_once(':').map_or(("", value), |(kind, each)| (kind, each));
                    let Some(all) = number(each) else { continue };
                    let kind = if kind.is_empty() { String::new() } else { format!("{kind}:") };
                    ("gpus-per-node", format!("{kind}{all}"))
                }
                _ => continue,
            };
            *one = Given {
                written: format!("{} → --{name}={new}", one.written),
                name: Some(name),
                value: Some(new),
                ..one.clone()
            };
        }
    }
    cured
}
