//! The folders and configuration of a node. The texts are in `conf/`; only values that depend on the cluster
//! and the node are set here.

use std::fs;

use anyhow::{Context, Result};

use super::super::cluster::KubernetesTestCluster;
use super::super::dns;
use super::RealNode;

const FILES: [(&str, &str); 3] = [
    ("containerd.toml", include_str!("../conf/containerd.toml")),
    ("kubelet.yaml", include_str!("../conf/kubelet.yaml")),
    ("cni/pods.conflist", include_str!("../conf/cni.conflist")),
];

/// Folders of a node; `conf/node.sh` mounts some of them over those of the machine.
const FOLDERS: [&str; 9] =
    ["root", "state", "opt", "cni", "kubelet", "run", "netns", "containers", "pods"];

/// Writes the files of a node.
pub fn write(cluster: &KubernetesTestCluster, node: RealNode) -> Result<()> {
    let dir = node.dir(cluster);
    for name in FOLDERS {
        let folder = dir.join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    for (name, text) in FILES {
        fs::write(dir.join(name), fill(text, cluster, node))?;
    }
    Ok(())
}

fn fill(text: &str, cluster: &KubernetesTestCluster, node: RealNode) -> String {
    text.replace("{dir}", &node.dir(cluster).to_string_lossy())
        .replace("{ca}", &format!("{}/pki/ca.crt", cluster.text()))
        .replace("{cgroup}", &node.cgroup(cluster))
        .replace("{subnet}", &node.subnet())
        .replace("{dns}", dns::ADDRESS)
        .replace("{domain}", dns::DOMAIN)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_name_in_braces_is_filled_in() {
        let cluster = KubernetesTestCluster::at(Path::new("/no/such/cluster")).unwrap();
        for (name, text) in FILES {
            let filled = fill(text, &cluster, RealNode { number: 3 });
            for place in ["{dir}", "{ca}", "{cgroup}", "{subnet}", "{dns}", "{domain}"] {
                assert!(!filled.contains(place), "{name}: {filled}");
            }
            assert!(filled.contains("/no/such/cluster/node3"), "{name}: {filled}");
        }
    }
}
