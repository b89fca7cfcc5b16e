//! Slurm inside Kubernetes, as operators run it: how a user submits a script there, as a comment in the
//! script. The script itself is that of any Slurm.

use std::fmt::Write as _;

use muster_model::JobSpec;

/// Operator that runs Slurm in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlurmOperator {
    /// SchedMD's operator, whose chart has the whole cluster as values.
    Slinky,
    /// Operator of Nebius, with one file system for all nodes.
    Soperator,
}

impl SlurmOperator {
    /// Returns the namespace of the cluster in the operator's documentation.
    #[must_use]
    pub fn default_namespace(self) -> &'static str {
        match self {
            Self::Slinky => "slurm",
            Self::Soperator => "soperator",
        }
    }

    /// Returns the Service of the login pods in the operator's documentation.
    fn login_service(self) -> &'static str {
        match self {
            Self::Slinky => "slurm-login-slinky",
            Self::Soperator => "soperator-login-svc",
        }
    }
}

/// Puts a comment on how and where the script runs below its first line.
#[must_use]
pub fn with_comment(
    script: &str,
    spec: &JobSpec,
    operator: SlurmOperator,
    namespace: &str,
) -> String {
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    format!("{first}\n{}{rest}", comment(spec, operator, namespace))
}

/// Users submit from the login pods: quick starts of slurm-operator 1.1 and of Soperator.
fn comment(spec: &JobSpec, operator: SlurmOperator, namespace: &str) -> String {
    let name = match operator {
        SlurmOperator::Slinky => "Slinky",
        SlurmOperator::Soperator => "Soperator",
    };
    let service = operator.login_service();
    let mut text = format!(
        "# For Slurm in Kubernetes, run by {name}. The login pods have sbatch; submit it there as yourself:\n"
    );
    let _ = writeln!(
        text,
        "#   ssh $(kubectl get service -n {namespace} {service} -o jsonpath='{{.status.loadBalancer.ingress[0].ip}}') sbatch < SCRIPT"
    );
    text.push_str("# Files of the job must be on storage that login pods and workers share.\n");
    let gpus = gpus_of_node(spec);
    if gpus == 0 {
        return text;
    }
    match operator {
        SlurmOperator::Slinky => {
            let _ = writeln!(
                text,
                "# Its workers need at least {gpus} GPUs each. A NodeSet has them with these values of the chart:\n#   slurmd: {{resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}\n#   extraConfMap: {{Gres: [\"gpu:{gpus}\"]}}\n# and the cluster with `configFiles: {{gres.conf: AutoDetect=nvidia}}`."
            );
        }
        SlurmOperator::Soperator => {
            let _ = writeln!(
                text,
                "# Its workers need at least {gpus} GPUs each. A NodeSet (slurm.nebius.ai) has them with:\n#   gpu: {{enabled: true}}\n#   slurmd: {{resources: {{nvidia.com/gpu: {gpus}}}}}"
            );
        }
    }
    text
}

/// Returns the GPUs that a node needs at least: of all tasks of a node, or of one task.
fn gpus_of_node(spec: &JobSpec) -> u32 {
    let groups = spec.groups.iter();
    let each = groups.map(|group| group.task.gpu.devices * group.tasks_per_node.unwrap_or(1));
    each.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use muster_model::TaskGroup;
    use muster_model::job::{GpuRequest, Resources};

    use super::*;

    fn commented(operator: SlurmOperator, gpus: u32) -> String {
        let task = Resources { gpu: GpuRequest::whole(gpus), ..Resources::default() };
        let group = TaskGroup { tasks_per_node: Some(4), ..TaskGroup::of("main", 8, task) };
        let spec = JobSpec::plain("train", "ann", vec![group]);
        with_comment("#!/bin/bash\n#SBATCH --nodes=2\n", &spec, operator, "ml")
    }

    #[test]
    fn the_comment_says_where_to_submit_and_what_workers_need() {
        insta::assert_snapshot!(commented(SlurmOperator::Slinky, 2));
        insta::assert_snapshot!(commented(SlurmOperator::Soperator, 2));
        let without = commented(SlurmOperator::Slinky, 0);
        assert!(!without.contains("GPU"), "{without}");
        assert!(without.ends_with("share.\n#SBATCH --nodes=2\n"), "{without}");
    }
}
