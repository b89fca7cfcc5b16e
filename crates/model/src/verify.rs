//! Check that a job got its allocation: questions to the probes in the allocation, their answers,
//! and the report. The checks are in `doctor`; this module holds only values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::ProbeOutcome;
use crate::unit::Time;

/// Prefix of every output line of a probe, since programs that the job's environment starts may
/// print, too.
pub const PROBE_MARK: &str = "muster-probe ";

/// Question to a probe, one line of JSON each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeQuestion {
    /// Connect to an address and port.
    Reach {
        /// Host name or IP address to connect to.
        address: String,
        /// Port on which the probe of rank 0 listens.
        port: u16,
    },
    /// Report the current time.
    Clock,
    /// Repeat the observation of the node.
    Look,
}

/// Answer of a probe, one line of JSON each, after [`PROBE_MARK`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeAnswer {
    /// Observation of the node; sent once at start, and again after each [`ProbeQuestion::Look`].
    Seen(Box<ProbeObservation>),
    /// Result of a connection attempt.
    Reached {
        /// Name of the probe's node.
        node: String,
        /// Error of the attempt; `None` when it succeeded.
        error: Option<String>,
    },
    /// Current time on the node.
    Clock {
        /// Name of the probe's node.
        node: String,
        /// Nanoseconds since the Unix epoch.
        unix_nanos: i64,
    },
}

/// Observation of one probe on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeObservation {
    /// Name of the node in Slurm or the kernel.
    pub node: String,
    /// Slurm's number of the job in whose allocation the probe runs; `None` outside of Slurm.
    pub allocation: Option<u64>,
    /// Ranks that the probe found: its own, or processes of the job.
    pub ranks: Vec<SeenRank>,
    /// Device files of GPUs that exist on the node.
    pub device_files: Vec<SeenFile>,
    /// Processes on the GPUs; `None` when no vendor library reports them.
    pub gpu_users: Option<Vec<GpuUser>>,
    /// Size of the shared memory file system in bytes, or why it is unknown.
    pub shared_memory: Result<u64, String>,
    /// Names of the RDMA adapters (remote direct memory access).
    pub rdma_devices: Vec<String>,
    /// Port on which the probe listens; only for rank 0.
    pub listens: Option<u16>,
}

/// Rank, as its environment and limits describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRank {
    /// Rank number within the job.
    pub rank: u32,
    /// Total number of ranks according to its environment; `None` when it does not tell.
    pub world_size: Option<u32>,
    /// Number of GPUs that the rank should have according to its environment; `None` when it does
    /// not tell.
    pub gpus: Option<u32>,
    /// Share of its GPU, in thousandths, according to its environment; `None` when it does not tell.
    #[serde(default)]
    pub gpu_share_millis: Option<u32>,
    /// Devices in its visible-devices variable; `None` when that is not set.
    pub visible: Option<Vec<String>>,
    /// Memory that it may lock, in bytes; `None` means unlimited.
    pub memlock_bytes: Option<u64>,
    /// Address of rank 0 according to its environment; `None` when it does not tell.
    pub master: Option<String>,
    /// GPU settings and open device files of its processes, without duplicates, the oldest first.
    #[serde(default)]
    pub processes: Vec<SeenProcess>,
}

/// GPU settings and open GPU device files of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenProcess {
    /// Process id; of several equal processes, the oldest.
    pub pid: u32,
    /// Devices in its visible-devices variable; `None` when that is not set.
    pub visible: Option<Vec<String>>,
    /// GPU device files that the process has open; `None` when the probe may not read that.
    pub open: Option<Vec<String>>,
}

/// Device file of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// Path of the file.
    pub path: String,
    /// True when the probe may open it.
    pub is_open: bool,
}

/// Process that uses a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUser {
    /// UUID of the GPU.
    pub uuid: String,
    /// Process id on the node.
    pub pid: u32,
    /// True when the process belongs to the job.
    pub is_own: bool,
    /// Rank of the process; `None` when unknown.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Number of the other job that it belongs to, which may have a share of the same GPU; `None`
    /// for the job's own processes and for those outside any job.
    #[serde(default)]
    pub other_job: Option<u64>,
}

/// Report whether a job got its allocation. Every check has one of three outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReport {
    /// Number of the job.
    pub job: u64,
    /// Index of the element in an array; `None` for other jobs.
    pub index: Option<u32>,
    /// Instant of the check.
    pub at: Time,
    /// Number of expected ranks.
    pub ranks: u32,
    /// Expected nodes; of a check before the start, the nodes that answered.
    pub nodes: Vec<String>,
    /// Results of the checks, in order.
    pub checks: Vec<VerifyCheck>,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyCheck {
    /// Id of the check, which is the heading of its entry in docs/verify.md.
    pub check: String,
    /// Outcome of the check.
    pub outcome: ProbeOutcome,
    /// Observation; for a check that was not tested, what is missing.
    #[serde(rename = "says")]
    pub text: String,
    /// Advice to fix the problem; only when the check failed.
    pub cure: Option<String>,
}
