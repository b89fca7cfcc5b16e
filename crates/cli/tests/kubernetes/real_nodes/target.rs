//! Jobs of users on real nodes: a namespace to which the program sends jobs, and a folder that they share with the
//! test. Muster's scheduler starts them, or the one that runs in the cluster.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::cluster::{KubernetesCluster, TestNamespace, until};
use crate::conform::JobPlace;
use crate::scheduler_process::SchedulerProcess;

/// Image of the test cluster, which has a shell.
const IMAGE: &str = "localhost/busybox:1";

/// A namespace of the test cluster, and a folder that its jobs share with the test, by a volume claim.
pub struct KubernetesTarget {
    pub namespace: TestNamespace<'static>,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    /// Ends when this is dropped.
    scheduler: Option<SchedulerProcess>,
}

impl KubernetesTarget {
    /// Returns a namespace whose jobs Muster's scheduler starts.
    pub fn new() -> Self {
        let mut target = Self::without_scheduler();
        target.scheduler = Some(SchedulerProcess::active(target.namespace.cluster()));
        target
    }

    /// Returns a namespace whose jobs the scheduler of the cluster starts, which the program finds.
    pub fn without_scheduler() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("conform-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let name: &'static str = Box::leak(name.into_boxed_str());
        let cluster: &'static KubernetesCluster = Box::leak(Box::new(KubernetesCluster::here()));
        let namespace = cluster.namespace(name);
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        fs::copy(cluster.kubeconfig(), &kubeconfig).unwrap();
        let words = ["config", "set-context", "--current", "--namespace", name, "--kubeconfig"];
        let words = [&words[..], &[kubeconfig.to_str().unwrap()]].concat();
        cluster.kubectl(&words);
        let size = json!({"storage": "1Gi"});
        namespace.create_object(&json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "hostPath": {"path": folder.path()},
                "claimRef": {"namespace": name, "name": "shared"},
            },
        }));
        namespace.create_object(&json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": name,
                "resources": {"requests": size},
            },
        }));
        until("the claim is bound", || {
            namespace.objects("persistentvolumeclaims", "")[0]["status"]["phase"] == "Bound"
        });
        Self { namespace, kubeconfig, folder, scheduler: None }
    }

    /// Returns what a command prints, which must succeed.
    pub fn ok(&self, words: &[&str]) -> String {
        let (code, stdout, stderr) = self.call(words);
        assert_eq!(code, 0, "{words:?}: {stdout}{stderr}");
        stdout
    }

    /// Gives every job of a file the shared folder, unless it says for itself what is Kubernetes'.
    fn with_volume(&self, file: &str) {
        let text = fs::read_to_string(file).unwrap();
        let folder = self.folder.path().display();
        let section = format!("kubernetes: {{volumes: ['shared:{folder}']}}\n");
        let of_document = |document: &str| {
            let has_own = document.contains("\nkubernetes: ");
            let section = if has_own { "" } else { &section };
            format!("{}\n{section}", document.trim_end())
        };
        let documents: Vec<String> = text.split("---\n").map(of_document).collect();
        fs::write(file, documents.join("---\n")).unwrap();
    }
}

impl Drop for KubernetesTarget {
    fn drop(&mut self) {
        let name = self.namespace.name();
        let cluster = KubernetesCluster::here();
        cluster.kubectl_with(&["delete", "persistentvolume", name, "--wait=false"], "");
    }
}

impl JobPlace for KubernetesTarget {
    fn call(&self, words: &[&str]) -> (i32, String, String) {
        if let ["run", file, ..] = words
            && file.ends_with(".yaml")
        {
            self.with_volume(file);
        }
        let output = Command::new(env!("CARGO_BIN_EXE_muster"))
            .args(["--on", "kubernetes"])
            .args(words)
            .current_dir(self.folder.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", KubernetesCluster::here().path_with_programs())
            .env("MUSTER_IMAGE", IMAGE)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn all_of_it(&self) -> &'static str {
        "nodes: 2\ngpus: 4"
    }

    fn until(&self, what: &str, holds: &mut dyn FnMut() -> bool) {
        until(what, holds);
    }
}

/// Submits a job file, which must be accepted.
pub fn submit(place: &KubernetesTarget, text: &str) {
    let (code, stdout, stderr) = run(place, text);
    assert_eq!(code, 0, "{stdout}{stderr}");
}

/// Sends a job file to the cluster; returns the exit code and what was printed.
pub fn run(place: &KubernetesTarget, text: &str) -> (i32, String, String) {
    let file = place.folder().join("job.yaml");
    fs::write(&file, text).unwrap();
    place.call(&["run", file.to_str().unwrap()])
}
