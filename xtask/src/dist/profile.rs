//! Builds the release binary with profile-guided optimisation (PGO): an
//! instrumented build, replays of generated traces, and a second build with the profile. A pass of
//! the engine executes some hundred kilobytes of code once and mostly waits for instruction
//! fetches; PGO places hot code together. Speed is measured in `bench.rs`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::elf::GlibcVersion;
use super::old_glibc::OldGlibc;
use super::options;
use crate::tools::{stdout, succeed};

/// Replays for the profile: a recipe of `xtask/dist`, and the arguments. `DIR` stands for that
/// folder.
const REPLAYS: &[(&str, &[&str])] = &[
    ("processors.yaml", &["--procs", "100", "--scheduler", "fcfs,easy,conservative,sjf"]),
    ("idle.yaml", &["--cluster", "DIR/idle-cluster.yaml", "--scheduler", "muster"]),
    (
        "busy.yaml",
        &[
            "--cluster",
            "DIR/busy-cluster.yaml",
            "--queues",
            "DIR/busy-queues.yaml",
            "--scheduler",
            "muster",
            "--checkpoint-every",
            "1h",
            "--node-mtbf",
            "300d",
        ],
    ),
];

/// Builds the binary; returns its path, and the newest glibc that it may need, or `None` if it was
/// linked to that of this machine.
///
/// # Errors
/// When a build or a replay fails.
pub fn build(root: &Path) -> Result<(PathBuf, Option<GlibcVersion>)> {
    let rustc = RustcInfo::read()?;
    let target = options::target(root);
    let linker = OldGlibc::find(root);
    let counts = target.join("dist-counts");
    if counts.exists() {
        std::fs::remove_dir_all(&counts)
            .with_context(|| format!("cannot remove {}", counts.display()))?;
    }
    let binary = target.join(&rustc.host).join("dist/muster");
    // 1. Build the instrumented binary.
    println!("1 of 3: building the instrumented binary");
    let build =
        |linker: Option<&OldGlibc>, flags| build_with(root, &rustc, &target, linker, &flags);
    // It runs on this machine only, and Zig does not link the counters' runtime.
    build(None, flags("-Cprofile-generate=", &counts))?;
    // 2. Record the profile.
    println!("2 of 3: recording the profile");
    for (recipe, args) in REPLAYS {
        replay(root, &binary, &counts, recipe, args)?;
    }
    let merged = counts.join("merged.profdata");
    merge(&rustc.profdata, &counts, &merged)?;
    // 3. Build with the profile.
    println!("3 of 3: building the optimised binary");
    build(linker.as_ref(), flags("-Cprofile-use=", &merged))?;
    Ok((binary, linker.map(|_| OldGlibc::VERSION)))
}

/// Host and tools of the compiler.
struct RustcInfo {
    /// Host triple, used as the target.
    host: String,
    /// Path of `llvm-profdata`, which merges profiles.
    profdata: PathBuf,
}

impl RustcInfo {
    fn read() -> Result<Self> {
        let about = stdout(Command::new("rustc").arg("-vV"))?;
        let host = about
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .context("rustc -vV prints no host")?;
        let sysroot = stdout(Command::new("rustc").args(["--print", "sysroot"]))?;
        let profdata =
            Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/llvm-profdata");
        ensure!(
            profdata.is_file(),
            "the compiler's tools are missing\nhint: rustup component add llvm-tools"
        );
        Ok(Self { host: host.to_owned(), profdata })
    }
}

/// Returns compiler flags in cargo's encoded form, which allows any path: those already set in the
/// environment, and one with a path.
fn flags(name: &str, path: &Path) -> OsString {
    let existing = std::env::var("CARGO_ENCODED_RUSTFLAGS").or_else(|_| {
        let plain = std::env::var("RUSTFLAGS")?;
        Ok::<_, std::env::VarError>(
            plain.split_whitespace().collect::<Vec<_>>().join(FLAG_SEPARATOR),
        )
    });
    let mut flags = OsString::from(existing.unwrap_or_default());
    if !flags.is_empty() {
        flags.push(FLAG_SEPARATOR);
    }
    flags.push(name);
    flags.push(path);
    flags
}

/// Separator between encoded flags.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// Builds `muster` with these flags. With an explicit target, build scripts are built without them.
fn build_with(
    root: &Path,
    rustc: &RustcInfo,
    target: &Path,
    linker: Option<&OldGlibc>,
    flags: &OsString,
) -> Result<()> {
    let mut build = match linker {
        Some(linker) => linker.build(&rustc.host),
        None => {
            let mut build = Command::new(crate::cargo());
            build.args(["build", "--target", &rustc.host]);
            build
        }
    };
    build.args(["--locked", "--profile", "dist", "--package", "muster"]);
    build.arg("--target-dir").arg(target).env("CARGO_ENCODED_RUSTFLAGS", flags);
    succeed(build.current_dir(root))
}

/// Generates the jobs of a recipe and replays them.
fn replay(root: &Path, binary: &Path, counts: &Path, recipe: &str, args: &[&str]) -> Result<()> {
    let dir = root.join("xtask/dist");
    let trace = counts.join(recipe).with_extension("csv.gz");
    // One profile file per process.
    let muster = || {
        let mut command = Command::new(binary);
        command.env("LLVM_PROFILE_FILE", counts.join("%p.profraw"));
        command
    };
    succeed(muster().args(["trace", "generate", "--output"]).arg(&trace).arg(dir.join(recipe)))?;
    let dir = dir.display().to_string();
    let args = args.iter().map(|arg| arg.replace("DIR", &dir));
    stdout(muster().args(["simulate", "--json", "--trace"]).arg(&trace).args(args))?;
    Ok(())
}

fn merge(profdata: &Path, counts: &Path, merged: &Path) -> Result<()> {
    let files =
        std::fs::read_dir(counts)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let raw: Vec<_> =
        files.iter().filter(|file| file.extension().is_some_and(|end| end == "profraw")).collect();
    ensure!(!raw.is_empty(), "no profile was written to {}", counts.display());
    succeed(Command::new(profdata).args(["merge", "--output"]).arg(merged).args(raw))
}

#[cfg(test)]
mod tests {
    use muster_spec::recipe::parse_recipe;
    use muster_spec::{parse_cluster, parse_queues};

    use super::*;

    #[test]
    fn the_files_of_all_replays_can_be_read() {
        let dir = crate::root().join("xtask/dist");
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        for (recipe, args) in REPLAYS {
            parse_recipe(&text(recipe), None).unwrap();
            for pair in args.chunks(2) {
                match (pair[0], pair[1].strip_prefix("DIR/")) {
                    ("--cluster", Some(name)) => drop(parse_cluster(&text(name), None).unwrap()),
                    ("--queues", Some(name)) => drop(parse_queues(&text(name), None).unwrap()),
                    (_, name) => assert_eq!(name, None),
                }
            }
        }
    }

    #[test]
    fn flags_with_spaces_in_their_paths_stay_whole() {
        let flags = flags("-Cprofile-use=", Path::new("/a b/c"));
        assert!(flags.to_string_lossy().ends_with("-Cprofile-use=/a b/c"), "{flags:?}");
    }
}
