//! A cluster from files that somebody else wrote: they are taken as they are, but for what cannot
//! be so on one machine without GPUs, which stands in `conf/given-*.conf`. It knows nothing of who
//! wrote them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::daemon::NODES;
use super::site::Site;
use super::{command, conf};

/// Files of a folder with what is replaced in them.
pub const OVERRIDES: [(&str, &str); 3] = [
    ("slurm.conf", include_str!("conf/given-slurm.conf")),
    ("slurmdbd.conf", include_str!("conf/given-slurmdbd.conf")),
    ("cgroup.conf", include_str!("conf/given-cgroup.conf")),
];
/// Commands of sacctmgr, run before the controller starts and once more when accounting knows of
/// GPUs.
const ACCOUNTS: &str = "accounts.sh";
/// How that script ends while accounting does not know of GPUs yet.
pub const UNFINISHED: i32 = 3;
/// The port of a node is this and its number.
const PORTS: u32 = 17_000;
/// Where files look for devices; a cluster's own stand-ins lie elsewhere.
const DEVICES: &str = "/dev/nvidia";

/// Writes the files of a folder in place of our own; answers how many nodes they have.
pub fn write(folder: &Path, site: &Site, constrained: bool) -> Result<u8> {
    let etc = site.dir().join("etc");
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let mut nodes = 0;
    for (name, overrides) in OVERRIDES {
        let mut text = replaced(&read(name)?, &conf::fill(overrides, site, constrained));
        if name == "slurm.conf" {
            (text, nodes) = with_ports(&text)?;
        }
        // Over what lies there, which keeps its permissions: slurmdbd insists on its own.
        fs::write(etc.join(name), text)?;
    }
    let devices = format!("{}{DEVICES}", site.text());
    fs::write(etc.join("gres.conf"), read("gres.conf")?.replace(DEVICES, &devices))?;
    let topology = etc.join("topology.conf");
    match folder.join("topology.conf").exists() {
        true => fs::write(topology, read("topology.conf")?)?,
        false => fs::remove_file(topology)?,
    }
    fs::write(etc.join(ACCOUNTS), read(ACCOUNTS)?)?;
    Ok(nodes)
}

/// Runs the commands of sacctmgr; they must end so.
pub fn accounts(site: &Site, code: i32) -> Result<()> {
    let script = site.dir().join("etc").join(ACCOUNTS);
    let output =
        site.inside().args(["timeout", "--kill-after=2", "120", "sh"]).arg(&script).output()?;
    if output.status.code() != Some(code) {
        let said = [output.stdout, output.stderr].concat();
        bail!(
            "{}: {}, not {code}\n{}",
            script.display(),
            output.status,
            String::from_utf8_lossy(&said)
        );
    }
    // What the controller was told of accounts it knows from then on.
    command::inside(site, &["sacctmgr", "-nP", "show", "cluster"]).map(drop)
}

/// A text without the settings that another has, and those below it.
fn replaced(text: &str, overrides: &str) -> String {
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_ascii_lowercase());
    let settings = overrides.lines().filter(|line| !line.starts_with('#'));
    let keys: Vec<String> = settings.filter_map(key).collect();
    let kept = text.lines().filter(|line| key(line).is_none_or(|key| !keys.contains(&key)));
    kept.chain(overrides.lines()).map(|line| format!("{line}\n")).collect()
}

/// Each node gets an address of this machine, and a port by its number: `node[1-4]` has
/// `[17001-17004]`.
fn with_ports(text: &str) -> Result<(String, u8)> {
    let mut written = String::new();
    let mut numbers = Vec::new();
    for line in text.lines() {
        written.push_str(line);
        if let Some(rest) = line.strip_prefix("NodeName=") {
            let list = rest.split_whitespace().next().unwrap_or_default();
            let wrong =
                || format!("{list}: nodes are named node1, node2, ... here, up to node{NODES}");
            let list = list.strip_prefix("node").with_context(wrong)?;
            let list =
                list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(list);
            let mut ports = Vec::new();
            for range in list.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last): (u8, u8) =
                    (first.parse().with_context(wrong)?, last.parse().with_context(wrong)?);
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
        bail!("nodes {numbers:?}: there must be node1 to node{NODES}, or fewer, without a gap");
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
