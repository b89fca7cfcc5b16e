//! Checks of the packages as files: checksums, the bill of materials, the unit.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::files;

#[test]
#[ignore = "needs packages; `cargo xtask packages` makes them"]
fn every_package_has_its_checksum() {
    let mut check = Command::new("sha256sum");
    files::run(check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(files::folder()));
    let sums = fs::read_to_string(files::folder().join("SHA256SUMS")).unwrap();
    let ends = ["-linux.tar.gz", ".deb", ".rpm", ".whl", ".oci.tar", ".cdx.json"];
    assert_eq!(sums.lines().count(), ends.len(), "{sums}");
    for end in ends {
        assert_eq!(sums.lines().filter(|line| line.ends_with(end)).count(), 1, "{end} in {sums}");
    }
}

#[test]
#[ignore = "needs packages; `cargo xtask packages` makes them"]
fn the_bill_of_materials_is_of_the_packaged_binary() {
    let folder = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"])
        .arg(files::ending_in("-linux.tar.gz"));
    files::run(tar.arg("--directory").arg(folder.path()));
    let sum = files::run(Command::new("sha256sum").arg(folder.path().join("bin/muster")));
    let sbom = fs::read(files::ending_in(".cdx.json")).unwrap();
    let sbom: Value = serde_json::from_slice(&sbom).unwrap();
    let main = &sbom["metadata"]["component"];
    assert_eq!(main["version"], files::VERSION);
    assert_eq!(main["hashes"][0]["content"].as_str(), sum.split_whitespace().next());
}

#[test]
#[ignore = "needs packages; `cargo xtask packages` makes them"]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("not checked: there is no systemd-analyze");
        return;
    }
    let unit = files::of_repository("packaging/muster.service");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("muster.service");
    // The program must exist.
    fs::write(&path, unit.replace("/usr/local/bin/muster", env!("CARGO_BIN_EXE_muster"))).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&path);
    let errors = String::from_utf8_lossy(&verify.output().unwrap().stderr).into_owned();
    // Versions before 254 do not know this setting and go on without it, as the unit says.
    let others = errors.lines().filter(|line| !line.contains("Unknown key 'DelegateSubgroup'"));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
}
