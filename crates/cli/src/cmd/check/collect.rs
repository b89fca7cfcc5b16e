//! Collects evidence on a Slurm cluster: from files, or from the cluster itself and its
//! configuration files. `muster-doctor` evaluates it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_slurm::conf::includes;
use muster_slurm::conf::source::{CheckSource, SourceKind};

use super::ask::ask;
use crate::app::App;
use crate::exit::Failure;
use crate::source::{text, unreadable};

/// Largest file in bytes that is read: `scontrol show node -d` of ten thousand nodes is some 15 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Files in the folder of slurm.conf. slurmdbd.conf contains a password and is only readable by its
/// user.
const NAMES: [&str; 5] =
    ["slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "slurmdbd.conf"];

/// Commands for the state of a running cluster, besides its configuration.
const QUERIES: [(SourceKind, &[&str]); 3] = [
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

/// Collects evidence from files and folders.
pub fn offline(paths: &[PathBuf]) -> Result<Vec<CheckSource>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found = folder(path)?;
            if found.is_empty() {
                let what = format!("{} contains no known file of Slurm", path.display());
                return Err(Failure::usage(what).hint(KNOWN_FILES).into());
            }
            sources.extend(found);
        } else {
            let (name, text) = text(path, MAX_BYTES)?;
            let Some(kind) = SourceKind::of(&name, &text) else {
                return Err(Failure::usage(format!("{name} is not a known file of Slurm"))
                    .hint(KNOWN_FILES)
                    .into());
            };
            sources.push(CheckSource { name, kind, text });
        }
    }
    Ok(with_included(sources))
}

const KNOWN_FILES: &str = "known files: slurm.conf, gres.conf, cgroup.conf, topology.conf, slurmdbd.conf, or saved output of `scontrol show config`, \
`scontrol show partition -o`, `scontrol show node -o -d`, `sacctmgr -P show qos`";

/// Reads the files of a folder: those in [`NAMES`], and saved output in files that end in `.txt`.
fn folder(path: &Path) -> Result<Vec<CheckSource>> {
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
            sources.push(CheckSource { name, kind, text });
        }
    }
    Ok(sources)
}

/// Collects evidence from the cluster that this machine belongs to.
pub async fn live(app: &App) -> Result<Vec<CheckSource>> {
    // 1. Read the running configuration of slurmctld.
    let words = ["scontrol", "show", "config"];
    let config = ask(&words).await?;
    let folder = setting(&config, "SLURM_CONF")
        .and_then(|path| Path::new(path).parent().map(Path::to_path_buf));
    let mut sources =
        vec![CheckSource { name: words.join(" "), kind: SourceKind::Config, text: config }];

    // 2. Read partitions, nodes and QOS. Without accounting sacctmgr fails, which is a warning.
    for (kind, words) in QUERIES {
        let name = words.iter().take(4).copied().collect::<Vec<_>>().join(" ");
        match ask(words).await {
            // sacctmgr may exit with 0 although it cannot reach the database.
            Ok(text) if SourceKind::of("", &text) == Some(kind) => {
                sources.push(CheckSource { name, kind, text })
            }
            Ok(_) => app.ui.warning(&format!("the output of `{name}` is not understood; ignored")),
            Err(error) => app.ui.warning(&format!("{error}; ignored")),
        }
    }

    // 3. Read the configuration files, as far as this user has permission.
    for name in NAMES {
        let Some(path) = folder.as_ref().map(|folder| folder.join(name)) else { break };
        if let Ok((name, text)) = text(&path, MAX_BYTES)
            && let Some(kind) = SourceKind::of(&name, &text)
        {
            sources.push(CheckSource { name, kind, text });
        }
    }
    Ok(with_included(sources))
}

/// Returns the path of slurmdbd.conf, among the sources or in the folder of slurm.conf, and its
/// permissions, which are visible even to users who may not read it.
pub fn dbd_mode(sources: &[CheckSource]) -> Option<(String, u32)> {
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

/// Returns the value of a key in the output of `scontrol show config`.
fn setting<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let value = |line: &'a str| {
        let (own, value) = line.split_once('=')?;
        (own.trim() == key).then(|| value.trim())
    };
    config.lines().find_map(value)
}

/// Adds included files, as far as they can be read; the others are reported by `muster-doctor`.
fn with_included(mut sources: Vec<CheckSource>) -> Vec<CheckSource> {
    let mut at = 0;
    while at < sources.len() {
        let from = &sources[at];
        at += 1;
        if !from.kind.is_file() {
            continue;
        }
        let beside = Path::new(&from.name).parent().unwrap_or(Path::new("")).to_path_buf();
        for file in includes(&from.text) {
            // In a copied folder, absolute paths still name the original place, so the folder of
            // the including file is searched, too.
            let local = Path::new(&file).file_name().map(|name| beside.join(name));
            let tries = [Some(beside.join(&file)), local];
            let read = tries.into_iter().flatten().find_map(|path| text(&path, MAX_BYTES).ok());
            if let Some((name, text)) = read
                && !sources.iter().any(|other| other.name == name)
            {
                sources.push(CheckSource { name, kind: SourceKind::Included, text });
            }
        }
    }
    sources
}
