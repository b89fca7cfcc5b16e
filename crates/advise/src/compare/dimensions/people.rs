//! Dimensions: quotas, accounting and isolation between users. Data only.

use muster_model::advice::{Fact, SupportLevel};

use super::super::dimension::{
    Dimension, SMALL_TEAM, absent, addon, comparison, guide, kentino, muster, native, upstream,
    weak,
};
use crate::condition::Condition::Is;

/// Dimensions of users and teams, in the order in which they are shown.
pub(crate) const PEOPLE: &[Dimension] = &[
    Dimension {
        id: "tenancy",
        title: "many teams on one fleet",
        matters: &[Is(Fact::MultiTenant), Is(Fact::StrictQuotas)],
        none: absent("works for people who all know each other", SMALL_TEAM),
        slurm: native(
            "accounts, associations and QOS from the accounting database",
            comparison("table: multi-tenancy"),
        ),
        kubernetes: native(
            "namespaces, RBAC and ResourceQuota; Kueue for fair share",
            comparison("table: multi-tenancy"),
        ),
        k3s: None,
        ray: absent(
            "every user may do everything; Ray advises a cluster per user",
            upstream("Ray documentation 2026: FAQ"),
        ),
        muster: native(
            "a queue tree with users, groups, limits and budgets; in Kubernetes by namespace",
            muster("queues.md, kubernetes.md"),
        ),
    },
    Dimension {
        id: "isolation",
        title: "tenants who must not reach each other",
        matters: &[Is(Fact::MultiTenant), Is(Fact::HostileTenants), Is(Fact::Regulated)],
        none: absent("accounts on the same machines", SMALL_TEAM),
        slurm: weak(
            "cgroups for CPU and memory, GPUs by CUDA_VISIBLE_DEVICES; no network policy. Fine for labs",
            kentino("where SLURM hits its ceiling"),
        )
        .today(
            SupportLevel::Weak,
            "with ConstrainDevices=yes (off by default) the kernel refuses other GPUs, as the page's own slurm.conf says",
            upstream("Slurm documentation: cgroup.conf"),
        ),
        kubernetes: native(
            "namespaces, network policies, container limits; on one GPU only MIG separates",
            kentino("where SLURM hits its ceiling"),
        )
        .today(
            SupportLevel::AddOn,
            "pods on one node share kernel and GPU driver: for customers nodes of their own, or a virtual machine per pod",
            upstream("Kubernetes documentation 2026: multi-tenancy"),
        ),
        k3s: None,
        ray: absent(
            "anyone who reaches its ports can run code on all of it",
            upstream("Ray documentation 2026: security"),
        ),
        muster: weak(
            "accounts, control groups and device rules on one machine, without network policies; in a cluster what that has",
            muster("isolation.md"),
        ),
    },
    Dimension {
        id: "quota",
        title: "quota and fair share",
        matters: &[Is(Fact::MultiTenant), Is(Fact::StrictQuotas)],
        none: absent("by asking and waiting", SMALL_TEAM),
        slurm: native(
            "multifactor priority with fair share that decays; needs slurmdbd and GPU accounting switched on",
            comparison("table: quota / queue fairness"),
        ),
        kubernetes: addon(
            "Kueue: quota, cohorts that borrow and lend, admission of whole jobs",
            comparison("table: quota / queue fairness"),
        ),
        k3s: None,
        ray: absent(
            "no quota: beside another control plane it loses the other's",
            guide("failure modes, 3; overview, failure modes, 1"),
        ),
        muster: native(
            "quota by GPU model, with borrowing, and fair share of GPU time that decays; on Slurm what Slurm has",
            muster("queues.md, slurm.md"),
        ),
    },
    Dimension {
        id: "accounting",
        title: "who used how many GPU-hours",
        matters: &[Is(Fact::MultiTenant), Is(Fact::StrictQuotas), Is(Fact::Regulated)],
        none: absent("not recorded", SMALL_TEAM),
        slurm: native(
            "every GPU-second in sacct, once AccountingStorageTRES has gres/gpu",
            kentino("SLURM: what you get for free"),
        ),
        kubernetes: weak(
            "put together from Prometheus and DCGM; Kueue keeps no record of hours",
            upstream("Kueue issue 28, open in 2026"),
        ),
        k3s: None,
        ray: absent("a dashboard of the present", upstream("Ray documentation 2026: observability")),
        muster: weak(
            "GPU-hours given and used, by user, queue and job, on one machine; on Slurm those of sacct, in Kubernetes those that count now",
            muster("operations.md, slurm.md, kubernetes.md"),
        ),
    },
];
