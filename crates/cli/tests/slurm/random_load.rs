//! Random load from a seed, as jobs for `sbatch` and as a trace for `muster simulate`.

use std::fmt::Write as _;

use crate::cluster::User;

/// User, account and percentage of jobs of each owner. The account intern has a limit of 8 GPUs.
const OWNERS: [(User, &str, u64); 5] = [
    (User::Mail, "vision", 30),
    (User::Games, "vision", 20),
    (User::Games, "language", 15),
    (User::News, "language", 20),
    (User::Mail, "intern", 15),
];
/// GPUs of jobs on one node, with equal probability.
const ON_ONE_NODE: [u64; 4] = [1, 2, 4, 8];
/// Percentage of jobs on several nodes. Such a job uses more than half of the GPUs of each node, so
/// that neither here nor in the model two tasks fit on one node.
const ON_SEVERAL: u64 = 18;
/// Mean time between two arrivals in milliseconds: about a quarter more work than 64 GPUs can do.
const BETWEEN_MS: u64 = 570;

/// Job of the random load.
#[derive(Clone, Copy, Debug)]
pub struct RandomJob {
    pub after_ms: u64,
    pub user: User,
    pub account: &'static str,
    pub nodes: u64,
    pub gpus_per_node: u64,
    pub secs: u64,
    pub limit_minutes: u64,
}

/// Returns jobs, the same for the same seed.
pub fn jobs(count: usize, seed: u64) -> Vec<RandomJob> {
    let mut state = seed;
    let mut up_to = |most: u64| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    };
    let mut after_ms = 0;
    let mut draw = || {
        let mut turn = up_to(100);
        let owner = OWNERS.iter().find(|(.., part)| {
            let is_it = turn < *part;
            turn = turn.saturating_sub(*part);
            is_it
        });
        let (user, account, _) = *owner.expect("the parts come to a hundred");
        let (nodes, gpus_per_node) = match up_to(100) {
            several if several < ON_SEVERAL && account != "intern" => (2 + up_to(3), 5 + up_to(4)),
            _ => (1, ON_ONE_NODE[up_to(4) as usize]),
        };
        let secs = 2 + up_to(11);
        let limit_minutes = 1 + up_to(5);
        let job = RandomJob { after_ms, user, account, nodes, gpus_per_node, secs, limit_minutes };
        after_ms += up_to(2 * BETWEEN_MS);
        job
    };
    (0..count).map(|_| draw()).collect()
}

impl RandomJob {
    /// Returns options and script for `sbatch`. CPUs are proportional to GPUs, so that size and
    /// billing are the same by either.
    pub fn sbatch(&self) -> Vec<String> {
        vec![
            format!("--account={}", self.account),
            format!("--nodes={}", self.nodes),
            "--ntasks-per-node=1".to_owned(),
            format!("--cpus-per-task={}", 8 * self.gpus_per_node),
            format!("--gpus-per-node=h100:{}", self.gpus_per_node),
            "--mem=1000".to_owned(),
            format!("--time={}", self.limit_minutes),
            "--output=/dev/null".to_owned(),
            format!("--wrap=exec sleep {}", self.secs),
        ]
    }
}

/// Returns the jobs as a trace: the first arrives at `start_ms`, and each runs `more_ms` longer
/// than its script sleeps. Ids count from 0.
pub fn trace(jobs: &[RandomJob], start_ms: u64, more_ms: u64) -> String {
    let mut text = "id,submit,runtime,requested,tasks,cpus,memory,gpus,user,queue\n".to_owned();
    let secs = |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000);
    for (id, job) in jobs.iter().enumerate() {
        let submit = secs(start_ms + job.after_ms);
        let runtime = secs(1000 * job.secs + more_ms);
        let RandomJob { limit_minutes, nodes, gpus_per_node, account, .. } = *job;
        let cpus = 8 * gpus_per_node;
        let user = job.user.name();
        let row = format!(
            "{id},{submit},{runtime},{limit_minutes}m,{nodes},{cpus},1000MiB,{gpus_per_node},{user},{account}"
        );
        writeln!(text, "{row}").expect("a string takes text");
    }
    text
}

/// Cluster file with the nodes and leaf switches of `cargo xtask slurm up`.
pub const CLUSTER: &str = "\
levels: [leaf]
nodes:
- {name: 'node[1-4]', cpus: 64, memory: 1000000MiB, gpus: 8, gpu: h100, domain: {leaf: leaf1}}
- {name: 'node[5-8]', cpus: 64, memory: 1000000MiB, gpus: 8, gpu: h100, domain: {leaf: leaf2}}
";

/// Queue file with its accounts.
pub const QUEUES: &str = "\
half-life: 7d
queues:
- name: lab
  weight: 100
  queues:
  - {name: vision, weight: 60}
  - {name: language, weight: 40}
  - {name: intern, weight: 10, quota: {h100: 8}, borrow: 0}
";
