//! The images of real nodes, made by hand: of the machine's busybox, one to run programs in and the one
//! that holds a pod's namespaces, and any program with its libraries. No registry is needed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::super::cluster::KubernetesTestCluster;
use crate::test_cluster::command;

/// Name and entrypoint of each image. With a tag other than `latest`, kubelet does not try to pull it.
const IMAGES: [(&str, &[&str]); 2] =
    [("localhost/busybox:1", &["/bin/sh"]), ("localhost/pause:1", &["/bin/sleep", "2147483647"])];

/// Returns the path of the archive of all images.
pub fn archive(cluster: &KubernetesTestCluster) -> PathBuf {
    cluster.dir().join("images/images.tar")
}

/// Writes the archive of the images that every node has.
pub fn write(cluster: &KubernetesTestCluster) -> Result<()> {
    let folder = cluster.dir().join("images");
    write_root(&folder.join("root"))?;
    write_archive(&folder, &archive(cluster), &IMAGES)
}

/// Writes the archive of an image of a program: busybox, the program at `/usr/local/bin`, and its
/// libraries. Returns the path of the archive.
pub fn write_of_program(
    cluster: &KubernetesTestCluster,
    name: &str,
    program: &Path,
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
    // A library is printed as `NAME => PATH (ADDRESS)`, and the loader as `PATH (ADDRESS)`.
    for line in command::outside(&["ldd", &text(program)?])?.lines() {
        let library =
            line.split_once("=>").map_or(line, |(_, path)| path).split_whitespace().next();
        let Some(library) = library.and_then(|path| path.strip_prefix('/')) else { continue };
        let copy = root.join(library);
        fs::create_dir_all(copy.parent().context("a library is in a folder")?)?;
        fs::copy(Path::new("/").join(library), copy)?;
    }
    let archive = folder.join("image.tar");
    write_archive(&folder, &archive, &[(name, &["/bin/sh"])])?;
    Ok(archive)
}

/// Writes an archive of images with the files of `folder/root`, in the format of `docker save`.
fn write_archive(folder: &Path, archive: &Path, images: &[(&str, &[&str])]) -> Result<()> {
    let layer = text(&folder.join("layer.tar"))?;
    let root = text(&folder.join("root"))?;
    command::outside(&["tar", "--create", "--numeric-owner", "--file", &layer, "-C", &root, "."])?;
    let sum = command::outside(&["sha256sum", &layer])?;
    let digest = sum.split_whitespace().next().context("sha256sum printed nothing")?;
    let mut manifest = Vec::new();
    let mut members = vec!["manifest.json".to_owned(), "layer.tar".to_owned()];
    for (number, (name, entrypoint)) in images.iter().enumerate() {
        let config = format!("config{number}.json");
        let text = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin:/usr/bin:/usr/local/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        fs::write(folder.join(&config), text.to_string())?;
        manifest.push(json!({"Config": config, "RepoTags": [name], "Layers": ["layer.tar"]}));
        members.push(config);
    }
    fs::write(folder.join("manifest.json"), json!(manifest).to_string())?;
    let words = ["tar", "--create", "--file", &text(archive)?, "-C", &text(folder)?];
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    command::outside(&[&words[..], &members].concat()).map(drop)
}

/// Writes the files that all images have: busybox, a link to it for each of its commands, and empty folders.
fn write_root(root: &Path) -> Result<()> {
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
