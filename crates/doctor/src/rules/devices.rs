//! Rules on what keeps a job to the GPUs that it was given.

use muster_model::check::Severity::{High, Medium};

use crate::evidence::untested;
use crate::rule::{Page, Rule, right};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "proctrack-not-cgroup",
        severity: High,
        title: "processes can leave their job",
        meaning: "a process that becomes a child of init is not found at the end of the job, and holds its GPU while the next job has it, too",
        cure: "ProctrackType=proctrack/cgroup",
        page: Page::Man("slurm.conf", "ProctrackType"),
        check: |evidence| {
            let kind = evidence.said("ProctrackType", None)?;
            right(&kind, kind.is("proctrack/cgroup"))
        },
    },
    Rule {
        id: "task-plugin-without-cgroup",
        severity: High,
        title: "tasks are not put into cgroups",
        meaning: "no device, core or memory is kept from a job; CUDA_VISIBLE_DEVICES is a request that any program can ignore",
        cure: "TaskPlugin=task/affinity,task/cgroup",
        page: Page::Man("slurm.conf", "TaskPlugin"),
        check: |evidence| {
            let plugin = evidence.said("TaskPlugin", Some("task/none"))?;
            right(&plugin, plugin.lists("task/cgroup") || plugin.lists("cgroup"))
        },
    },
    Rule {
        id: "devices-not-constrained",
        severity: High,
        title: "a job can open the GPUs of others",
        meaning: "the device files of all GPUs can be opened by every job on the node",
        cure: "ConstrainDevices=yes in cgroup.conf",
        page: Page::Man("cgroup.conf", "ConstrainDevices"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let devices = evidence.cgroup("ConstrainDevices", "no")?;
            right(&devices, devices.is_yes())
        },
    },
    Rule {
        id: "select-linear",
        severity: High,
        title: "GPUs are on nodes that are given away whole",
        meaning: "a job that needs one GPU gets all of the node, and the others idle",
        cure: "SelectType=select/cons_tres with SelectTypeParameters=CR_Core_Memory; the change loses all jobs, so drain first",
        page: Page::Man("slurm.conf", "SelectType"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let select = evidence.said("SelectType", None)?;
            right(&select, !select.is("select/linear"))
        },
    },
    Rule {
        id: "select-without-gpus",
        severity: Medium,
        title: "options for GPUs are not understood",
        meaning: "--gpus, --gpus-per-node, --gpus-per-task, --cpus-per-gpu and --mem-per-gpu need select/cons_tres",
        cure: "SelectType=select/cons_tres; jobs survive the change from cons_res",
        page: Page::Guide("gres"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let select = evidence.said("SelectType", None)?;
            match select.is("select/linear") {
                true => untested(
                    "SelectType of another kind than select/linear, which the rule select-linear is about",
                ),
                false => right(&select, !select.is("select/cons_res")),
            }
        },
    },
];
