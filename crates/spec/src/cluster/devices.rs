//! The GPUs of a node in a cluster file: a number of one model, or a mapping if a node has several
//! models, such as whole GPUs and MIG slices. A slice is a device with a model of its own.

use std::collections::BTreeMap;

use muster_model::node::Device;
use muster_model::unit::Bytes;
use muster_model::{DeviceSet, GpuModel};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::NodesDocument;
use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Field, Located, Named, NamedItem, Whole};
use crate::job::fields::{Size, model};
use crate::suggest::nearest;
use crate::yaml::{Node, Value};

type Count = Whole<0, { DeviceSet::MAX_DEVICES as i64 }>;

/// Number of devices, of the model that `gpu` names or by model.
#[derive(Clone, Debug)]
pub(crate) enum DeviceCountField {
    OfOne(usize),
    ByModel(Vec<NamedItem<Count>>),
}

/// Memory of each device, the same for all or by model.
#[derive(Clone, Debug)]
pub(crate) enum DeviceMemory {
    Same(Bytes),
    ByModel(Vec<NamedItem<Size>>),
}

impl Field for DeviceCountField {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Map(_) => Named::read(node, name, problems).map(|named| Self::ByModel(named.0)),
            _ => Count::read(node, name, problems).map(|count| Self::OfOne(count.0 as usize)),
        }
    }
}

impl Field for DeviceMemory {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Map(_) => Named::read(node, name, problems).map(|named| Self::ByModel(named.0)),
            _ => Size::read(node, name, problems).map(|size| Self::Same(size.0)),
        }
    }
}

impl JsonSchema for DeviceCountField {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "device_counts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        one_or_by_model::<Count>(generator)
    }
}

impl JsonSchema for DeviceMemory {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "device_memory".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        one_or_by_model::<Size>(generator)
    }
}

fn one_or_by_model<T: Field>(generator: &mut SchemaGenerator) -> Schema {
    let one = generator.subschema_for::<T>();
    let by_model = generator.subschema_for::<Named<T>>();
    schemars::json_schema!({ "anyOf": [one, by_model] })
}

/// Returns the devices of a node, in the order in which they are written.
pub(super) fn of(document: &NodesDocument, problems: &mut Problems) -> Vec<Device> {
    let counts = counts(document, problems);
    let sizes = document.gpu_memory.as_ref();
    if let Some(Located { value: DeviceMemory::ByModel(items), .. }) = sizes {
        for item in items {
            check_known(item, &counts, problems);
        }
    }
    let memory = |model: &GpuModel| match sizes.map(|sizes| &sizes.value) {
        None => Bytes(0),
        Some(DeviceMemory::Same(size)) => *size,
        Some(DeviceMemory::ByModel(items)) => {
            let of_model = items.iter().find(|item| item.name.to_lowercase() == model.as_str());
            of_model.map_or(Bytes(0), |item| item.value.0)
        }
    };
    let device = |model: &GpuModel| Device::declared(model.clone(), memory(model));
    counts.iter().flat_map(|(model, count)| vec![device(model); *count]).collect()
}

/// Returns the models with their numbers of devices.
fn counts(document: &NodesDocument, problems: &mut Problems) -> Vec<(GpuModel, usize)> {
    let Some(gpus) = &document.gpus else {
        return of_one(document, 0, problems);
    };
    let items = match &gpus.value {
        DeviceCountField::OfOne(count) => return of_one(document, *count, problems),
        DeviceCountField::ByModel(items) => items,
    };
    if let Some(gpu) = &document.gpu {
        let problem = Problem::new("`gpu` cannot be combined with models in `gpus`")
            .at(gpu.key, "which of them?");
        problems.add(
            problem.also(gpus.key, "the models are named here").hint("remove `gpu`".to_owned()),
        );
    }
    let mut seen = BTreeMap::new();
    let mut counts = Vec::new();
    for item in items {
        let model = match model(&item.name) {
            Ok(model) => model,
            Err(error) => {
                let message = format!("{} is not a GPU model", show(&item.name));
                problems.add(Problem::new(message).at(item.name_place, error.label));
                continue;
            }
        };
        if let Some(first) = seen.insert(model.clone(), item.name_place) {
            let message = format!("{} is counted twice", show(&item.name));
            problems.add(
                Problem::new(message).at(item.name_place, "again here").also(first, "first here"),
            );
        }
        counts.push((model, item.value.0 as usize));
    }
    let sum: usize = counts.iter().map(|(_, count)| count).sum();
    if sum > DeviceSet::MAX_DEVICES {
        let label = format!("{sum} in all; a node has at most {}", DeviceSet::MAX_DEVICES);
        problems.add(Problem::new("too many GPUs").at(gpus.place, label));
    }
    counts
}

fn of_one(
    document: &NodesDocument,
    count: usize,
    problems: &mut Problems,
) -> Vec<(GpuModel, usize)> {
    match (&document.gpu, count, &document.gpus) {
        (None, 1.., Some(gpus)) => {
            let label = "the GPU model is missing";
            let hint = "add `gpu: h100`".to_owned();
            problems.add(Problem::new("`gpus` without `gpu`").at(gpus.key, label).hint(hint));
            Vec::new()
        }
        (Some(gpu), 0, _) => {
            let label = "the number of GPUs is missing";
            problems.add(
                Problem::new("`gpu` without `gpus`")
                    .at(gpu.key, label)
                    .hint("add `gpus: 8`".to_owned()),
            );
            Vec::new()
        }
        (gpu, ..) => gpu.iter().map(|gpu| (gpu.value.0.clone(), count)).collect(),
    }
}

/// Refuses a memory size of a model that the node does not have.
fn check_known(item: &NamedItem<Size>, counts: &[(GpuModel, usize)], problems: &mut Problems) {
    let name = item.name.to_lowercase();
    if counts.iter().any(|(model, _)| model.as_str() == name) {
        return;
    }
    let near = nearest(&name, counts.iter().map(|(model, _)| model.as_str()));
    let hint = near.map(|near| format!("did you mean `{near}`?"));
    let message = format!("{} is not a GPU model of this node", show(&item.name));
    problems.add(Problem::new(message).at(item.name_place, "not in `gpus`").hint(hint));
}
