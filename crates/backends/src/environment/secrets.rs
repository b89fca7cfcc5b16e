//! Secrets from files: a value goes from the file to the program's variables, and nowhere else.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::EnvironmentError;

/// Largest secret in bytes: the kernel takes less than 128 KiB in one variable (`MAX_ARG_STRLEN`, execve(2)), name
/// included.
const MAX_SECRET_BYTES: u64 = 120 << 10;

/// Returns the content of a file of this process's user that no other user can read, without line ends at its end.
pub(super) fn read(name: &str, path: &Path) -> Result<String, EnvironmentError> {
    let shown = path.display();
    let refused = |why: String, hint: String| {
        EnvironmentError::new(format!("the secret {name} cannot be read: {why}"), hint)
    };
    // Without O_NONBLOCK the open of a named pipe without a writer would block the task.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map(File::from);
    let file = opened.map_err(|error| {
        let error = std::io::Error::from(error);
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("write the value into it: `(umask 077; cat > {shown})`")
            }
            _ => "the file must be yours".to_owned(),
        };
        refused(format!("{shown}: {error}"), hint)
    })?;
    let facts =
        file.metadata().map_err(|error| refused(format!("{shown}: {error}"), String::new()))?;
    if !facts.is_file() {
        return Err(refused(format!("{shown} is not a file"), String::new()));
    }
    if facts.uid() != rustix::process::geteuid().as_raw() {
        let hint = format!("copy it: `install -m 600 {shown} ~/`");
        return Err(refused(format!("{shown} belongs to another user"), hint));
    }
    let mode = facts.mode() & 0o777;
    let allowed = if facts.gid() == rustix::process::getegid().as_raw() { 0o740 } else { 0o700 };
    if mode & !allowed != 0 {
        return Err(refused(
            format!("other users have access to {shown} (mode {mode:04o})"),
            format!("`chmod 600 {shown}`"),
        ));
    }
    let mut value = String::new();
    file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut value).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
            _ => error.to_string(),
        };
        refused(format!("{shown}: {why}"), String::new())
    })?;
    if value.len() as u64 > MAX_SECRET_BYTES || value.contains('\0') {
        let why = "no variable can hold it: it is longer than 120 KiB, or has a zero byte";
        return Err(refused(format!("{shown}: {why}"), "let the program read the file".to_owned()));
    }
    // As `$(cat FILE)` does: editors and `echo` end the last line.
    value.truncate(value.trim_end_matches(['\n', '\r']).len());
    if value.is_empty() {
        return Err(refused(format!("{shown} is empty"), "write the value into it".to_owned()));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_private_files_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("key");
        let check = |content: &str, mode: u32, expected: Result<&str, &str>| {
            std::fs::write(&file, content).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            match (read("KEY", &file), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value, expected),
                (Err(error), Err(part)) => assert!(error.what.contains(part), "{error}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        };
        check("abc\n", 0o600, Ok("abc"));
        check(" a b\nc\r\n\n", 0o400, Ok(" a b\nc"));
        check("abc", 0o640, Ok("abc"));
        check("abc", 0o644, Err("other users have access"));
        check("abc", 0o660, Err("other users have access"));
        check("abc", 0o602, Err("other users have access"));
        check("\n", 0o600, Err("is empty"));
        check("a\0b", 0o600, Err("zero byte"));
        check(&"a".repeat(200_000), 0o600, Err("longer than"));
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(read("KEY", &file).unwrap_err().what.contains("UTF-8"));
        assert!(read("KEY", temp.path()).unwrap_err().what.contains("not a file"));
        assert!(read("KEY", &temp.path().join("none")).unwrap_err().hint.contains("umask 077"));
        // No message has the value.
        check("hunter2", 0o644, Err("KEY"));
        assert!(!read("KEY", &file).unwrap_err().what.contains("hunter2"));
    }
}
