//! The programs of a cluster: their command lines, and how each is started (detached from this process) and
//! stopped (by pid).

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cluster::{API_ADDRESS, KubernetesTestCluster};
use super::options::ClusterOptions;
use crate::test_cluster::detached;
use crate::test_cluster::process::{self, Signal};

/// Timeout for the end of a program, which may finish requests first.
const STOP: Duration = Duration::from_secs(30);

/// A long-running program of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubernetesDaemon {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    /// Our program that carries all fake nodes.
    FakeKubelet,
}

impl KubernetesDaemon {
    /// All programs in the order in which they start.
    pub const ALL: [Self; 5] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::FakeKubelet];

    /// Finds a program by its name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|daemon| daemon.program() == name);
        found.with_context(|| format!("{name}: not a program of the cluster"))
    }

    /// Returns the name of its file.
    pub fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::FakeKubelet => "fake-kubelet",
        }
    }

    /// Returns its command line.
    fn words(self, cluster: &KubernetesTestCluster, options: &ClusterOptions) -> Vec<String> {
        let arguments = match self {
            Self::Etcd => etcd(),
            Self::ApiServer => api_server(options),
            Self::ControllerManager => controller_manager(),
            Self::Scheduler => scheduler(),
            Self::FakeKubelet => fake_kubelet(options),
        };
        let gates = options.gates.iter().map(|gate| format!("--feature-gates={gate}=true"));
        let has_gates = !matches!(self, Self::Etcd | Self::FakeKubelet);
        let program = cluster.bin().join(self.program()).display().to_string();
        let mut words = vec![program];
        words
            .extend(arguments.split_whitespace().map(|word| word.replace("{dir}", cluster.text())));
        words.extend(gates.filter(|_| has_gates));
        words
    }

    /// Returns its pid, while it runs; the pid file may be stale, so the program is verified.
    pub fn pid(self, cluster: &KubernetesTestCluster) -> Option<u32> {
        let pid = process::read_pid(&cluster.pid_file(self.program()))?;
        process::is(pid, cluster.namespace().inode()?, self.program()).then_some(pid)
    }

    /// Starts it, detached from this process.
    pub fn start(self, cluster: &KubernetesTestCluster) -> Result<()> {
        let name = self.program();
        if let Some(pid) = self.pid(cluster) {
            bail!("{name} is already running: pid {pid}");
        }
        let words = self.words(cluster, &cluster.options()?);
        let pid_file = cluster.pid_file(name);
        let prefix = cluster.namespace().prefix();
        detached::start(prefix, &words, cluster.dir(), &pid_file, &cluster.log(name))?;
        process::wait(name, Duration::from_secs(10), || self.pid(cluster).is_some())
    }

    /// Sends the signal and waits for its end.
    pub fn end(self, cluster: &KubernetesTestCluster, signal: Signal) -> Result<()> {
        let name = self.program();
        let pid = self.pid(cluster).with_context(|| format!("{name} is not running"))?;
        process::signal(pid, signal)?;
        process::wait(&format!("the end of {name}"), STOP, || self.pid(cluster).is_none())
    }
}

/// Certificate of every server of the cluster.
const SERVER: &str =
    "--tls-cert-file={dir}/pki/server.crt --tls-private-key-file={dir}/pki/server.key";

fn etcd() -> String {
    // Only a crash of the machine loses what is not synced, and no test cluster survives that.
    "--data-dir={dir}/etcd --unsafe-no-fsync --log-level=error".to_owned()
}

fn api_server(options: &ClusterOptions) -> String {
    // Gates bring APIs that are off by default.
    let apis = if options.gates.is_empty() { "" } else { "--runtime-config=api/all=true" };
    // No proxy exists; without its settings, the other programs cannot check who calls them.
    let proxy = "--requestheader-client-ca-file={dir}/pki/ca.crt --requestheader-allowed-names=front-proxy-client \
                 --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
                 --requestheader-extra-headers-prefix=X-Remote-Extra-";
    format!(
        "--etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address={API_ADDRESS} --secure-port=6443 \
         --service-cluster-ip-range=10.96.0.0/24 {SERVER} --client-ca-file={{dir}}/pki/ca.crt {proxy} \
         --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
         --service-account-issuer=https://kubernetes.default.svc \
         --service-account-key-file={{dir}}/pki/service-accounts.pub \
         --service-account-signing-key-file={{dir}}/pki/service-accounts.key {apis}"
    )
}

fn controller_manager() -> String {
    let user = "{dir}/etc/controller-manager.kubeconfig";
    // Fake nodes send no heartbeats. The usual limit on requests would make 1,000 new nodes wait for a
    // minute.
    format!(
        "--kubeconfig={user} --authentication-kubeconfig={user} --authorization-kubeconfig={user} --bind-address=127.0.0.1 \
         {SERVER} --leader-elect=false --use-service-account-credentials=true --root-ca-file={{dir}}/pki/ca.crt \
         --service-account-private-key-file={{dir}}/pki/service-accounts.key \
         --node-monitor-grace-period=8760h --kube-api-qps=1000 --kube-api-burst=2000"
    )
}

fn scheduler() -> String {
    let user = "{dir}/etc/scheduler.kubeconfig";
    format!(
        "--config={{dir}}/etc/scheduler.yaml --authentication-kubeconfig={user} --authorization-kubeconfig={user} \
         --bind-address=127.0.0.1 {SERVER}"
    )
}

fn fake_kubelet(options: &ClusterOptions) -> String {
    let ClusterOptions { fake_nodes, gpus, .. } = options;
    format!("--kubeconfig={{dir}}/etc/fake-kubelet.kubeconfig --nodes={fake_nodes} --gpus={gpus}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_program_is_found_by_its_name_and_its_words_are_complete() {
        let cluster = KubernetesTestCluster::at(Path::new("/no/such/cluster")).unwrap();
        let gates = vec!["GenericWorkload".to_owned()];
        let options = ClusterOptions { gates, ..ClusterOptions::default() };
        for daemon in KubernetesDaemon::ALL {
            assert_eq!(KubernetesDaemon::named(daemon.program()).unwrap(), daemon);
            let words = daemon.words(&cluster, &options);
            assert_eq!(words[0], format!("/no/such/cluster/bin/{}", daemon.program()));
            assert!(!words.iter().any(|word| word.contains('{')), "{words:?}");
        }
        assert!(KubernetesDaemon::named("node1").is_err());
        let words = KubernetesDaemon::Scheduler.words(&cluster, &options);
        assert_eq!(words.last().unwrap(), "--feature-gates=GenericWorkload=true");
    }
}
