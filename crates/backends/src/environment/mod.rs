//! Activation of a job's environment on this machine: from the variables of a task to those that its program
//! gets, and the image that it runs in.
//!
//! Runs as the user: in stage two, after the change of identity, and in the client before it submits, so that
//! what is missing is told before the job is queued. A shell runs only where modules or a conda environment
//! have shell text; none stays in front of the program.

mod conda;
mod enroot;
pub mod image;
mod modules;
mod secrets;
mod shell;
mod venv;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use muster_model::{PythonEnvironment, TaskEnvironment};

use crate::env::SECRETS_VARIABLE;

/// Variables of a process.
pub type Variables = BTreeMap<String, String>;

/// Reason for which an environment cannot be activated, with the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct EnvironmentError {
    /// Description of what is missing.
    pub what: String,
    /// Next step for the user; empty where there is none.
    pub hint: String,
}

impl EnvironmentError {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

/// Returns the variables of a program in this environment. `workdir` is absolute.
///
/// # Errors
/// The first part of it that is missing or cannot be read.
pub fn activate(
    environment: &TaskEnvironment,
    mut env: Variables,
    workdir: &Path,
) -> Result<Variables, EnvironmentError> {
    if !environment.modules.is_empty() {
        env = modules::load(&environment.modules, env)?;
    }
    match &environment.python {
        Some(PythonEnvironment::Venv(folder)) => {
            venv::activate(&absolute(folder, &env, workdir), &mut env)?;
        }
        Some(PythonEnvironment::Uv(project)) => {
            let folder = venv::of_project(&absolute(project, &env, workdir), &env)?;
            venv::activate(&folder, &mut env)?;
        }
        Some(PythonEnvironment::Conda(name)) => env = conda::activate(name, env, workdir)?,
        None => {}
    }
    // Last, so that no shell text of a module or of a conda environment sees them.
    for (name, file) in &environment.secrets {
        let value = secrets::read(name, &absolute(file, &env, workdir))?;
        env.insert(name.to_string(), value);
    }
    if !environment.secrets.is_empty() {
        let names: Vec<&str> = environment.secrets.keys().map(|name| &**name).collect();
        env.insert(SECRETS_VARIABLE.to_owned(), names.join(","));
    }
    Ok(env)
}

/// Returns a path as a user writes it: `~/` is the home directory, and a relative one starts at `workdir`.
fn absolute(path: &str, env: &Variables, workdir: &Path) -> PathBuf {
    let whole = match (path.strip_prefix('~'), home(env)) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        (Some(_), None) | (None, _) => workdir.join(path),
    };
    whole.components().filter(|part| *part != Component::CurDir).collect()
}

fn home(env: &Variables) -> Option<PathBuf> {
    env.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Puts a folder before the others of `PATH`.
fn put_first_in_path(folder: &Path, env: &mut Variables) {
    let others = env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    let path = format!("{}:{others}", folder.display());
    env.insert("PATH".to_owned(), path);
}

/// Returns the path of a program in `PATH`.
fn find_program(name: &str, env: &Variables) -> Option<PathBuf> {
    let path = env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| Path::new(dir).join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_at_the_home_or_the_working_directory() {
        let env = Variables::from([("HOME".to_owned(), "/home/ann".to_owned())]);
        for (written, expected) in [
            ("~/.key", "/home/ann/.key"),
            ("~", "/home/ann"),
            (".venv", "/run/.venv"),
            ("./.venv/", "/run/.venv"),
            ("/data/venv", "/data/venv"),
        ] {
            assert_eq!(absolute(written, &env, Path::new("/run")), Path::new(expected));
        }
    }
}
