//! The list of checks, in the order in which they are shown. What each does stands beside its kind.

use super::{JobEvidence, devices, gang, nccl, surroundings, topology};

/// One check. Its id never changes once published: scripts hold it.
pub(super) struct Check {
    pub(super) id: &'static str,
    /// What holds where it passes.
    pub(super) title: &'static str,
    /// What goes wrong where it does not.
    pub(super) meaning: &'static str,
    /// What to do.
    pub(super) cure: &'static str,
    /// Without a probe it says nothing.
    pub(super) needs_probe: bool,
    pub(super) judge: fn(&JobEvidence) -> Verdict,
}

/// What a check came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed(String),
    Failed(String),
    NotTested(String),
}

/// `1 node`, `2 nodes`.
pub(super) fn count(many: usize, word: &str) -> String {
    format!("{many} {word}{}", if many == 1 { "" } else { "s" })
}

/// Fails with everything that is wrong, or passes.
pub(super) fn none_of(wrong: &[String], right: impl Into<String>) -> Verdict {
    /// Things that are listed; the rest is counted.
    const LISTED: usize = 4;
    match wrong.len() {
        0 => Verdict::Passed(right.into()),
        count if count <= LISTED => Verdict::Failed(wrong.join("; ")),
        count => {
            Verdict::Failed(format!("{}; and {} more", wrong[..LISTED].join("; "), count - LISTED))
        }
    }
}

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "whole",
        title: "every rank is there, on the node that it was given and on no other",
        meaning: "a collective waits for ever for a rank that is not there, and two ranks of one number corrupt each other",
        cure: "look at the output of the ranks that are missing: muster logs JOB -r RANK",
        needs_probe: true,
        judge: gang::whole,
    },
    Check {
        id: "one-allocation",
        title: "all nodes are in one allocation",
        meaning: "a gang put together of several jobs is ended, billed and preempted in parts",
        cure: "submit one job for the whole gang, not one for each node",
        needs_probe: true,
        judge: gang::one_allocation,
    },
    Check {
        id: "devices",
        title: "every rank sees and uses its own GPUs, as many as it asked for",
        meaning: "two ranks on one GPU run at half speed or out of memory, and a rank without one falls back to the CPU",
        cure: "leave CUDA_VISIBLE_DEVICES as it is set, also inside the script, and ask for GPUs with `gpus` or `gpus-per-task` only",
        needs_probe: true,
        judge: devices::devices,
    },
    Check {
        id: "closed-devices",
        title: "no other job's GPU can be opened",
        meaning: "CUDA_VISIBLE_DEVICES is a wish: a program that overrides it lands on a GPU that others were given",
        cure: "ConstrainDevices=yes in cgroup.conf, with task/cgroup; `muster check slurm --prove` finds what is missing",
        needs_probe: true,
        judge: gang::closed_devices,
    },
    Check {
        id: "strangers",
        title: "no process of others is on its GPUs",
        meaning: "memory and time of the GPU are shared with whoever was left behind there",
        cure: "end that process, or have the node drained: an epilog that ends what jobs leave behind belongs on every GPU node",
        needs_probe: true,
        judge: gang::strangers,
    },
    Check {
        id: "master",
        title: "rank 0 can be reached by name from every node",
        meaning: "the rendezvous hangs until its time is over, half an hour by default",
        cure: "make the node's name resolve on every other, and open the ports between nodes",
        needs_probe: true,
        judge: surroundings::master,
    },
    Check {
        id: "shared-memory",
        title: "there is room in shared memory",
        meaning: "data loaders and NCCL end with `bus error` or `no space left on device`",
        cure: "mount /dev/shm with half of the memory, and clean it up after each job; in a container --shm-size or --ipc=host",
        needs_probe: true,
        judge: surroundings::shared_memory,
    },
    Check {
        id: "memlock",
        title: "memory may be locked without limit where RDMA needs that",
        meaning: "memory cannot be registered with the adapter, and NCCL falls back to TCP or fails",
        cure: "LimitMEMLOCK=infinity in the unit of slurmd, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
        needs_probe: true,
        judge: surroundings::memlock,
    },
    Check {
        id: "clocks",
        title: "clocks agree to a second",
        meaning: "credentials expire early, and logs of several nodes cannot be put in order",
        cure: "run chrony or another NTP client on every node",
        needs_probe: true,
        judge: surroundings::clocks,
    },
    Check {
        id: "leaf-switches",
        title: "it spans as few leaf switches as it can",
        meaning: "collectives cross the spine, which others use, too",
        cure: "ask for it: slurm: {switches: 1}; it may wait longer",
        needs_probe: false,
        judge: topology::fewest,
    },
    Check {
        id: "transport",
        title: "NCCL goes by the fast network between nodes",
        meaning: "over TCP sockets collectives take ten times as long, without an error",
        cure: "see what NCCL says of NET/IB before it chose: a plugin that is missing, NCCL_IB_DISABLE, or memory that cannot be locked",
        needs_probe: false,
        judge: nccl::transport,
    },
    Check {
        id: "gpudirect",
        title: "GPUs and network adapters exchange data without the CPU",
        meaning: "every byte is copied through the memory of the host",
        cure: "load nvidia-peermem or use a kernel with DMA-BUF, and have GPU and adapter below one PCIe switch",
        needs_probe: false,
        judge: nccl::gpudirect,
    },
];
