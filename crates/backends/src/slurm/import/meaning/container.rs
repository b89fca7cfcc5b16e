//! Options of Pyxis. With them sbatch runs the script itself in the container, and a job every
//! program: for those of the image and its mounts a job has words. Handed on as they are they would
//! put Muster's own script into the container, where no `srun` is.

use super::super::draft::Draft;
use super::super::option::{Given, PYXIS};
use super::super::read::Script;
use super::{Verdict, field, is_word, near, nothing};

/// Whether it is one of them.
pub(in super::super) fn is_one(name: &str) -> bool {
    PYXIS.iter().any(|one| one.name == name)
}

/// Where the script is to run in the container, if it says so.
pub(in super::super) fn folder<'a>(script: &'a Script<'_>) -> Option<&'a str> {
    script.last("container-image")?;
    script.last("container-workdir")?.value.as_deref().filter(|path| path.starts_with('/'))
}

/// What becomes of one of them.
pub(super) fn option(script: &Script<'_>, draft: &mut Draft, one: &Given, name: &str) -> Verdict {
    let text = one.value.as_deref().unwrap_or_default();
    match name {
        "container-image" => image(draft, text),
        "container-mounts" => mounts(draft, text),
        "container-workdir" if folder(script).is_some() => near("`cd` at the head of `run`"),
        "container-workdir" => nothing("it takes an absolute path, and an image"),
        "container-env" => {
            nothing("which of the image's variables the job's own replace: set them by `env`")
        }
        "container-name" => {
            nothing("a container is made of its image for every job, and none is kept by name")
        }
        "container-save" => {
            nothing("a job has no word for it: save the image in a script of its own, by srun")
        }
        _ => nothing("a job has no word for it: what the cluster does by default counts"),
    }
}

/// Pyxis has `#` between a registry and the rest, where a job has `/`.
fn image(draft: &mut Draft, text: &str) -> Verdict {
    let image = text.trim_start_matches("docker://").replacen('#', "/", 1);
    if !is_word(&image) {
        return nothing("blanks, quotes, `#` and backslashes cannot stand in this field");
    }
    draft.slurm.container = Some(image);
    near(
        "slurm: {container}; it starts in the folder of the job, which is mounted, not in that of the image",
    )
}

fn mounts(draft: &mut Draft, text: &str) -> Verdict {
    let parts: Vec<&str> = text.split(',').collect();
    let is_mount = |part: &&str| match part.split(':').collect::<Vec<_>>().as_slice() {
        [source, target] | [source, target, "ro" | "rw"] => {
            source.starts_with('/') && target.starts_with('/') && is_word(part)
        }
        _ => false,
    };
    if !parts.iter().all(is_mount) {
        return nothing(
            "mounts of a job are `/source:/target`, with `:ro` where nothing may be written",
        );
    }
    draft.slurm.container_mounts = parts.iter().map(|part| (*part).to_owned()).collect();
    field("slurm: {container-mounts}")
}
