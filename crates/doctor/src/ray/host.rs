//! Facts about one machine and its processes of Ray, as a reader of /proc found them. It judges nothing:
//! what could not be read is `None`, and a rule that needs it is not tested.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Machine with its processes of Ray.
#[derive(Clone, Debug, Default)]
pub struct RayHost {
    /// Name of the machine.
    pub name: String,
    /// Places that were read, in order.
    pub read: Vec<String>,
    /// Addresses of the machine.
    pub addresses: BTreeSet<IpAddr>,
    /// Addresses of other nodes by name, as far as they resolve: those in the node lists of Slurm's jobs. A
    /// node may have more addresses than its name has.
    pub resolved: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Processes whose command line is one of Ray.
    pub processes: Vec<HostProcess>,
}

/// Process whose command line is one of Ray.
#[derive(Clone, Debug, Default)]
pub struct HostProcess {
    /// Number by which /proc lists it.
    pub pid: u32,
    /// Number of the process that started it.
    pub parent: u32,
    /// Login name of its user.
    pub user: String,
    /// Seconds since it started.
    pub age_secs: u64,
    /// Command line, one entry for each argument.
    pub arguments: Vec<String>,
    /// Those of its environment variables that are in [`super::VARIABLES`]; `None` where only its user may
    /// read them.
    pub environment: Option<BTreeMap<String, String>>,
    /// Text of `/proc/PID/cgroup`: the control groups that it is in.
    pub groups: String,
    /// Job of Muster whose control group it is in.
    pub muster_job: Option<u64>,
    /// CPUs that it may use, by affinity and control group.
    pub cpus: Option<u64>,
    /// Limit of its control groups on memory in bytes; `None` without one.
    pub memory_bytes: Option<u64>,
    /// Addresses on which it listens; `None` where only its user may read that.
    pub listens: Option<Vec<SocketAddr>>,
    /// True if its network is not that of the machine, as in most containers.
    pub is_in_other_network: bool,
    /// Size of its /dev/shm in bytes; `None` where only its user may read that.
    pub shared_memory_bytes: Option<u64>,
    /// Version of the Ray package that its program is in.
    pub version: Option<String>,
    /// Answer of a dashboard at its addresses beyond this machine to a question without a token.
    pub dashboard: DashboardAnswer,
}

/// Answer of a dashboard to the question for its version, without a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DashboardAnswer {
    /// None: it could not be asked, or did not answer in time.
    #[default]
    Nothing,
    /// Other than the version; or it has no address beyond this machine.
    Refusal,
    /// The version, at this address.
    Version(SocketAddr),
}
