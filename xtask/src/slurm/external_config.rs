//! A cluster from external configuration files: they are used unchanged, except for settings that
//! cannot work on one machine without GPUs, which `conf/external-*.conf` replaces.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::cluster::{NODES, SlurmTestCluster};
use super::{command, conf};

/// Files of the folder, each with the settings that replace its own.
pub const OVERRIDES: [(&str, &str); 3] = [
    ("slurm.conf", include_str!("conf/external-slurm.conf")),
    ("slurmdbd.conf", include_str!("conf/external-slurmdbd.conf")),
    ("cgroup.conf", include_str!("conf/external-cgroup.conf")),
];
/// Script of sacctmgr commands, run before the controller starts and again once accounting has
/// registered GPUs.
const ACCOUNTS: &str = "accounts.sh";
/// Exit code of that script while accounting has not registered GPUs.
pub const UNFINISHED: i32 = 3;
/// Base of the nodes' ports; the number of the node is added.
const PORTS: u32 = 17_000;
/// Prefix of device files in configurations; the test cluster's device files are elsewhere.
const DEVICES: &str = "/dev/nvidia";

/// Writes the files of a folder in place of the default ones; returns the number of nodes.
pub fn write(folder: &Path, cluster: &SlurmTestCluster, constrained: bool) -> Result<u8> {
    let etc = cluster.dir().join("etc");
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let mut nodes = 0;
    for (name, overrides) in OVERRIDES {
        let mut text = replaced(&read(name)?, &conf::fill(overrides, cluster, constrained));
        if name == "slurm.conf" {
            (text, nodes) = with_ports(&text)?;
        }
        // Overwrites the file, which keeps its permissions: slurmdbd requires strict ones.
        fs::write(etc.join(name), text)?;
    }
    let devices = format!("{}{DEVICES}", cluster.text());
    fs::write(etc.join("gres.conf"), read("gres.conf")?.replace(DEVICES, &devices))?;
    let topology = etc.join("topology.conf");
    if folder.join("topology.conf").exists() {
        fs::write(topology, read("topology.conf")?)?;
    } else {
        fs::remove_file(topology)?;
    }
    fs::write(etc.join(ACCOUNTS), read(ACCOUNTS)?)?;
    Ok(nodes)
}

/// Runs the sacctmgr script; fails when its exit code is not `code`.
pub fn accounts(cluster: &SlurmTestCluster, code: i32) -> Result<()> {
    let script = cluster.dir().join("etc").join(ACCOUNTS);
    let output =
        cluster.inside().args(["timeout", "--kill-after=2", "120", "sh"]).arg(&script).output()?;
    if output.status.code() != Some(code) {
        let text = [output.stdout, output.stderr].concat();
        bail!(
            "{}: {}, not {code}\n{}",
            script.display(),
            output.status,
            String::from_utf8_lossy(&text)
        );
    }
    // When slurmdbd answers, the controller has received the changes.
    command::inside(cluster, &["sacctmgr", "-nP", "show", "cluster"]).map(drop)
}

/// Returns a text without the settings that `overrides` has, followed by `overrides`.
fn replaced(text: &str, overrides: &str) -> String {
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_ascii_lowercase());
    let settings = overrides.lines().filter(|line| !line.starts_with('#'));
    let keys: Vec<String> = settings.filter_map(key).collect();
    let kept = text.lines().filter(|line| key(line).is_none_or(|key| !keys.contains(&key)));
    kept.chain(overrides.lines()).map(|line| format!("{line}\n")).collect()
}

/// Adds an address of this machine and a port to each node: `node[1-4]` gets `[17001-17004]`.
/// Returns the text and the number of nodes.
fn with_ports(text: &str) -> Result<(String, u8)> {
    let mut written = String::new();
    let mut numbers = Vec::new();
    for line in text.lines() {
        written.push_str(line);
        if let Some(rest) = line.strip_prefix("NodeName=") {
            let list = rest.split_whitespace().next().unwrap_or_default();
            let wrong =
                || format!("{list}: nodes must be named node1, node2, ..., up to node{NODES}");
            let list = list.strip_prefix("node").with_context(wrong)?;
            let list =
                list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(list);
            let mut ports = Vec::new();
            for range in list.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let first: u8 = first.parse().with_context(wrong)?;
                let last: u8 = last.parse().with_context(wrong)?;
                numbers.extend(first..=last);
                ports.push(format!("{}-{}", PORTS + u32::from(first), PORTS + u32::from(last)));
            }
            written.push_str(&format!(
                " NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{}]",
                ports.join(",")
            ));
        }
        written.push('\n');
    }
    numbers.sort_unstable();
    let count = u8::try_from(numbers.len()).unwrap_or(u8::MAX);
    if count == 0 || count > NODES || numbers != (1..=count).collect::<Vec<u8>>() {
        bail!("nodes {numbers:?}: expected node1 up to at most node{NODES}, without a gap");
    }
    Ok((written, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_replaced_and_nodes_have_ports() {
        assert_eq!(replaced("A=1\n#B=2\nb =3\n", "# why\nB=4\n"), "A=1\n#B=2\n# why\nB=4\n");
        let (text, nodes) =
            with_ports("X=1\nNodeName=node[1-2,4] CPUs=4\nNodeName=node3 CPUs=2\n").unwrap();
        assert_eq!(nodes, 4);
        assert!(text.contains("NodeName=node[1-2,4] CPUs=4 NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17001-17002,17004-17004]\n"));
        assert!(text.contains(
            "NodeName=node3 CPUs=2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17003-17003]\n"
        ));
        for wrong in [
            "",
            "NodeName=node[2-3]\n",
            "NodeName=gpu1\n",
            "NodeName=node[1-9]\n",
            "NodeName=node[1-300]\n",
        ] {
            assert!(with_ports(wrong).is_err(), "{wrong}");
        }
    }
}
