//! `cargo xtask dist`: the binary for others to install, laid out by how it runs. It is built so
//! that it counts what it runs, replays traces of this folder's recipes, and is built again with
//! those counts (profile-guided optimisation): a pass of the engine goes once through some hundred
//! kilobytes of code, which it mostly waits for, and what runs comes to lie together. It must not
//! measure: that is `bench.rs`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;

/// What is replayed: a recipe of `xtask/dist`, and how. `DIR` stands for that folder.
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

/// Builds it, and says where it is.
pub fn run(root: &Path) -> Result<()> {
    let told = Told::by_rustc()?;
    let target = root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let counts = target.join("dist-counts");
    if counts.exists() {
        std::fs::remove_dir_all(&counts)
            .with_context(|| format!("{} is in the way", counts.display()))?;
    }
    let binary = target.join(&told.host).join("dist/muster");
    // 1. One that counts.
    println!("1 of 3: a binary that counts what it runs");
    build(root, &told, &target, &flags("-Cprofile-generate=", &counts))?;
    // 2. What it runs.
    println!("2 of 3: replays");
    for (recipe, args) in REPLAYS {
        replay(root, &binary, &counts, recipe, args)?;
    }
    let merged = counts.join("merged.profdata");
    merge(&told.profdata, &counts, &merged)?;
    // 3. One that is laid out by that.
    println!("3 of 3: the binary");
    build(root, &told, &target, &flags("-Cprofile-use=", &merged))?;
    println!("{}", binary.display());
    Ok(())
}

/// What the compiler says of itself.
struct Told {
    /// What it builds for.
    host: String,
    /// The program that merges counts.
    profdata: PathBuf,
}

impl Told {
    fn by_rustc() -> Result<Self> {
        let about = said(Command::new("rustc").arg("-vV"))?;
        let host = about
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .context("rustc names no host")?;
        let sysroot = said(Command::new("rustc").args(["--print", "sysroot"]))?;
        let profdata =
            Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/llvm-profdata");
        ensure!(
            profdata.is_file(),
            "the compiler's tools are missing\nhint: rustup component add llvm-tools"
        );
        Ok(Self { host: host.to_owned(), profdata })
    }
}

/// Compiler flags as cargo takes them whatever is in a path: those that are asked for already, and
/// one with a path.
fn flags(name: &str, path: &Path) -> OsString {
    let asked = std::env::var("CARGO_ENCODED_RUSTFLAGS").or_else(|_| {
        let plain = std::env::var("RUSTFLAGS")?;
        Ok::<_, std::env::VarError>(
            plain.split_whitespace().collect::<Vec<_>>().join(BETWEEN_FLAGS),
        )
    });
    let mut flags = OsString::from(asked.unwrap_or_default());
    if !flags.is_empty() {
        flags.push(BETWEEN_FLAGS);
    }
    flags.push(name);
    flags.push(path);
    flags
}

/// What cargo has between two of them.
const BETWEEN_FLAGS: &str = "\u{1f}";

/// With a target named, what runs at build time is built without the flags.
fn build(root: &Path, told: &Told, target: &Path, flags: &OsString) -> Result<()> {
    let args =
        ["build", "--locked", "--profile", "dist", "--package", "muster", "--target", &told.host];
    let mut build = Command::new(cargo());
    build.args(args).arg("--target-dir").arg(target).env("CARGO_ENCODED_RUSTFLAGS", flags);
    done(build.current_dir(root))
}

/// Draws the jobs of a recipe and replays them.
fn replay(root: &Path, binary: &Path, counts: &Path, recipe: &str, args: &[&str]) -> Result<()> {
    let dir = root.join("xtask/dist");
    let trace = counts.join(recipe).with_extension("csv.gz");
    // One file a process.
    let muster = || {
        let mut command = Command::new(binary);
        command.env("LLVM_PROFILE_FILE", counts.join("%p.profraw"));
        command
    };
    done(muster().args(["trace", "generate", "--output"]).arg(&trace).arg(dir.join(recipe)))?;
    let dir = dir.display().to_string();
    let args = args.iter().map(|arg| arg.replace("DIR", &dir));
    said(muster().args(["simulate", "--json", "--trace"]).arg(&trace).args(args))?;
    Ok(())
}

fn merge(profdata: &Path, counts: &Path, merged: &Path) -> Result<()> {
    let files =
        std::fs::read_dir(counts)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let raw: Vec<_> =
        files.iter().filter(|file| file.extension().is_some_and(|end| end == "profraw")).collect();
    ensure!(!raw.is_empty(), "no counts were written to {}", counts.display());
    done(Command::new(profdata).args(["merge", "--output"]).arg(merged).args(raw))
}

fn done(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("{name} did not start"))?;
    if !status.success() {
        bail!("{name} failed: {status}");
    }
    Ok(())
}

/// What a program that succeeds writes.
fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let out = command.output().with_context(|| format!("{name} did not start"))?;
    if !out.status.success() {
        bail!("{name} failed: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    }
    String::from_utf8(out.stdout).with_context(|| format!("{name} writes something else than text"))
}

#[cfg(test)]
mod tests {
    use muster_spec::recipe::parse_recipe;
    use muster_spec::{parse_cluster, parse_queues};

    use super::*;

    #[test]
    fn what_is_replayed_is_there_and_can_be_read() {
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
