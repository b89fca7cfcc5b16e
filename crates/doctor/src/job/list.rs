//! All job checks, in the order in which they are shown. The functions are grouped in modules by
//! subject.

use super::check::JobCheck;
use super::{devices, gang, nccl, ray, strangers, surroundings, topology};

/// Check of jobs of kind `ray` only.
pub(super) const RAY: &str = "ray";

pub(super) const CHECKS: &[JobCheck] = &[
    JobCheck {
        id: "whole",
        title: "every rank runs once, on the node that it was allocated",
        meaning: "collectives hang when a rank is missing, and two processes with the same rank corrupt each other's data",
        cure: "see the output of the missing ranks: `muster logs JOB -r RANK`",
        needs_probe: true,
        evaluate: gang::whole,
    },
    JobCheck {
        id: "one-allocation",
        title: "all nodes are in one allocation",
        meaning: "a gang made of several jobs is ended, billed and preempted in parts",
        cure: "submit one job for the whole gang, not one for each node",
        needs_probe: true,
        evaluate: gang::one_allocation,
    },
    JobCheck {
        id: RAY,
        title: "every rank is a node of its Ray cluster, with its own GPUs",
        meaning: "the program waits for ever for actors that no node can host, or runs on fewer GPUs than the job holds",
        cure: "see the output of the ranks: `muster logs JOB -r RANK`; a job that lost a node starts again with `restart: on-failure`",
        needs_probe: false,
        evaluate: ray::nodes,
    },
    JobCheck {
        id: "devices",
        title: "every rank sees and uses its own GPUs, as many as it requested",
        meaning: "two ranks on one GPU run at half speed or out of memory, and a rank without one falls back to the CPU",
        cure: "do not change CUDA_VISIBLE_DEVICES, not even inside the script, and request GPUs with `gpus` or `gpus-per-task` only",
        needs_probe: true,
        evaluate: devices::devices,
    },
    JobCheck {
        id: "closed-devices",
        title: "the job cannot open GPUs of other jobs",
        meaning: "CUDA_VISIBLE_DEVICES is not enforced: a program that overrides it runs on a GPU that another job was allocated",
        cure: "on Slurm ConstrainDevices=yes in cgroup.conf, with task/cgroup: `muster check slurm --prove` shows what is missing; in a container no privileges",
        needs_probe: true,
        evaluate: gang::closed_devices,
    },
    JobCheck {
        id: "strangers",
        title: "no foreign process is on its GPUs",
        meaning: "memory and time of the GPU are shared with that process",
        cure: "end that process, or have the node drained; on Slurm, install an epilog on every GPU node that kills processes left behind by jobs",
        needs_probe: true,
        evaluate: strangers::strangers,
    },
    JobCheck {
        id: "master",
        title: "rank 0 can be reached by name from every node",
        meaning: "the rendezvous hangs until its timeout, half an hour by default",
        cure: "make the node's name resolve on every other node, and open the ports between nodes",
        needs_probe: true,
        evaluate: surroundings::master,
    },
    JobCheck {
        id: "shared-memory",
        title: "shared memory has free space",
        meaning: "data loaders and NCCL fail with `bus error` or `no space left on device`",
        cure: "mount /dev/shm with half of the memory, and clean it after each job; in a container use --shm-size or --ipc=host",
        needs_probe: true,
        evaluate: surroundings::shared_memory,
    },
    JobCheck {
        id: "memlock",
        title: "memory can be locked without limit where RDMA needs it",
        meaning: "memory cannot be registered with the adapter, and NCCL falls back to TCP or fails",
        cure: "LimitMEMLOCK=infinity in slurmd's systemd unit, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
        needs_probe: true,
        evaluate: surroundings::memlock,
    },
    JobCheck {
        id: "clocks",
        title: "clocks agree within one second",
        meaning: "credentials expire early, and logs of several nodes cannot be put in order",
        cure: "run chrony or another NTP client on every node",
        needs_probe: true,
        evaluate: surroundings::clocks,
    },
    JobCheck {
        id: "leaf-switches",
        title: "the job spans as few leaf switches as possible",
        meaning: "collectives cross the spine, which other jobs use, too",
        cure: "request it: on Slurm with `slurm: {switches: 1}`, with Muster's scheduler on Kubernetes with `topology: {required: leaf}`; the job may wait longer",
        needs_probe: false,
        evaluate: topology::fewest,
    },
    JobCheck {
        id: "transport",
        title: "NCCL uses the fast network between nodes",
        meaning: "collectives over TCP sockets take ten times as long, without an error",
        cure: "see NCCL's messages on NET/IB at start-up: a missing plugin, NCCL_IB_DISABLE, or memory that cannot be locked",
        needs_probe: false,
        evaluate: nccl::transport,
    },
    JobCheck {
        id: "gpudirect",
        title: "GPUs and network adapters exchange data without the CPU",
        meaning: "every byte is copied through the memory of the host",
        cure: "load nvidia-peermem or use a kernel with DMA-BUF, and connect GPU and adapter to the same PCIe switch",
        needs_probe: false,
        evaluate: nccl::gpudirect,
    },
];
