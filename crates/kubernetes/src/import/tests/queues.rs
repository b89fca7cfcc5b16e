//! Jobs in a file with the queues of Kueue that they name.

use super::*;

/// Returns a gang of 32 GPUs with its queue, in which nothing is wrong.
fn queued() -> String {
    let job =
        gang().replace("{name: train}", "{name: train, labels: {kueue.x-k8s.io/queue-name: team}}");
    let job = job.replace("gpu: 8}", "gpu: 8}, requests: {cpu: 4}");
    format!(
        "{job}---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: team}}
spec: {{clusterQueue: research}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: research}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: h100
          resources: [{{name: cpu, nominalQuota: 64}}, {{name: nvidia.com/gpu, nominalQuota: \"32\"}}]
"
    )
}

fn check_changed(from: &str, to: &str, expected: &[(&str, u32)]) {
    let text = queued();
    assert!(text.contains(from), "{from}");
    check(&text.replacen(from, to, 1), expected);
}

#[test]
fn a_job_is_compared_with_its_queue() {
    check(&queued(), &[]);
    assert!(imported(&queued()).job.starts_with("name: train\nqueue: team\n"));
    check_changed("  namespaceSelector: {}\n", "", &[("queue-admits-nothing", 30)]);
    check_changed(
        "namespaceSelector: {}",
        "namespaceSelector: {}\n  stopPolicy: Hold",
        &[("queue-admits-nothing", 30)],
    );
    // It may be defined elsewhere.
    check_changed("clusterQueue: research", "clusterQueue: other", &[]);
    check_changed("queue-name: team", "queue-name: taem", &[("queue-without-local-queue", 3)]);
    check_changed("{name: team}", "{name: team, namespace: a}", &[]);
    check_changed("[cpu, nvidia.com/gpu]", "[nvidia.com/gpu]", &[]);
    check_changed("{name: cpu, nominalQuota: 64}, ", "", &[("queue-lacks-resource", 20)]);
    check_changed("Quota: \"32\"", "Quota: \"31\"", &[("queue-too-small", 4)]);
    check_changed(
        "Quota: \"32\"",
        "Quota: 0",
        &[("queue-too-small", 4), ("queue-admits-nothing", 30)],
    );
    check_changed(
        "namespaceSelector: {}",
        "namespaceSelector: {}\n  cohort: all",
        &[("alone-in-cohort", 32)],
    );
    // A job larger than the quota of its queue may borrow from queues elsewhere.
    let small = queued().replace("Quota: \"32\"", "Quota: 8");
    let cohort = small.replace("namespaceSelector: {}", "namespaceSelector: {}\n  cohort: all");
    check(&small, &[("queue-too-small", 4)]);
    check(&cohort, &[("alone-in-cohort", 32)]);
    let queues = queued().split_once("---\n").unwrap().1.to_owned();
    let job = queued();
    let two = job.replace("namespaceSelector: {}", "namespaceSelector: {}\n  cohortName: all");
    let other = two.split("---\n").last().unwrap().replace("name: research", "name: other");
    check(&format!("{two}---\n{other}"), &[("queue-lends-for-ever", 30)]);
    // Queues without a job are no job file.
    assert!(matches!(import(&queues, "x.yaml", None), Err(NotImported::NoJob(_))));
}
