//! The image: an OCI layout in a tar archive, with the binary, the C library of this machine and
//! certificates, and nothing else. No image is pulled, and no container tool is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::elf::GlibcVersion;
use super::release::{Release, SUMMARY, write};
use super::tree;
use crate::tools;

/// User and group of the process; the manifests of `muster init kubernetes` have the same.
const USER: &str = "65532";

/// Home of that user, which it may write.
const HOME: &str = "home/muster";

/// Since this version the C library has its name services (users, DNS) in itself.
const WITH_NAME_SERVICES: GlibcVersion = GlibcVersion { major: 2, minor: 34 };

/// Certificates as Debian packages them. Not `/etc/ssl/certs`, where a machine may have its own.
const CERTIFICATES: &str = "/usr/share/ca-certificates/mozilla";

/// Terms of the C library, which go with it.
const LIBC_TERMS: &str = "usr/share/doc/libc6/copyright";

/// Makes `muster-VERSION-ARCHITECTURE.oci.tar`.
///
/// # Errors
/// When this machine lacks what an image needs, or a tool fails.
pub fn make(release: &Release) -> Result<()> {
    let folder = release.folder("image")?;
    let files = folder.join("root");
    fill(release, &files)?;
    let layer = folder.join("layer.tar");
    pack(release, &files, &layer)?;
    let layout = folder.join("layout");
    let uncompressed = sha256(&layer)?;
    tree::gzip(release, &layer)?;
    let layer = blob(&layout, &folder.join("layer.tar.gz"))?;
    let config = store(&layout, &folder, &config(release, &uncompressed)?)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
    });
    let manifest = store(&layout, &folder, &manifest)?;
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["platform"] = json!({"architecture": release.architecture.debian, "os": "linux"});
    entry["annotations"] =
        json!({"org.opencontainers.image.ref.name": format!("muster:{}", release.version)});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    write(&layout.join("index.json"), &index.to_string())?;
    write(&layout.join("oci-layout"), &json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    let name = format!("muster-{}-{}.oci.tar", release.version, release.architecture.rust);
    tree::tar(release, &layout, ".", &release.output.join(name))
}

/// Writes the files of the image.
fn fill(release: &Release, root: &Path) -> Result<()> {
    let own = NeededByImage::of(release)?;
    let bin = root.join("usr/local/bin");
    fs::create_dir_all(&bin)?;
    fs::copy(release.binary(), bin.join("muster"))?;
    for path in &own.libraries {
        let target = root.join(path.strip_prefix("/").unwrap_or(path));
        fs::create_dir_all(target.parent().context("a library has a folder")?)?;
        fs::copy(path, &target).with_context(|| format!("{}", path.display()))?;
    }
    for folder in ["tmp", "proc", "sys", "dev", "run", HOME] {
        fs::create_dir_all(root.join(folder))?;
    }
    write(
        &root.join("etc/passwd"),
        &format!("root:x:0:0:root:/:/nologin\nmuster:x:{USER}:{USER}::/{HOME}:/nologin\n"),
    )?;
    write(&root.join("etc/group"), &format!("root:x:0:\nmuster:x:{USER}:\n"))?;
    write(&root.join("etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files dns\n")?;
    write(&root.join("etc/ssl/certs/ca-certificates.crt"), &own.certificates)?;
    let documents = release.common().join("share/doc/muster");
    for name in ["LICENSE", "THIRD-PARTY.txt"] {
        let text = fs::read_to_string(documents.join(name))?;
        write(&root.join("usr/share/doc/muster").join(name), &text)?;
    }
    if let Ok(terms) = fs::read_to_string(Path::new("/").join(LIBC_TERMS)) {
        write(&root.join(LIBC_TERMS), &terms)?;
    }
    Ok(())
}

/// Files that an image takes from this machine.
struct NeededByImage {
    libraries: Vec<PathBuf>,
    certificates: String,
}

impl NeededByImage {
    fn of(release: &Release) -> Result<Self> {
        let version = tools::stdout(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
        let version: GlibcVersion =
            version.split_whitespace().nth(1).unwrap_or_default().parse()?;
        ensure!(
            version >= WITH_NAME_SERVICES,
            "an image needs glibc {WITH_NAME_SERVICES} or newer of this machine, which has {version}"
        );
        let printed = tools::stdout(Command::new("ldd").arg(release.binary()))?;
        Ok(Self { libraries: parse_ldd(&printed)?, certificates: certificates()? })
    }
}

/// Reads `libc.so.6 => /lib/… (0x…)` and `/lib64/ld-linux… (0x…)`; the kernel's own has no path.
fn parse_ldd(text: &str) -> Result<Vec<PathBuf>> {
    ensure!(!text.contains("not found"), "libraries are missing:\n{text}");
    let path = |line: &str| {
        let place = line.split_once("=> ").map_or(line, |(_, place)| place).trim();
        place.starts_with('/').then(|| place.split(" (").next().map(PathBuf::from)).flatten()
    };
    let libraries: Vec<PathBuf> = text.lines().filter_map(path).collect();
    ensure!(!libraries.is_empty(), "ldd names no library:\n{text}");
    Ok(libraries)
}

fn certificates() -> Result<String> {
    let hint = || format!("{CERTIFICATES}\nhint: apt-get install ca-certificates");
    let entries = fs::read_dir(CERTIFICATES).with_context(hint)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    let texts = paths.iter().map(|path| Ok(fs::read_to_string(path)?.trim_end().to_owned() + "\n"));
    texts.collect()
}

/// Packs the files of the image. Root owns all but the home, and `/tmp` is open as usual.
fn pack(release: &Release, root: &Path, archive: &Path) -> Result<()> {
    let names =
        fs::read_dir(root)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    let mut names: Vec<_> =
        names.into_iter().filter(|name| name != "tmp" && name != "home").collect();
    names.sort();
    let tar = |action: &str, words: &[&str]| {
        let mut tar = release.command("tar");
        tar.args([action, "--sort=name", "--format=ustar", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", release.epoch)).args(words);
        tar.arg("--file").arg(archive).arg("--directory").arg(root);
        tar
    };
    let of_root = ["--owner=0", "--group=0", "--mode=u=rwX,go=rX"];
    tools::succeed(tar("--create", &of_root).args(names))?;
    let open = ["--owner=0", "--group=0", "--mode=1777"];
    tools::succeed(tar("--append", &open).arg("tmp"))?;
    let owner = format!("--owner={USER}");
    let group = format!("--group={USER}");
    let own = [owner.as_str(), group.as_str(), "--mode=0755", "--no-recursion"];
    tools::succeed(tar("--append", &[&of_root[..], &["--no-recursion"]].concat()).arg("home"))?;
    tools::succeed(tar("--append", &own).arg(HOME))
}

fn config(release: &Release, layer: &str) -> Result<Value> {
    let mut date = Command::new("date");
    date.args(["--utc", "+%FT%TZ", "--date"]).arg(format!("@{}", release.epoch));
    let created = tools::stdout(&mut date)?.trim().to_owned();
    Ok(json!({
        "created": created,
        "architecture": release.architecture.debian,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": [
                "PATH=/usr/local/bin:/usr/bin:/bin",
                format!("HOME=/{HOME}"),
                "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
            ],
            "WorkingDir": format!("/{HOME}"),
            "Entrypoint": ["muster"],
            "Labels": {
                "org.opencontainers.image.title": "muster",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.description": SUMMARY,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    }))
}

/// Content in the layout: its checksum and size.
struct Blob {
    sha256: String,
    size: u64,
}

/// Copies a file to its place by checksum.
fn blob(layout: &Path, file: &Path) -> Result<Blob> {
    let sha256 = sha256(file)?;
    let folder = layout.join("blobs/sha256");
    fs::create_dir_all(&folder)?;
    let size = fs::copy(file, folder.join(&sha256))?;
    Ok(Blob { sha256, size })
}

fn store(layout: &Path, work: &Path, document: &Value) -> Result<Blob> {
    let file = work.join("document.json");
    write(&file, &document.to_string())?;
    blob(layout, &file)
}

fn descriptor(media_type: &str, blob: &Blob) -> Value {
    json!({"mediaType": media_type, "digest": format!("sha256:{}", blob.sha256), "size": blob.size})
}

fn sha256(file: &Path) -> Result<String> {
    let line = tools::stdout(Command::new("sha256sum").arg(file))?;
    Ok(line.split_whitespace().next().context("sha256sum prints a sum")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_paths_that_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parse_ldd(text).unwrap(), expected);
        assert!(parse_ldd("\tlibgone.so => not found\n").is_err());
        assert!(parse_ldd("\tstatically linked\n").is_err());
    }
}
