//! Runs the recipes of `examples/` for PyTorch, Lightning, Transformers and Ray with the real libraries:
//! torch from Debian's package, the others from PyPI in a virtual environment under `target/`,
//! which is kept between runs. Where they are not available the reason is printed, and the tests
//! count as skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};

use crate::totals::Totals;
use crate::venv::{self, Venv};
use crate::{binaries, tools};

/// Interpreter of Debian's packages; PATH may have another `python3`.
const PYTHON: &str = "/usr/bin/python3";

/// Debian packages of torch and of virtual environments.
const PACKAGES: [&str; 2] = ["python3-torch", "python3-venv"];

/// Versions that work with torch 1.13 and Python 3.11.
const PINS: [&str; 8] = [
    "pytorch-lightning==2.0.9",
    "torchmetrics==1.2.1",
    "lightning-utilities==0.10.1",
    "transformers==4.36.2",
    "accelerate==0.25.0",
    "huggingface-hub==0.20.3",
    "setuptools<70",
    "ray[default,data,train,tune,serve]==2.60.0",
];

/// Patch for torch 1.13, which has a default value in a data class that Python 3.11 rejects as
/// mutable. As in Python 3.10, only lists, dictionaries and sets are rejected.
const FIX: &str = r"import dataclasses

_get_field = dataclasses._get_field


def get_field(cls, name, kind, *rest):
    try:
        return _get_field(cls, name, kind, *rest)
    except ValueError:
        default = getattr(cls, name)
        default = default.default if isinstance(default, dataclasses.Field) else default
        if isinstance(default, (list, dict, set)):
            raise
        type(default).__hash__ = object.__hash__
        return _get_field(cls, name, kind, *rest)


dataclasses._get_field = get_field
";

/// Runs `cargo xtask recipes`.
pub fn run_standalone(root: &Path) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, &mut totals);
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// Runs the step of the test command.
pub fn run(root: &Path, totals: &mut Totals) -> Result<()> {
    let binary = binaries::with_own_step(root, "recipes")?;
    let mut tests = binary.command();
    tests.arg("--test-threads=1");
    match interpreter(root) {
        Ok(python) => {
            tests.arg("--include-ignored").env("MUSTER_TEST_PYTHON", python);
        }
        Err(error) => {
            println!("libraries for the recipes are missing, their tests are skipped: {error}");
        }
    }
    binaries::watch(&mut tests, "recipes", totals)
}

/// Returns an interpreter with all libraries, or the reason why there is none. Steps that run beside each
/// other wait for the one that creates it.
pub fn interpreter(root: &Path) -> Result<&'static Path, &'static str> {
    static INTERPRETER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = INTERPRETER.get_or_init(|| python(root).map_err(|error| format!("{error:#}")));
    made.as_ref().map(PathBuf::as_path).map_err(String::as_str)
}

/// Returns an interpreter with all libraries; creates the virtual environment if needed.
fn python(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/recipes");
    let content = format!("{}\n{FIX}", PINS.join("\n"));
    let environment = Venv { folder: &folder, content: &content, modules: "torch, transformers" };
    environment.interpreter(system_python, &["--system-site-packages"], |python| {
        venv::install(python, &PINS)?;
        let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let packages =
            Command::new(python).args(["-c", code]).output().context("where packages are")?;
        let packages = PathBuf::from(String::from_utf8_lossy(&packages.stdout).trim());
        fs::write(packages.join("muster_torch.py"), FIX).context("a fix for torch")?;
        fs::write(packages.join("muster_torch.pth"), "import muster_torch\n")
            .context("a fix for torch")?;
        let all = "torch, transformers, accelerate, pytorch_lightning, ray";
        ensure!(venv::imports(python, all), "the libraries do not work together");
        Ok(())
    })
}

/// Returns the interpreter of Debian's packages, which has torch.
fn system_python() -> Result<&'static Path> {
    let system = Path::new(PYTHON);
    if !venv::imports(system, "torch, venv, ensurepip") {
        tools::install(&PACKAGES)?;
    }
    ensure!(venv::imports(system, "torch"), "{PYTHON} has no torch");
    Ok(system)
}
