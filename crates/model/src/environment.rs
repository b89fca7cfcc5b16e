//! Environment in which the tasks of a job run: a Python environment, modules, files with variables,
//! secrets, an image. Only names and paths, as the user wrote them: never values of variables or secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kubernetes::KubernetesOptions;
use crate::slurm::{SlurmContainer, SlurmOptions};

/// Environment of a job's tasks. Relative paths start at the working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskEnvironment {
    /// Python environment that is activated; `None` for the `python` in `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<PythonEnvironment>,
    /// Environment modules that are loaded, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Arc<str>>,
    /// Files with variables, as the job names them; later files override earlier ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_files: Vec<Arc<str>>,
    /// Files that hold secrets, by the variable that each becomes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<Arc<str>, Arc<str>>,
    /// Image that the program runs in; `None` for the programs of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<str>>,
    /// Directories mounted into the image, each as `SOURCE:TARGET` or `SOURCE:TARGET:ro`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Arc<str>>,
}

/// Python environment of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PythonEnvironment {
    /// Folder of a virtual environment, with `bin/python`.
    Venv(Arc<str>),
    /// Name or prefix of a conda environment.
    Conda(Arc<str>),
    /// Folder of a project of uv, whose `.venv` is activated.
    Uv(Arc<str>),
}

impl PythonEnvironment {
    /// Name of the folder that holds the virtual environment of a project of uv.
    pub const UV_FOLDER: &str = ".venv";
}

impl TaskEnvironment {
    /// Returns true when nothing is activated or set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns options for Kubernetes with this image, where they do not name their own.
    #[must_use]
    pub fn for_kubernetes(&self, options: &KubernetesOptions) -> KubernetesOptions {
        let image = options.image.clone().or_else(|| self.image.clone());
        KubernetesOptions { image, ..options.clone() }
    }

    /// Returns options for Slurm with this environment, where they do not name their own.
    #[must_use]
    pub fn for_slurm(&self, options: &SlurmOptions) -> SlurmOptions {
        let mut options = options.clone();
        if options.modules.is_empty() {
            options.modules.clone_from(&self.modules);
        }
        if options.conda.is_none() && options.venv.is_none() {
            match &self.python {
                Some(PythonEnvironment::Venv(folder)) => options.venv = Some(folder.clone()),
                Some(PythonEnvironment::Conda(name)) => options.conda = Some(name.clone()),
                Some(PythonEnvironment::Uv(project)) => {
                    let project = project.trim_end_matches('/');
                    let folder = format!("{project}/{}", PythonEnvironment::UV_FOLDER);
                    options.venv = Some(folder.into());
                }
                None => {}
            }
        }
        if let (None, Some(image)) = (&options.container, &self.image) {
            let mounts = self.mounts.clone();
            options.container = Some(SlurmContainer { image: image.clone(), mounts });
        }
        options
    }
}
