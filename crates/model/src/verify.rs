//! Whether a job got what it was given: what probes in its allocation see, what they are asked, and
//! the answer. Which check says what is known in `doctor`; nothing here judges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::ProbeOutcome;
use crate::unit::Time;

/// What stands before every line of a probe: programs that the job's environment starts may print,
/// too.
pub const PROBE_MARK: &str = "muster-probe ";

/// What a probe is asked, a line of JSON each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeQuestion {
    /// Connect.
    Reach {
        /// A name or an address.
        address: String,
        /// Where the probe beside rank 0 listens.
        port: u16,
    },
    /// Say what time it is.
    Clock,
    /// Look again.
    Look,
}

/// What a probe says, a line of JSON each, after [`PROBE_MARK`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeAnswer {
    /// What it saw; said once unasked, and each time when it is asked to look.
    Seen(Box<Seen>),
    /// Whether it reached what it was asked to.
    Reached {
        /// Its node.
        node: String,
        /// Why not.
        error: Option<String>,
    },
    /// What time it is there.
    Clock {
        /// Its node.
        node: String,
        /// Nanoseconds since 1970.
        unix_nanos: i64,
    },
}

/// What one probe saw on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The node, as Slurm or the kernel names it.
    pub node: String,
    /// Slurm's number of the job in whose allocation the probe runs.
    pub allocation: Option<u64>,
    /// Ranks that it found: itself, or processes of the job.
    pub ranks: Vec<SeenRank>,
    /// Device files of GPUs that are there.
    pub device_files: Vec<SeenFile>,
    /// Processes on the GPUs; `None` where no library tells.
    pub gpu_users: Option<Vec<GpuUser>>,
    /// What fits into shared memory.
    pub shared_memory: Result<u64, String>,
    /// Adapters for remote direct memory access.
    pub rdma_devices: Vec<String>,
    /// Where it listens: only beside rank 0.
    pub listens: Option<u16>,
}

/// One rank, as its own environment and limits have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRank {
    /// Rank.
    pub rank: u32,
    /// Ranks in all, as it was told.
    pub world_size: Option<u32>,
    /// GPUs that it is to have, where it was told.
    pub gpus: Option<u32>,
    /// Devices that it is told to see; `None` where it is told nothing.
    pub visible: Option<Vec<String>>,
    /// Memory that it may lock; `None` is without limit.
    pub memlock_bytes: Option<u64>,
    /// Where it is told that rank 0 is.
    pub master: Option<String>,
    /// What its processes are told and have open, without repeats, the eldest first.
    #[serde(default)]
    pub processes: Vec<SeenProcess>,
}

/// What a process of a rank is told, and has open, of GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenProcess {
    /// The process; of several that are alike, the eldest.
    pub pid: u32,
    /// Devices that it is told to see; `None` where it is told nothing.
    pub visible: Option<Vec<String>>,
    /// Device files of GPUs that it has open; `None` where they may not be looked at.
    pub open: Option<Vec<String>>,
}

/// A device file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// Its path.
    pub path: String,
    /// The probe may open it.
    pub is_open: bool,
}

/// A process that uses a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUser {
    /// Which GPU.
    pub uuid: String,
    /// The process.
    pub pid: u32,
    /// It is of the job.
    pub is_own: bool,
    /// Of which rank.
    #[serde(default)]
    pub rank: Option<u32>,
}

/// Whether a job got what it was given. Every check has one of three outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReport {
    /// The job.
    pub job: u64,
    /// Which element of an array; `None` of other jobs.
    pub index: Option<u32>,
    /// When.
    pub at: Time,
    /// Ranks that were expected.
    pub ranks: u32,
    /// Nodes that were expected; of a check before the start, those that answered.
    pub nodes: Vec<String>,
    /// What was checked, in order.
    pub checks: Vec<VerifyCheck>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyCheck {
    /// Its id, the heading of its entry in docs/verify.md.
    pub check: String,
    /// What came of it.
    pub outcome: ProbeOutcome,
    /// What was seen; of what was not tested, what would be needed.
    pub says: String,
    /// What to do; only of what failed.
    pub cure: Option<String>,
}
