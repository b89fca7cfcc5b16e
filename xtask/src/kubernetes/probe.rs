//! Checks whether the machine can run a cluster, and installs missing programs where that needs no
//! confirmation.

use std::path::Path;

use super::binary;
use crate::test_cluster::namespace::NetworkNamespace;
use crate::test_cluster::packages;
use crate::tools;

/// Programs that a cluster needs besides its own binary.
const PROGRAMS: [&str; 4] = ["ip", "nsenter", "setsid", "timeout"];
/// Debian and Ubuntu packages that contain [`PROGRAMS`].
const PACKAGES: [&str; 3] = ["iproute2", "util-linux", "coreutils"];

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
