//! Saved progress in a script: whose word counts, what the last one was, and a turn that is over
//! once the gang has saved before its limit.

use std::fmt::Write as _;

use muster_model::job::{AfterCheckpoint, CheckpointBy};

use super::listener::WAKE;
use super::shape::Component;
use super::{ALL_SAVE, ASKS, Source};

/// Whether the script itself is told before the limit, and passes it on to the ranks.
pub(super) fn takes_turns(source: &Source<'_>) -> bool {
    source.spec.checkpoint.is_some_and(|checkpoint| checkpoint.then == AfterCheckpoint::Requeue)
}

/// The warning may come before the ranks have started, and would end the script.
const WARNED: &str = "muster_warned=\ntrap muster_warned=1 USR1\n";

/// What the start before this one saved last: the word of rank 0, or the oldest of all ranks', once
/// each has said one.
pub(super) fn last(text: &mut String, source: &Source<'_>, components: &[Component]) {
    let by = source.spec.checkpoint.map_or(CheckpointBy::First, |checkpoint| checkpoint.by);
    if takes_turns(source) {
        text.push_str(WARNED);
    }
    if by == CheckpointBy::First {
        text.push_str(LAST);
        if takes_turns(source) {
            text.push_str("muster_ranks=1\n");
        }
        return;
    }
    let ranks: Vec<String> = components.iter().map(ranks).collect();
    let _ =
        write!(text, "{ALL_SAVE}{LAST_OF_ALL}muster_ranks=$(({}))\n{SAVERS}", ranks.join(" + "));
}

/// Ranks of a component, as bash counts them.
fn ranks(component: &Component) -> String {
    match component.tasks_per_node {
        // Of several components each has nodes of its own, and their number is fixed.
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

/// How many ranks there were is of the start before: an elastic gang may have another size now.
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

/// Waits for the ranks, which run beside the script, and ends the turn when they have saved in
/// time. The trap itself asks them: a mark that it left could come behind the last look at it, and
/// the script would wait past its limit.
pub(super) fn turn(text: &mut String, components: &[Component]) {
    let all: Vec<String> = components.iter().map(ranks).collect();
    let _ = write!(
        text,
        r#"# Told before its limit, it asks the ranks to save, waits for the word, and goes back into the queue.
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
  # Ranks that have not begun would not hear it.
  until muster_has_begun; do
    kill -0 "$muster_step" 2> /dev/null || return 0
    sleep 0.5
  done
  muster_stamps
  muster_before=("${{muster_now[@]}}")
  echo "muster: asked to save before the limit" >&2
{ASKS}{WAKE} "$muster_self"
  while kill -0 "$muster_step" 2> /dev/null; do
    if muster_has_saved; then
      muster_is_ending && break
      echo "muster: saved; queued again for the next turn" >&2
      scontrol requeue "$muster_self" && muster_told=1
      break
    fi
    sleep 0.5
  done
}}
trap muster_ask USR1
# Told before there was anybody to ask.
[ -z "$muster_warned" ] || muster_ask
while wait "$muster_step"; kill -0 "$muster_step" 2> /dev/null; do :; done
wait "$muster_step"
status=$?
"#,
        all = all.join(" + ")
    );
}

/// True while the job is being ended, by whomever: what has not come to its own end is not queued
/// again from here. Slurm would take that also of a job that was cancelled while its ranks still
/// end.
pub(super) const IS_ENDING: &str = r#"muster_is_ending() {
  [ -z "$muster_told" ] || return 0
  case $(scontrol --oneliner show job "$muster_self" | sed -n '1s/.* JobState=\([A-Z_]*\).*/\1/p') in
    COMPLETING | CANCELLED) return 0 ;;
  esac
  return 1
}
"#;
