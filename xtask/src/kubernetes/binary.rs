//! Builds the binary with all programs of a cluster from `xtask/kubernetes/`, a Go module of its own, and
//! keeps it in a folder that is named after the hash of all that it is made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use super::{job_set, webhooks};
use crate::test_cluster::folder::fnv;

/// Names of the binary; it looks at its own name. Links that are not symbolic, so that the kernel shows
/// the name as that of the running program.
const PROGRAMS: [&str; 11] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
    "certificates",
    "coredns",
    "fake-kubelet",
    "fake-gpus",
    "fake-driver",
];

/// Name of the binary itself.
const NAME: &str = "kubernetes";

/// Arguments of `go build`. One compiler at a time (`-p 1`) leaves the other processors to the tests.
pub const FLAGS: [&str; 4] = ["build", "-trimpath", "-p", "1"];

/// Variables into which Kubernetes' own build writes its version.
const VERSIONED: [&str; 2] = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

/// Module whose version is that of the cluster.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// Parts of messages that say that a module could not be downloaded.
const UNREACHABLE: [&str; 7] = [
    "dial tcp",
    "no such host",
    "connection refused",
    "i/o timeout",
    "module lookup disabled",
    "403 Forbidden",
    "toolchain not available",
];

/// Returns the folder of the programs; builds them if this source has not been built yet.
pub fn ensure(root: &Path) -> Result<PathBuf> {
    let source = source(root);
    let folder = folder(root)?;
    if folder.exists() {
        return Ok(folder);
    }
    println!("building Kubernetes: minutes, the first time some 950 s of CPU");
    fill(&folder, |unfinished| {
        let binary = unfinished.join(NAME);
        let mut command = go_build();
        command.arg("-ldflags").arg(link_flags(&source)?);
        command.arg("-o").arg(&binary).arg(".").current_dir(&source);
        succeed(&mut command)?;
        for program in PROGRAMS {
            fs::hard_link(&binary, unfinished.join(program))?;
        }
        build_job_set(&source, unfinished)
    })?;
    Ok(folder)
}

/// Builds the controller of JobSets into the folder of `kubectl`, unchanged, and writes its objects beside it.
fn build_job_set(source: &Path, folder: &Path) -> Result<()> {
    let mut command = go_build();
    command.args(["-ldflags", "-s -w", "-o"]).arg(folder.join(job_set::PROGRAM));
    succeed(command.arg(job_set::MODULE).current_dir(source))?;
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f={{.Dir}}", job_set::MODULE]).current_dir(source);
    let module = succeed(&mut list)?;
    let [definition, webhooks] = job_set::SOURCES.map(|path| Path::new(module.trim()).join(path));
    let definition = fs::read_to_string(definition)?;
    let manifests = succeed(Command::new(folder.join("kubectl")).arg("kustomize").arg(webhooks))?;
    webhooks::check(&manifests)?;
    let objects = job_set::objects_of(&definition, &manifests);
    fs::write(folder.join(job_set::OBJECTS), objects).context("cannot write the objects")
}

/// Runs a program; returns its output, or an error that contains what it reports.
pub(super) fn succeed(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the start of a build's command line.
pub fn go_build() -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10", "go"]).args(FLAGS).env("CGO_ENABLED", "0");
    command
}

/// Builds into a temporary folder, which gets its name at the end: a named folder is complete.
pub fn fill(folder: &Path, build: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let parent = folder.parent().context("the folder is in target")?;
    fs::create_dir_all(parent)?;
    let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(parent)?;
    build(unfinished.path())?;
    // Another process may have finished the same build first.
    if let Err(error) = fs::rename(unfinished.path(), folder)
        && !folder.exists()
    {
        return Err(error).context("cannot name the folder of the built programs");
    }
    Ok(())
}

/// Returns the reason for which the binary cannot be built here, if there is one: Go or modules are
/// missing.
pub fn obstacle(root: &Path) -> Option<String> {
    match folder(root) {
        Err(error) => return Some(format!("{error:#}\nhint: https://go.dev/dl")),
        Ok(folder) if folder.exists() => return None,
        Ok(_) => {}
    }
    // Downloads what the build needs. Any other failure is the build's to report.
    let mut list = Command::new("go");
    list.args(["list", "-deps", "."]).current_dir(source(root)).env("CGO_ENABLED", "0");
    let output = output(&mut list).ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_unreachable = |line: &&str| UNREACHABLE.iter().any(|part| line.contains(part));
    let reason = text.lines().find(is_unreachable).filter(|_| !output.status.success());
    reason.map(|line| format!("Go modules cannot be downloaded: {}", line.trim()))
}

fn source(root: &Path) -> PathBuf {
    root.join("xtask/kubernetes")
}

/// Returns the folder of the programs, which exists if they have been built; fails without a suitable Go.
fn folder(root: &Path) -> Result<PathBuf> {
    let source = source(root);
    let mut hashed =
        format!("{FLAGS:?}{:?}{}", job_set::SOURCES, link_flags(&source)?).into_bytes();
    hashed.extend(go_version(&source)?);
    for file in files(&source)? {
        hashed.extend(file.strip_prefix(&source)?.as_os_str().as_encoded_bytes());
        hashed.extend(fs::read(&file)?);
    }
    Ok(super::target(root).join("kubernetes-bin").join(format!("{:016x}", fnv(&hashed))))
}

/// Returns the version of Go that builds in a folder; fails without a suitable one.
pub fn go_version(source: &Path) -> Result<Vec<u8>> {
    let go = output(Command::new("go").args(["env", "GOVERSION"]).current_dir(source))
        .context("Go is required")?;
    if !go.status.success() {
        bail!("Go cannot be used: {}", String::from_utf8_lossy(&go.stderr).trim());
    }
    Ok(go.stdout)
}

/// Returns all files of the module, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the flags of the linker: no symbols, and the version of Kubernetes as go.mod names it.
fn link_flags(source: &Path) -> Result<String> {
    let modules = fs::read_to_string(source.join("go.mod"))?;
    let version = modules.lines().find_map(|line| line.trim().strip_prefix(KUBERNETES));
    let version = version.with_context(|| format!("go.mod does not require {KUBERNETES}"))?.trim();
    let settings = VERSIONED.map(|package| format!("-X {package}.gitVersion={version}"));
    Ok(format!("-s -w {}", settings.join(" ")))
}

/// Runs a program without input; fails if it does not start.
pub fn output(command: &mut Command) -> Result<Output> {
    let line = format!("{command:?}");
    command.stdin(Stdio::null()).output().with_context(|| format!("{line} did not start"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_writes_the_version_of_go_mod() {
        let flags = link_flags(&source(&crate::root())).unwrap();
        assert!(flags.contains("k8s.io/client-go/pkg/version.gitVersion=v1."), "{flags}");
    }

    #[test]
    fn every_program_is_known_to_the_binary() {
        let main = fs::read_to_string(source(&crate::root()).join("main.go")).unwrap();
        for program in PROGRAMS {
            assert!(main.contains(&format!("case \"{program}\":")), "{program}");
        }
        assert_eq!(main.matches("case \"").count(), PROGRAMS.len());
    }
}
