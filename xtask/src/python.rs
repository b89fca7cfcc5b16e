//! Runs the tests of the Python client (`python/`) against the real daemon, with the real submitit, and tests that
//! read tables with pyarrow and DuckDB: all from a virtual environment under `target/`, which is kept between runs.
//! Where PyPI cannot be reached the reason is printed, and the tests count as skipped. A client that cannot be
//! installed or imported fails the step.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::totals::Totals;
use crate::venv::{self, Venv};
use crate::{binaries, tools};

/// Interpreters to make the environment of, the preferred one first. Debian's is the second, because its
/// `venv` can be installed.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// Versions that the tests run with; all need Python 3.10 or newer.
const PINS: [&str; 9] = [
    "cloudpickle==3.1.3",
    "duckdb==2.0.0",
    "flit_core==4.2.0",
    "mcp==2.3.0",
    "mypy==2.4.1",
    "pyarrow==26.0.1",
    "pytest==9.2.0",
    "submitit==1.5.4",
    "typing_extensions==4.16.0",
];

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
    install_client(root, &python)?;
    let muster = binaries::program(root, "muster")?;
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "-p", "cargo_lines"]).args(words).current_dir(&folder);
    // Caches beside the environment, not in the source tree.
    tests.args(["-p", "no:cacheprovider", "-p", "no:terminal"]);
    tests.env("PYTHONPATH", folder.join("tests")).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("MYPY_CACHE_DIR", root.join("target/python/mypy"));
    tests.env("MUSTER", muster);
    binaries::watch(&mut tests, "python", totals)
}

/// Returns an interpreter that has the pinned packages; creates the virtual environment if needed.
fn interpreter(root: &Path) -> Result<PathBuf> {
    let content = format!("{}\n{}\n", PINS.join("\n"), root.display());
    // Without the client: an error in it must not look like a missing environment.
    let modules = "duckdb, mcp, mypy, pyarrow, pytest, submitit";
    let environment = Venv { folder: &folder(root), content: &content, modules };
    environment.interpreter(system_python, &[], |python| venv::install(python, &PINS))
}

/// Installs the client from its source tree, again when its `pyproject.toml` has changed, and imports it.
fn install_client(root: &Path, python: &Path) -> Result<()> {
    let client = root.join("python");
    let project = fs::read_to_string(client.join("pyproject.toml")).context("pyproject.toml")?;
    let stamp = folder(root).join("client");
    if fs::read_to_string(&stamp).ok().as_ref() != Some(&project) {
        let client = client.to_string_lossy();
        venv::install(python, &["--no-build-isolation", "--no-deps", "--editable", &client])?;
        fs::write(&stamp, &project).with_context(|| stamp.display().to_string())?;
    }
    let mut import = Command::new(python);
    import.args(["-c", "import muster, muster.submitit"]).env("PYTHONDONTWRITEBYTECODE", "1");
    tools::succeed(&mut import).context("the client cannot be imported")
}

/// Returns the folder of the virtual environment.
fn folder(root: &Path) -> PathBuf {
    root.join("target/python")
}

/// Returns an interpreter that is new enough and can make virtual environments.
///
/// # Errors
/// When there is none, and it cannot be installed.
pub fn system_python() -> Result<&'static Path> {
    let wanted = "venv, ensurepip, sys; assert sys.version_info >= (3, 10)";
    let found = || PYTHONS.iter().map(Path::new).find(|python| venv::imports(python, wanted));
    if let Some(python) = found() {
        return Ok(python);
    }
    tools::install(&["python3-venv"])?;
    found().context("there is no Python 3.10 or newer")
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
}
