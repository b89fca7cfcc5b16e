//! Runs the tests of the Python client (`python/`) against the real daemon, with the real submitit: both from a
//! virtual environment under `target/`, which is kept between runs. Where PyPI cannot be reached the reason
//! is printed, and the tests count as skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::totals::Totals;
use crate::{binaries, cargo, tools};

/// Interpreters to make the environment of, the preferred one first. Debian's is the second, because its
/// `venv` can be installed.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// Versions that the tests run with; all need Python 3.10 or newer.
const PINS: [&str; 6] = [
    "cloudpickle==3.1.3",
    "flit_core==4.2.0",
    "mypy==2.4.1",
    "pytest==9.2.0",
    "submitit==1.5.4",
    "typing_extensions==4.16.0",
];

/// Options of every installation.
const PIP: [&str; 5] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];

/// Runs `cargo xtask python`.
pub fn run_standalone(root: &Path, words: &[&str]) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, words, &mut totals);
    print!("the slowest tests, in seconds:\n{}", totals.slowest());
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// Runs the step of the test command; `words` are passed to pytest.
pub fn run(root: &Path, words: &[&str], totals: &mut Totals) -> Result<()> {
    let folder = root.join("python");
    let python = match interpreter(root) {
        Ok(python) => python,
        Err(error) => {
            println!("the tests of python/ are skipped: {error:#}");
            let skipped = count(&folder.join("tests"))?;
            totals.add_line(&format!("test result: ok. 0 passed; 0 failed; {skipped} ignored"));
            return Ok(());
        }
    };
    let mut build = Command::new(cargo());
    build.args(["build", "--quiet", "--package", "muster"]).current_dir(root);
    tools::succeed(&mut build)?;
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "-p", "cargo_lines"]).args(words).current_dir(&folder);
    // Caches beside the environment, not in the source tree.
    tests.args(["-p", "no:cacheprovider", "-p", "no:terminal"]);
    tests.env("PYTHONPATH", folder.join("tests")).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("MYPY_CACHE_DIR", root.join("target/python/mypy"));
    tests.env("MUSTER", root.join("target/debug/muster"));
    binaries::watch(&mut tests, "python", totals)
}

/// Returns an interpreter that has the client and all libraries; creates the virtual environment if needed.
fn interpreter(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/python");
    let project =
        fs::read_to_string(root.join("python/pyproject.toml")).context("pyproject.toml")?;
    let content = format!("{}\n{}\n{project}", PINS.join("\n"), root.display());
    let stamp = folder.join("content");
    let python = folder.join("bin/python3");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == content)
        && has(&python, "muster.submitit, mypy, pytest")
    {
        return Ok(python);
    }
    println!("creating a virtual environment in {}", folder.display());
    let _ = fs::remove_dir_all(&folder);
    tools::succeed(Command::new(system_python()?).args(["-m", "venv"]).arg(&folder))?;
    tools::succeed(Command::new(&python).args(PIP).args(PINS))?;
    let own = ["--no-build-isolation", "--no-deps", "--editable"];
    tools::succeed(Command::new(&python).args(PIP).args(own).arg(root.join("python")))?;
    ensure!(has(&python, "muster.submitit, mypy, pytest"), "the libraries do not work together");
    fs::write(&stamp, content).context("the content file of the virtual environment")?;
    Ok(python)
}

/// Returns an interpreter that is new enough and can make virtual environments.
fn system_python() -> Result<&'static str> {
    let can = |python: &&str| {
        has(Path::new(python), "venv, ensurepip, sys; assert sys.version_info >= (3, 10)")
    };
    if let Some(python) = PYTHONS.iter().find(|python| can(python)) {
        return Ok(python);
    }
    tools::install(&["python3-venv"])?;
    match PYTHONS.iter().find(|python| can(python)) {
        Some(python) => Ok(python),
        None => bail!("there is no Python 3.10 or newer"),
    }
}

/// Returns whether an interpreter can import modules.
fn has(python: &Path, modules: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {modules}")]).stdin(Stdio::null());
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Returns the number of test functions in the files of a folder.
fn count(folder: &Path) -> Result<usize> {
    let mut functions = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let text = fs::read_to_string(&path)?;
            let is_test =
                |line: &&str| line.starts_with("def test_") || line.starts_with("async def test_");
            functions += text.lines().filter(is_test).count();
        }
    }
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_the_client_are_counted() {
        assert!(count(&crate::root().join("python/tests")).unwrap() > 40);
    }

    #[test]
    fn an_interpreter_that_does_not_exist_has_nothing() {
        assert!(!has(Path::new("/no/such/python"), "sys"));
    }
}
