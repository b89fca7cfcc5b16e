//! Generates the configuration of a new Slurm cluster from nodes, a queue tree and a site's
//! choices: one module per file. Pure functions. Settings that Slurm cannot express are listed,
//! never dropped silently, and no secret is made up.

mod accounting;
mod accounts_sh;
mod cgroup_conf;
mod gres_conf;
mod nodes;
mod qos;
mod slurm_conf;
mod slurmdbd_conf;
mod topology_conf;

use std::sync::Arc;

use muster_model::{NodeSpec, QueueTree, Span};

use accounting::GeneratedAccounting;

pub use topology_conf::{LEVELS, ROOT_SWITCH, UNPLACED_SWITCH};

/// Placeholder for values that the site has to fill in; `muster check slurm` reports the lines that
/// still contain it.
pub const FILL_IN: &str = "FILL_IN";

/// Authentication between daemons and commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// munge, with its daemon on every machine.
    Munge,
    /// Slurm's own plugin with a key file, from 23.11 on.
    Slurm,
}

/// Release of Slurm by year and month, such as 22.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u16, pub u8);

impl Release {
    /// First release that the generated files support: `jobacct_gather/cgroup`,
    /// `AccountingStoreFlags` and preemption by QOS have their present form.
    pub const OLDEST: Release = Release(21, 8);
    /// First release with `auth/slurm`.
    pub const OWN_AUTH: Release = Release(23, 11);
    /// First release with shards and `CgroupPlugin=autodetect`.
    pub const SHARDS: Release = Release(22, 5);
}

/// User with the queues in whose accounts it is; the first is its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the user on every machine.
    pub user: String,
    /// Paths of leaf queues.
    pub queues: Vec<String>,
}

/// Choices of the site beyond nodes and queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Name of the cluster (ClusterName).
    pub name: String,
    /// Controllers, the primary first; each may be `host(address)`.
    pub controllers: Vec<String>,
    /// Name of the host that runs slurmdbd.
    pub dbd_host: String,
    /// Host of the database, as seen from slurmdbd.
    pub db_host: String,
    /// Name of the database user.
    pub db_user: String,
    /// Name of the database.
    pub db_name: String,
    /// Password of the database user; without it the line has a placeholder.
    pub db_password: Option<String>,
    /// User that runs slurmctld and slurmdbd.
    pub slurm_user: String,
    /// Directory of the controller's state (StateSaveLocation).
    pub state_dir: String,
    /// Spool directory of slurmd (SlurmdSpoolDir).
    pub spool_dir: String,
    /// Directory of the logs.
    pub log_dir: String,
    /// Authentication between daemons and commands (AuthType).
    pub auth: Auth,
    /// Installed release, so that no file has settings that it lacks.
    pub release: Release,
    /// Grace time of preempted jobs (GraceTime).
    pub grace: Span,
    /// Default time limit (DefaultTime).
    pub default_time: Span,
    /// Maximum time limit (MaxTime) of batch partitions.
    pub max_time: Span,
    /// Maximum time limit (MaxTime) of interactive partitions.
    pub interactive_time: Span,
    /// Program that checks the health of a node (HealthCheckProgram).
    pub health_check: Option<String>,
    /// Number of shards per GPU; 0 for none.
    pub shards: u32,
    /// Number of sockets per node; without it only CPUs are written.
    pub sockets: Option<u32>,
    /// Number of hardware threads per core.
    pub threads_per_core: u32,
}

/// Input of the generated files.
#[derive(Clone, Copy)]
pub struct InitInput<'a> {
    /// Nodes in the order of the cluster file.
    pub nodes: &'a [NodeSpec],
    /// Topology levels, widest first.
    pub levels: &'a [Arc<str>],
    /// Tree of queues with quotas and limits.
    pub queues: &'a QueueTree,
    /// Users and their queues.
    pub members: &'a [Member],
    /// Choices of the site.
    pub choices: &'a Choices,
}

/// Generated files, with notes for the administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFiles {
    /// Names and texts, in reading order.
    pub files: Vec<(&'static str, String)>,
    /// Settings of the queue file that Slurm cannot express, or handles differently.
    pub unsupported: Vec<String>,
    /// Open choices, and values to fill in.
    pub open: Vec<String>,
}

/// Reason why no files can be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The memory or the CPUs of some nodes are unknown.
    #[error("{0} nodes have no `{1}`, such as {2}")]
    Unmeasured(usize, &'static str, String),
    /// Slurm's files cannot contain the value.
    #[error(
        "{what} `{value}` cannot be written into Slurm's files: blanks, quotes, `#` and `=` have a meaning there"
    )]
    Unwritable {
        /// Name of the setting.
        what: &'static str,
        /// Value as the user gave it.
        value: String,
    },
    /// Two queues have the same account name.
    #[error("queues `{0}` and `{1}` would both be the account `{2}`")]
    SameAccount(String, String, String),
    /// The queue of a user does not exist.
    #[error("user {user} is in `{queue}`, which is not a leaf of the queue file")]
    UnknownQueue {
        /// Name of the user.
        user: String,
        /// Path of the queue.
        queue: String,
    },
    /// Two controllers need shared state.
    #[error("two controllers, but their state is in {0}, a local directory of each machine")]
    StateNotShared(String),
    /// The release lacks a feature.
    #[error("{what} needs Slurm {}.{:02}; this is for {}.{:02}", needs.0, needs.1, is.0, is.1)]
    TooOld {
        /// Name of the feature.
        what: &'static str,
        /// First release with the feature.
        needs: Release,
        /// Release as the user gave it.
        is: Release,
    },
    /// The CPUs do not divide into sockets and threads.
    #[error(
        "node {node} has {cpus} CPUs, which are not {sockets} sockets of cores with {threads} threads each"
    )]
    Sockets {
        /// Name of the node.
        node: String,
        /// Number of its CPUs.
        cpus: u32,
        /// Number of sockets as given.
        sockets: u32,
        /// Number of threads per core as given.
        threads: u32,
    },
}

impl InitError {
    /// Returns the next step.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unmeasured(_, field, _) => format!(
                "add `{field}` to the cluster file, or give --{} for nodes that name none; `slurmd -C` on a node prints it",
                if *field == "cpus" { "cpus 64" } else { "memory 1000GiB" }
            ),
            Self::Unwritable { .. } => "give a plain word or path".to_owned(),
            Self::SameAccount(..) => {
                "account names are unique in the cluster and in lower case, and `root` is reserved; rename a queue".to_owned()
            }
            Self::UnknownQueue { .. } => "write the full path of the queue, such as alice=research/vision".to_owned(),
            Self::StateNotShared(_) => {
                "set --state-dir to a directory that both controllers can write to".to_owned()
            }
            Self::TooOld { .. } => "set the installed release with --slurm-version".to_owned(),
            Self::Sockets { .. } => "`slurmd -C` on the node prints Sockets, CoresPerSocket and ThreadsPerCore".to_owned(),
        }
    }
}

/// Generates all files.
///
/// # Errors
///
/// See [`InitError`]; it includes findings of the check that no choice in the files avoids.
pub fn render(order: &InitInput<'_>) -> Result<GeneratedFiles, InitError> {
    // 1. Reject input that cannot be written.
    check(order)?;

    // 2. Convert queues and topology.
    let accounting = GeneratedAccounting::of(order)?;
    let topology = topology_conf::text(order);
    let mut lost = accounting.lost.clone();
    lost.extend(topology.as_ref().and_then(|topology| topology.note.clone()));

    // 3. Generate the files.
    let mut files = vec![
        ("slurm.conf", slurm_conf::text(order, &accounting, topology.is_some())),
        ("gres.conf", gres_conf::text(order)),
        ("cgroup.conf", cgroup_conf::text(order.choices.release)),
    ];
    files.extend(topology.map(|topology| ("topology.conf", topology.text)));
    files.push(("slurmdbd.conf", slurmdbd_conf::text(order.choices)));
    files.push(("accounts.sh", accounts_sh::text(order, &accounting)));
    Ok(GeneratedFiles { files, unsupported: lost, open: open_items(order) })
}

/// Directories on local disks, as in the rule `state-not-shared` of the check.
const OWN_FOLDERS: [&str; 6] = ["/var/", "/tmp/", "/run/", "/dev/shm/", "/root/", "/etc/"];

fn check(order: &InitInput<'_>) -> Result<(), InitError> {
    let choices = order.choices;
    for (field, lacks) in [
        ("cpus", (|node| node.cpus.0 < 1000) as fn(&NodeSpec) -> bool),
        ("memory", |node| node.memory.0 >> 20 == 0),
    ] {
        let lacking: Vec<&NodeSpec> = order.nodes.iter().filter(|node| lacks(node)).collect();
        if let Some(first) = lacking.first() {
            return Err(InitError::Unmeasured(lacking.len(), field, first.name.to_string()));
        }
    }
    let words = [
        ("the cluster's name", &choices.name),
        ("the host of slurmdbd", &choices.dbd_host),
        ("the host of the database", &choices.db_host),
        ("the database user", &choices.db_user),
        ("the database", &choices.db_name),
        ("the user of Slurm", &choices.slurm_user),
        ("the folder of the state", &choices.state_dir),
        ("the folder of slurmd", &choices.spool_dir),
        ("the folder of logs", &choices.log_dir),
    ];
    let more = choices.controllers.iter().map(|host| ("the controller", host));
    let more = more.chain(choices.health_check.iter().map(|program| ("the health check", program)));
    let more = more.chain(choices.db_password.iter().map(|secret| ("the password", secret)));
    for (what, value) in words.into_iter().chain(more) {
        let bad = |c: char| c.is_whitespace() || c.is_control() || "\"'#=\\".contains(c);
        if value.is_empty() || value.contains(bad) {
            // A secret is not repeated in the message.
            let shown = if what == "the password" { "…".to_owned() } else { value.clone() };
            return Err(InitError::Unwritable { what, value: shown });
        }
    }
    for (what, needs, wanted) in [
        ("this tool", Release::OLDEST, true),
        ("auth/slurm", Release::OWN_AUTH, choices.auth == Auth::Slurm),
        ("a share of a GPU (shard)", Release::SHARDS, choices.shards > 0),
    ] {
        if wanted && choices.release < needs {
            return Err(InitError::TooOld { what, needs, is: choices.release });
        }
    }
    if choices.controllers.len() > 1
        && OWN_FOLDERS.iter().any(|own| choices.state_dir.starts_with(own))
    {
        return Err(InitError::StateNotShared(choices.state_dir.clone()));
    }
    nodes::check(order)
}

fn open_items(order: &InitInput<'_>) -> Vec<String> {
    let mut open = Vec::new();
    if order.choices.db_password.is_none() {
        open.push(format!(
            "slurmdbd.conf has StoragePass={FILL_IN}: write the database user's password there, or use --db-password-file"
        ));
    }
    if order.choices.health_check.is_none() {
        open.push(
            "no HealthCheckProgram: a node with a dead GPU stays in service; set one with --health-check PATH"
                .to_owned(),
        );
    }
    if order.members.is_empty() {
        open.push(
            "no users: jobs of users without an account are rejected; add them with --user NAME=QUEUE or --users FILE"
                .to_owned(),
        );
    }
    let gpu_nodes = order.nodes.iter().filter(|node| !node.devices.is_empty()).count();
    if gpu_nodes > 1 && order.levels.is_empty() {
        open.push(format!(
            "the cluster file has no topology levels, so that gangs on {gpu_nodes} nodes are placed without regard to switches"
        ));
    }
    open
}

/// Formats a time as Slurm does, in whole minutes, rounded up: `7-00:00:00`.
fn clock(span: Span) -> String {
    let all = minutes(span);
    let days = all / 1440;
    let hours = all / 60 % 24;
    let minutes = all % 60;
    match days {
        0 => format!("{hours:02}:{minutes:02}:00"),
        _ => format!("{days}-{hours:02}:{minutes:02}:00"),
    }
}

/// Returns whole minutes, rounded up.
fn minutes(span: Span) -> u64 {
    span.as_secs().div_ceil(60)
}
