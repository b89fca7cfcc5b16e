//! The images of real nodes, made by hand: of the machine's busybox, one to run programs in and the one
//! that holds a pod's namespaces, and any program with its libraries. No registry is needed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::super::cluster::KubernetesTestCluster;
use crate::test_cluster::command;
use crate::tools;

/// Number of programs of which `ldd` is asked at once.
const AT_ONCE: usize = 200;

/// Image of a node. With a tag other than `latest` in its name, kubelet does not try to pull it.
pub struct NodeImage<'a> {
    pub name: &'a str,
    pub entrypoint: &'a [&'a str],
    /// Folders of its programs, as `PATH` has them.
    pub path: &'a str,
}

const PATH: &str = "/bin:/usr/bin:/usr/local/bin";

/// Images that every node has.
const IMAGES: [NodeImage<'_>; 2] = [
    NodeImage { name: "localhost/busybox:1", entrypoint: &["/bin/sh"], path: PATH },
    NodeImage { name: "localhost/pause:1", entrypoint: &["/bin/sleep", "2147483647"], path: PATH },
];

/// Returns the path of the archive of all images.
pub fn archive(cluster: &KubernetesTestCluster) -> PathBuf {
    cluster.dir().join("images/images.tar")
}

/// Writes the archive of the images that every node has.
pub fn write(cluster: &KubernetesTestCluster) -> Result<()> {
    let folder = cluster.dir().join("images");
    write_root(&folder.join("root"))?;
    write_archive(&folder, &archive(cluster), &IMAGES, &[])
}

/// Writes the archive of an image of a program: busybox, the program at `/usr/local/bin`, a folder of the
/// machine that it needs, and all their libraries. Returns the path of the archive.
pub fn write_of_program(
    cluster: &KubernetesTestCluster,
    name: &str,
    program: &Path,
    with: Option<&Path>,
) -> Result<PathBuf> {
    let folder = cluster.dir().join("images/program");
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&folder)?;
    }
    write_root(&root)?;
    let file =
        program.file_name().and_then(|name| name.to_str()).context("a program has a name")?;
    let target = root.join("usr/local/bin").join(file);
    fs::create_dir_all(root.join("usr/local/bin"))?;
    command::outside(&["strip", "-o", &text(&target)?, &text(program)?])?;
    let mut programs = vec![program.to_owned()];
    if let Some(folder) = with {
        add_programs(folder, &mut programs)?;
    }
    copy_libraries(&programs, &root)?;
    let archive = folder.join("image.tar");
    write_archive(
        &folder,
        &archive,
        &[NodeImage { name, entrypoint: &["/bin/sh"], path: PATH }],
        with.map(Path::to_owned).as_slice(),
    )?;
    Ok(archive)
}

/// Adds the programs and libraries in a folder.
pub fn add_programs(folder: &Path, programs: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add_programs(&entry.path(), programs)?;
        } else if kind.is_file() && is_elf(&entry.path()) {
            programs.push(entry.path());
        }
    }
    Ok(())
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF"
}

/// Copies the libraries of programs, or of other libraries, from the machine to the root of an image.
pub fn copy_libraries(programs: &[PathBuf], root: &Path) -> Result<()> {
    let mut paths = BTreeSet::new();
    for some in programs.chunks(AT_ONCE) {
        // It fails if one of them has no libraries.
        let output = Command::new("ldd").args(some).output().context("ldd did not start")?;
        // A library is printed as `NAME => PATH (ADDRESS)`, and the loader as `PATH (ADDRESS)`.
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let path = line.split_once("=>").map_or(line, |(_, path)| path);
            let is_library = line.trim_end().ends_with(')');
            let path = path.split_whitespace().next().filter(|_| is_library);
            paths.extend(path.and_then(|path| path.strip_prefix('/')).map(str::to_owned));
        }
    }
    for path in paths {
        let copy = root.join(&path);
        fs::create_dir_all(copy.parent().context("a library is in a folder")?)?;
        fs::copy(Path::new("/").join(&path), copy)?;
    }
    Ok(())
}

/// Writes an archive of images with the files of `folder/root`, and these folders of the machine at their own paths, in the
/// format of `docker save`.
pub fn write_archive(
    folder: &Path,
    archive: &Path,
    images: &[NodeImage<'_>],
    of_machine: &[PathBuf],
) -> Result<()> {
    let layer = text(&folder.join("layer.tar"))?;
    let root = text(&folder.join("root"))?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--numeric-owner", "--file", &layer, "-C", &root, "."]);
    for path in of_machine {
        let path = path.strip_prefix("/").context("a folder of the machine is an absolute path")?;
        tar.args(["-C", "/"]).arg(path);
    }
    tools::succeed(&mut tar)?;
    let sum = command::outside(&["sha256sum", &layer])?;
    let digest = sum.split_whitespace().next().context("sha256sum printed nothing")?;
    let mut manifest = Vec::new();
    let mut members = vec!["manifest.json".to_owned(), "layer.tar".to_owned()];
    for (number, NodeImage { name, entrypoint, path }) in images.iter().enumerate() {
        let config = format!("config{number}.json");
        let text = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": [format!("PATH={path}")]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        fs::write(folder.join(&config), text.to_string())?;
        manifest.push(json!({"Config": config, "RepoTags": [name], "Layers": ["layer.tar"]}));
        members.push(config);
    }
    fs::write(folder.join("manifest.json"), json!(manifest).to_string())?;
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(archive).arg("-C").arg(folder);
    tools::succeed(tar.args(members))
}

/// Writes the files that all images have: busybox, a link to it for each of its commands, and empty folders.
pub fn write_root(root: &Path) -> Result<()> {
    for name in ["bin", "dev", "etc", "proc", "sys", "tmp"] {
        fs::create_dir_all(root.join(name))?;
    }
    let busybox = command::outside(&["sh", "-c", "command -v busybox"])?;
    fs::copy(busybox.trim(), root.join("bin/busybox"))?;
    for name in command::outside(&["busybox", "--list"])?.lines() {
        if name != "busybox" {
            symlink("busybox", root.join("bin").join(name))?;
        }
    }
    Ok(())
}

/// Returns this machine's architecture under the name that images use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).context("the folder's name is UTF-8")
}
