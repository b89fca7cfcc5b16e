//! The programs of a real node and their command lines.

use super::super::cluster::KubernetesTestCluster;
use super::super::options::ClusterOptions;
use super::RealNode;

/// A long-running program of a real node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeProgram {
    /// Holds the node's namespaces while the other programs come and go.
    Namespaces,
    Containerd,
    Kubelet,
    /// Device plugin of GPUs that do not exist.
    FakeGpus,
    /// Driver of GPUs that do not exist, for pods that claim theirs.
    FakeDriver,
}

/// Number of devices of the driver.
const CLAIMED_GPUS: u32 = 4;

/// Script that creates and holds the namespaces of a node.
const NAMESPACES: &str = include_str!("../conf/node.sh");

impl NodeProgram {
    /// All programs in the order in which they start.
    pub const ALL: [Self; 5] =
        [Self::Namespaces, Self::Containerd, Self::Kubelet, Self::FakeGpus, Self::FakeDriver];

    /// Returns the start of its name; the node's name follows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Containerd | Self::Kubelet | Self::FakeGpus | Self::FakeDriver => self.program(),
        }
    }

    /// Returns the name of its file, once it has started.
    pub fn program(self) -> &'static str {
        match self {
            Self::Namespaces => "sleep",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::FakeGpus => "fake-gpus",
            Self::FakeDriver => "fake-driver",
        }
    }

    /// Returns its command line, to be run in the node's namespaces.
    pub fn words(
        self,
        cluster: &KubernetesTestCluster,
        node: RealNode,
        options: &ClusterOptions,
    ) -> Vec<String> {
        let dir = node.dir(cluster).display().to_string();
        let bin = cluster.bin().join(self.program()).display().to_string();
        match self {
            Self::Namespaces => {
                let unshare = ["unshare", "--mount", "--uts", "--propagation=private"];
                let script = ["sh", "-c", NAMESPACES, "sh", &dir, &node.name()];
                unshare.iter().chain(&script).map(|word| (*word).to_owned()).collect()
            }
            Self::Containerd => {
                vec!["containerd".into(), format!("--config={dir}/containerd.toml")]
            }
            Self::Kubelet => kubelet(bin, cluster, node, options),
            Self::FakeGpus => vec![bin, format!("--count={}", options.gpus)],
            Self::FakeDriver => {
                let name = node.name();
                let kubeconfig = format!("--kubeconfig={}/etc/{name}.kubeconfig", cluster.text());
                vec![bin, format!("--count={CLAIMED_GPUS}"), format!("--node={name}"), kubeconfig]
            }
        }
    }
}

fn kubelet(
    bin: String,
    cluster: &KubernetesTestCluster,
    node: RealNode,
    options: &ClusterOptions,
) -> Vec<String> {
    let name = node.name();
    let mut words = vec![
        bin,
        format!("--config={}/kubelet.yaml", node.dir(cluster).display()),
        format!("--kubeconfig={}/etc/{name}.kubeconfig", cluster.text()),
        "--root-dir=/var/lib/kubelet".into(),
        format!("--hostname-override={name}"),
        format!("--node-ip={}", node.address()),
        format!("--node-labels={}", labels(node, options)),
    ];
    words.extend(options.feature_gates());
    words
}

/// Returns the labels that a fake node of this number has, too.
fn labels(node: RealNode, options: &ClusterOptions) -> String {
    let leaf = (node.number - 1) / 4;
    let mut labels = format!(
        "network.topology.nvidia.com/leaf=leaf{},network.topology.nvidia.com/spine=spine{}",
        leaf + 1,
        leaf / 8 + 1
    );
    if options.gpus > 0 {
        let gpu = "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3,nvidia.com/gpu.memory=81559";
        labels += &format!(",{gpu},nvidia.com/gpu.count={}", options.gpus);
    }
    labels
}
