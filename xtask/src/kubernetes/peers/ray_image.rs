//! Image in which pods of KubeRay run Ray: a shell, the interpreter of this machine, and Ray from PyPI in a virtual
//! environment under `target/`, which is kept. The paths in it are those of the machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::kubernetes::cluster::KubernetesTestCluster;
use crate::kubernetes::node::images::{self, NodeImage};
use crate::kubernetes::{nodes, target};
use crate::test_cluster::command;
use crate::tools;
use crate::venv::{self, Venv};

/// Name of the image. KubeRay and Muster read the version of Ray from it.
const NAME: &str = "localhost/ray:2.60.0";
const PACKAGE: &str = "ray[default]==2.60.0";

/// Interpreter of Debian's packages, and the package that makes virtual environments with it.
const PYTHON: &str = "/usr/bin/python3";
const PACKAGES: [&str; 1] = ["python3-venv"];

/// Makes the image, and gives it to all real nodes.
pub fn add(root: &Path, cluster: &KubernetesTestCluster) -> Result<()> {
    if nodes::all(cluster)?.is_empty() {
        return Ok(());
    }
    let environment = target(root).join("ray-image");
    let venv = Venv { folder: &environment, content: PACKAGE, modules: "ray, aiohttp" };
    venv.interpreter(system_python, &[], |python| venv::install(python, &[PACKAGE]))?;
    let folder = cluster.dir().join("images/ray");
    let archive = folder.join("image.tar");
    write(&environment, &folder, &archive)?;
    nodes::add_archive(cluster, &archive)?;
    fs::remove_dir_all(&folder).context("the files of an image")
}

fn system_python() -> Result<&'static Path> {
    let python = Path::new(PYTHON);
    if !venv::imports(python, "venv, ensurepip") {
        tools::install(&PACKAGES)?;
    }
    Ok(python)
}

/// Writes the archive of the image, with other files in its folder.
fn write(environment: &Path, folder: &Path, archive: &Path) -> Result<()> {
    let root = folder.join("root");
    images::write_root(&root)?;
    let library = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let library = PathBuf::from(command::outside(&[PYTHON, "-c", library])?.trim());
    let mut programs = Vec::new();
    for (name, copy) in [("bash", "bin/bash"), (PYTHON, PYTHON.trim_start_matches('/'))] {
        let path =
            command::outside(&["sh", "-c", &format!("readlink -f \"$(command -v {name})\"")])?;
        let program = PathBuf::from(path.trim());
        let copy = root.join(copy);
        fs::create_dir_all(copy.parent().context("a program is in a folder")?)?;
        fs::copy(&program, copy).with_context(|| program.display().to_string())?;
        programs.push(program);
    }
    for folder in [&library, environment] {
        images::add_programs(folder, &mut programs)?;
    }
    images::copy_libraries(&programs, &root)?;
    // Ray asks for the name of its user.
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/bash\n")?;
    let path = format!("{}/bin:/bin:/usr/bin", environment.display());
    let image = NodeImage { name: NAME, entrypoint: &["/bin/bash"], path: &path };
    images::write_archive(folder, archive, &[image], &[library, environment.to_owned()])
}
