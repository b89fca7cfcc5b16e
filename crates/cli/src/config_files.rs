//! Places of configuration files: the user's own folder, then that of the machine.

use std::env;
use std::path::{Path, PathBuf};

/// Folder of the files of all users of a machine.
const SHARED: &str = "/etc/muster";

/// Returns the places of a file with this name, the user's own first.
pub fn places(name: &str) -> Vec<PathBuf> {
    let configuration = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let configuration = configuration.or_else(|| set("HOME").map(|home| home.join(".config")));
    let own = configuration.map(|folder| folder.join("muster").join(name));
    own.into_iter().chain([Path::new(SHARED).join(name)]).collect()
}

/// Returns the path in a variable; `None` if it is unset or empty.
pub fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
