//! Numbers for metrics: what the scheduler has done, and what waits.

/// Numbers for metrics, since the start of the process unless they say now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes that exist now, in service or not.
    pub nodes: u64,
    /// Pods of this scheduler that wait for a node now.
    pub waiting_pods: u64,
    /// Gangs of which a pod waits now.
    pub waiting_gangs: u64,
    /// Jobs that hold resources now: a gang, or the rest of one, each.
    pub placed_jobs: u64,
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
