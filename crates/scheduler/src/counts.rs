//! Counters of what the scheduler has done.

/// Numbers since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bindings that the API server confirmed.
    pub bound: u64,
    /// Bindings that it refused.
    pub refused: u64,
    /// Pods whose deletion was requested here.
    pub evicted: u64,
    /// Gangs of which a bound part was deleted, since the rest found no nodes.
    pub rolled_back: u64,
    /// Workloads that were resumed.
    pub resumed: u64,
    /// Workloads whose suspension was requested here.
    pub suspended: u64,
    /// Plans that the checker refused: defects of the engine.
    pub bad_plans: u64,
}
