//! Rules on confining a job to its allocated GPUs.

use muster_model::check::Severity::{High, Medium};

use crate::rule::{CheckRule, DocPage, check_setting};
use muster_slurm::conf::evidence::needs_input;

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "proctrack-not-cgroup",
        severity: High,
        title: "processes can leave their job",
        meaning: "a process that becomes a child of init is not found at the end of the job, and still uses its GPU when the next job gets it",
        cure: "ProctrackType=proctrack/cgroup",
        page: DocPage::Man("slurm.conf", "ProctrackType"),
        check: |evidence| {
            let kind = evidence.conf_setting("ProctrackType", None)?;
            check_setting(&kind, kind.is("proctrack/cgroup"))
        },
    },
    CheckRule {
        id: "task-plugin-without-cgroup",
        severity: High,
        title: "tasks are not put into cgroups",
        meaning: "jobs are not confined to their devices, cores and memory; CUDA_VISIBLE_DEVICES is a request that any program can ignore",
        cure: "TaskPlugin=task/affinity,task/cgroup",
        page: DocPage::Man("slurm.conf", "TaskPlugin"),
        check: |evidence| {
            let plugin = evidence.conf_setting("TaskPlugin", Some("task/none"))?;
            check_setting(&plugin, plugin.lists("task/cgroup") || plugin.lists("cgroup"))
        },
    },
    CheckRule {
        id: "devices-not-constrained",
        severity: High,
        title: "a job can open the GPUs of other jobs",
        meaning: "every job can open the device files of all GPUs on its node",
        cure: "ConstrainDevices=yes in cgroup.conf",
        page: DocPage::Man("cgroup.conf", "ConstrainDevices"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let devices = evidence.cgroup("ConstrainDevices", "no")?;
            check_setting(&devices, devices.is_yes())
        },
    },
    CheckRule {
        id: "select-linear",
        severity: High,
        title: "nodes with GPUs are allocated as a whole",
        meaning: "a job that needs one GPU gets the whole node, and the other GPUs idle",
        cure: "SelectType=select/cons_tres with SelectTypeParameters=CR_Core_Memory; the change loses all jobs, so drain first",
        page: DocPage::Man("slurm.conf", "SelectType"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let select = evidence.conf_setting("SelectType", None)?;
            check_setting(&select, !select.is("select/linear"))
        },
    },
    CheckRule {
        id: "select-without-gpus",
        severity: Medium,
        title: "sbatch's GPU options are not supported",
        meaning: "--gpus, --gpus-per-node, --gpus-per-task, --cpus-per-gpu and --mem-per-gpu need select/cons_tres",
        cure: "SelectType=select/cons_tres; jobs survive the change from cons_res",
        page: DocPage::Guide("gres"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let select = evidence.conf_setting("SelectType", None)?;
            if select.is("select/linear") {
                needs_input(
                    "a SelectType other than select/linear, which the rule select-linear reports",
                )
            } else {
                check_setting(&select, !select.is("select/cons_res"))
            }
        },
    },
];
