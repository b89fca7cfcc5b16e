//! Evidence on a Slurm cluster: from files, or from the cluster itself and the files that it names.
//! It judges nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_doctor::{Source, SourceKind, includes};

use super::ask::ask;
use crate::app::App;
use crate::exit::Failure;
use crate::source::{text, unreadable};

/// Largest file that is read: `scontrol show node -d` of ten thousand nodes is some 15 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Files that lie beside slurm.conf. Of these slurmdbd.conf can be read by its user only, as it
/// holds a password.
const NAMES: [&str; 5] =
    ["slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "slurmdbd.conf"];

/// What is asked of a running cluster beside its configuration.
const QUESTIONS: [(SourceKind, &[&str]); 3] = [
    (SourceKind::Partitions, &["scontrol", "show", "partition", "-o"]),
    (SourceKind::Nodes, &["scontrol", "show", "node", "-o", "-d"]),
    (
        SourceKind::Qos,
        &[
            "sacctmgr",
            "-P",
            "show",
            "qos",
            "format=Name,GraceTime,Preempt,PreemptMode,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA,MaxJobsPU,MaxSubmitPU,MaxWall",
        ],
    ),
];

/// From files and folders that somebody named.
pub fn offline(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found = folder(path)?;
            if found.is_empty() {
                let what = format!("{} holds nothing that is read here", path.display());
                return Err(Failure::usage(what).hint(WHAT_IS_READ).into());
            }
            sources.extend(found);
        } else {
            let (name, text) = text(path, MAX_BYTES)?;
            let Some(kind) = SourceKind::of(&name, &text) else {
                return Err(Failure::usage(format!("{name} is nothing that is read here"))
                    .hint(WHAT_IS_READ)
                    .into());
            };
            sources.push(Source { name, kind, text });
        }
    }
    Ok(with_included(sources))
}

const WHAT_IS_READ: &str = "slurm.conf, gres.conf, cgroup.conf, topology.conf, slurmdbd.conf, or saved output of `scontrol show config`, \
`scontrol show partition -o`, `scontrol show node -o -d`, `sacctmgr -P show qos`";

/// What a folder holds: files of those names, and saved output in files that end in `.txt`.
fn folder(path: &Path) -> Result<Vec<Source>> {
    let entries = fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    let mut sources = Vec::new();
    for path in names {
        let is_known = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| NAMES.contains(&name));
        let may_be_output = path.extension().is_some_and(|extension| extension == "txt");
        if !path.is_file() || !(is_known || may_be_output) {
            continue;
        }
        let (name, text) = match text(&path, MAX_BYTES) {
            Ok(read) => read,
            Err(failure) if is_known => return Err(failure.into()),
            Err(_) => continue,
        };
        if let Some(kind) = SourceKind::of(&name, &text) {
            sources.push(Source { name, kind, text });
        }
    }
    Ok(sources)
}

/// From the cluster that this machine belongs to.
pub async fn live(app: &App) -> Result<Vec<Source>> {
    // 1. What the controller runs with.
    let words = ["scontrol", "show", "config"];
    let config = ask(&words).await?;
    let folder = setting(&config, "SLURM_CONF")
        .and_then(|path| Path::new(path).parent().map(Path::to_path_buf));
    let mut sources =
        vec![Source { name: words.join(" "), kind: SourceKind::Config, text: config }];

    // 2. Partitions, nodes, qualities of service. Without accounting there are none of the last,
    //    which says itself.
    for (kind, words) in QUESTIONS {
        let name = words.iter().take(4).copied().collect::<Vec<_>>().join(" ");
        match ask(words).await {
            // sacctmgr may say that it cannot reach the database, and succeed.
            Ok(text) if SourceKind::of("", &text) == Some(kind) => {
                sources.push(Source { name, kind, text })
            }
            Ok(_) => {
                app.ui.warning(&format!("`{name}` answered nothing that is understood; left out"))
            }
            Err(error) => app.ui.warning(&format!("{error}; left out")),
        }
    }

    // 3. Files that only lie on disk, as far as this user may read them.
    for name in NAMES {
        let Some(path) = folder.as_ref().map(|folder| folder.join(name)) else { break };
        if let Ok((name, text)) = text(&path, MAX_BYTES)
            && let Some(kind) = SourceKind::of(&name, &text)
        {
            sources.push(Source { name, kind, text });
        }
    }
    Ok(with_included(sources))
}

/// slurmdbd.conf among these or beside slurm.conf, and its permissions, which say who may read it
/// even to a user who may not.
pub fn dbd_mode(sources: &[Source]) -> Option<(String, u32)> {
    let own = sources.iter().filter(|source| source.kind == SourceKind::SlurmdbdConf);
    let beside = sources.iter().filter(|source| source.kind == SourceKind::SlurmConf);
    let paths = own
        .map(|source| PathBuf::from(&source.name))
        .chain(beside.map(|source| Path::new(&source.name).with_file_name("slurmdbd.conf")));
    paths.into_iter().find_map(|path| {
        let mode = fs::metadata(&path).ok()?.permissions().mode();
        Some((path.to_string_lossy().into_owned(), mode))
    })
}

/// A line of what `scontrol show config` prints.
fn setting<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let value = |line: &'a str| {
        let (own, value) = line.split_once('=')?;
        (own.trim() == key).then(|| value.trim())
    };
    config.lines().find_map(value)
}

/// Adds files that others include, as far as they can be read; what cannot is named in the answer.
fn with_included(mut sources: Vec<Source>) -> Vec<Source> {
    let mut at = 0;
    while at < sources.len() {
        let from = &sources[at];
        at += 1;
        if !matches!(from.kind, SourceKind::SlurmConf | SourceKind::Included) {
            continue;
        }
        let beside = Path::new(&from.name).parent().unwrap_or(Path::new("")).to_path_buf();
        for file in includes(&from.text) {
            // A folder that was copied elsewhere still names its old place: what lies beside goes
            // first.
            let local = Path::new(&file).file_name().map(|name| beside.join(name));
            let tries = [Some(beside.join(&file)), local];
            let read = tries.into_iter().flatten().find_map(|path| text(&path, MAX_BYTES).ok());
            if let Some((name, text)) = read
                && !sources.iter().any(|other| other.name == name)
            {
                sources.push(Source { name, kind: SourceKind::Included, text });
            }
        }
    }
    sources
}
