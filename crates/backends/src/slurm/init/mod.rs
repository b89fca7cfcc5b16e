//! Configuration of a new Slurm cluster as text, from nodes, a queue tree and what a site has
//! decided: a file of this folder per file of Slurm. Pure. What Slurm cannot express is listed for
//! people, never left out in silence, and no secret is invented.

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

use super::conf::Fold;
use accounting::Accounting;

pub use topology_conf::{LEVELS, ROOT_SWITCH, UNPLACED_SWITCH};

/// What stands where a site has to write something in before the file is complete; `muster check
/// slurm` names what still has it.
pub const FILL_IN: &str = "FILL_IN";

/// How daemons and commands know each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// munge, with its daemon on every machine.
    Munge,
    /// Slurm's own, with a key file; from 23.11 on.
    Slurm,
}

/// A release of Slurm by year and month, such as 22.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u16, pub u8);

impl Release {
    /// The first whose files are written: `jobacct_gather/cgroup`, `AccountingStoreFlags` and
    /// preemption by QOS are as here.
    pub const OLDEST: Release = Release(21, 8);
    /// The first with `auth/slurm`.
    pub const OWN_AUTH: Release = Release(23, 11);
    /// The first with shards, and with `CgroupPlugin=autodetect`.
    pub const SHARDS: Release = Release(22, 5);
}

/// A user and the queues in whose accounts it is; the first is its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name on every machine of the cluster.
    pub user: String,
    /// Paths of leaf queues.
    pub queues: Vec<String>,
}

/// What neither nodes nor queues say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// ClusterName.
    pub name: String,
    /// Controllers, the first in charge; each may be `host(address)`.
    pub controllers: Vec<String>,
    /// Where slurmdbd runs.
    pub dbd_host: String,
    /// Where its database runs, as slurmdbd sees it.
    pub db_host: String,
    /// Database user.
    pub db_user: String,
    /// Database.
    pub db_name: String,
    /// Password of the database user; without one the line is left open.
    pub db_password: Option<String>,
    /// Who slurmctld and slurmdbd run as.
    pub slurm_user: String,
    /// StateSaveLocation.
    pub state_dir: String,
    /// SlurmdSpoolDir.
    pub spool_dir: String,
    /// Where logs go.
    pub log_dir: String,
    /// AuthType.
    pub auth: Auth,
    /// What runs, so that no file says what it does not know.
    pub release: Release,
    /// GraceTime of what can be preempted.
    pub grace: Span,
    /// DefaultTime.
    pub default_time: Span,
    /// MaxTime of partitions for batch work.
    pub max_time: Span,
    /// MaxTime of partitions where people sit and wait.
    pub interactive_time: Span,
    /// HealthCheckProgram.
    pub health_check: Option<String>,
    /// Shards of each GPU; 0 for none.
    pub shards: u32,
    /// Sockets of a node; without them only CPUs are written.
    pub sockets: Option<u32>,
    /// Hardware threads of a core.
    pub threads_per_core: u32,
}

/// Everything that the files are made of.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// Nodes, in order.
    pub nodes: &'a [NodeSpec],
    /// Topology levels, widest first.
    pub levels: &'a [Arc<str>],
    /// Who may use how much.
    pub queues: &'a QueueTree,
    /// Users and their queues.
    pub members: &'a [Member],
    /// What the site has decided.
    pub choices: &'a Choices,
    /// How names are folded.
    pub fold: Fold<'a>,
}

/// The files, and what people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Name and text, in the order in which a person reads them.
    pub files: Vec<(&'static str, String)>,
    /// What Slurm cannot express of the queue file, and what it does otherwise.
    pub lost: Vec<String>,
    /// What still has to be decided or filled in.
    pub open: Vec<String>,
}

/// Why no files can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Memory is counted, and of a node nobody knows how much it has.
    #[error("{0} nodes have no `{1}`, such as {2}")]
    Unmeasured(usize, &'static str, String),
    /// Slurm takes no such value in a file.
    #[error(
        "{what} `{value}` cannot stand in a file of Slurm: blanks, quotes, `#` and `=` mean something there"
    )]
    Unwritable {
        /// Which.
        what: &'static str,
        /// As it was given.
        value: String,
    },
    /// Two queues would have the same account.
    #[error("queues `{0}` and `{1}` would both be the account `{2}`")]
    SameAccount(String, String, String),
    /// A member's queue is none.
    #[error("user {user} is in `{queue}`, which is not a leaf of the queue file")]
    UnknownQueue {
        /// Who.
        user: String,
        /// Where.
        queue: String,
    },
    /// Two controllers need one state.
    #[error("two controllers, and the state in {0}, which is a folder of each machine's own")]
    StateNotShared(String),
    /// The release is too old for that.
    #[error("{what} needs Slurm {}.{:02}; this is for {}.{:02}", needs.0, needs.1, is.0, is.1)]
    TooOld {
        /// What.
        what: &'static str,
        /// From when on there is such.
        needs: Release,
        /// What was said.
        is: Release,
    },
    /// Processors do not divide.
    #[error(
        "node {node} has {cpus} CPUs, which are not {sockets} sockets of cores with {threads} threads each"
    )]
    Sockets {
        /// Which.
        node: String,
        /// Its CPUs.
        cpus: u32,
        /// As given.
        sockets: u32,
        /// As given.
        threads: u32,
    },
}

impl Unfit {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unmeasured(_, field, _) => format!(
                "add `{field}` to the cluster file, or give --{} for nodes that name none; `slurmd -C` on a node prints it",
                if *field == "cpus" { "cpus 64" } else { "memory 1000GiB" }
            ),
            Self::Unwritable { .. } => "give a plain word or path".to_owned(),
            Self::SameAccount(..) => {
                "accounts have one name each in the whole cluster, in lower case, and `root` is Slurm's own; rename a queue".to_owned()
            }
            Self::UnknownQueue { .. } => "write the queue's whole path, such as alice=research/vision".to_owned(),
            Self::StateNotShared(_) => {
                "--state-dir names a folder on a file system that both controllers write".to_owned()
            }
            Self::TooOld { .. } => "--slurm-version says what runs".to_owned(),
            Self::Sockets { .. } => "`slurmd -C` on the node prints Sockets, CoresPerSocket and ThreadsPerCore".to_owned(),
        }
    }
}

/// Makes all files.
///
/// # Errors
/// See [`Unfit`]; a finding of the check that no file can explain away is one of them.
pub fn render(order: &Order<'_>) -> Result<Files, Unfit> {
    // 1. What cannot be written at all.
    check(order)?;

    // 2. Queues in Slurm's terms, and where its nodes hang.
    let accounting = Accounting::of(order)?;
    let topology = topology_conf::text(order);
    let mut lost = accounting.lost.clone();
    lost.extend(topology.as_ref().and_then(|topology| topology.note.clone()));

    // 3. Files.
    let mut files = vec![
        ("slurm.conf", slurm_conf::text(order, &accounting, topology.is_some())),
        ("gres.conf", gres_conf::text(order)),
        ("cgroup.conf", cgroup_conf::text(order.choices.release)),
    ];
    files.extend(topology.map(|topology| ("topology.conf", topology.text)));
    files.push(("slurmdbd.conf", slurmdbd_conf::text(order.choices)));
    files.push(("accounts.sh", accounts_sh::text(order, &accounting)));
    Ok(Files { files, lost, open: open(order) })
}

/// Folders that are each machine's own, as the rule `state-not-shared` of the check has them.
const OWN_FOLDERS: [&str; 6] = ["/var/", "/tmp/", "/run/", "/dev/shm/", "/root/", "/etc/"];

fn check(order: &Order<'_>) -> Result<(), Unfit> {
    let choices = order.choices;
    for (field, lacks) in [
        ("cpus", (|node| node.cpus.0 < 1000) as fn(&NodeSpec) -> bool),
        ("memory", |node| node.memory.0 >> 20 == 0),
    ] {
        let lacking: Vec<&NodeSpec> = order.nodes.iter().filter(|node| lacks(node)).collect();
        if let Some(first) = lacking.first() {
            return Err(Unfit::Unmeasured(lacking.len(), field, first.name.to_string()));
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
            // What is secret is not repeated.
            let shown = if what == "the password" { "…".to_owned() } else { value.clone() };
            return Err(Unfit::Unwritable { what, value: shown });
        }
    }
    for (what, needs, wanted) in [
        ("this tool", Release::OLDEST, true),
        ("auth/slurm", Release::OWN_AUTH, choices.auth == Auth::Slurm),
        ("a share of a GPU (shard)", Release::SHARDS, choices.shards > 0),
    ] {
        if wanted && choices.release < needs {
            return Err(Unfit::TooOld { what, needs, is: choices.release });
        }
    }
    if choices.controllers.len() > 1
        && OWN_FOLDERS.iter().any(|own| choices.state_dir.starts_with(own))
    {
        return Err(Unfit::StateNotShared(choices.state_dir.clone()));
    }
    nodes::check(order)
}

fn open(order: &Order<'_>) -> Vec<String> {
    let mut open = Vec::new();
    if order.choices.db_password.is_none() {
        open.push(format!(
            "slurmdbd.conf has StoragePass={FILL_IN}: write the password of the database user there; --db-password-file reads it"
        ));
    }
    if order.choices.health_check.is_none() {
        open.push(
            "no HealthCheckProgram: a node with a dead GPU stays in service; --health-check PATH names yours"
                .to_owned(),
        );
    }
    if order.members.is_empty() {
        open.push(
            "no users: a job of somebody without an account is refused; --user NAME=QUEUE or --users FILE"
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

/// A time as Slurm writes it, in whole minutes, rounded up: `7-00:00:00`.
fn clock(span: Span) -> String {
    let all = minutes(span);
    let (days, hours, minutes) = (all / 1440, all / 60 % 24, all % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:00"),
        _ => format!("{days}-{hours:02}:{minutes:02}:00"),
    }
}

/// Whole minutes, rounded up.
fn minutes(span: Span) -> u64 {
    span.as_secs().div_ceil(60)
}
