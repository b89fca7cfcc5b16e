//! The programs of a cluster: their command lines, and how each is started (detached from this process) and
//! stopped (by pid).

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::audit;
use super::cluster::{API_ADDRESS, API_PORT, KubernetesTestCluster};
use super::job_set;
use super::node::RealNode;
use super::node::programs::NodeProgram;
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
    /// DNS server of the pods of real nodes.
    CoreDns,
    /// Controller of JobSets, which is started by its name only.
    JobSet,
    Node(NodeProgram, RealNode),
}

impl KubernetesDaemon {
    /// Programs of the control plane in the order in which they start.
    pub const CONTROL_PLANE: [Self; 4] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// Returns all programs that `up` starts, in their order.
    pub fn all(options: &ClusterOptions) -> Vec<Self> {
        let mut all = Self::CONTROL_PLANE.to_vec();
        if options.are_nodes_real {
            all.push(Self::CoreDns);
            all.extend((1..=options.nodes).flat_map(|number| Self::of_node(RealNode { number })));
        } else {
            all.push(Self::FakeKubelet);
        }
        all
    }

    /// Returns the programs of a real node in the order in which they start.
    pub fn of_node(node: RealNode) -> [Self; 5] {
        NodeProgram::ALL.map(|program| Self::Node(program, node))
    }

    /// Finds a program by its name.
    pub fn named(name: &str, options: &ClusterOptions) -> Result<Self> {
        let mut all = Self::all(options).into_iter().chain([Self::JobSet]);
        let found = all.find(|daemon| daemon.name() == name);
        found.with_context(|| format!("{name}: not a program of the cluster"))
    }

    /// Returns its name on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Node(program, node) => format!("{}-{}", program.name(), node.name()),
            Self::Etcd
            | Self::ApiServer
            | Self::ControllerManager
            | Self::Scheduler
            | Self::FakeKubelet
            | Self::CoreDns
            | Self::JobSet => self.program().to_owned(),
        }
    }

    /// Returns the name of its file.
    fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::FakeKubelet => "fake-kubelet",
            Self::CoreDns => "coredns",
            Self::JobSet => job_set::PROGRAM,
            Self::Node(program, _) => program.program(),
        }
    }

    /// Returns its command line.
    pub fn words(self, cluster: &KubernetesTestCluster, options: &ClusterOptions) -> Vec<String> {
        let arguments = match self {
            Self::Etcd => etcd(),
            Self::ApiServer => api_server(options),
            Self::ControllerManager => controller_manager(options),
            Self::Scheduler => scheduler(),
            Self::FakeKubelet => fake_kubelet(options),
            Self::CoreDns => "-conf={dir}/etc/Corefile".to_owned(),
            Self::JobSet => {
                "--config={dir}/etc/jobset.yaml --kubeconfig={dir}/kubeconfig".to_owned()
            }
            Self::Node(program, node) => return program.words(cluster, node, options),
        };
        let mut words = vec![cluster.bin().join(self.program()).display().to_string()];
        words
            .extend(arguments.split_whitespace().map(|word| word.replace("{dir}", cluster.text())));
        let has_gates =
            !matches!(self, Self::Etcd | Self::FakeKubelet | Self::CoreDns | Self::JobSet);
        if has_gates {
            words.extend(options.feature_gates());
        }
        words
    }

    /// Returns its pid, while it runs; the pid file may be stale, so the program is verified.
    pub fn pid(self, cluster: &KubernetesTestCluster) -> Option<u32> {
        let namespace = match self {
            Self::Node(_, node) => node.namespace(cluster).inode()?,
            _ => cluster.namespace().inode()?,
        };
        let pid = process::read_pid(&cluster.pid_file(&self.name()))?;
        process::is(pid, namespace, self.program()).then_some(pid)
    }

    /// Returns a command prefix that enters its namespaces.
    pub fn prefix(self, cluster: &KubernetesTestCluster) -> Result<Command> {
        match self {
            Self::Node(NodeProgram::Namespaces, node) => Ok(node.namespace(cluster).prefix()),
            Self::Node(_, node) => {
                let holder = Self::Node(NodeProgram::Namespaces, node);
                let pid = holder.pid(cluster);
                let pid = pid.with_context(|| format!("{} is not running", node.name()))?;
                Ok(node.enter(pid))
            }
            _ => Ok(cluster.namespace().prefix()),
        }
    }

    /// Starts it, detached from this process.
    pub fn start(self, cluster: &KubernetesTestCluster) -> Result<()> {
        let name = self.name();
        if let Some(pid) = self.pid(cluster) {
            bail!("{name} is already running: pid {pid}");
        }
        let words = self.words(cluster, &cluster.options()?);
        let prefix = self.prefix(cluster)?;
        let pid_file = cluster.pid_file(&name);
        detached::start(prefix, &words, cluster.dir(), &pid_file, &cluster.log(&name))?;
        process::wait(&name, Duration::from_secs(10), || self.pid(cluster).is_some())
    }

    /// Sends the signal and waits for its end.
    pub fn end(self, cluster: &KubernetesTestCluster, signal: Signal) -> Result<()> {
        let name = self.name();
        let pid = self.pid(cluster).with_context(|| format!("{name} is not running"))?;
        process::signal(pid, signal)?;
        process::wait(&format!("the end of {name}"), STOP, || process::has_ended(pid))
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
    let audit = if options.audited.is_some() { audit::API_SERVER } else { "" };
    // No proxy exists; without its settings, the other programs cannot check who calls them.
    let proxy = "--requestheader-client-ca-file={dir}/pki/ca.crt --requestheader-allowed-names=front-proxy-client \
                 --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
                 --requestheader-extra-headers-prefix=X-Remote-Extra-";
    format!(
        "--etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address={API_ADDRESS} --secure-port={API_PORT} \
         --service-cluster-ip-range=10.96.0.0/24 {SERVER} --client-ca-file={{dir}}/pki/ca.crt {proxy} \
         --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
         --service-account-issuer=https://kubernetes.default.svc \
         --service-account-key-file={{dir}}/pki/service-accounts.pub \
         --service-account-signing-key-file={{dir}}/pki/service-accounts.key \
         --kubelet-client-certificate={{dir}}/pki/kubelet-client.crt --kubelet-client-key={{dir}}/pki/kubelet-client.key \
         --kubelet-preferred-address-types=InternalIP {apis} {audit}"
    )
}

fn controller_manager(options: &ClusterOptions) -> String {
    let user = "{dir}/etc/controller-manager.kubeconfig";
    // Fake nodes send no heartbeats.
    let grace = if options.are_nodes_real { "50s" } else { "8760h" };
    // The usual limit on requests would make 1,000 new nodes wait for a minute.
    format!(
        "--kubeconfig={user} --authentication-kubeconfig={user} --authorization-kubeconfig={user} --bind-address=127.0.0.1 \
         {SERVER} --leader-elect=false --use-service-account-credentials=true --root-ca-file={{dir}}/pki/ca.crt \
         --service-account-private-key-file={{dir}}/pki/service-accounts.key \
         --node-monitor-grace-period={grace} --kube-api-qps=1000 --kube-api-burst=2000"
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
    let ClusterOptions { nodes, gpus, .. } = options;
    format!("--kubeconfig={{dir}}/etc/fake-kubelet.kubeconfig --nodes={nodes} --gpus={gpus}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_program_is_found_by_its_name_and_its_words_are_complete() {
        let cluster = KubernetesTestCluster::at(Path::new("/no/such/cluster")).unwrap();
        let gates = vec!["GenericWorkload".to_owned()];
        let fake = ClusterOptions { gates, ..ClusterOptions::default() };
        let real = ClusterOptions { are_nodes_real: true, ..fake.clone() };
        for options in [&fake, &real] {
            for daemon in KubernetesDaemon::all(options) {
                assert_eq!(KubernetesDaemon::named(&daemon.name(), options).unwrap(), daemon);
                let words = daemon.words(&cluster, options);
                assert!(!words.iter().any(|word| word.contains("{dir}")), "{words:?}");
            }
        }
        assert_eq!(KubernetesDaemon::all(&fake).len(), 5);
        assert_eq!(KubernetesDaemon::all(&real).len(), 5 + NodeProgram::ALL.len() * 8);
        assert!(KubernetesDaemon::named("kubelet-node1", &fake).is_err());
        assert!(KubernetesDaemon::named("kubelet-node9", &real).is_err());
        let words = KubernetesDaemon::Scheduler.words(&cluster, &fake);
        assert_eq!(words[0], "/no/such/cluster/bin/kube-scheduler");
        assert_eq!(words.last().unwrap(), "--feature-gates=GenericWorkload=true");
    }
}
