//! Detection of network file systems, which must not hold the state: their locks do not bind other
//! hosts reliably, and an acknowledged write can be lost. Only reads; creates nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::PathsError;

/// `f_type` of `statfs(2)` per network or cluster file system (linux/magic.h and the file systems'
/// own sources).
const MAGIC: &[(u64, &str)] = &[
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x1983_0326, "beegfs"),
    (0x2003_0528, "orangefs"),
    (0x0bac_acbc, "panfs"),
    (0x013e_50d0, "wekafs"),
];

/// `f_type` of all FUSE file systems; the mount table has the specific type.
const FUSE: u64 = 0x6573_5546;

/// FUSE file systems that access a network, as named in the mount table.
const FUSE_NETWORK: &[&str] = &[
    "fuse.sshfs",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.gcsfuse",
    "fuse.glusterfs",
    "fuse.ceph-fuse",
    "fuse.juicefs",
    "fuse.mount-s3",
    "fuse.goofys",
    "fuse.davfs",
    "fuse.moosefs",
    "fuse.seaweedfs",
    "fuse.lizardfs",
];

/// Rejects a directory (or its nearest existing parent) on a network file system.
pub(super) fn reject_network(dir: &Path) -> Result<(), PathsError> {
    let failed = |source| PathsError::Io { path: dir.to_owned(), source };
    let existing = nearest_existing(dir).map_err(failed)?;
    let found = rustix::fs::statfs(&existing).map_err(|errno| failed(errno.into()))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    #[expect(
        clippy::cast_sign_loss,
        reason = "the magic is a bit pattern, signed by accident of the C type"
    )]
    let magic = u64::from(found.f_type as u32);
    match network_kind(magic, &mount_type(&mounts, &existing)) {
        Some(kind) => Err(PathsError::Network { path: dir.to_owned(), kind: kind.to_owned() }),
        None => Ok(()),
    }
}

/// Returns the name of the network file system; `None` for a local one.
fn network_kind(magic: u64, mount_type: &str) -> Option<&'static str> {
    match magic {
        FUSE => FUSE_NETWORK.iter().find(|kind| **kind == mount_type).copied(),
        _ => MAGIC.iter().find(|(known, _)| *known == magic).map(|(_, kind)| *kind),
    }
}

/// Returns the file system type of the mount that holds `path`, from the text of
/// `/proc/self/mountinfo` (proc(5)): the longest mount point wins, the last one among equals.
fn mount_type(mountinfo: &str, path: &Path) -> String {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        Some((unescape(mount.split(' ').nth(4)?), kind.split(' ').next()?))
    });
    let holding = mounts.filter(|(point, _)| path.starts_with(point));
    holding
        .max_by_key(|(point, _)| point.as_os_str().len())
        .map(|(_, kind)| kind.to_owned())
        .unwrap_or_default()
}

/// Decodes the escapes of blanks and backslashes in mount points (`\040`).
fn unescape(point: &str) -> PathBuf {
    PathBuf::from(
        point
            .replace("\\040", " ")
            .replace("\\011", "\t")
            .replace("\\012", "\n")
            .replace("\\134", "\\"),
    )
}

fn nearest_existing(dir: &Path) -> io::Result<PathBuf> {
    match dir.ancestors().find(|ancestor| ancestor.exists()) {
        Some(found) => found.canonicalize(),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        for (magic, mount, expected) in [
            (0x6969, "nfs4", Some("nfs")),
            (0xff53_4d42, "cifs", Some("cifs")),
            (0x0102_1997, "9p", Some("9p")),
            (0xef53, "ext4", None),
            (0x0102_1994, "tmpfs", None),
            (0x794c_7630, "overlay", None),
            (FUSE, "fuse.sshfs", Some("fuse.sshfs")),
            (FUSE, "fuse.fuse-overlayfs", None),
            (FUSE, "fuseblk", None),
        ] {
            assert_eq!(network_kind(magic, mount), expected, "{magic:#x} {mount}");
        }
    }

    #[test]
    fn the_longest_mount_point_decides() {
        let table = "\
22 1 8:1 / / rw,relatime - ext4 /dev/root rw
30 22 0:40 / /home rw - fuse.sshfs me@host: rw
31 22 0:41 / /home/with\\040blank rw shared:1 - tmpfs tmpfs rw
";
        for (path, expected) in [
            ("/var/lib", "ext4"),
            ("/home/me", "fuse.sshfs"),
            ("/home/with blank/x", "tmpfs"),
            ("/homes", "ext4"),
        ] {
            assert_eq!(mount_type(table, Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_local_directory_that_does_not_exist_yet_passes() {
        let dir = tempfile::tempdir().unwrap();
        reject_network(&dir.path().join("not/yet/there")).unwrap();
    }
}
