//! Closes the device files of GPUs that a task was not allocated: in a mount namespace of the task,
//! each of them is covered by a device file that no user may open.
//!
//! Needs root and no control group. A user cannot unmount the cover, not even in a user namespace of
//! their own: what a more privileged namespace mounted is locked there (mount_namespaces(7)). Root
//! can. Where the machine shares its mounts, later ones appear in the namespace; it passes none on.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use muster_model::DeviceSet;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde::{Deserialize, Serialize};

use crate::gpu::DetectedGpus;

/// Device files that are closed to one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedDeviceFiles {
    /// Device file that no user may open, which covers the others.
    pub cover: PathBuf,
    /// Files to cover; empty where nothing is closed.
    pub files: Vec<PathBuf>,
}

/// Device files of the GPUs of this machine, and the means to close them.
#[derive(Debug)]
pub(crate) struct DeviceFiles {
    /// Device files of each device, by index.
    files: Vec<Vec<PathBuf>>,
    /// Device file that covers others; `None` where files cannot be closed.
    cover: Option<PathBuf>,
}

impl DeviceFiles {
    /// Detects, by trying, whether device files can be closed. The cover is made in `folder`.
    pub(crate) fn detect(found: &DetectedGpus, folder: &Path) -> Self {
        let files: Vec<_> = found.gpus.iter().map(|gpu| gpu.files.clone()).collect();
        let cover = folder.join("closed-device");
        // Where the file of one GPU is unknown, not all can be closed.
        let are_known = !files.is_empty() && files.iter().all(|files| !files.is_empty());
        let works = are_known && try_to_cover(&cover).is_ok();
        Self { files, cover: works.then_some(cover) }
    }

    /// Returns device files that stay open to all.
    pub(crate) fn open_to_all() -> Self {
        Self { files: Vec::new(), cover: None }
    }

    /// Returns the mechanism that keeps a task from other devices.
    pub(crate) fn enforced_by(&self) -> Option<&'static str> {
        self.cover.as_ref().map(|_| "a mount namespace")
    }

    /// Returns the files to close to a task that was allocated `devices`. A file of several slices
    /// stays open to each task that has one of them.
    pub(crate) fn closed_to(&self, devices: DeviceSet) -> ClosedDeviceFiles {
        let Some(cover) = &self.cover else { return ClosedDeviceFiles::default() };
        let of = |index: usize| self.files.get(index).into_iter().flatten();
        let own: BTreeSet<&PathBuf> = devices.iter().flat_map(of).collect();
        let all: BTreeSet<&PathBuf> = self.files.iter().flatten().collect();
        let files: Vec<PathBuf> = all.difference(&own).map(|path| (*path).clone()).collect();
        ClosedDeviceFiles { cover: cover.clone(), files }
    }
}

impl ClosedDeviceFiles {
    /// Closes the files to this process and its children, for good. Files that do not exist are
    /// left out.
    ///
    /// # Errors
    /// The step that failed: this process is not root, or the cover cannot be made.
    pub fn close(&self) -> Result<(), String> {
        if self.files.is_empty() {
            return Ok(());
        }
        let failed = |step: &str| {
            let step = step.to_owned();
            move |error: io::Error| format!("{step}: {error}")
        };
        make_cover(&self.cover).map_err(failed(&self.cover.to_string_lossy()))?;
        own_namespace().map_err(failed("mount namespace"))?;
        for file in self.files.iter().filter(|file| file.exists()) {
            bind_over(&self.cover, file).map_err(failed(&file.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// Returns whether a file of that metadata is a cover, which is closed even to root.
pub(crate) fn is_cover(metadata: &std::fs::Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == 0
}

/// Makes the cover: a character device 0:0, which no driver serves, without any permission.
fn make_cover(path: &Path) -> io::Result<()> {
    match mknod(path, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0)) {
        Err(nix::errno::Errno::EEXIST) if is_cover(&std::fs::symlink_metadata(path)?) => Ok(()),
        made => Ok(made?),
    }
}

/// Covers a file in a namespace of a thread of its own, which ends with the thread.
fn try_to_cover(cover: &Path) -> io::Result<()> {
    let file = Path::new("/dev/null");
    let attempt = || {
        make_cover(cover)?;
        own_namespace()?;
        bind_over(cover, file)?;
        let is_covered = is_cover(&std::fs::metadata(file)?);
        if is_covered { Ok(()) } else { Err(io::Error::other("the file was not covered")) }
    };
    std::thread::scope(|threads| {
        threads.spawn(attempt).join().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
    })
}

/// Gives the calling thread a mount namespace of its own, below that of the machine.
fn own_namespace() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let below = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    Ok(mount(None::<&str>, "/", None::<&str>, below, None::<&str>)?)
}

fn bind_over(cover: &Path, file: &Path) -> io::Result<()> {
    Ok(mount(Some(cover), file, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(cover: Option<&str>) -> DeviceFiles {
        let files = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia1", "/dev/dri/renderD128"];
        let files = files.into_iter().map(|file| vec![PathBuf::from(file)]).collect();
        DeviceFiles { files, cover: cover.map(PathBuf::from) }
    }

    #[test]
    fn a_task_keeps_the_files_of_its_devices_and_of_its_slices() {
        let closed = |devices: &[usize]| {
            let closed = files(Some("/run/cover")).closed_to(devices.iter().copied().collect());
            closed.files.iter().map(|file| file.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let [zero, one, render] = ["/dev/nvidia0", "/dev/nvidia1", "/dev/dri/renderD128"];
        assert_eq!(closed(&[]), [render, zero, one]);
        // Devices 1 and 2 are slices of one GPU.
        assert_eq!(closed(&[2]), [render, zero]);
        assert_eq!(closed(&[0, 1, 3]), <[&str; 0]>::default());
    }

    #[test]
    fn nothing_is_closed_where_it_does_not_work() {
        assert_eq!(files(None).closed_to(DeviceSet::EMPTY), ClosedDeviceFiles::default());
        assert_eq!(files(None).enforced_by(), None);
        assert_eq!(ClosedDeviceFiles::default().close(), Ok(()));
    }

    #[test]
    fn a_gpu_without_a_known_file_leaves_all_open() {
        let device = muster_model::Device::declared("h100", muster_model::Bytes(0));
        let gpu = |files| crate::gpu::DetectedGpu { device: device.clone(), files };
        let gpus = vec![gpu(vec!["/dev/nvidia0".into()]), gpu(Vec::new())];
        let folder = tempfile::tempdir().unwrap();
        for gpus in [gpus, Vec::new()] {
            let found = DetectedGpus { gpus, interconnect: None };
            assert_eq!(DeviceFiles::detect(&found, folder.path()).enforced_by(), None);
        }
    }

    /// The thread's namespace ends with it: this process sees the file as before. That it works is
    /// tested in system mode, which needs root.
    #[test]
    fn trying_changes_nothing_for_this_process() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = try_to_cover(&folder.path().join("cover"));
        assert!(!is_cover(&std::fs::metadata("/dev/null").unwrap()));
        let is_root = rustix::process::geteuid().is_root();
        assert!(outcome.is_err() || is_root, "only root can: {outcome:?}");
    }
}
