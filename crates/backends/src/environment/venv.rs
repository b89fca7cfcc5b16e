//! Virtual environments of Python, and projects of uv. Nothing but variables changes: a `python` in the folder
//! finds its packages by itself.

use std::path::{Path, PathBuf};

use muster_model::PythonEnvironment;

use super::{EnvironmentError, Variables, is_program, put_first_in_path};

/// Variable by which uv puts the environment of a project elsewhere.
const UV_FOLDER_VARIABLE: &str = "UV_PROJECT_ENVIRONMENT";
/// File that makes a folder a project.
const PROJECT_FILE: &str = "pyproject.toml";

/// Sets the variables that `bin/activate` sets.
pub(super) fn activate(folder: &Path, env: &mut Variables) -> Result<(), EnvironmentError> {
    if !is_program(&folder.join("bin/python")) {
        return Err(missing(folder));
    }
    env.insert("VIRTUAL_ENV".to_owned(), folder.display().to_string());
    // With it, Python would search elsewhere for its modules.
    env.remove("PYTHONHOME");
    put_first_in_path(&folder.join("bin"), env);
    Ok(())
}

fn missing(folder: &Path) -> EnvironmentError {
    let shown = folder.display();
    let python = folder.join("bin/python");
    if let Ok(target) = std::fs::read_link(&python) {
        return EnvironmentError::new(
            format!(
                "the virtual environment {shown} has no Python any more: {} is missing",
                target.display()
            ),
            format!("make it again: `python3 -m venv --clear {shown}`"),
        );
    }
    let what = if folder.is_dir() {
        format!("{shown} is not a virtual environment: it has no bin/python")
    } else {
        format!("there is no virtual environment {shown}")
    };
    let hint = if folder.join("conda-meta").is_dir() {
        format!("it is a conda environment: write `conda: {shown}`")
    } else if is_program(&folder.join(".venv/bin/python")) {
        format!("did you mean `venv: {}`?", folder.join(".venv").display())
    } else {
        format!(
            "`python3 -m venv {shown}` makes one; a relative path starts at the working directory"
        )
    };
    EnvironmentError::new(what, hint)
}

/// Returns the folder of the virtual environment of a project of uv: that of its workspace where it is a member.
pub(super) fn of_project(project: &Path, env: &Variables) -> Result<PathBuf, EnvironmentError> {
    let shown = project.display();
    if !project.join(PROJECT_FILE).is_file() {
        return Err(EnvironmentError::new(
            format!("{shown} is not a project of uv: it has no {PROJECT_FILE}"),
            "name the folder with its pyproject.toml; for a folder with bin/python write `venv: …`",
        ));
    }
    let name = env.get(UV_FOLDER_VARIABLE).filter(|name| !name.is_empty());
    let name = name.map_or(PythonEnvironment::UV_FOLDER, String::as_str);
    let workspaces = project.ancestors().skip(1).filter(|folder| is_workspace(folder));
    let mut folders = std::iter::once(project).chain(workspaces).map(|folder| folder.join(name));
    folders.find(|folder| is_program(&folder.join("bin/python"))).ok_or_else(|| {
        EnvironmentError::new(
            format!("the project {shown} has no environment yet: there is no {}", project.join(name).display()),
            format!("`uv sync --project {shown}` makes it; a job does not, because its tasks would do so at once"),
        )
    })
}

fn is_workspace(folder: &Path) -> bool {
    let text = std::fs::read_to_string(folder.join(PROJECT_FILE)).unwrap_or_default();
    text.lines().any(|line| line.trim() == "[tool.uv.workspace]")
}
