//! The tarball, unpacked below `/usr/local`.

use std::fs;
use std::process::Command;

use crate::clean_root::CleanRoot;
use crate::files;
use crate::first_command;

#[test]
#[ignore = "needs packages and a root of Debian; `cargo xtask packages` has both"]
fn it_runs_a_job_below_usr_local_and_its_list_removes_it() {
    let root = CleanRoot::debian();
    let before = root.files();
    let archive = files::ending_in("-linux.tar.gz");
    let prefix = root.path().join("usr/local");
    let mut unpack = Command::new("tar");
    unpack.args(["--extract", "--strip-components=1", "--file"]).arg(&archive);
    files::run(unpack.arg("--directory").arg(&prefix));
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/muster.service")).unwrap();
    assert_eq!(unit, files::of_repository("packaging/muster.service"));
    first_command::check(&root.script(&first_command::alone("/srv")));
    let list = files::run(Command::new("tar").arg("--list").arg("--file").arg(&archive));
    for path in list.lines().filter(|path| !path.ends_with('/')) {
        let (_, below) = path.split_once('/').unwrap();
        fs::remove_file(prefix.join(below)).unwrap();
    }
    root.check_left(&before, None);
}
