//! Reads the folder that a job sends to Kubernetes.

use std::cmp::Reverse;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_kubernetes::render::SentFile;

/// Most bytes of all files: a ConfigMap of Kubernetes has up to 1 MiB with its names.
const MOST_BYTES: u64 = 1_000_000;

/// Most files, each of which is named in every pod.
const MOST_FILES: usize = 1000;

/// Folders that are not sent, as what has a name that begins with a dot: it may be a secret.
const LEFT_OUT: [&str; 3] = ["__pycache__", "node_modules", "venv"];

/// Bits of a mode by which someone may execute a file.
const EXECUTE: u32 = 0o111;

/// Reason for which a folder cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// A file or folder that cannot be read.
    #[error("`send`: cannot read {}: {error}", .path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Reason of the system.
        error: io::Error,
    },
    /// The path is no folder.
    #[error("`send`: {} is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// There is nothing to send.
    #[error("`send`: {} has no files", .0.display())]
    Empty(PathBuf),
    /// A name that Kubernetes cannot have.
    #[error("`send`: the name of {} is not UTF-8, which Kubernetes needs", .0.display())]
    Name(PathBuf),
    /// More files than are counted.
    #[error("`send`: {} has more than {MOST_FILES} files", .0.display())]
    TooMany(PathBuf),
    /// More than an object of Kubernetes can have.
    #[error("`send`: {} has more than an object of Kubernetes can have: {files} files with {} kB; the largest is {} with {} kB", .folder.display(), .bytes / 1000, .largest.display(), .largest_bytes / 1000)]
    TooLarge {
        /// Folder that was named.
        folder: PathBuf,
        /// Number of files found.
        files: usize,
        /// Sum of their sizes in bytes.
        bytes: u64,
        /// File with the most bytes.
        largest: PathBuf,
        /// Size of the largest file in bytes.
        largest_bytes: u64,
    },
}

impl SendError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooMany(_) => {
                "send a folder with up to 1 MB of code; mount data and models by `volumes`, or build them into the image"
            }
            Self::Name(_) => "rename it",
            Self::Unreadable { .. } | Self::NoFolder(_) | Self::Empty(_) => {
                "name a folder with the code of the job, such as `kubernetes: {send: .}`"
            }
        }
    }
}

/// Returns the files in a folder and those below it, in the order of their paths. What is hidden,
/// caches and installed packages are left out.
///
/// # Errors
/// If the folder or a file cannot be read, or if they are more than Kubernetes takes.
pub fn read_folder(folder: &Path) -> Result<Vec<SentFile>, SendError> {
    let is_folder = describe(folder)?.is_dir();
    if !is_folder {
        return Err(SendError::NoFolder(folder.to_owned()));
    }
    let mut found = Vec::new();
    list(folder, &mut found)?;
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let bytes: u64 = found.iter().map(|(_, file)| file.len()).sum();
    if found.len() > MOST_FILES {
        return Err(SendError::TooMany(folder.to_owned()));
    }
    if bytes > MOST_BYTES {
        let files = found.len();
        found.sort_by_key(|(_, file)| Reverse(file.len()));
        let (largest, file) = found.swap_remove(0);
        return Err(SendError::TooLarge {
            folder: folder.to_owned(),
            files,
            bytes,
            largest,
            largest_bytes: file.len(),
        });
    }
    let sent = |(path, file): &(PathBuf, Metadata)| {
        let content = fs::read(path).map_err(|error| unreadable(path, error))?;
        let below = path.strip_prefix(folder).unwrap_or(path);
        Ok(SentFile {
            path: below.to_string_lossy().into_owned(),
            content,
            is_executable: file.permissions().mode() & EXECUTE != 0,
        })
    };
    let files: Vec<SentFile> = found.iter().map(sent).collect::<Result<_, SendError>>()?;
    if files.is_empty() { Err(SendError::Empty(folder.to_owned())) } else { Ok(files) }
}

/// Adds the files of a folder. Links to files are read as these; links to folders may lead in circles,
/// and are left out.
fn list(folder: &Path, found: &mut Vec<(PathBuf, Metadata)>) -> Result<(), SendError> {
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let entry = entry.map_err(|error| unreadable(folder, error))?;
        let path = entry.path();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let about = match describe(&path) {
            Err(_) if is_link => continue,
            about => about?,
        };
        let Ok(name) = entry.file_name().into_string() else { return Err(SendError::Name(path)) };
        if is_left_out(&name) {
            continue;
        }
        if about.is_file() {
            found.push((path, about));
        } else if about.is_dir() && !is_link {
            list(&path, found)?;
        }
        // A mistyped folder may have millions of files.
        if found.len() > MOST_FILES {
            break;
        }
    }
    Ok(())
}

fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || LEFT_OUT.contains(&name)
}

fn describe(path: &Path) -> Result<Metadata, SendError> {
    fs::metadata(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: io::Error) -> SendError {
    SendError::Unreadable { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn files_are_sent_with_their_paths_and_without_caches() {
        let folder = folder(&[
            ("train.py", "print()"),
            ("model/net.py", ""),
            (".env", "A=1"),
            (".git/config", "x"),
            ("model/__pycache__/net.pyc", "x"),
        ]);
        let script = folder.path().join("run.sh");
        fs::write(&script, "echo").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        symlink("train.py", folder.path().join("same.py")).unwrap();
        symlink(".", folder.path().join("circle")).unwrap();
        symlink("gone", folder.path().join("broken")).unwrap();
        let files = read_folder(folder.path()).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["model/net.py", "run.sh", "same.py", "train.py"]);
        assert_eq!(files[2].content, b"print()");
        let executable: Vec<bool> = files.iter().map(|file| file.is_executable).collect();
        assert_eq!(executable, [false, true, false, false]);
    }

    #[test]
    fn too_much_nothing_and_no_folder_are_errors_that_name_it() {
        let large = "x".repeat(1_000_001);
        let too_large = folder(&[("a.py", ""), ("data/a.bin", &large)]);
        let error = read_folder(too_large.path()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("2 files with 1000 kB") && text.contains("data/a.bin"), "{text}");
        assert!(error.hint().contains("volumes"));
        let empty = folder(&[(".git/config", "x")]);
        assert!(matches!(read_folder(empty.path()), Err(SendError::Empty(_))));
        let file = too_large.path().join("a.py");
        assert!(matches!(read_folder(&file), Err(SendError::NoFolder(_))));
        let gone = too_large.path().join("gone");
        assert!(matches!(read_folder(&gone), Err(SendError::Unreadable { .. })));
    }
}
