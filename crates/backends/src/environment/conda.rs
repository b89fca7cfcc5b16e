//! Conda environments: found by their files, as conda, mamba and micromamba lay them out, and activated without
//! any of them. Only the scripts that packages put into `etc/conda/activate.d` need a shell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::shell::{self, ShellError};
use super::{EnvironmentError, Variables, absolute, find_program, home, put_first_in_path};

/// Folder that makes a folder a conda environment.
const META: &str = "conda-meta";
/// Name of the environment in the root of an installation.
const BASE: &str = "base";
/// Usual places of installations, in the home directory.
const INSTALLATIONS: [&str; 7] = [
    "miniconda3",
    "miniforge3",
    "mambaforge",
    "anaconda3",
    "micromamba",
    ".local/share/mamba",
    "conda",
];
/// Most names that a message lists.
const MAX_NAMES: usize = 8;

/// Sources the scripts one by one, in the order of their names.
const SOURCE: &str = r#"for script in "$@"; do
  . "$script" >&2
done"#;

/// Returns the variables with the environment activated.
pub(super) fn activate(
    name: &str,
    mut env: Variables,
    workdir: &Path,
) -> Result<Variables, EnvironmentError> {
    let is_path = name.contains('/') || name.starts_with('~');
    let prefix = if is_path { of_path(name, &env, workdir)? } else { of_name(name, &env)? };
    env.insert("CONDA_PREFIX".to_owned(), prefix.display().to_string());
    let shown = if is_path { prefix.display().to_string() } else { name.to_owned() };
    env.insert("CONDA_DEFAULT_ENV".to_owned(), shown);
    env.insert("CONDA_SHLVL".to_owned(), "1".to_owned());
    for other in ["PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX_1"] {
        env.remove(other);
    }
    put_first_in_path(&prefix.join("bin"), &mut env);
    env.extend(own_variables(&prefix));
    let scripts = scripts(&prefix);
    if scripts.is_empty() {
        return Ok(env);
    }
    let arguments: Vec<&str> = scripts.iter().filter_map(|script| script.to_str()).collect();
    shell::variables_after(SOURCE, &arguments, env).map_err(|ShellError { lines, .. }| {
        let said = lines.last().map_or("a script of it failed", String::as_str);
        EnvironmentError::new(
            format!("the conda environment {} cannot be activated: {said}", prefix.display()),
            format!("its scripts are in {}", prefix.join("etc/conda/activate.d").display()),
        )
    })
}

fn of_path(name: &str, env: &Variables, workdir: &Path) -> Result<PathBuf, EnvironmentError> {
    let prefix = absolute(name, env, workdir);
    if is_environment(&prefix) {
        return Ok(prefix);
    }
    let shown = prefix.display();
    let hint = if prefix.join("bin/python").exists() {
        format!("for a virtual environment write `venv: {shown}`")
    } else {
        format!("`conda create --prefix {shown} python` makes one")
    };
    Err(EnvironmentError::new(
        format!("{shown} is not a conda environment: it has no {META}"),
        hint,
    ))
}

fn of_name(name: &str, env: &Variables) -> Result<PathBuf, EnvironmentError> {
    let roots = roots(env);
    if name == BASE
        && let Some(root) = roots.iter().find(|root| is_environment(root))
    {
        return Ok(root.clone());
    }
    let known = known(&roots, env);
    if let Some(prefix) = known.get(name) {
        return Ok(prefix.clone());
    }
    if known.is_empty() && !roots.iter().any(|root| is_environment(root)) {
        return Err(EnvironmentError::new(
            format!(
                "there is no conda environment `{name}`: no conda, mamba or micromamba was found"
            ),
            "activate its base environment before `muster run`, or write the folder: `conda: /path/to/envs/name`",
        ));
    }
    let names: Vec<&str> = known.keys().map(String::as_str).take(MAX_NAMES).collect();
    let hint = match names.join(", ") {
        none if none.is_empty() => format!("`conda create --name {name} python` makes it"),
        names => format!("the environments are base, {names}"),
    };
    Err(EnvironmentError::new(format!("there is no conda environment `{name}`"), hint))
}

fn is_environment(prefix: &Path) -> bool {
    prefix.join(META).is_dir()
}

/// Returns the folders of installations, the one that is set up in this environment first.
fn roots(env: &Variables) -> Vec<PathBuf> {
    let of_variable =
        |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // ROOT/bin/conda and ROOT/condabin/conda, behind links.
    let of_program = |program: PathBuf| {
        let program = program.canonicalize().unwrap_or(program);
        program.parent().and_then(Path::parent).map(Path::to_owned)
    };
    let mut roots: Vec<PathBuf> = Vec::new();
    roots.extend(of_variable("CONDA_EXE").and_then(of_program));
    roots.extend(of_variable("MAMBA_ROOT_PREFIX"));
    for program in ["conda", "mamba"] {
        roots.extend(find_program(program, env).and_then(of_program));
    }
    let home = home(env);
    roots.extend(home.iter().flat_map(|home| INSTALLATIONS.iter().map(|name| home.join(name))));
    roots.push(PathBuf::from("/opt/conda"));
    roots
}

/// Returns the environments with a name. The first folder that has a name counts, as for conda.
fn known(roots: &[PathBuf], env: &Variables) -> BTreeMap<String, PathBuf> {
    let home = home(env);
    let variables =
        ["CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"].into_iter().filter_map(|name| env.get(name));
    let mut folders: Vec<PathBuf> =
        variables.flat_map(|list| list.split(':')).map(PathBuf::from).collect();
    folders.extend(roots.iter().map(|root| root.join("envs")));
    folders.extend(home.iter().map(|home| home.join(".conda/envs")));
    let listed = folders.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut prefixes: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        prefixes.sort();
        prefixes
    });
    // Every environment that conda made for this user, wherever it is.
    let file = home.map(|home| home.join(".conda/environments.txt"));
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let noted = text.lines().map(PathBuf::from);
    let mut known = BTreeMap::new();
    for prefix in listed.chain(noted).filter(|prefix| is_environment(prefix)) {
        let is_root = roots.contains(&prefix);
        if let Some(name) = prefix.file_name().and_then(|name| name.to_str()).filter(|_| !is_root) {
            known.entry(name.to_owned()).or_insert(prefix);
        }
    }
    known
}

/// File with the variables of `conda env config vars set`.
#[derive(Deserialize)]
struct EnvironmentState {
    #[serde(default)]
    env_vars: BTreeMap<String, String>,
}

/// Returns the variables that the environment itself sets: those of packages, then those of its user.
fn own_variables(prefix: &Path) -> Variables {
    let mut variables = Variables::new();
    for file in sorted(&prefix.join("etc/conda/env_vars.d"), "json") {
        let text = std::fs::read(file).unwrap_or_default();
        variables.extend(serde_json::from_slice::<Variables>(&text).unwrap_or_default());
    }
    let state = std::fs::read(prefix.join(META).join("state")).unwrap_or_default();
    let state = serde_json::from_slice::<EnvironmentState>(&state).ok();
    // Conda notes the removal of a variable as this value.
    let own = state.into_iter().flat_map(|state| state.env_vars);
    variables.extend(own.filter(|(_, value)| value != "***unset***"));
    variables
}

fn scripts(prefix: &Path) -> Vec<PathBuf> {
    sorted(&prefix.join("etc/conda/activate.d"), "sh")
}

/// Returns the files of a folder with an ending, in the order of their names.
fn sorted(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    files
}
