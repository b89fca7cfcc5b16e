//! The command of enroot, which runs image files (squashfs) as the user, without a daemon and in the task's control
//! groups. Names of registries are refused before: enroot imports them as a step of its own.

use std::path::Path;

use super::EnvironmentError;

/// Goes to the working directory, which enroot has no option for, and becomes the program.
const ENTER: &str = "cd \"$0\" && exec \"$@\"";

/// Parts of the command that depend on the task.
pub(super) struct EnrootTask<'a> {
    /// Mounts as `/source:/target` or `/source:/target:ro`.
    pub(super) mounts: &'a [String],
    /// Variables of the task.
    pub(super) env: &'a super::Variables,
    /// Names of those that the image does not have itself.
    pub(super) passed: Vec<&'a str>,
    /// True when the task has NVIDIA GPUs that are real.
    pub(super) has_nvidia: bool,
    pub(super) workdir: &'a Path,
}

/// Returns the words that run a program in an image. The root file system can be written, and what is written there is
/// gone afterwards, as with Podman.
///
/// # Errors
/// A mount has a space in its path, which enroot does not take.
pub(super) fn command(
    program: &Path,
    image: &str,
    task: &EnrootTask<'_>,
    inside: Vec<String>,
) -> Result<Vec<String>, EnvironmentError> {
    let mut words = vec![program.display().to_string(), "start".to_owned(), "--rw".to_owned()];
    for each in task.mounts {
        words.extend(["--mount".to_owned(), mount(each)?]);
    }
    // Only names: enroot takes their values from its own variables, so secrets are in no argument. It writes a line for
    // each, so that a value of several lines cannot pass.
    let passed = task.passed.iter().filter(|name| is_name(name) && !is_of_gpus(name));
    let passed = passed.filter(|name| !task.env[**name].contains('\n'));
    words.extend(passed.map(|name| format!("--env={name}")));
    words.extend(gpus(task));
    words.extend(["--".to_owned(), image.to_owned()]);
    words.extend(["/bin/sh", "-c", ENTER].map(str::to_owned));
    words.push(task.workdir.display().to_string());
    words.extend(inside);
    Ok(words)
}

/// Returns the variables by which enroot's hook finds the GPUs: those of the task, or none, whatever the image says.
fn gpus(task: &EnrootTask<'_>) -> Vec<String> {
    if !task.has_nvidia {
        return vec!["--env=NVIDIA_VISIBLE_DEVICES=void".to_owned()];
    }
    let is_set = task.env.contains_key("NVIDIA_DRIVER_CAPABILITIES");
    // Without a value the hook gives nvidia-smi alone, and no CUDA.
    let capabilities = if is_set { "" } else { "=compute,utility" };
    vec![
        "--env=NVIDIA_VISIBLE_DEVICES".to_owned(),
        format!("--env=NVIDIA_DRIVER_CAPABILITIES{capabilities}"),
    ]
}

fn is_of_gpus(name: &str) -> bool {
    matches!(name, "NVIDIA_VISIBLE_DEVICES" | "NVIDIA_DRIVER_CAPABILITIES")
}

/// Returns whether enroot takes a name of a variable; a single one that it does not take ends it.
fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.starts_with(|first: char| first.is_ascii_digit()) && name.bytes().all(is_word)
}

/// Returns a mount in the fields of fstab(5), with colons between them.
fn mount(written: &str) -> Result<String, EnvironmentError> {
    if written.contains(char::is_whitespace) {
        return Err(EnvironmentError::new(
            format!("enroot cannot mount {written}: a path has a space"),
            "link the directory to a path without one, and mount that",
        ));
    }
    let mut fields = written.split(':');
    let source = fields.next().unwrap_or_default();
    let target = fields.next().unwrap_or(source);
    let access = fields.next().unwrap_or("rw");
    Ok(format!("{source}:{target}:none:x-create=auto,rbind,{access}"))
}

#[cfg(test)]
mod tests {
    use super::super::Variables;
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn words(env: &Variables, has_nvidia: bool, mounts: &[String]) -> Result<String, String> {
        let task = EnrootTask {
            mounts,
            env,
            passed: env.keys().map(String::as_str).collect(),
            has_nvidia,
            workdir: Path::new("/w"),
        };
        let inside = vec!["python".to_owned(), "a b.py".to_owned()];
        let made = command(Path::new("/e"), "/x.sqsh", &task, inside);
        made.map(|words| words.join("|")).map_err(|error| error.what)
    }

    #[test]
    fn enroot_gets_names_and_never_values() {
        let env =
            env(&[("KEY", "hunter2"), ("BASH_FUNC_x%%", "() {}"), ("TEXT", "a\nb"), ("1A", "1")]);
        let line = words(&env, false, &["/data:/d:ro".to_owned(), "/w:/w".to_owned()]).unwrap();
        assert_eq!(
            line,
            "/e|start|--rw|--mount|/data:/d:none:x-create=auto,rbind,ro|--mount|/w:/w:none:x-create=auto,rbind,rw|\
             --env=KEY|--env=NVIDIA_VISIBLE_DEVICES=void|--|/x.sqsh|/bin/sh|-c|cd \"$0\" && exec \"$@\"|/w|python|a b.py"
        );
    }

    #[test]
    fn the_hook_for_gpus_gets_those_of_the_task_with_cuda() {
        let own = env(&[("NVIDIA_VISIBLE_DEVICES", "GPU-1")]);
        let line = words(&own, true, &[]).unwrap();
        let gpus =
            "--env=NVIDIA_VISIBLE_DEVICES|--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility|--|";
        assert!(line.contains(gpus), "{line}");
        let all =
            env(&[("NVIDIA_VISIBLE_DEVICES", "GPU-1"), ("NVIDIA_DRIVER_CAPABILITIES", "all")]);
        let line = words(&all, true, &[]).unwrap();
        assert!(line.contains("|--env=NVIDIA_DRIVER_CAPABILITIES|--|"), "{line}");
        // Virtual GPUs: an image that asks for all must not get those of other jobs.
        let line = words(&own, false, &[]).unwrap();
        assert!(line.contains("|--env=NVIDIA_VISIBLE_DEVICES=void|--|"), "{line}");
    }

    #[test]
    fn a_mount_with_a_space_is_refused_before_the_job_is_queued() {
        let refused = words(&env(&[]), false, &["/a b:/c".to_owned()]).unwrap_err();
        assert!(refused.contains("a path has a space"), "{refused}");
    }
}
