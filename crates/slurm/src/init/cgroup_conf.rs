//! Generates cgroup.conf, which confines jobs to their allocations.

use super::Release;

/// Generates the text of cgroup.conf.
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
# A job can open only its allocated GPUs. Without this CUDA_VISIBLE_DEVICES is a request that a program can ignore.
ConstrainDevices=yes

# Memory is a consumable resource in slurm.conf (CR_Core_Memory); this enforces it, so that a job that exceeds its memory fails
# rather than the node.
ConstrainRAMSpace=yes

# Data loaders of one job cannot use the cores of another.
ConstrainCores=yes

# Swap is not limited: ConstrainSwapSpace=yes needs a kernel with swap accounting per cgroup.
",
    );
    text
}
