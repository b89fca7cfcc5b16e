//! Programs in an image, by Apptainer, Podman or enroot: the words of the command that runs one.
//!
//! All run as the user, as a child of the task and in its control groups: a daemon that owned the container
//! would take it out of them. Apptainer comes first, because it was made for batch jobs: it is the usual one on
//! clusters, needs no `/etc/subuid`, and passes environment, groups and signals through. enroot comes last, because it runs
//! files only.

use std::path::{Path, PathBuf};

use muster_model::TaskEnvironment;
use muster_model::payload::TaskCommand;

use super::enroot::{self, EnrootTask};
use super::{EnvironmentError, Variables, absolute, find_program};
use crate::env::{CHECKPOINT_VARIABLE, REPORT_VARIABLE};

/// Variables that describe this machine rather than the job: the image has its own.
const OF_THE_MACHINE: [&str; 16] = [
    "PATH",
    "HOME",
    "SHELL",
    "HOSTNAME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
];
/// Folders in which the NVIDIA Container Toolkit keeps its description of the GPUs for containers (CDI).
const CDI_FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Program that runs images.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ImageRuntime {
    Apptainer(PathBuf),
    Podman(PathBuf),
    Enroot(PathBuf),
}

/// Devices of a task, by the variables that name them.
struct GpuAccess<'a> {
    nvidia: Vec<&'a str>,
    has_amd: bool,
}

/// Returns the command that runs another one in the image of an environment; with `has_terminal`, on the terminal
/// of this process.
///
/// # Errors
/// The runtime, the image or a source of a mount is missing, or the runtime cannot run such an image.
pub fn wrap(
    environment: &TaskEnvironment,
    image: &str,
    command: &TaskCommand,
    env: &Variables,
    workdir: &Path,
    has_terminal: bool,
) -> Result<Vec<String>, EnvironmentError> {
    let runtime = runtime(env)?;
    let mut mounts = vec![workdir.display().to_string()];
    // Pipes to the supervisor; not their folder, which has those of other tasks.
    let pipes = [CHECKPOINT_VARIABLE, REPORT_VARIABLE].into_iter().filter_map(|name| env.get(name));
    mounts.extend(pipes.cloned());
    let mut mounts: Vec<String> = mounts.iter().map(|path| format!("{path}:{path}")).collect();
    for mount in &environment.mounts {
        mounts.push(checked_mount(mount, env, workdir)?);
    }
    let image = if is_file(image) {
        existing(image, &absolute(image, env, workdir), &runtime)?
    } else if matches!(runtime, ImageRuntime::Enroot(_)) {
        return Err(EnvironmentError::new(
            format!(
                "enroot cannot run {image}: it runs files, and Apptainer and Podman are not in PATH"
            ),
            format!(
                "make a file of it (`enroot import -o image.sqsh docker://{image}`), and write `image: ./image.sqsh`"
            ),
        ));
    } else {
        image.to_owned()
    };
    let inside = inside(command)?;
    let gpus = GpuAccess::of(env);
    let mut words = match &runtime {
        ImageRuntime::Apptainer(program) => apptainer(program, &gpus, &mounts, workdir, &image),
        ImageRuntime::Podman(program) => {
            let mut words = podman(program, &gpus, &mounts, env)?;
            if has_terminal {
                words.extend(["--interactive", "--tty"].map(str::to_owned));
            }
            words.push(format!("--workdir={}", workdir.display()));
            words.extend(is_file(&image).then(|| "--rootfs".to_owned()));
            words.push(image);
            words
        }
        ImageRuntime::Enroot(program) => {
            let has_nvidia = !gpus.nvidia.is_empty();
            let passed = passed(env).collect();
            let task = EnrootTask { mounts: &mounts, env, passed, has_nvidia, workdir };
            return enroot::command(program, &image, &task, inside);
        }
    };
    words.extend(inside);
    Ok(words)
}

fn runtime(env: &Variables) -> Result<ImageRuntime, EnvironmentError> {
    let apptainer = ["apptainer", "singularity"].iter().find_map(|name| find_program(name, env));
    let podman = || find_program("podman", env).map(ImageRuntime::Podman);
    let enroot = || find_program("enroot", env).map(ImageRuntime::Enroot);
    apptainer.map(ImageRuntime::Apptainer).or_else(podman).or_else(enroot).ok_or_else(|| {
        EnvironmentError::new(
            "`image` needs Apptainer, Podman or enroot, and none is in PATH on this machine",
            "install one (`apt install podman`), or remove `image`; containers of the Docker daemon would escape the job's limits",
        )
    })
}

fn is_file(image: &str) -> bool {
    image.starts_with(['/', '.', '~'])
}

fn existing(
    written: &str,
    path: &Path,
    runtime: &ImageRuntime,
) -> Result<String, EnvironmentError> {
    let is_directory = path.is_dir();
    if !path.exists() {
        return Err(EnvironmentError::new(
            format!("there is no image {}", path.display()),
            "a relative path starts at the working directory; an image of a registry does not start with `.` or `/`",
        ));
    }
    if matches!(runtime, ImageRuntime::Podman(_)) && !is_directory {
        return Err(EnvironmentError::new(
            format!("Podman cannot run the file {written}, and Apptainer is not in PATH"),
            "load it into Podman (`podman load -i FILE` or `podman import FILE NAME`) and write its name",
        ));
    }
    if matches!(runtime, ImageRuntime::Enroot(_)) && is_directory {
        return Err(EnvironmentError::new(
            format!("enroot cannot run the directory {written}: it runs files of squashfs"),
            "write the file that `enroot import` or `mksquashfs` has made",
        ));
    }
    Ok(path.display().to_string())
}

/// Returns a mount with an absolute source, which exists.
fn checked_mount(mount: &str, env: &Variables, workdir: &Path) -> Result<String, EnvironmentError> {
    let (source, rest) = mount.split_once(':').unwrap_or((mount, mount));
    let source = absolute(source, env, workdir);
    if source.exists() {
        return Ok(format!("{}:{rest}", source.display()));
    }
    let what = format!("there is no {} to mount into the image", source.display());
    Err(EnvironmentError::new(what, "make it, or remove it from `mounts`"))
}

/// Returns the words that run a command in an image. A script with an interpreter of its own becomes an argument
/// of that interpreter: on the machine itself it runs as a file in memory, which an image does not have.
fn inside(command: &TaskCommand) -> Result<Vec<String>, EnvironmentError> {
    let script = match &*muster_ray::program(command, false) {
        TaskCommand::Argv(words) => return Ok(words.clone()),
        TaskCommand::Script(text) => text.clone(),
        TaskCommand::Ray(_) => String::new(),
    };
    let Some(rest) = script.strip_prefix("#!") else {
        return Ok(vec!["/bin/sh".to_owned(), "-c".to_owned(), script]);
    };
    let line = rest.lines().next().unwrap_or_default().trim();
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let named = words.iter().find(|word| !word.starts_with('-') && !word.ends_with("/env"));
    let name = named.and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let is_known =
        matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh") || name.starts_with("python");
    if !is_known {
        return Err(EnvironmentError::new(
            format!("a script for `{line}` cannot run in an image"),
            "write it into a file of the working directory, and run that",
        ));
    }
    words.extend(["-c".to_owned(), script]);
    Ok(words)
}

impl<'a> GpuAccess<'a> {
    /// Returns the devices that this machine really has: those of virtual GPUs have no device files.
    fn of(env: &'a Variables) -> Self {
        let named = |name: &str| env.get(name).map_or("", String::as_str);
        let nvidia = named("NVIDIA_VISIBLE_DEVICES");
        let has_nvidia = Path::new("/dev/nvidiactl").exists() && nvidia != "void";
        Self {
            nvidia: nvidia.split(',').filter(|name| has_nvidia && !name.is_empty()).collect(),
            has_amd: Path::new("/dev/kfd").exists() && !named("ROCR_VISIBLE_DEVICES").is_empty(),
        }
    }
}

/// Builds the command of Apptainer. With --nv and --rocm it mounts the device files as this task sees them: those
/// of other jobs are closed (ADR 0045). Variables it takes from its own environment.
fn apptainer(
    program: &Path,
    gpus: &GpuAccess<'_>,
    mounts: &[String],
    workdir: &Path,
    image: &str,
) -> Vec<String> {
    let mut words = vec![program.display().to_string(), "exec".to_owned()];
    words.extend((!gpus.nvidia.is_empty()).then(|| "--nv".to_owned()));
    words.extend(gpus.has_amd.then(|| "--rocm".to_owned()));
    words.extend(mounts.iter().flat_map(|mount| ["--bind".to_owned(), mount.clone()]));
    words.extend(["--pwd".to_owned(), workdir.display().to_string()]);
    words.push(if is_file(image) || image.contains("://") {
        image.to_owned()
    } else {
        format!("docker://{image}")
    });
    words
}

/// Builds the command of Podman, up to the image. It makes no control groups, so that the container stays in those of the task, and
/// an init passes signals to the program, which as the first process of its namespace would ignore SIGTERM.
/// Variables are named only: their values, secrets among them, are in no argument.
fn podman(
    program: &Path,
    gpus: &GpuAccess<'_>,
    mounts: &[String],
    env: &Variables,
) -> Result<Vec<String>, EnvironmentError> {
    let mut words: Vec<String> = [
        "run",
        "--rm",
        "--init",
        "--cgroups=disabled",
        "--network=host",
        "--ipc=host",
        "--ulimit=host",
        "--log-driver=none",
        "--security-opt=label=disable",
    ]
    .map(str::to_owned)
    .into();
    words.insert(0, program.display().to_string());
    if !rustix::process::geteuid().is_root() {
        words.extend(["--userns=keep-id", "--group-add=keep-groups"].map(str::to_owned));
    }
    if !gpus.nvidia.is_empty() {
        let described = CDI_FOLDERS.iter().any(|folder| has_nvidia_description(Path::new(folder)));
        if !described {
            return Err(EnvironmentError::new(
                "Podman knows no GPUs here: no description of them is in /etc/cdi or /var/run/cdi",
                "as root: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` (NVIDIA Container Toolkit)",
            ));
        }
        words.extend(gpus.nvidia.iter().map(|gpu| format!("--device=nvidia.com/gpu={gpu}")));
    }
    if gpus.has_amd {
        words.extend(["--device=/dev/kfd", "--device=/dev/dri"].map(str::to_owned));
    }
    words.extend(mounts.iter().map(|mount| format!("--volume={mount}")));
    words.extend(passed(env).map(|name| format!("--env={name}")));
    Ok(words)
}

/// Returns the names of the variables that a container gets: not those of the machine, and not exported functions of bash,
/// whose names containers do not take.
fn passed(env: &Variables) -> impl Iterator<Item = &str> {
    let names = env.keys().map(String::as_str);
    names.filter(|name| !OF_THE_MACHINE.contains(name) && !name.contains('%'))
}

fn has_nvidia_description(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("nvidia"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_run_by_their_own_interpreter() {
        let words = |text: &str| inside(&TaskCommand::Script(text.to_owned()));
        assert_eq!(words("echo hi").unwrap(), ["/bin/sh", "-c", "echo hi"]);
        let python = "#!/usr/bin/env python3\nprint(1)\n";
        assert_eq!(words(python).unwrap(), ["/usr/bin/env", "python3", "-c", python]);
        let bash = "#!/bin/bash -e\ntrue";
        assert_eq!(words(bash).unwrap(), ["/bin/bash", "-e", "-c", bash]);
        assert!(words("#!/usr/bin/perl\n1;").unwrap_err().what.contains("perl"));
    }

    /// Machine with a program of this name only.
    fn machine(program: &str) -> (tempfile::TempDir, Variables) {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(program);
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("x.sqsh"), "").unwrap();
        let path = folder.path().display().to_string();
        (folder, Variables::from([("PATH".to_owned(), path), ("RANK".to_owned(), "0".to_owned())]))
    }

    #[test]
    fn enroot_runs_files_where_nothing_else_is_there() {
        let (folder, env) = machine("enroot");
        let wrapped = |image: &str| {
            let command = TaskCommand::Argv(vec!["true".to_owned()]);
            let environment = TaskEnvironment::default();
            let made = wrap(&environment, image, &command, &env, folder.path(), false);
            made.map(|words| words.join(" "))
                .map_err(|error| format!("{}; {}", error.what, error.hint))
        };
        let line = wrapped("./x.sqsh").unwrap();
        let home = folder.path().display();
        assert!(
            line.starts_with(&format!("{home}/enroot start --rw --mount {home}:{home}:none:")),
            "{line}"
        );
        assert!(
            line.contains(" --env=RANK ") && line.ends_with(&format!(" {home} true")),
            "{line}"
        );
        assert!(!line.contains("--env=PATH"), "{line}");
        let named = wrapped("python:3.12").unwrap_err();
        assert!(named.contains("enroot import -o image.sqsh docker://python:3.12"), "{named}");
        assert!(wrapped(".").unwrap_err().contains("runs files of squashfs"));
        assert!(wrapped("./no.sqsh").unwrap_err().contains("there is no image"));
        let (_nothing, env) = machine("docker");
        assert!(runtime(&env).unwrap_err().what.contains("Apptainer, Podman or enroot"));
    }

    #[test]
    fn podman_gets_names_and_never_values() {
        let env = Variables::from(
            [("KEY", "hunter2"), ("PATH", "/bin"), ("RANK", "0"), ("BASH_FUNC_module%%", "() {}")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let gpus = GpuAccess { nvidia: Vec::new(), has_amd: true };
        let mounts = ["/work:/work".to_owned()];
        let words = podman(Path::new("/usr/bin/podman"), &gpus, &mounts, &env).unwrap();
        let line = words.join(" ");
        assert!(line.contains("--env=KEY") && line.contains("--env=RANK"), "{line}");
        assert!(line.contains("--device=/dev/kfd"), "{line}");
        assert!(!line.contains("hunter2") && !line.contains("--env=PATH"), "{line}");
        assert!(!line.contains('%'), "{line}");
        assert!(line.ends_with("--volume=/work:/work --env=KEY --env=RANK"), "{line}");
    }

    #[test]
    fn apptainer_gets_files_as_they_are() {
        let gpus = GpuAccess { nvidia: vec!["GPU-1"], has_amd: false };
        let words =
            |image| apptainer(Path::new("/a"), &gpus, &[], Path::new("/w"), image).join(" ");
        assert_eq!(words("ubuntu"), "/a exec --nv --pwd /w docker://ubuntu");
        assert_eq!(words("/x.sif"), "/a exec --nv --pwd /w /x.sif");
        assert_eq!(words("oras://r/x"), "/a exec --nv --pwd /w oras://r/x");
    }
}
