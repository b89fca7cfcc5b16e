//! cgroup.conf: what keeps a job to what it was given.

use super::Release;

/// The file.
pub(super) fn text(release: Release) -> String {
    let mut text = String::from(
        "\
# cgroup.conf: the same file on every node. slurm.conf says ProctrackType=proctrack/cgroup and TaskPlugin=...,task/cgroup; this
# file says what they hold a job to.

",
    );
    if release >= Release::SHARDS {
        text.push_str(
            "# Version 1 or 2, whichever the node's kernel has mounted.\nCgroupPlugin=autodetect\n\n",
        );
    }
    text.push_str(
        "\
# A job opens the GPUs that it was given and no others. Without this CUDA_VISIBLE_DEVICES is a request that a program can ignore.
ConstrainDevices=yes

# Memory is counted in slurm.conf (CR_Core_Memory); this holds a job to what it was counted with, so that it is the job that
# fails, and not the node.
ConstrainRAMSpace=yes

# Data loaders of one job do not take the cores of its neighbour.
ConstrainCores=yes

# Swap is left as it is: ConstrainSwapSpace=yes needs a kernel that counts swap by group.
",
    );
    text
}
