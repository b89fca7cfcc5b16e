//! How a request for a checkpoint reaches the program of a rank: the job's own signal would end
//! shells and launchers. So Slurm sends one that ends none, and a listener beside the program
//! passes the job's own on to processes that handle it, as the supervisor of a task does on a
//! machine without Slurm (`supervise/signal.rs`).

use std::fmt::Write as _;

use muster_model::{Checkpoint, CheckpointTo};

/// The signal that Slurm sends: SIGWINCH, whose default action is to do nothing. By its number:
/// sbatch and scancel refuse its name.
pub(super) const WAKE: &str = "28";

/// Before the number of the job's own signal, by which an import knows it.
pub(in super::super) const PASSES_ON: &str = "  muster_signal=";

/// Before the program, which runs beside the shell of its rank. What runs in the background would
/// ignore these signals.
pub(super) const BEFORE: &str = "(\ntrap - INT QUIT";

/// Behind the program: its input is that of the rank.
pub(super) const AFTER: &str = ") <&0 &\nmuster_stay";

/// The functions of the listener.
pub(super) fn functions(text: &mut String, checkpoint: &Checkpoint) {
    let to = match checkpoint.to {
        CheckpointTo::Handlers => "handlers",
        CheckpointTo::Outermost => "outermost",
        CheckpointTo::All => "all",
    };
    let (signal, lead) = (checkpoint.signal, checkpoint.lead.0.div_ceil(1000));
    text.push_str(STAY);
    text.push_str(LOOK);
    let _ = write!(
        text,
        r#"muster_listen() {{
{PASSES_ON}{signal} muster_to={to} muster_main=$1 muster_until=0 muster_asked=
  declare -A muster_got=()
  # Where Slurm signals every process, this one is still asked only once.
  trap '' WINCH
  trap muster_asked=1 USR1
  # Who has not begun does not hear that it is to save.
  : > "$MUSTER_LOGS/begun-$RANK"
  while kill -0 "$muster_main" 2> /dev/null; do
    if [ -n "$muster_asked" ]; then
      muster_asked= muster_got=() muster_until=$((SECONDS + {lead}))
    fi
    muster_pause=30
    if [ "$SECONDS" -lt "$muster_until" ]; then
      muster_look
      if [ "${{#muster_got[@]}}" = 0 ]; then
        : > "$MUSTER_LOGS/unheard-$RANK"
      else
        rm -f "$MUSTER_LOGS/unheard-$RANK"
      fi
      muster_pause=1
    fi
    [ -n "$muster_asked" ] || {{ sleep "$muster_pause" & wait "$!"; }}
  done
}}
"#
    );
}

/// Stays as the first process of the rank, and ends as the program does. The locks of the script
/// are not for the listener to hold.
const STAY: &str = r#"# Slurm signals the first process of a rank, and where it uses control groups no other. This one stays beside the program and passes
# on what it gets: SIGWINCH to the listener, other signals to the program.
muster_stay() {
  muster_program=$! muster_name=
  for muster_name in HUP INT QUIT USR1 USR2 TERM; do
    trap "kill -$muster_name $muster_program 2> /dev/null" "$muster_name"
  done
  trap 'kill -USR1 "$!" 2> /dev/null' WINCH
  muster_listen "$muster_program" < /dev/null > /dev/null 2>&1 8>&- 9>&- &
  while wait "$muster_program"; kill -0 "$muster_program" 2> /dev/null; do :; done
  wait "$muster_program"
  exit "$?"
}
"#;

/// Signals each process of this rank that is to get it once.
const LOOK: &str = r#"# Asked by SIGWINCH, which ends no process, this passes the job's own signal on to the processes of this rank that handle it, and to
# no others: it would end a shell or a launcher. Programs install handlers late, so it looks again until its time is over.
muster_look() {
  local pid stat name mask above fields
  local -A parent=() image=() born=() handles=()
  for pid in /proc/[0-9]*; do
    [ -O "$pid" ] || continue
    pid=${pid#/proc/}
    read -r stat < "/proc/$pid/stat" || continue
    read -r -a fields <<< "${stat##*) }"
    parent[$pid]=${fields[1]} born[$pid]=${fields[19]} image[$pid]=${fields[23]}:${fields[25]}
    while read -r name mask; do
      [ "$name" != SigCgt: ] || break
    done < "/proc/$pid/status"
    mask=$((16#${mask:-0}))
    ((mask & 1 << (muster_signal - 1))) || continue
    # A bash with an EXIT trap handles all there are, and ends.
    [ "$muster_to" != handlers ] || (((mask & 0x42000ec8) != 0x42000ec8)) || continue
    handles[$pid]=1
  done 2> /dev/null
  # The shell that stays beside the program passes on what it handles.
  unset "handles[$$]"
  for pid in "${!handles[@]}"; do
    # Of this rank?
    above=$pid
    while [ "${above:-0}" -gt 1 ] && [ "$above" != "$muster_main" ]; do above=${parent[$above]}; done
    [ "$above" = "$muster_main" ] || continue
    above=${parent[$pid]}
    case $muster_to in
      # A copy that one of them forked has inherited the handler.
      handlers) [ -z "${handles[$above]}" ] || [ "${image[$above]}" != "${image[$pid]}" ] || continue ;;
      outermost)
        while [ "${above:-0}" -gt 1 ] && [ -z "${handles[$above]}" ]; do above=${parent[$above]}; done
        [ -z "${handles[$above]}" ] || continue
        ;;
    esac
    [ -z "${muster_got[$pid:${born[$pid]}]}" ] || continue
    muster_got[$pid:${born[$pid]}]=1
    kill -"$muster_signal" "$pid" 2> /dev/null
  done
}
"#;
