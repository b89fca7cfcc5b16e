//! Delivers checkpoint requests to the program of a rank. The job's own signal would kill shells
//! and launchers, so Slurm sends a harmless one, and a listener beside the program passes the job's
//! own signal to processes that handle it, as the supervisor does without Slurm
//! (`supervise/signal.rs`).

use std::fmt::Write as _;

use muster_model::{Checkpoint, CheckpointTo};

/// Signal that Slurm sends: SIGWINCH, which by default is ignored. Given as a number, as sbatch and
/// scancel refuse its name.
pub(super) const WAKE: &str = "28";

/// Text before the number of the job's own signal, by which an import recognises it.
pub(in super::super) const PASSES_ON: &str = "  muster_signal=";

/// Shell code before the program, which runs in the background. Background processes ignore these
/// signals by default.
pub(super) const BEFORE: &str = "(\ntrap - INT QUIT";

/// Shell code after the program: its input is that of the rank.
pub(super) const AFTER: &str = ") <&0 &\nmuster_stay";

/// Generates the functions of the listener.
pub(super) fn functions(text: &mut String, checkpoint: &Checkpoint) {
    let to = match checkpoint.to {
        CheckpointTo::Handlers => "handlers",
        CheckpointTo::Outermost => "outermost",
        CheckpointTo::All => "all",
    };
    let signal = checkpoint.signal;
    let lead = checkpoint.lead.0.div_ceil(1000);
    text.push_str(STAY);
    text.push_str(LOOK);
    let _ = write!(
        text,
        r#"muster_listen() {{
{PASSES_ON}{signal} muster_to={to} muster_main=$1 muster_until=0 muster_asked=
  declare -A muster_got=()
  # Slurm may signal every process; the listener must get one request only.
  trap '' WINCH
  trap muster_asked=1 USR1
  # Mark of the start: a rank that has not started cannot receive the signal.
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

/// Keeps the shell as the first process of the rank, which exits with the program. The listener
/// must not hold the script's locks.
const STAY: &str = r#"# Slurm signals the first process of a rank, and with cgroups no other one. This process stays beside the program and passes signals
# on: SIGWINCH to the listener, others to the program.
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

/// Signals each process of this rank that handles the signal once.
const LOOK: &str = r#"# On SIGWINCH, which is harmless, passes the job's own signal on to the processes of this rank that handle it, and to no others, as it
# would kill a shell or a launcher. Programs install handlers late, so this is repeated until the deadline.
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
    # A bash with an EXIT trap handles all signals, and exits.
    [ "$muster_to" != handlers ] || (((mask & 0x42000ec8) != 0x42000ec8)) || continue
    handles[$pid]=1
  done 2> /dev/null
  # The shell beside the program passes on the signals that it handles.
  unset "handles[$$]"
  for pid in "${!handles[@]}"; do
    # Skip processes of other ranks.
    above=$pid
    while [ "${above:-0}" -gt 1 ] && [ "$above" != "$muster_main" ]; do above=${parent[$above]}; done
    [ "$above" = "$muster_main" ] || continue
    above=${parent[$pid]}
    case $muster_to in
      # A forked copy of such a process has inherited the handler.
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
