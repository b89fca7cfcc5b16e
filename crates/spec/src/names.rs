//! Names of jobs, groups, queues and nodes, and lists of node names. A name never has a path
//! separator, so that it is safe as part of a file name.

use muster_model::hostlist::{self, HostListError, HostPattern};

use crate::quantity::Malformed;

/// Longest name of a job, group or queue.
pub(crate) const MAX_NAME: usize = 64;
/// Longest node name; host names are no longer (hostname(7)).
const MAX_NODE_NAME: usize = 253;

/// Checks a name: at most 64 letters, digits, `.`, `_` and `-`, starting with neither `-` nor `.`.
///
/// # Errors
/// The text is no such name.
pub fn check_name(text: &str) -> Result<String, Malformed> {
    checked(text, MAX_NAME)
}

fn checked(text: &str, longest: usize) -> Result<String, Malformed> {
    if text.is_empty() {
        return Err(malformed("this is empty"));
    }
    if text.contains(['/', '\\']) {
        return Err(malformed("a name has no path separators"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(other) = text.chars().find(|c| !allowed(*c)) {
        let other = crate::diagnostic::show(&other.to_string());
        return Err(malformed(format!(
            "{other} is not allowed; letters, digits, `.`, `_` and `-` are"
        )));
    }
    if text.starts_with(['-', '.']) {
        return Err(malformed("a name starts with a letter, a digit or `_`"));
    }
    if text.len() > longest {
        return Err(malformed(format!("{} characters; at most {longest}", text.len())));
    }
    Ok(text.to_owned())
}

/// Makes a name from any text, for jobs without one; `None` if no usable character is left.
pub(crate) fn name_from(text: &str) -> Option<String> {
    let allowed =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = text.chars().map(allowed).collect();
    let name: String = name.trim_start_matches(['-', '.']).chars().take(MAX_NAME).collect();
    let name = name.trim_end_matches(['-', '.']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Parses one part of a host list of valid node names: `node07`, or `node[01-04,7]`.
pub(crate) fn node_pattern(text: &str) -> Result<HostPattern, Malformed> {
    let pattern = HostPattern::parse(text).map_err(refused)?;
    checked(&pattern.longest(), MAX_NODE_NAME)?;
    Ok(pattern)
}

/// Expands a host list such as `node[01-03],login1` to node names, in order.
///
/// # Errors
/// The text is no such list, has an invalid name, or stands for more than 100,000 names.
pub fn expand_names(list: &str) -> Result<Vec<String>, Malformed> {
    for part in hostlist::split(list).map_err(refused)? {
        node_pattern(part)?;
    }
    hostlist::expand(list).map_err(refused)
}

fn refused(error: HostListError) -> Malformed {
    malformed(error.to_string())
}

fn malformed(label: impl Into<String>) -> Malformed {
    Malformed { label: label.into(), hint: None }
}
