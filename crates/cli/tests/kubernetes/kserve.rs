//! Services as InferenceServices of KServe on a real API server. Its controller is not there: the tests create the pods
//! in its place.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, pod_spec, success, until};
use crate::definitions::Definition;
use crate::explain::muster_as;

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn services_of_kserve_are_submitted_shown_scaled_and_cancelled() {
    let cluster = KubernetesCluster::here();
    let definition = Definition {
        group: "serving.kserve.io",
        version: "v1beta1",
        kind: "InferenceService",
        plural: "inferenceservices",
        scope: "Namespaced",
        published: None,
    };
    definition.install(&cluster);
    let namespace = cluster.namespace("kserve");
    let kubeconfig = cluster.kubeconfig();
    let ok = |words: &[&str]| success(words, &muster_as(&kubeconfig, words));
    // 1. The job file asks for it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.yaml").display().to_string();
    let text = format!(
        "name: chat\nkind: service\ngpus: 1\ncpus: 1\nport: 8000\nreplicas: 1..2\nrun: serve\n\
         kubernetes: {{kserve: true, scheduler: none, image: 'r/serve:1', namespace: {}}}\n",
        namespace.name()
    );
    std::fs::write(&file, text).unwrap();
    ok(&["run", &file]);
    let object = || namespace.objects("inferenceservices", "").pop().unwrap_or_default();
    let name = object()["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(namespace.objects("deployments.apps", "").is_empty(), "KServe makes it");
    // 2. Its state is that of the pods that KServe makes.
    let label = format!("{}/{name}", namespace.name());
    let shown = || -> Value {
        serde_json::from_str::<Value>(&ok(&["show", &label, "--json"])).unwrap()["job"].clone()
    };
    assert_eq!(shown()["state"], "pending");
    let mut spec = pod_spec("default-scheduler", 1);
    spec["containers"][0]["name"] = json!("kserve-container");
    namespace.create_object(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "replica",
            "labels": {"serving.kserve.io/inferenceservice": name},
        },
        "spec": spec,
    }));
    until("its replica runs", || shown()["state"] == "running");
    assert_eq!(
        (&shown()["service"]["ready"], &shown()["service"]["port"]),
        (&1.into(), &8000.into())
    );
    // 3. Its size is a field of the object.
    ok(&["scale", &label, "2..4"]);
    let predictor = &object()["spec"]["predictor"];
    assert_eq!((&predictor["minReplicas"], &predictor["maxReplicas"]), (&2.into(), &4.into()));
    assert_eq!(shown()["service"]["waiting"], 1);
    // 4. A user has stopped it.
    namespace.delete("replica");
    let object_name = format!("inferenceservice/{name}");
    let stop = ["annotate", &object_name, "-n", namespace.name(), "serving.kserve.io/stop=true"];
    cluster.kubectl(&stop);
    until("it is held", || shown()["state"] == "held");
    ok(&["release", &label]);
    assert_eq!(shown()["state"], "pending");
    // 5. The deletion of the object ends it.
    ok(&["cancel", &label]);
    until("it is gone", || namespace.objects("inferenceservices", "").is_empty());
}
