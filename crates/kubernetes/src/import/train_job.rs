//! TrainJobs of Kubeflow's Trainer: their pods are those of a runtime, in which a TrainJob replaces
//! fields. The pod template that results is put into the TrainJob, and each of its fields keeps its
//! place in the file; what became of a field is noted where it is written.

use muster_document::Document;
use serde_json::{Map, Value, json};

use super::found::{FoundJob, TrainerFacts, role};
use super::mpi;
use super::object::{COPY, ImportedObject, scalar};
use super::pod::PodTemplate;

/// Kind of a runtime that a reference without a kind means.
const RUNTIME: &str = "ClusterTrainingRuntime";
/// Label of the Job of a runtime whose pods train; the others prepare data.
const STEP: &str = "/template/metadata/labels/trainer.kubeflow.org~1trainjob-ancestor-step";
/// Controller of a TrainJob that names none.
const CONTROLLER: &str = "trainer.kubeflow.org/trainjob-controller";
const CONTAINER: &str = "node";

/// Part of a resulting template, and where it is written.
struct Part {
    /// Pointer in the TrainJob.
    at: String,
    /// Position of the object that has it, and its pointer there.
    object: usize,
    from: String,
}

/// TrainJob with its runtime.
pub(super) struct ResolvedTrainJob {
    object: usize,
    /// Position of its runtime; `None` if it is not in the file.
    pub(super) runtime: Option<usize>,
    parts: Vec<Part>,
    /// Fields of the runtime that the TrainJob replaces.
    replaced: Vec<String>,
}

/// Puts the pods of its runtime into each TrainJob.
pub(super) fn resolve(documents: &mut [Document]) -> Vec<ResolvedTrainJob> {
    let is_job = |document: &Document| document.value["kind"] == "TrainJob";
    let jobs: Vec<usize> = (0..documents.len()).filter(|at| is_job(&documents[*at])).collect();
    jobs.into_iter().map(|object| resolve_one(object, documents)).collect()
}

fn resolve_one(object: usize, documents: &mut [Document]) -> ResolvedTrainJob {
    let runtime = runtime_of(&documents[object], documents);
    let mut resolved =
        ResolvedTrainJob { object, runtime, parts: Vec::new(), replaced: Vec::new() };
    // 1. The template of the runtime, its training container first.
    if let Some(index) = runtime {
        let source = documents[index].clone();
        if let Some(at) = training_template(&source.value) {
            resolved.put(documents, COPY, index, &at, &source);
            let containers = format!("{at}/spec/containers");
            let all = source.value.pointer(&containers).and_then(Value::as_array);
            let all = all.map_or(&[][..], Vec::as_slice);
            let trains = all.iter().position(|one| one["name"] == CONTAINER).unwrap_or(0);
            let order = [trains].into_iter().chain((0..all.len()).filter(|one| *one != trains));
            for (place, from) in order.take(all.len()).enumerate() {
                let at = format!("{COPY}/spec/containers/{place}");
                resolved.put(documents, &at, index, &format!("{containers}/{from}"), &source);
            }
        }
    }
    // 2. The fields that the TrainJob replaces.
    let source = documents[object].clone();
    let container = format!("{COPY}/spec/containers/0");
    for (field, target) in [
        ("image", "image"),
        ("command", "command"),
        ("args", "args"),
        ("resourcesPerNode", "resources"),
    ] {
        let from = format!("/spec/trainer/{field}");
        if source.value.pointer(&from).is_some() {
            let at = format!("{container}/{target}");
            resolved.replaced.extend(resolved.written(&at));
            resolved.put(documents, &at, object, &from, &source);
        }
    }
    // 3. Its variables, in place of those with the same name.
    let given = source.value.pointer("/spec/trainer/env").and_then(Value::as_array);
    for (index, entry) in given.into_iter().flatten().enumerate() {
        let env = format!("{container}/env");
        let value = &documents[object].value;
        let known = value.pointer(&env).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let place = known.iter().position(|one| one["name"] == entry["name"]);
        let at = format!("{env}/{}", place.unwrap_or(known.len()));
        resolved.replaced.extend(place.and_then(|_| resolved.written(&at)));
        resolved.put(documents, &at, object, &format!("/spec/trainer/env/{index}"), &source);
    }
    resolved
}

/// Returns the runtime that a TrainJob refers to.
fn runtime_of(job: &Document, documents: &[Document]) -> Option<usize> {
    let reference = &job.value["spec"]["runtimeRef"];
    let kind = reference["kind"].as_str().unwrap_or(RUNTIME);
    documents.iter().position(|one| {
        one.value["kind"] == kind && one.value["metadata"]["name"] == reference["name"]
    })
}

/// Returns the pointer of the template of the pods that train.
fn training_template(runtime: &Value) -> Option<String> {
    let at = "/spec/template/spec/replicatedJobs";
    let jobs = runtime.pointer(at)?.as_array()?;
    let trains = |job: &Value| job.pointer(STEP).is_some_and(|step| step == "trainer");
    let index = jobs.iter().position(trains).or((jobs.len() == 1).then_some(0))?;
    Some(format!("{at}/{index}/template/spec/template"))
}

impl ResolvedTrainJob {
    /// Copies a field of an object into the TrainJob, with its lines.
    fn put(
        &mut self,
        documents: &mut [Document],
        at: &str,
        object: usize,
        from: &str,
        source: &Document,
    ) {
        let Some(value) = source.value.pointer(from) else { return };
        let job = &mut documents[self.object];
        set(&mut job.value, at, value.clone());
        job.lines.retain(|known, _| !is_at(known, at));
        let lines = source.lines.iter().filter(|(known, _)| is_at(known, from));
        job.lines
            .extend(lines.map(|(known, line)| (format!("{at}{}", &known[from.len()..]), *line)));
        self.parts.push(Part { at: at.to_owned(), object, from: from.to_owned() });
    }

    /// Returns the pointer in the runtime of a field of the result.
    fn written(&self, at: &str) -> Option<String> {
        let part = self.part(at).filter(|part| Some(part.object) == self.runtime)?;
        Some(format!("{}{}", part.from, &at[part.at.len()..]))
    }

    /// Returns the last part that has a field.
    fn part(&self, at: &str) -> Option<&Part> {
        self.parts.iter().rfind(|part| is_at(at, &part.at))
    }

    /// Notes what became of each field where it is written.
    pub(super) fn note(&self, objects: &mut [ImportedObject]) {
        for (at, note) in objects[self.object].notes_at(COPY) {
            if let Some(part) = self.part(&at) {
                let from = format!("{}{}", part.from, &at[part.at.len()..]);
                objects[part.object].put_note(&from, note);
            }
        }
        let Some(runtime) = self.runtime else { return };
        for at in &self.replaced {
            objects[runtime].near(at, "the TrainJob has another value");
        }
        note_runtime(&mut objects[runtime]);
    }
}

/// Notes the fields of a runtime around its pods.
fn note_runtime(runtime: &mut ImportedObject) {
    runtime.near("/metadata", "the job has the name of the TrainJob");
    runtime.field("/spec/mlPolicy", "the number of tasks, and $MASTER_ADDR");
    runtime.field("/spec/podGroupPolicy", "all tasks of a job start together");
    let template = "/spec/template/spec";
    runtime.field(&format!("{template}/network"), "the address of rank 0 is in $MASTER_ADDR");
    runtime.field(&format!("{template}/failurePolicy"), "restart");
    runtime
        .near(&format!("{template}/successPolicy"), "a job has succeeded when all its tasks have");
    runtime.near(&format!("{template}/startupPolicy"), "all tasks of a job start together");
    let is_mpi = runtime.get("/spec/mlPolicy/mpi").is_some();
    for at in runtime.children(&format!("{template}/replicatedJobs")) {
        let step = format!("{at}{STEP}");
        if is_mpi && runtime.get(&step).is_none() {
            runtime.near(&at, "ranks are tasks, on the same nodes as the launcher's pod");
        } else if runtime.peek_text(&step).is_none_or(|step| step == "trainer") {
            runtime.field(&step, "says what it is");
            for field in ["name", "replicas", "groupName", "template/metadata"] {
                runtime.near(&format!("{at}/{field}"), "the number of tasks is that of the nodes");
            }
            for field in ["completionMode", "completions", "parallelism"] {
                runtime.near(&format!("{at}/template/spec/{field}"), "the number of tasks");
            }
            runtime.field(&format!("{at}/template/spec/backoffLimit"), "restart");
        }
    }
}

/// Reads a TrainJob whose pods were put into it.
pub(super) fn read(
    index: usize,
    objects: &mut [ImportedObject],
    found: &mut FoundJob,
    resolved: &[ResolvedTrainJob],
) {
    let Some(resolved) = resolved.iter().find(|one| one.object == index) else { return };
    // 1. What the runtime says.
    let of_runtime = |at: &str| objects[resolved.runtime?].get(at).cloned();
    let policy = |kind: &str| of_runtime(&format!("/spec/mlPolicy/{kind}"));
    let nodes = policy("numNodes").and_then(|count| count.as_u64());
    let is_mpi = policy("mpi").is_some();
    let kinds = ["torch", "mpi", "flux"].into_iter();
    let processes = kinds.filter_map(policy).find_map(|one| scalar(&one["numProcPerNode"]));
    let restarts = of_runtime("/spec/template/spec/failurePolicy/maxRestarts");
    let mut facts = TrainerFacts {
        has_runtime: resolved.runtime.is_some(),
        has_pod_group: of_runtime("/spec/podGroupPolicy").is_some(),
        processes: None,
    };
    // 2. What it replaces.
    let object = &mut objects[index];
    let given = object.number("/spec/trainer/numNodes", "the number of tasks");
    let pods = given.or(nodes).unwrap_or(1);
    let given = object.text("/spec/trainer/numProcPerNode", "env: {PET_NPROC_PER_NODE}");
    facts.processes = given.or(processes).and_then(|count| count.parse().ok());
    role(object, found, &PodTemplate { at: COPY, role: "main", pods });
    match facts.processes {
        Some(slots) if is_mpi => mpi::of_trainer(object, found, slots),
        Some(count) => {
            found.draft.env.push(("PET_NPROC_PER_NODE".to_owned(), count.to_string()));
        }
        None => {}
    }
    found.trainer = Some(facts);
    // 3. How it starts and ends.
    object.field("/spec/runtimeRef", "says what it is");
    object.field("/spec/suspend", "the scheduler starts it");
    if object.peek_text("/spec/managedBy") == Some(CONTROLLER) {
        object.field("/spec/managedBy", "as by default");
    }
    let deadline = "/spec/activeDeadlineSeconds";
    if let Some(secs) = object.peek_number(deadline) {
        found.draft.time_secs = Some(found.draft.time_secs.unwrap_or(u64::MAX).min(secs));
        object.near(
            deadline,
            "time: counted from when the processes run, not from when the job starts",
        );
    }
    found.draft.restarts = restarts.and_then(|count| count.as_u64()).filter(|count| *count > 0);
}

fn is_at(pointer: &str, at: &str) -> bool {
    pointer.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Sets a value by its pointer; what is missing on the way becomes a mapping, or an entry of a list.
fn set(root: &mut Value, at: &str, value: Value) {
    let mut place = root;
    let mut parts = at.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let key = part.replace("~1", "/").replace("~0", "~");
        let index = key.parse::<usize>().ok().filter(|_| !place.is_object());
        if let Some(index) = index {
            if !place.is_array() {
                *place = json!([]);
            }
            let list = place.as_array_mut().expect("it was made a list");
            while list.len() <= index {
                list.push(Value::Object(Map::new()));
            }
            place = &mut list[index];
        } else {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            let map = place.as_object_mut().expect("it was made a mapping");
            // A list of numbers follows, or a mapping.
            let next_is_index = parts.peek().is_some_and(|next| next.parse::<usize>().is_ok());
            let empty = if next_is_index { json!([]) } else { Value::Object(Map::new()) };
            place = map.entry(key).or_insert(empty);
        }
    }
    *place = value;
}
