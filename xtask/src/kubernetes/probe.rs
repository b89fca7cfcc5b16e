//! Checks whether the machine can run a cluster, and installs missing programs where that needs no
//! confirmation.

use std::path::Path;

use super::binary;
use super::node::cgroups;
use crate::test_cluster::namespace::NetworkNamespace;
use crate::test_cluster::packages;
use crate::tools;

/// Programs that a cluster needs besides its own binary.
const PROGRAMS: [&str; 4] = ["ip", "nsenter", "setsid", "timeout"];
/// Debian and Ubuntu packages that contain [`PROGRAMS`].
const PACKAGES: [&str; 3] = ["iproute2", "util-linux", "coreutils"];

/// Programs that real nodes need, and the packages that contain them.
const NODE_PROGRAMS: [&str; 6] =
    ["containerd", "runc", "ctr", "busybox", "unshare", "/usr/lib/cni/bridge"];
const NODE_PACKAGES: [&str; 5] =
    ["containerd", "runc", "containernetworking-plugins", "busybox-static", "util-linux"];

/// Returns the reason for which no cluster can run here, if there is one; installs missing
/// programs.
pub fn obstacle(root: &Path) -> Option<String> {
    machine().or_else(|| binary::obstacle(root))
}

/// Returns the reason, as [`obstacle`] does, apart from what building the binary needs.
pub fn machine() -> Option<String> {
    if !tools::is_root() {
        return Some("root is required: network namespace".into());
    }
    if let Err(error) = packages::ensure(&PROGRAMS, &PACKAGES) {
        return Some(format!("programs are missing: {error:#}"));
    }
    let probed = NetworkNamespace::probe();
    probed.err().map(|error| format!("network namespaces cannot be created: {error:#}"))
}

/// Returns the reason for which no real nodes can run here, if there is one; installs missing programs.
pub fn real_nodes() -> Option<String> {
    let installed = packages::ensure(&NODE_PROGRAMS, &NODE_PACKAGES);
    let missing = installed.err().map(|error| format!("programs are missing: {error:#}"));
    missing.or_else(cgroups::obstacle)
}
