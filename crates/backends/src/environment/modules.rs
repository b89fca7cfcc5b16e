//! Environment modules: Lmod, or Environment Modules. Both are shell functions, whose file is found by the
//! variables that they set in login shells, and else where packages put it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::shell::{self, ShellError};
use super::{EnvironmentError, Variables};

/// Files of login shells, which also set where modules are searched.
const LOGIN_FILES: [&str; 4] = [
    "/etc/profile.d/lmod.sh",
    "/etc/profile.d/z00_lmod.sh",
    "/etc/profile.d/modules.sh",
    "/etc/profile.d/env-modules.sh",
];
/// Folders in which packages have their `init`.
const FOLDERS: [&str; 5] = [
    "/usr/share/lmod/lmod",
    "/opt/apps/lmod/lmod",
    "/usr/share/modules",
    "/usr/share/Modules",
    "/usr/local/Modules",
];

/// Exit codes of [`LOAD`]: no function `module`, and a module that does not load.
const NO_FUNCTION: i32 = 93;
const NO_MODULE: i32 = 94;
/// Loads modules one by one, so that the message is about one. Its output is for messages.
const LOAD: &str = r#"init=$1; shift
. "$init" > /dev/null || exit 93
type module > /dev/null 2>&1 || exit 93
for module in "$@"; do
  module load "$module" >&2 || { echo "$module" >&2; exit 94; }
done"#;

/// Returns the variables with the modules loaded.
pub(super) fn load(modules: &[Arc<str>], env: Variables) -> Result<Variables, EnvironmentError> {
    let init = init_file(&env).ok_or_else(|| {
        EnvironmentError::new(
            "this machine has no `module` command: neither Lmod nor Environment Modules is installed",
            "remove `modules`, or install one of them; where it is elsewhere, set MODULESHOME to its folder",
        )
    })?;
    let init_text = init.display().to_string();
    let mut arguments = vec![init_text.as_str()];
    arguments.extend(modules.iter().map(|module| &**module));
    shell::variables_after(LOAD, &arguments, env).map_err(|error| failed(&init, modules, error))
}

fn failed(init: &Path, modules: &[Arc<str>], error: ShellError) -> EnvironmentError {
    let ShellError { code, lines } = error;
    // The shell text ends with the name of the module. What is wrong begins where it says so, and what follows is advice.
    let (last, said) = lines.split_last().map_or(("", &lines[..]), |(last, said)| (last, said));
    let first = said.iter().position(|line| line.to_lowercase().contains("error")).unwrap_or(0);
    let said = said.iter().skip(first).take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
    match code {
        Some(NO_FUNCTION) => EnvironmentError::new(
            format!("{} defines no `module` command", init.display()),
            "set MODULESHOME to the folder of the module system",
        ),
        Some(NO_MODULE) if modules.iter().any(|module| **module == *last) => EnvironmentError::new(
            format!("the module {last} does not load: {said}"),
            "`module avail` lists modules, and `module spider` those that need others first",
        ),
        Some(_) | None => EnvironmentError::new(
            format!("modules cannot be loaded: {}", lines.join("; ")),
            "try `module load` in a new shell",
        ),
    }
}

/// Returns the file that defines `module`.
fn init_file(env: &Variables) -> Option<PathBuf> {
    let name = if shell::is_bash() { "bash" } else { "sh" };
    let of_variable =
        |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let knows_where = of_variable("MODULEPATH").is_some();
    // LMOD_CMD is LMOD/libexec/lmod.
    let lmod =
        of_variable("LMOD_CMD").and_then(|command| Some(command.parent()?.parent()?.to_owned()));
    let homes = [of_variable("LMOD_PKG"), lmod, of_variable("MODULESHOME")];
    let init = |home: PathBuf| home.join("init").join(name);
    let by_variable = homes.into_iter().flatten().map(init);
    let login = LOGIN_FILES.iter().map(PathBuf::from);
    let packaged = FOLDERS.iter().map(|folder| init(PathBuf::from(folder)));
    // Without a path of modules, the file of login shells is better: it sets the site's.
    let candidates: Vec<PathBuf> = if knows_where {
        by_variable.chain(packaged).chain(login).collect()
    } else {
        login.chain(by_variable).chain(packaged).collect()
    };
    candidates.into_iter().find(|file| file.is_file())
}
