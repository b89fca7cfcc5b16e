//! The working directory of a job that brings its files, where the tasks may write. Files that are sent are in
//! a ConfigMap, and a container that runs before the tasks copies them; those of a repository come by `git`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::{JobShape, RenderInput, git};

/// Working directory of a job that names none.
pub(crate) const WORKDIR: &str = "/workdir";

/// Path of the ConfigMap in the container that copies it. A folder in it has the files: beside it are
/// those by which a kubelet replaces all at once.
const SOURCE: &str = "/muster/files";
const FOLDER: &str = "sent";
const FILES: &str = "/muster/files/sent/.";

/// Names of the volumes.
pub(crate) const SENT: &str = "sent";
pub(crate) const COPY: &str = "workdir";

/// File that is sent with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Path in the working directory.
    pub path: String,
    /// Content of the file.
    pub content: Vec<u8>,
    /// True if it may be executed.
    pub is_executable: bool,
}

/// Returns the working directory of the tasks; `None` means that of the image.
pub(super) fn workdir<'a>(job: &JobShape<'a>) -> Option<&'a str> {
    job.input.workdir.or(brings_files(job.input).then_some(WORKDIR))
}

/// Returns true if a container fills the working directory before the tasks start.
pub(super) fn brings_files(input: &RenderInput<'_>) -> bool {
    !input.files.is_empty() || input.options.git.is_some()
}

/// Returns the fields of a ConfigMap that has the files. Their names in it are numbers, since keys have
/// no `/`.
pub(super) fn fields(files: &[SentFile]) -> Map<String, Value> {
    let mut text = Map::new();
    let mut binary = Map::new();
    for (number, file) in files.iter().enumerate() {
        match std::str::from_utf8(&file.content) {
            Ok(content) => text.insert(key(number), content.into()),
            Err(_) => binary.insert(key(number), BASE64_STANDARD.encode(&file.content).into()),
        };
    }
    let mut fields = Map::new();
    for (name, values) in [("data", text), ("binaryData", binary)] {
        if !values.is_empty() {
            fields.insert(name.to_owned(), values.into());
        }
    }
    fields
}

fn key(number: usize) -> String {
    format!("file{number}")
}

/// Returns the volumes of a pod: the files, and the directory to which they are copied.
pub(super) fn volumes(job: &JobShape<'_>) -> Vec<Value> {
    let files = job.input.files;
    let directory = json!({"name": COPY, "emptyDir": {}});
    if files.is_empty() {
        let directory = brings_files(job.input).then_some(directory);
        return directory.into_iter().chain(git::credentials(job)).collect();
    }
    let item = |(number, file): (usize, &SentFile)| {
        let mode = if file.is_executable { 0o755 } else { 0o644 };
        json!({"key": key(number), "path": format!("{FOLDER}/{}", file.path), "mode": mode})
    };
    let items: Vec<Value> = files.iter().enumerate().map(item).collect();
    vec![json!({"name": SENT, "configMap": {"name": job.name, "items": items}}), directory]
}

/// Returns the mount of the working directory.
pub(super) fn mount(job: &JobShape<'_>) -> Option<Value> {
    let path = workdir(job)?;
    brings_files(job.input).then(|| json!({"name": COPY, "mountPath": path}))
}

/// Returns the container that brings the files before the tasks start. It asks for as much as a task,
/// which has these resources, but for no devices: the pod asks for no more.
pub(super) fn files_container(job: &JobShape<'_>, mut resources: Value) -> Option<Value> {
    let mount = mount(job)?;
    let path = workdir(job)?;
    for amounts in ["limits", "requests"] {
        if let Some(amounts) = resources.get_mut(amounts).and_then(Value::as_object_mut) {
            amounts.retain(|name, _| !name.contains('/'));
        }
    }
    if let Some(source) = &job.input.options.git {
        return Some(git::container(job, source, path, mount, resources));
    }
    Some(json!({
        "name": "files",
        "image": job.input.options.image.as_deref(),
        "command": ["cp", "-RL", FILES, path],
        "resources": resources,
        "volumeMounts": [{"name": SENT, "mountPath": SOURCE}, mount],
    }))
}

/// Returns true if a command is that of the container that copies the files.
pub(crate) fn is_copier(command: &[&str]) -> bool {
    matches!(command, ["cp", "-RL", FILES, _])
}
