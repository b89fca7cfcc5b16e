//! The job document: converts text and options to checked jobs, in two steps: [`parse`] needs only
//! the text, [`check`] also the site.

mod after;
mod check;
mod document;
mod elastic;
mod ending;
mod environment;
pub(crate) mod fields;
mod fit;
mod kind;
mod kubernetes;
pub(crate) mod notify;
mod overrides;
mod payload;
mod ray;
mod shape;
mod slurm;
pub(crate) mod sweep;
mod topology;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use muster_model::job::DependencyKind;
use muster_model::kubernetes::KubernetesOptions;
use muster_model::notice::NoticeRule;
use muster_model::payload::TaskCommand;
use muster_model::slurm::SlurmOptions;
use muster_model::sweep::Sweep;
use muster_model::{JobSpec, OutputFiles, TaskEnvironment};
use serde_json::{Map, Value};

use crate::advice::{self, refuse_other};
use crate::diagnostic::{Diagnostics, Problem, Problems};
use crate::field::{Field, ROOT};
use crate::quantity::EarliestStart;
use crate::site::SubmissionSite;
use crate::source::{Place, Sources};
use crate::yaml;

pub(crate) use document::JobDocument;
use sweep::fields::Params;

/// One job as written: every field is well-formed; their combinations are not checked yet.
#[derive(Clone, Debug)]
pub struct ParsedJob {
    pub(crate) fields: JobDocument,
    /// The document as it was read, with the fields of the command line.
    pub(crate) tree: yaml::Node,
    pub(crate) place: Place,
    pub(crate) sources: Arc<Sources>,
    /// Position in its file, from 1, and of how many.
    pub(crate) position: (usize, usize),
}

impl ParsedJob {
    /// Returns the name that the document gives its job.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.fields.name.as_ref().map(|name| name.value.0.as_str())
    }

    /// Returns the files with variables that it names.
    pub fn env_files(&self) -> impl Iterator<Item = &str> {
        let files = self.fields.env_files.iter().flat_map(|files| &files.value.0);
        files.map(|file| file.value.0.as_str())
    }

    /// Returns the path of the file that holds its parameters, if it names one.
    #[must_use]
    pub fn params_file(&self) -> Option<&str> {
        match &self.fields.params.as_ref()?.value {
            Params::File(path) => Some(path),
            Params::Named(_) | Params::Rows(_) => None,
        }
    }
}

/// A job that passed every check, with everything needed to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedJob {
    /// Specification for the scheduler. `payload` is 0 until it is stored, `begin` is set only if
    /// the document names an instant, and `after` holds only jobs named by number.
    pub spec: JobSpec,
    /// Commands by name of the group; the group of a job without `groups` is called `main`.
    pub commands: BTreeMap<Arc<str>, TaskCommand>,
    /// Variables of the document's `env`, which override the submitter's.
    pub env: BTreeMap<String, String>,
    /// Working directory; a relative one starts at the submitter's.
    pub workdir: Option<PathBuf>,
    /// Files for the job's output.
    pub files: OutputFiles,
    /// Environment that is activated before its program.
    pub environment: TaskEnvironment,
    /// Parameters of a sweep, whose points are the indices of the array; `None` for other jobs.
    pub sweep: Option<Sweep>,
    /// Rules of the notices about the job.
    pub notices: Vec<NoticeRule>,
    /// Options for Slurm only.
    pub slurm: SlurmOptions,
    /// Options for Kubernetes only.
    pub kubernetes: KubernetesOptions,
    /// True if every rank checks its allocation before its program starts.
    pub verify: bool,
    /// Earliest start, as written.
    pub begin: Option<EarliestStart>,
    /// Earlier documents of the same file to wait for, by position from 0.
    pub after_documents: Vec<(DependencyKind, usize)>,
    /// Warnings for the user; the job is valid.
    pub warnings: Vec<String>,
}

impl CheckedJob {
    /// Adds the variables of the files that `env-file` names, given by these names. Those of `env` override them.
    ///
    /// # Errors
    /// The name of a file whose variables are missing.
    pub fn add_env_files(
        &mut self,
        files: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> Result<(), Arc<str>> {
        let mut variables = BTreeMap::new();
        for name in &self.environment.env_files {
            let file = files.get(&**name).ok_or_else(|| Arc::clone(name))?;
            variables.extend(file.clone());
        }
        variables.append(&mut self.env);
        self.env = variables;
        Ok(())
    }
}

/// Reads every job of a text. `overrides` are fields from the command line: each replaces the same
/// field of every document, and mappings (`env`, `labels`, `extras`) are merged key by key. With
/// overrides, an empty text is one job.
///
/// # Errors
/// Everything that is wrong with the text or the options by themselves.
pub fn parse(
    source: &str,
    file: Option<&str>,
    overrides: &Map<String, Value>,
) -> Result<Vec<ParsedJob>, Diagnostics> {
    parse_with_notices(source, file, overrides, None)
}

/// Reads every job of a text, as [`parse`] does. `notices` is a user's own file of notices, text and
/// name, for documents that have no `notify`.
///
/// # Errors
/// Everything that is wrong with the file of notices, or with the text or the options by themselves.
pub fn parse_with_notices(
    source: &str,
    file: Option<&str>,
    overrides: &Map<String, Value>,
    notices: Option<(&str, &str)>,
) -> Result<Vec<ParsedJob>, Diagnostics> {
    let defaults = notices.map(|(text, name)| notify::read_file(text, name)).transpose()?;
    let mut sources = Sources::new(source, file);
    let mut problems = Problems::default();
    // 1. Text to trees, options to entries.
    let mut nodes = yaml::read(source, &mut problems);
    let options = overrides::entries(overrides, &mut sources, &mut problems);
    let defaults = overrides::entries(&defaults.unwrap_or_default(), &mut sources, &mut problems);
    let sources = Arc::new(sources);
    if problems.len() > 0 {
        return Err(problems.into_diagnostics(&sources));
    }
    if nodes.is_empty() && !options.is_empty() {
        let value = yaml::Value::Map(Vec::new());
        nodes.push(yaml::Node { place: Place::default(), value, quoted: false });
    }
    if nodes.is_empty() {
        problems.add(
            Problem::new(format!("{} holds no job", sources.name())).hint(
                "the smallest job is one line: `run: nvidia-smi`; without a file: `muster run -- nvidia-smi`"
                    .to_owned(),
            ),
        );
        return Err(problems.into_diagnostics(&sources));
    }
    // 2. Merge options into every document, then read its fields.
    let count = nodes.len();
    let mut documents = Vec::with_capacity(count);
    for (index, mut node) in nodes.into_iter().enumerate() {
        if refuse_other(&node, advice::FileKind::Job, &mut problems).is_none() {
            continue;
        }
        overrides::merge(&mut node, &options);
        overrides::fill(&mut node, &defaults);
        if let Some(fields) = JobDocument::read(&node, ROOT, &mut problems) {
            let place = node.place;
            let sources = Arc::clone(&sources);
            documents.push(ParsedJob {
                fields,
                tree: node,
                place,
                sources,
                position: (index + 1, count),
            });
        }
    }
    problems.finish(documents, &sources)
}

/// Checks one document. Names of other documents cannot be resolved here; see [`check_all`].
///
/// # Errors
/// Everything that is wrong with it at this site.
pub fn check(document: &ParsedJob, site: &SubmissionSite<'_>) -> Result<CheckedJob, Diagnostics> {
    let mut checked = check_all(std::slice::from_ref(document), site)?;
    Ok(checked.remove(0))
}

/// Checks the documents of one text, each by itself and all together.
///
/// # Errors
/// Everything that is wrong with any of them at this site.
pub fn check_all(
    documents: &[ParsedJob],
    site: &SubmissionSite<'_>,
) -> Result<Vec<CheckedJob>, Diagnostics> {
    let Some(first) = documents.first() else { return Ok(Vec::new()) };
    let mut problems = Problems::default();
    let mut checked = Vec::with_capacity(documents.len());
    for document in documents {
        checked.extend(check::check(document, site, &mut problems));
    }
    if checked.len() == documents.len() {
        after::resolve(documents, &mut checked, &mut problems);
    }
    problems.finish(checked, &first.sources)
}
