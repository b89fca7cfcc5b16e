//! Body of a batch script: records the start, prepares what the ranks share, and starts each rank
//! with its place in the gang. Rank 0 is the master; programs find the same variables as with the
//! local backend (`env.rs`).

use std::fmt::Write as _;

use muster_model::WorkloadKind;
use muster_model::payload::{TaskCommand, shell_word};

use super::shape::{Component, RankRange};
use super::{
    JobDirectory, MADE, PROGRAM, SETUP, ScriptInput, VARIABLES, checkpoint, container, listener,
    output, quote,
};

/// First port and number of ports of the rendezvous, below the ephemeral ports (from 32768 on,
/// net.ipv4.ip_local_port_range): jobs with close numbers get different ports.
const PORTS: (u32, u32) = (20_000, 12_000);

/// Generates everything below the directives.
pub(super) fn body(source: &ScriptInput<'_>, components: &[Component]) -> String {
    let mut text = String::new();
    match &source.directory {
        Some(kept) => start(&mut text, source, components, kept),
        None => alone(&mut text, source, components),
    }
    place(&mut text, source);
    shared(&mut text, source, components);
    surroundings(&mut text, source);
    container::choose(&mut text, source);
    let world: u32 =
        components.iter().flat_map(|component| &component.roles).map(|role| role.tasks).sum();
    let is_whole = components.len() == 1;
    for (index, component) in components.iter().enumerate() {
        let world = if is_whole { None } else { Some(world) };
        ranks(&mut text, source, component, index, world);
    }
    run(&mut text, source, components);
    text
}

/// Sets the job's directories and records the start.
fn start(
    text: &mut String,
    source: &ScriptInput<'_>,
    components: &[Component],
    kept: &JobDirectory<'_>,
) {
    let _ = write!(
        text,
        r#"
# Directory for the output of this attempt, and the mark of its start.
export MUSTER_JOB_ID=${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}} MUSTER_JOB_NAME={name}
export MUSTER_RESTART_COUNT=${{SLURM_RESTART_COUNT:-0}}
export MUSTER_ATTEMPT=$((MUSTER_RESTART_COUNT + 1))
muster_dir={dir}/${{SLURM_ARRAY_TASK_ID:-0}}
if [ -e {dir}/withdrawn ]; then
  echo "muster: withdrawn before its submission was acknowledged; not run" >&2
  exit 130
fi
export MUSTER_LOGS=$muster_dir/$MUSTER_ATTEMPT
mkdir -p "$MUSTER_LOGS" || exit 1
echo "$SLURM_JOB_ID $MUSTER_ATTEMPT $(date +%s) $SLURM_JOB_NODELIST $SLURM_TASKS_PER_NODE" >> "$muster_dir/starts"
export MUSTER_CHECKPOINT_FILE=$muster_dir/checkpoint
"#,
        name = shell_word(&source.spec.name),
        dir = shell_word(kept.dir),
    );
    report_file(text, source);
    checkpoint::last(text, source, components);
    text.push_str(FENCE);
}

/// Sets the attempt number in a script without Muster, and creates a directory where one is needed.
fn alone(text: &mut String, source: &ScriptInput<'_>, components: &[Component]) {
    let _ = write!(text, "\n{MADE}\n");
    for one in left_out(source) {
        let _ = writeln!(text, "# Left out: {one}.");
    }
    let _ = write!(
        text,
        r#"
export MUSTER_JOB_ID=${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}} MUSTER_JOB_NAME={name}
export MUSTER_RESTART_COUNT=${{SLURM_RESTART_COUNT:-0}}
export MUSTER_ATTEMPT=$((MUSTER_RESTART_COUNT + 1))
"#,
        name = shell_word(&source.spec.name),
    );
    if needs_folder(source) {
        text.push_str(FOLDER);
        report_file(text, source);
        checkpoint::last(text, source, components);
    }
}

/// Returns whether the job needs a shared directory: for roles that find each other, saved
/// progress, or programs in separate files.
fn needs_folder(source: &ScriptInput<'_>) -> bool {
    let in_file = |command: &TaskCommand| match command {
        TaskCommand::Script(script) => script.starts_with("#!") && shell(script).is_none(),
        TaskCommand::Ray(_) => true,
        TaskCommand::Argv(_) => false,
    };
    source.spec.groups.len() > 1
        || source.spec.checkpoint.is_some()
        || writes_reports(source)
        || source.commands.values().any(in_file)
}

/// Returns whether the elements of a sweep write their metric to a file.
fn writes_reports(source: &ScriptInput<'_>) -> bool {
    let metric = source.sweep.and_then(|sweep| sweep.metric.as_ref());
    metric.is_some_and(|metric| metric.pattern.is_none())
}

/// Names the file for the metric.
fn report_file(text: &mut String, source: &ScriptInput<'_>) {
    if writes_reports(source) {
        text.push_str("export MUSTER_REPORT_FILE=$muster_dir/report\n");
    }
}

const FOLDER: &str = r#"muster_dir=$PWD/muster-$MUSTER_JOB_ID/${SLURM_ARRAY_TASK_ID:-0}
export MUSTER_LOGS=$muster_dir/$MUSTER_ATTEMPT MUSTER_CHECKPOINT_FILE=$muster_dir/checkpoint
mkdir -p "$MUSTER_LOGS" || exit 1
"#;

/// Returns the features that a script without Muster lacks.
pub(super) fn left_out(source: &ScriptInput<'_>) -> Vec<&'static str> {
    let mut left_out = vec![
        "a file for the output of each rank: all of it goes to the file of the job",
        "the lock that prevents a second start of a running job after a failure of a node or the controller",
    ];
    if source.spec.checkpoint.is_some() {
        left_out.push("checkpoints in `muster show`: acknowledgements are in the directory muster-JOB, where the next start reads them");
    }
    if grows(source) {
        left_out.push("further nodes of the Ray cluster: it keeps its smallest size");
    }
    left_out
}

/// Returns true where `muster` is beside the head of a Ray cluster: not without Muster, nor in a container.
fn may_grow(source: &ScriptInput<'_>) -> bool {
    source.program.is_some() && source.slurm.container.is_none()
}

/// Returns true if the job is a Ray cluster that may ask for further nodes.
fn grows(source: &ScriptInput<'_>) -> bool {
    source.commands.values().any(muster_ray::grows)
}

/// Returns the shell of a `#!` line with its options, if it accepts a script after `-c`.
fn shell(script: &str) -> Option<&str> {
    let line = script.lines().next()?.strip_prefix("#!")?.trim();
    let name =
        line.split_whitespace().find(|word| !word.starts_with('-') && !word.ends_with("/env"))?;
    let name = name.rsplit('/').next()?;
    matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh").then_some(line)
}

/// Sets the working directory and the index of the element.
fn place(text: &mut String, source: &ScriptInput<'_>) {
    // Slurm itself continues in /tmp where the directory is missing. A relative one starts at
    // sbatch's directory, which only Slurm has.
    if let Some(workdir) = source.workdir.filter(|workdir| workdir.starts_with('/')) {
        let _ = writeln!(text, "cd {} || exit 1", shell_word(workdir));
    }
    match &source.spec.kind {
        WorkloadKind::Service(service) => {
            text.push_str("export MUSTER_REPLICA=$SLURM_ARRAY_TASK_ID\n");
            if let Some(port) = service.port {
                let _ = writeln!(text, "export PORT=$(({port} + SLURM_ARRAY_TASK_ID))");
            }
        }
        WorkloadKind::Task | WorkloadKind::Notebook(_) if source.spec.array.is_some() => {
            text.push_str("export MUSTER_ARRAY_INDEX=$SLURM_ARRAY_TASK_ID\n");
            text.push_str(&source.sweep.map(muster_sweep::shell::exports).unwrap_or_default());
        }
        WorkloadKind::Task | WorkloadKind::Notebook(_) => {}
    }
}

/// Lock against a second start: after the failure of slurmd or of the controller, Slurm may start a
/// job again that still runs. Locks on the shared file system block the second start until the
/// first has ended: one of the script, and one shared by all ranks.
const FENCE: &str = r#"
# One start of this job at a time, even where Slurm starts it again after the failure of a node or the controller.
exec 9>> "$muster_dir/lock"
export MUSTER_FENCE=$muster_dir/ranks
flock --conflict-exit-code 75 --nonblock 9 2> /dev/null
case $? in
  0) ;;
  75)
    echo "muster: an earlier start of this job still runs; waiting for its end" >&2
    flock 9
    ;;
  *) echo "muster: this file system has no locks: a second start cannot be prevented" >&2 ;;
esac
flock "$MUSTER_FENCE" true 2> /dev/null
# A controller that was down when a start ended queues the job again: a start that ended well is not repeated.
case $(tail -n 1 "$muster_dir/ends" 2> /dev/null) in
  *" 0")
    echo "muster: an earlier start of this job ended well; not run twice (muster requeue does)" >&2
    rmdir "$MUSTER_LOGS" 2> /dev/null
    exit 0
    ;;
esac
# A controller that lost a start repeats it under the same restart count: that start has run already.
muster_end=$(sed -n "s/^$MUSTER_ATTEMPT //p" "$muster_dir/ends" 2> /dev/null | tail -n 1)
if [ -n "$muster_end" ]; then
  echo "muster: this start has already run and ended with $muster_end; not run twice" >&2
  exit "$muster_end"
fi
"#;

/// Makes the secret of a Ray cluster where the job starts, so that the script does not have it.
const RAY_TOKEN: &str = r#"
# Without a secret, every user who reaches a Ray cluster can run programs on it.
RAY_AUTH_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN
"#;

/// Sets the rendezvous of the ranks.
fn shared(text: &mut String, source: &ScriptInput<'_>, components: &[Component]) {
    let nodes = if components.len() > 1 {
        "$SLURM_JOB_NODELIST_HET_GROUP_0"
    } else {
        "$SLURM_JOB_NODELIST"
    };
    let (first, range) = PORTS;
    let _ = write!(
        text,
        r#"
# Rank 0 is the master, on the first node; where that name does not resolve, by the address that Slurm uses itself.
MASTER_ADDR=$(scontrol show hostnames "{nodes}" | head -n 1)
if ! getent hosts "$MASTER_ADDR" > /dev/null; then
  MASTER_ADDR=$(scontrol --oneliner show node "$MASTER_ADDR" | sed 's/.*NodeAddr=\([^ ]*\).*/\1/')
fi
export MASTER_ADDR MASTER_PORT=$(({first} + SLURM_JOB_ID % {range}))
"#
    );
    if source.commands.values().any(muster_ray::begins_cluster) {
        text.push_str(RAY_TOKEN);
    }
    if let Some(program) = source.program.filter(|_| grows(source) && may_grow(source)) {
        let _ = writeln!(text, "export MUSTER_PROGRAM={}", shell_word(program));
    }
    if !source.env.is_empty() {
        text.push_str(VARIABLES);
        for (name, value) in source.env {
            let _ = writeln!(text, "export {name}={}", shell_word(value));
        }
    }
}

/// Loads modules and environments, once for all ranks.
fn surroundings(text: &mut String, source: &ScriptInput<'_>) {
    let slurm = source.slurm;
    if !slurm.modules.is_empty() {
        text.push_str("\ntype module > /dev/null 2>&1 || . /etc/profile\n");
        for module in &slurm.modules {
            let _ = writeln!(text, "module load {} || exit 1", shell_word(module));
        }
    }
    if let Some(conda) = &slurm.conda {
        text.push_str("\neval \"$(conda shell.bash hook)\" || exit 1\n");
        let _ = writeln!(text, "conda activate {} || exit 1", quote::path_word(conda));
    }
    if let Some(venv) = &slurm.venv {
        let _ = writeln!(
            text,
            "\n. {} || exit 1",
            quote::path_word(&format!("{}/bin/activate", venv.trim_end_matches('/')))
        );
    }
    if !source.secrets.is_empty() {
        text.push_str(SECRETS);
        for (name, file) in source.secrets {
            let _ = writeln!(text, "muster_secret {name} {}", quote::path_word(file));
        }
    }
}

/// Reads secrets where the job starts, so that the script does not have them; under the terms of
/// `backends/src/environment/secrets.rs`.
const SECRETS: &str = r#"
# Secrets: each from a file that no other user can read.
muster_secret() {
  if ! [ -f "$2" ] || ! [ -O "$2" ] || ! [ -r "$2" ]; then
    echo "muster: the secret $1 cannot be read on $(hostname): $2 is missing, or not a file of $USER" >&2
    exit 1
  fi
  case $(stat -L -c %a "$2") in
    *00) ;;
    *[04]0) [ -G "$2" ] || { echo "muster: other users have access to $2: chmod 600 $2" >&2; exit 1; } ;;
    *) echo "muster: other users have access to $2: chmod 600 $2" >&2; exit 1 ;;
  esac
  export "$1=$(cat "$2")"
}
"#;

/// Generates the script of a component's ranks, as a variable of the batch script.
fn ranks(
    text: &mut String,
    source: &ScriptInput<'_>,
    component: &Component,
    index: usize,
    world: Option<u32>,
) {
    // 1. Set its place in the gang.
    let mut rank = String::new();
    let first = component.roles.first().map_or(0, |role| role.first_rank);
    let own =
        if first > 0 { format!("$((SLURM_PROCID + {first}))") } else { "$SLURM_PROCID".to_owned() };
    let world = world.map_or("$SLURM_STEP_NUM_TASKS".to_owned(), |world| world.to_string());
    // Nodes of the components before it come first.
    let before: String =
        (0..index).map(|one| format!(" + SLURM_JOB_NUM_NODES_HET_GROUP_{one}")).collect();
    let node =
        if index > 0 { format!("$((SLURM_NODEID{before}))") } else { "$SLURM_NODEID".to_owned() };
    let _ = writeln!(
        rank,
        "export RANK={own} WORLD_SIZE={world} NODE_RANK={node} LOCAL_RANK=$SLURM_LOCALID"
    );
    match component.tasks_per_node {
        Some(per_node) => {
            let _ = writeln!(rank, "export LOCAL_WORLD_SIZE={per_node}");
        }
        None => rank.push_str(LOCAL_WORLD_SIZE),
    }
    if source.directory.is_some() {
        rank.push_str("exec 8>> \"$MUSTER_FENCE\" && flock --shared 8 2> /dev/null\n");
        rank.push_str(&output::of_rank(source));
    }
    if source.directory.is_some() || needs_folder(source) {
        rank.push_str(
            "[ \"$RANK\" = 0 ] || MUSTER_CHECKPOINT_FILE=$MUSTER_CHECKPOINT_FILE-$RANK\n",
        );
    }
    if writes_reports(source) {
        rank.push_str("[ \"$RANK\" = 0 ] || unset MUSTER_REPORT_FILE\n");
    }
    if let Some(checkpoint) = &source.spec.checkpoint {
        listener::functions(&mut rank, checkpoint);
    }
    devices(&mut rank, component);
    if let Some(setup) = &source.slurm.setup {
        let mark = if source.directory.is_none() { SETUP } else { "" };
        let _ = writeln!(rank, "{mark}{}", setup.trim_end());
    }
    if source.directory.is_none() {
        rank.push_str(PROGRAM);
    }
    // 2. Run its program, by its role.
    match component.roles.as_slice() {
        [role] => program(&mut rank, source, role, component.gpus_per_task, ""),
        roles => {
            for role in roles {
                let _ =
                    writeln!(rank, "if [ \"$RANK\" -lt {} ]; then", role.first_rank + role.tasks);
                program(&mut rank, source, role, component.gpus_per_task, "  ");
                rank.push_str("fi\n");
            }
        }
    }
    // 3. Choose an end mark that is not a line of the text.
    let mark = quote::end_mark(&rank);
    let what = if index == 0 { "\n# Script of every rank.\n" } else { "\n" };
    let _ = write!(text, "{what}ranks_{index}=$(cat <<'{mark}'\n{rank}{mark}\n)\n");
}

/// Computes the tasks of this node from `2(x3),1`.
const LOCAL_WORLD_SIZE: &str = r#"muster_node=0
for muster_part in ${SLURM_STEP_TASKS_PER_NODE//,/ }; do
  muster_times=1
  case $muster_part in *x*) muster_times=${muster_part##*x}; muster_times=${muster_times%)} ;; esac
  muster_node=$((muster_node + muster_times))
  [ "$SLURM_NODEID" -lt "$muster_node" ] && break
done
export LOCAL_WORLD_SIZE=${muster_part%%(*}
"#;

/// Restricts each task to its own devices: Slurm shows each task all of the job's devices on the
/// node, its own binding of GPUs to tasks differs between versions, and with GPU types it leaves a
/// task without any (tested on 22.05).
fn devices(rank: &mut String, component: &Component) {
    match (component.gpus_per_task, component.tasks_per_node) {
        (0, _) => rank.push_str("export CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES=\n"),
        (_, Some(1)) => {}
        (gpus, _) => {
            let _ = write!(
                rank,
                r#"for muster_name in CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES; do
  IFS=, read -r -a muster_seen <<< "${{!muster_name}}"
  if [ "${{#muster_seen[@]}}" -gt {gpus} ]; then
    export "$muster_name=$(IFS=,; echo "${{muster_seen[*]:LOCAL_RANK * {gpus}:{gpus}}}")"
  fi
done
"#
            );
        }
    }
}

/// Prints the address of this node: its name, or where that does not resolve the address that Slurm
/// uses.
const ADDRESS: &str = r#"{ getent hosts "$SLURMD_NODENAME" > /dev/null && echo "$SLURMD_NODENAME" || scontrol --oneliner show node "$SLURMD_NODENAME" | sed 's/.*NodeAddr=\([^ ]*\).*/\1/'; }"#;

/// Sets the role's variables and runs its program in place of the shell.
fn program(rank: &mut String, source: &ScriptInput<'_>, role: &RankRange, gpus: u32, indent: &str) {
    let several = source.spec.groups.len() > 1;
    let (agents, place) = if several {
        (role.tasks.to_string(), format!("$((RANK - {}))", role.first_rank))
    } else {
        ("$WORLD_SIZE".to_owned(), "$RANK".to_owned())
    };
    // Two roles that both use torchrun have separate ports, each on the node of its first rank.
    let nth =
        source.spec.groups.iter().position(|group| group.name.as_ref() == role.name).unwrap_or(0);
    let (address, port) = match nth {
        0 => ("$MASTER_ADDR".to_owned(), "$MASTER_PORT".to_owned()),
        nth => {
            let file = format!("\"$MUSTER_LOGS/master-{nth}\"");
            let _ = writeln!(
                rank,
                "{indent}[ \"$RANK\" != {} ] || {ADDRESS} > {file}",
                role.first_rank
            );
            let _ = writeln!(rank, "{indent}until [ -s {file} ]; do sleep 0.2; done");
            (format!("$(cat {file})"), format!("$((MASTER_PORT + {nth}))"))
        }
    };
    let lines = [
        format!("export MUSTER_TASK=$RANK MUSTER_GROUP={}", shell_word(&role.name)),
        format!(
            "export PET_NNODES={agents} PET_NODE_RANK={place} PET_NPROC_PER_NODE={}",
            gpus.max(1)
        ),
        format!("export PET_RDZV_BACKEND=static PET_MASTER_ADDR={address} PET_MASTER_PORT={port}"),
        "export PET_RDZV_ENDPOINT=$PET_MASTER_ADDR:$PET_MASTER_PORT".to_owned(),
        "export PET_RDZV_ID=$SLURM_JOB_ID-$MUSTER_ATTEMPT-$MUSTER_GROUP".to_owned(),
    ];
    for line in lines {
        let _ = writeln!(rank, "{indent}{line}");
    }
    if source.verify {
        let probe = format!("MUSTER_PROBE_GPUS={gpus} exec \"$MUSTER_PROBE\" __probe");
        let _ = writeln!(rank, "{indent}[ -z \"$MUSTER_PROBE\" ] || {probe}");
    }
    let line = command_line(rank, source, role, indent);
    let is_asked = source.spec.checkpoint.is_some();
    if is_asked {
        let _ = writeln!(rank, "{}", listener::BEFORE);
    }
    let container = source.slurm.container.as_ref();
    let inside = container.map(|container| container::inside(container, source, gpus > 0));
    let _ = writeln!(rank, "{indent}exec {}{line}", inside.unwrap_or_default());
    if is_asked {
        let _ = writeln!(rank, "{}", listener::AFTER);
    }
}

/// Returns the command line of a role's program; a program with an interpreter of its own is written to a
/// file first.
fn command_line(
    rank: &mut String,
    source: &ScriptInput<'_>,
    role: &RankRange,
    indent: &str,
) -> String {
    let command = source.commands.get(role.name.as_str());
    let command = command.map(|command| muster_ray::program(command, may_grow(source)));
    let argument = |word: &str| match source.sweep {
        Some(sweep) => muster_sweep::shell::argument(word, sweep),
        None => shell_word(word),
    };
    let text = |script: &str| match source.sweep {
        Some(sweep) => muster_sweep::shell::script(script, sweep),
        None => shell_word(script),
    };
    match command.as_deref() {
        Some(TaskCommand::Argv(words)) => {
            words.iter().map(|word| argument(word)).collect::<Vec<_>>().join(" ")
        }
        Some(TaskCommand::Script(script))
            if source.directory.is_none() && shell(script).is_some() =>
        {
            format!("{} -c {}", shell(script).unwrap_or_default(), text(script))
        }
        Some(TaskCommand::Script(script)) if script.starts_with("#!") => {
            let _ = writeln!(rank, "{indent}muster_program=$MUSTER_LOGS/program-$RANK");
            let _ = writeln!(rank, "{indent}printf %s {} > \"$muster_program\"", text(script));
            let _ = writeln!(rank, "{indent}chmod 700 \"$muster_program\"");
            "\"$muster_program\"".to_owned()
        }
        Some(TaskCommand::Script(script)) => format!("/bin/sh -c {}", text(script)),
        Some(TaskCommand::Ray(_)) | None => "false".to_owned(),
    }
}

/// Starts the ranks, and returns their exit status.
fn run(text: &mut String, source: &ScriptInput<'_>, components: &[Component]) {
    text.push('\n');
    if components
        .iter()
        .any(|component| component.gpus_per_task > 0 && component.tasks_per_node.is_none())
    {
        text.push_str(
            "# Every task selects its own GPUs of its node: srun must not bind them, too.\n",
        );
        text.push_str("unset ${!SLURM_GPUS_PER_TASK*}\n");
    }
    // Slurm itself signals the ranks to end; this script outlives them to report how.
    text.push_str("muster_told=\ntrap muster_told=1 TERM\n");
    text.push_str(SELF);
    text.push_str(PATH);
    if source.spec.restart.on_failure || checkpoint::has_time_slices(source) {
        text.push_str(checkpoint::IS_ENDING);
    }
    if let Some(program) = source.program.filter(|_| source.verify) {
        preflight(text, source, program, components);
        text.push_str("# Signalled before the start: the program is not started.\nif [ -n \"$muster_told\" ]; then\n  status=143\nelse\n");
    }
    let takes_turns = checkpoint::has_time_slices(source);
    if takes_turns {
        text.push_str("(\ntrap : TERM USR1\n");
    }
    steps(text, source, components);
    if takes_turns {
        text.push_str("exit \"$status\"\n) &\nmuster_step=$!\n");
        checkpoint::turn(text, components);
    }
    if source.verify {
        text.push_str("fi\n");
    }
    if source.directory.is_some() {
        text.push_str(FIRST);
    }
    text.push_str(PREEMPTED);
    restart(text, source);
    text.push_str(if source.directory.is_some() { END } else { "exit \"$status\"\n" });
}

/// Starts the ranks of each component as a step, and waits for all of them.
fn steps(text: &mut String, source: &ScriptInput<'_>, components: &[Component]) {
    let heard = if source.directory.is_some() { " 2>> \"$MUSTER_LOGS/srun.log\"" } else { "" };
    match components {
        [component] => {
            let _ = writeln!(text, "{}{heard}", srun(source, component, 0, false));
            text.push_str("status=$?\n");
        }
        several => {
            text.push_str(
                "# Roles with different resources: one step each; the first failure ends all of them.\n",
            );
            for (index, component) in several.iter().enumerate() {
                let _ = writeln!(text, "{}{heard} &", srun(source, component, index, true));
            }
            text.push_str(
                "status=0\nfor muster_step in $(jobs -p); do\n  wait -n || { status=$?; break; }\ndone\n",
            );
            text.push_str("[ \"$status\" = 0 ] || kill $(jobs -p) 2> /dev/null\nwait\n");
        }
    }
}

/// Job number for scontrol: an element's own job number means that element only, the number of its
/// array all elements.
const SELF: &str = "muster_self=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}\n";

/// With `--export=NONE` PATH is unset, and srun finds no bash for the ranks.
const PATH: &str = "[ -n \"$(printenv PATH)\" ] || export PATH=/usr/local/bin:/usr/bin:/bin\n";

/// A job that was signalled to end has not completed: it may be requeued, and then runs again.
const END: &str = r#"echo "$MUSTER_ATTEMPT $status" >> "$muster_dir/ends"
[ -z "$muster_told" ] || echo again >> "$muster_dir/ends"
exit "$status"
"#;

/// Starts every rank as a probe first, in its own place: a failed check ends the job with code 78.
/// Where the probe's program is missing, nothing is tested, and a message says so.
fn preflight(text: &mut String, source: &ScriptInput<'_>, program: &str, components: &[Component]) {
    let world: u32 =
        components.iter().flat_map(|component| &component.roles).map(|role| role.tasks).sum();
    let is_heterogeneous = components.len() > 1;
    let starts = components.iter().enumerate();
    let starts: Vec<String> =
        starts.map(|(index, component)| srun(source, component, index, is_heterogeneous)).collect();
    let start = starts.join(" : ");
    let _ = write!(
        text,
        r#"
# Verify the allocation before the program starts.
export MUSTER_PROBE={program}
if [ -x "$MUSTER_PROBE" ]; then
  timeout 60 "$MUSTER_PROBE" __preflight --job "$MUSTER_JOB_ID" ${{SLURM_ARRAY_TASK_ID:+--index "$SLURM_ARRAY_TASK_ID"}} --ranks {world} --report "$MUSTER_LOGS/verify.json" -- {start} >&2
  muster_found=$?
  if [ "$muster_found" = 78 ] && [ -z "$muster_told" ]; then
    echo "muster: verification failed; the program is not started" >&2
    echo "$MUSTER_ATTEMPT 78" >> "$muster_dir/ends"
    exit 78
  fi
else
  echo "muster: $MUSTER_PROBE is missing on $(hostname): nothing was verified" >&2
fi
export -n MUSTER_PROBE
unset MUSTER_PROBE

"#,
        program = shell_word(program),
    );
}

/// Selects the exit code of the first failed task: srun returns the highest code of all tasks, and
/// tasks killed after another's failure have a higher one.
const FIRST: &str = r#"# Exit code of the first failed task, not of those that were killed after it.
cat "$MUSTER_LOGS/srun.log" >&2 2> /dev/null
muster_first=$(grep -m 1 -E ': tasks? [^:]*: ' "$MUSTER_LOGS/srun.log" 2> /dev/null)
case $muster_first in
  *"Exited with exit code "*) [ "$status" = 0 ] || status=${muster_first##* } ;;
esac
"#;

/// Waits for the end of a preempted job: one that ends within its grace time counts as failed, and
/// is not requeued.
const PREEMPTED: &str = r#"if [ "$status" != 0 ] && scontrol --oneliner show job "$muster_self" | grep -q 'PreemptTime=[0-9]'; then
  echo "muster: preempted; Slurm cancels or requeues it" >&2
  sleep infinity
fi
"#;

fn srun(
    source: &ScriptInput<'_>,
    component: &Component,
    index: usize,
    is_heterogeneous: bool,
) -> String {
    let mut words =
        vec!["srun".to_owned(), "--export=ALL".to_owned(), "--kill-on-bad-exit=1".to_owned()];
    if source.slurm.container.is_some() {
        words.push("\"${muster_srun[@]}\"".to_owned());
    }
    if is_heterogeneous {
        words.push(format!("--het-group={index}"));
    }
    match component.tasks_per_node {
        Some(per_node) if !is_heterogeneous => words.push(match per_node {
            1 => "--ntasks=\"$SLURM_JOB_NUM_NODES\"".to_owned(),
            per_node => format!("--ntasks=$((SLURM_JOB_NUM_NODES * {per_node}))"),
        }),
        Some(_) | None => {}
    }
    // From 22.05 on srun does not inherit this option from the job.
    if component.cpus_per_task > 0 {
        words.push(format!("--cpus-per-task={}", component.cpus_per_task));
    }
    if source.directory.is_none() {
        words.extend(output::of_srun(source.files));
    }
    words.push(format!("bash -c \"$ranks_{index}\""));
    words.join(" ")
}

/// Requeues the job after a failure of the program, which Slurm's `--requeue` does not cover. A job
/// that is being cancelled has not failed.
fn restart(text: &mut String, source: &ScriptInput<'_>) {
    let restart = &source.spec.restart;
    if !restart.on_failure {
        return;
    }
    // Slurm's count includes preemptions, lost nodes and time slices.
    let (count, note) = if source.directory.is_some() || checkpoint::has_time_slices(source) {
        (
            "$(cat \"$muster_dir/failures\" 2> /dev/null | wc -l)",
            "  echo \"$status\" >> \"$muster_dir/failures\"\n",
        )
    } else {
        ("$MUSTER_RESTART_COUNT", "")
    };
    let _ = write!(
        text,
        r#"if [ "$status" != 0 ] && [ "{count}" -lt {} ] && ! muster_is_ending; then
  echo "muster: failed with $status; requeued" >&2
{note}  scontrol requeue "$muster_self" && wait
fi
"#,
        restart.max_restarts
    );
}
