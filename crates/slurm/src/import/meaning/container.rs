//! Options of Pyxis. With them sbatch runs the script itself in the container; a job runs each
//! program in it, with fields for the image and its mounts. Passed on unchanged they would put
//! Muster's own script into the container, which has no `srun`.

use super::super::draft::ImportedJob;
use super::super::option::{GivenOption, PYXIS};
use super::super::read::BatchScript;
use super::{Translation, field, is_word, near, nothing};

/// Returns whether an option is one of Pyxis.
pub(in super::super) fn is_one(name: &str) -> bool {
    PYXIS.iter().any(|one| one.name == name)
}

/// Returns the script's working directory in the container, if set.
pub(in super::super) fn folder<'a>(script: &'a BatchScript<'_>) -> Option<&'a str> {
    script.last("container-image")?;
    script.last("container-workdir")?.value.as_deref().filter(|path| path.starts_with('/'))
}

/// Translates an option of Pyxis.
pub(super) fn option(
    script: &BatchScript<'_>,
    draft: &mut ImportedJob,
    one: &GivenOption,
    name: &str,
) -> Translation {
    let text = one.value.as_deref().unwrap_or_default();
    match name {
        "container-image" => image(draft, text),
        "container-mounts" => mounts(draft, text),
        "container-workdir" if folder(script).is_some() => near("`cd` at the head of `run`"),
        "container-workdir" => nothing("it requires an absolute path and an image"),
        "container-env" => {
            nothing("it selects variables of the image that the job's replace: set them by `env`")
        }
        "container-name" => {
            nothing("a container is created from its image for every job, and none is kept by name")
        }
        "container-save" => {
            nothing("a job has no field for it: save the image in a separate script with srun")
        }
        _ => nothing("a job has no field for it: the cluster's default applies"),
    }
}

/// Translates an image name: Pyxis has `#` between registry and path, a job has `/`.
fn image(draft: &mut ImportedJob, text: &str) -> Translation {
    let image = text.trim_start_matches("docker://").replacen('#', "/", 1);
    if !is_word(&image) {
        return nothing("this field cannot contain blanks, quotes, `#` or backslashes");
    }
    draft.slurm.container = Some(image);
    near(
        "slurm: {container}; it starts in the job's directory, which is mounted, not in the image's",
    )
}

fn mounts(draft: &mut ImportedJob, text: &str) -> Translation {
    let parts: Vec<&str> = text.split(',').collect();
    let is_mount = |part: &&str| match part.split(':').collect::<Vec<_>>().as_slice() {
        [source, target] | [source, target, "ro" | "rw"] => {
            source.starts_with('/') && target.starts_with('/') && is_word(part)
        }
        _ => false,
    };
    if !parts.iter().all(is_mount) {
        return nothing("mounts of a job are `/source:/target`, with `:ro` for read-only ones");
    }
    draft.slurm.container_mounts = parts.iter().map(|part| (*part).to_owned()).collect();
    field("slurm: {container-mounts}")
}
