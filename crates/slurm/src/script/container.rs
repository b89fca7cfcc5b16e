//! Containers in a script: Pyxis where srun has it, else Apptainer. The script itself selects one,
//! as it is known only on the node.

use std::fmt::Write as _;

use muster_model::payload::shell_word;
use muster_model::slurm::SlurmContainer;

use super::{ScriptInput, quote};

/// Selects Pyxis or Apptainer before any rank starts. Pyxis mounts no directories by default, so
/// those that a rank needs are listed.
pub(super) fn choose(text: &mut String, source: &ScriptInput<'_>) {
    let Some(container) = &source.slurm.container else { return };
    // A script without Muster runs where it is submitted, unless the job sets a directory.
    let work = work(source);
    let kept = source.directory.map(|kept| shell_word(&format!("{}:{}", kept.dir, kept.dir)));
    let mut mounts: Vec<String> = kept.into_iter().chain([format!("{work}:{work}")]).collect();
    mounts.extend(
        source
            .program
            .filter(|_| source.verify)
            .map(|program| shell_word(&format!("{program}:{program}:ro"))),
    );
    mounts.extend(container.mounts.iter().map(|mount| quote::path_word(mount)));
    let _ = write!(
        text,
        r#"
# The container: Pyxis where srun has it, else Apptainer.
muster_srun=()
export MUSTER_APPTAINER=
if srun --help 2> /dev/null | grep -q -e --container-image; then
  muster_srun=(--container-image={image} --container-mounts={mounts} --container-workdir={work})
elif ! MUSTER_APPTAINER=$(command -v apptainer || command -v singularity); then
  echo "muster: the job needs a container, but neither Pyxis nor Apptainer is installed here" >&2
  exit 1
fi
"#,
        image = quote::path_word(&for_pyxis(&container.image)),
        mounts = mounts.join(","),
    );
}

/// Returns the working directory of the ranks, as a word of the shell.
fn work(source: &ScriptInput<'_>) -> String {
    source
        .workdir
        .filter(|workdir| workdir.starts_with('/'))
        .map_or_else(|| "\"$PWD\"".to_owned(), shell_word)
}

/// Returns the command that precedes a rank's program.
pub(super) fn inside(
    container: &SlurmContainer,
    source: &ScriptInput<'_>,
    has_gpus: bool,
) -> String {
    let mut words = vec!["\"$MUSTER_APPTAINER\" exec".to_owned()];
    if has_gpus {
        words.push("--nv".to_owned());
    }
    if source.directory.is_some() {
        words.push("--bind \"${MUSTER_FENCE%/*}\"".to_owned());
    }
    words
        .extend(container.mounts.iter().map(|mount| format!("--bind {}", quote::path_word(mount))));
    words.push(format!("--pwd {}", work(source)));
    words.push(quote::path_word(&for_apptainer(&container.image)));
    format!("${{MUSTER_APPTAINER:+{}}} ", words.join(" "))
}

fn is_file(image: &str) -> bool {
    image.starts_with(['/', '.', '~']) || image.contains("://")
}

/// Converts an image name: Pyxis has `#` between the registry and the rest.
fn for_pyxis(image: &str) -> String {
    match image.split_once('/') {
        Some((registry, rest)) if !is_file(image) && registry.contains(['.', ':']) => {
            format!("{registry}#{rest}")
        }
        _ => image.to_owned(),
    }
}

fn for_apptainer(image: &str) -> String {
    if is_file(image) { image.to_owned() } else { format!("docker://{image}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_as_each_wants_it() {
        for (image, pyxis, apptainer) in [
            (
                "nvcr.io/nvidia/pytorch:24.05-py3",
                "nvcr.io#nvidia/pytorch:24.05-py3",
                "docker://nvcr.io/nvidia/pytorch:24.05-py3",
            ),
            ("localhost:5000/a/b", "localhost:5000#a/b", "docker://localhost:5000/a/b"),
            ("pytorch/pytorch:2.5", "pytorch/pytorch:2.5", "docker://pytorch/pytorch:2.5"),
            ("ubuntu", "ubuntu", "docker://ubuntu"),
            ("/images/torch.sqsh", "/images/torch.sqsh", "/images/torch.sqsh"),
            ("oras://registry/x", "oras://registry/x", "oras://registry/x"),
        ] {
            assert_eq!(
                (for_pyxis(image).as_str(), for_apptainer(image).as_str()),
                (pyxis, apptainer)
            );
        }
    }
}
