//! Checkpoints in a script: which ranks must acknowledge, what the last checkpoint was, and time
//! slices that end once the gang has saved before its limit.

use std::fmt::Write as _;

use muster_model::job::{AfterCheckpoint, CheckpointBy};

use super::listener::WAKE;
use super::shape::Component;
use super::{ALL_SAVE, ASKS, ScriptInput};

/// Returns whether the script itself receives the signal before the limit, and passes it on to the
/// ranks.
pub(super) fn has_time_slices(source: &ScriptInput<'_>) -> bool {
    source.spec.checkpoint.is_some_and(|checkpoint| checkpoint.then == AfterCheckpoint::Requeue)
}

/// Set early, as the signal may come before the ranks have started, and would kill the script.
const WARNED: &str = "muster_warned=\ntrap muster_warned=1 USR1\n";

/// Sets the last checkpoint of the previous start: that of rank 0, or the oldest of all ranks once
/// each has acknowledged.
pub(super) fn last(text: &mut String, source: &ScriptInput<'_>, components: &[Component]) {
    let by = source.spec.checkpoint.map_or(CheckpointBy::First, |checkpoint| checkpoint.by);
    if has_time_slices(source) {
        text.push_str(WARNED);
    }
    if by == CheckpointBy::First {
        text.push_str(LAST);
        if has_time_slices(source) {
            text.push_str("muster_ranks=1\n");
        }
        return;
    }
    let ranks: Vec<String> = components.iter().map(ranks).collect();
    let _ =
        write!(text, "{ALL_SAVE}{LAST_OF_ALL}muster_ranks=$(({}))\n{SAVERS}", ranks.join(" + "));
}

/// Returns the number of ranks of a component, as a bash expression.
fn ranks(component: &Component) -> String {
    match component.tasks_per_node {
        // Each of several components has its own nodes, and their number is fixed.
        Some(per_node) if component.roles.iter().all(|role| role.first_rank == 0) => {
            format!("${{SLURM_JOB_NUM_NODES_HET_GROUP_0:-$SLURM_JOB_NUM_NODES}} * {per_node}")
        }
        _ => component.roles.iter().map(|role| role.tasks).sum::<u32>().to_string(),
    }
}

const LAST: &str = r#"if [ -s "$MUSTER_CHECKPOINT_FILE" ]; then
  MUSTER_LAST_CHECKPOINT=$(tail -n 1 "$MUSTER_CHECKPOINT_FILE")
  export MUSTER_LAST_CHECKPOINT
fi
"#;

/// The previous start may have had another number of ranks: an elastic gang can change its size.
const LAST_OF_ALL: &str = r#"muster_words=() muster_ranks=$(cat "$muster_dir/savers" 2> /dev/null)
for ((muster_rank = 0; muster_rank < muster_ranks; muster_rank++)); do
  muster_file=$MUSTER_CHECKPOINT_FILE
  [ "$muster_rank" = 0 ] || muster_file=$muster_file-$muster_rank
  [ -s "$muster_file" ] || { muster_words=(); break; }
  muster_words+=("$muster_file")
done
if [ "${#muster_words[@]}" -gt 0 ]; then
  MUSTER_LAST_CHECKPOINT=$(tail -n 1 "$(ls -tr -- "${muster_words[@]}" | head -n 1)")
  export MUSTER_LAST_CHECKPOINT
fi
"#;

const SAVERS: &str = "echo \"$muster_ranks\" > \"$muster_dir/savers\"\n";

/// Waits for the ranks, which run in the background, and ends the time slice when they have saved
/// in time. The trap itself requests the checkpoint: a flag could be set after the last test of it,
/// and the script would wait past its limit.
pub(super) fn turn(text: &mut String, components: &[Component]) {
    let all: Vec<String> = components.iter().map(ranks).collect();
    let _ = write!(
        text,
        r#"# Signalled before its limit, it requests a checkpoint of the ranks, waits for the acknowledgement, and is requeued.
muster_has_begun() {{
  muster_begun=("$MUSTER_LOGS"/begun-*)
  [ -e "${{muster_begun[0]}}" ] && [ "${{#muster_begun[@]}}" -ge $(({all})) ]
}}
muster_stamps() {{
  muster_now=()
  for ((muster_rank = 0; muster_rank < muster_ranks; muster_rank++)); do
    muster_file=$MUSTER_CHECKPOINT_FILE
    [ "$muster_rank" = 0 ] || muster_file=$muster_file-$muster_rank
    muster_now+=("$([ ! -s "$muster_file" ] || stat -c '%y %s %i' "$muster_file" 2> /dev/null)")
  done
}}
muster_has_saved() {{
  muster_stamps
  for muster_rank in "${{!muster_now[@]}}"; do
    [ -n "${{muster_now[muster_rank]}}" ] || return 1
    [ "${{muster_now[muster_rank]}}" != "${{muster_before[muster_rank]}}" ] || return 1
  done
}}
muster_asked=
muster_ask() {{
  [ -z "$muster_asked" ] || return 0
  muster_asked=1
  # Ranks that have not started cannot receive the signal.
  until muster_has_begun; do
    kill -0 "$muster_step" 2> /dev/null || return 0
    sleep 0.5
  done
  muster_stamps
  muster_before=("${{muster_now[@]}}")
  echo "muster: checkpoint requested before the limit" >&2
{ASKS}{WAKE} "$muster_self"
  while kill -0 "$muster_step" 2> /dev/null; do
    if muster_has_saved; then
      muster_is_ending && break
      echo "muster: checkpoint saved; requeued for the next time slice" >&2
      scontrol requeue "$muster_self" && muster_told=1
      break
    fi
    sleep 0.5
  done
}}
trap muster_ask USR1
# The signal arrived before the ranks started.
[ -z "$muster_warned" ] || muster_ask
while wait "$muster_step"; kill -0 "$muster_step" 2> /dev/null; do :; done
wait "$muster_step"
status=$?
"#,
        all = all.join(" + ")
    );
}

/// Shell function that returns whether the job is being ended, by any user: a job that has not
/// completed is not requeued from here. Slurm would requeue even a cancelled job while its ranks
/// still end.
pub(super) const IS_ENDING: &str = r#"muster_is_ending() {
  [ -z "$muster_told" ] || return 0
  case $(scontrol --oneliner show job "$muster_self" | sed -n '1s/.* JobState=\([A-Z_]*\).*/\1/p') in
    COMPLETING | CANCELLED) return 0 ;;
  esac
  return 1
}
"#;
