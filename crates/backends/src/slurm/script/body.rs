//! What a script does once Slurm has started it: marks the start, prepares what all ranks share,
//! and starts every rank with its place in the gang. Rank 0 is the master; a program finds the
//! variables that the local backend gives it (`env.rs`).

use std::fmt::Write as _;

use muster_model::Kind;
use muster_model::payload::Command;

use super::shape::{Component, Role};
use super::{
    Kept, MADE, PROGRAM, SETUP, Source, VARIABLES, container, listener, output, quote, saving,
};

/// Below the ports that systems give away by themselves (from 32768 on,
/// net.ipv4.ip_local_port_range): jobs whose numbers lie near each other get different ones.
const PORTS: (u32, u32) = (20_000, 12_000);

/// Everything below the directives.
pub(super) fn body(source: &Source<'_>, components: &[Component]) -> String {
    let mut text = String::new();
    match &source.kept {
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

/// Where it keeps what it writes, and the mark that it has started.
fn start(text: &mut String, source: &Source<'_>, components: &[Component], kept: &Kept<'_>) {
    let _ = write!(
        text,
        r#"
# Where this attempt keeps its output, and the mark that it has started.
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
        name = quote::word(&source.spec.name),
        dir = quote::word(kept.dir),
    );
    saving::last(text, source, components);
    text.push_str(FENCE);
}

/// What a script that runs without Muster has of this: which start it is, and a folder of its own
/// where something needs one.
fn alone(text: &mut String, source: &Source<'_>, components: &[Component]) {
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
        name = quote::word(&source.spec.name),
    );
    if needs_folder(source) {
        text.push_str(FOLDER);
        saving::last(text, source, components);
    }
}

/// Roles that find each other, saved progress, and programs in files of their own need a place that
/// all nodes see.
fn needs_folder(source: &Source<'_>) -> bool {
    let in_file = |command: &Command| match command {
        Command::Script(script) => script.starts_with("#!") && shell(script).is_none(),
        Command::Argv(_) => false,
    };
    source.spec.groups.len() > 1
        || source.spec.checkpoint.is_some()
        || source.commands.values().any(in_file)
}

const FOLDER: &str = r#"muster_dir=$PWD/muster-$MUSTER_JOB_ID/${SLURM_ARRAY_TASK_ID:-0}
export MUSTER_LOGS=$muster_dir/$MUSTER_ATTEMPT MUSTER_CHECKPOINT_FILE=$muster_dir/checkpoint
mkdir -p "$MUSTER_LOGS" || exit 1
"#;

/// What a script without Muster lacks.
pub(super) fn left_out(source: &Source<'_>) -> Vec<&'static str> {
    let mut left_out = vec![
        "a file for the output of each rank: all of it goes to the file of the job",
        "the fence against a second start where a node or the controller died",
    ];
    if source.spec.checkpoint.is_some() {
        left_out.push("`muster show` of what was saved: the word lies in the folder muster-JOB, and the next start finds it");
    }
    left_out
}

/// The shell of a `#!` line with its options, when it takes text behind `-c`.
fn shell(script: &str) -> Option<&str> {
    let line = script.lines().next()?.strip_prefix("#!")?.trim();
    let name =
        line.split_whitespace().find(|word| !word.starts_with('-') && !word.ends_with("/env"))?;
    let name = name.rsplit('/').next()?;
    matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh").then_some(line)
}

/// Where it runs, and as which of several.
fn place(text: &mut String, source: &Source<'_>) {
    // Slurm itself goes on in /tmp where the folder is not there. A relative one begins where
    // sbatch runs, which Slurm alone knows.
    if let Some(workdir) = source.workdir.filter(|workdir| workdir.starts_with('/')) {
        let _ = writeln!(text, "cd {} || exit 1", quote::word(workdir));
    }
    match &source.spec.kind {
        Kind::Service(service) => {
            text.push_str("export MUSTER_REPLICA=$SLURM_ARRAY_TASK_ID\n");
            if let Some(port) = service.port {
                let _ = writeln!(text, "export PORT=$(({port} + SLURM_ARRAY_TASK_ID))");
            }
        }
        Kind::Task | Kind::Notebook(_) if source.spec.array.is_some() => {
            text.push_str("export MUSTER_ARRAY_INDEX=$SLURM_ARRAY_TASK_ID\n");
        }
        Kind::Task | Kind::Notebook(_) => {}
    }
}

/// A node whose slurmd died, or a controller that forgot, lets Slurm start a job again that still
/// runs. The locks of the shared file system hold the second start back until the first is over:
/// the script's own, and one that all ranks share.
const FENCE: &str = r#"
# One start of this job at a time, also where Slurm starts it again because a node or its controller died.
exec 9>> "$muster_dir/lock"
export MUSTER_FENCE=$muster_dir/ranks
flock --conflict-exit-code 75 --nonblock 9 2> /dev/null
case $? in
  0) ;;
  75)
    echo "muster: an earlier start of this job still runs; waiting for its end" >&2
    flock 9
    ;;
  *) echo "muster: no locks on this file system: nothing holds back a second start" >&2 ;;
esac
flock "$MUSTER_FENCE" true 2> /dev/null
# A controller that was away when a start ended queues it again: what ended well is not run twice.
case $(tail -n 1 "$muster_dir/ends" 2> /dev/null) in
  *" 0")
    echo "muster: an earlier start of this job ended well; not run twice (muster requeue does)" >&2
    rmdir "$MUSTER_LOGS" 2> /dev/null
    exit 0
    ;;
esac
# A controller that forgot a start makes it again, under the same count: it is the one that has run.
muster_end=$(sed -n "s/^$MUSTER_ATTEMPT //p" "$muster_dir/ends" 2> /dev/null | tail -n 1)
if [ -n "$muster_end" ]; then
  echo "muster: this start has run, and ended with $muster_end; not run twice" >&2
  exit "$muster_end"
fi
"#;

/// Where the ranks meet.
fn shared(text: &mut String, source: &Source<'_>, components: &[Component]) {
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
    if !source.env.is_empty() {
        text.push_str(VARIABLES);
        for (name, value) in source.env {
            let _ = writeln!(text, "export {name}={}", quote::word(value));
        }
    }
}

/// Modules and environments, once for all ranks.
fn surroundings(text: &mut String, source: &Source<'_>) {
    let slurm = source.slurm;
    if !slurm.modules.is_empty() {
        text.push_str("\ntype module > /dev/null 2>&1 || . /etc/profile\n");
        for module in &slurm.modules {
            let _ = writeln!(text, "module load {} || exit 1", quote::word(module));
        }
    }
    if let Some(conda) = &slurm.conda {
        text.push_str("\neval \"$(conda shell.bash hook)\" || exit 1\n");
        let _ = writeln!(text, "conda activate {} || exit 1", quote::word(conda));
    }
    if let Some(venv) = &slurm.venv {
        let _ = writeln!(
            text,
            "\n. {} || exit 1",
            quote::word(&format!("{}/bin/activate", venv.trim_end_matches('/')))
        );
    }
}

/// The script of every rank of a component, as a variable of the batch script.
fn ranks(
    text: &mut String,
    source: &Source<'_>,
    component: &Component,
    index: usize,
    world: Option<u32>,
) {
    // 1. Its place in the gang.
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
    if source.kept.is_some() {
        rank.push_str("exec 8>> \"$MUSTER_FENCE\" && flock --shared 8 2> /dev/null\n");
        rank.push_str(&output::of_rank(source));
    }
    if source.kept.is_some() || needs_folder(source) {
        rank.push_str(
            "[ \"$RANK\" = 0 ] || MUSTER_CHECKPOINT_FILE=$MUSTER_CHECKPOINT_FILE-$RANK\n",
        );
    }
    if let Some(checkpoint) = &source.spec.checkpoint {
        listener::functions(&mut rank, checkpoint);
    }
    devices(&mut rank, component);
    if let Some(setup) = &source.slurm.setup {
        let mark = if source.kept.is_none() { SETUP } else { "" };
        let _ = writeln!(rank, "{mark}{}", setup.trim_end());
    }
    if source.kept.is_none() {
        rank.push_str(PROGRAM);
    }
    // 2. Its program, by its role.
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
    // 3. No line of it ends the document that it stands in.
    let mark = quote::end_mark(&rank);
    let what = if index == 0 { "\n# What every rank runs.\n" } else { "\n" };
    let _ = write!(text, "{what}ranks_{index}=$(cat <<'{mark}'\n{rank}{mark}\n)\n");
}

/// Tasks of this node, of `2(x3),1`.
const LOCAL_WORLD_SIZE: &str = r#"muster_node=0
for muster_part in ${SLURM_STEP_TASKS_PER_NODE//,/ }; do
  muster_times=1
  case $muster_part in *x*) muster_times=${muster_part##*x}; muster_times=${muster_times%)} ;; esac
  muster_node=$((muster_node + muster_times))
  [ "$SLURM_NODEID" -lt "$muster_node" ] && break
done
export LOCAL_WORLD_SIZE=${muster_part%%(*}
"#;

/// A task sees its own devices only. Slurm shows each all of the job's on its node: its own binding
/// of GPUs to tasks is another one in every version, and where GPUs have a type it leaves a task
/// without any (tried on 22.05).
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

/// Says how this node is reached: by its name, or where that does not resolve by the address that
/// Slurm uses itself.
const ADDRESS: &str = r#"{ getent hosts "$SLURMD_NODENAME" > /dev/null && echo "$SLURMD_NODENAME" || scontrol --oneliner show node "$SLURMD_NODENAME" | sed 's/.*NodeAddr=\([^ ]*\).*/\1/'; }"#;

/// The role's variables and its program, which takes the place of the shell.
fn program(rank: &mut String, source: &Source<'_>, role: &Role, gpus: u32, indent: &str) {
    let several = source.spec.groups.len() > 1;
    let (agents, place) = match several {
        true => (role.tasks.to_string(), format!("$((RANK - {}))", role.first_rank)),
        false => ("$WORLD_SIZE".to_owned(), "$RANK".to_owned()),
    };
    // Two roles that both use torchrun meet at ports of their own, each where its first rank is.
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
        format!("export MUSTER_TASK=$RANK MUSTER_GROUP={}", quote::word(&role.name)),
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
    if source.verify.is_some() {
        let probe = format!("MUSTER_PROBE_GPUS={gpus} exec \"$MUSTER_PROBE\" __probe");
        let _ = writeln!(rank, "{indent}[ -z \"$MUSTER_PROBE\" ] || {probe}");
    }
    let line = match source.commands.get(role.name.as_str()) {
        Some(Command::Argv(words)) => {
            words.iter().map(|word| quote::word(word)).collect::<Vec<_>>().join(" ")
        }
        Some(Command::Script(script)) if source.kept.is_none() && shell(script).is_some() => {
            format!("{} -c {}", shell(script).unwrap_or_default(), quote::word(script))
        }
        Some(Command::Script(script)) if script.starts_with("#!") => {
            let _ = writeln!(rank, "{indent}muster_program=$MUSTER_LOGS/program-$RANK");
            let _ =
                writeln!(rank, "{indent}printf %s {} > \"$muster_program\"", quote::word(script));
            let _ = writeln!(rank, "{indent}chmod 700 \"$muster_program\"");
            "\"$muster_program\"".to_owned()
        }
        Some(Command::Script(script)) => format!("/bin/sh -c {}", quote::word(script)),
        None => "false".to_owned(),
    };
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

/// Starts the ranks, and passes on how they ended.
fn run(text: &mut String, source: &Source<'_>, components: &[Component]) {
    text.push('\n');
    if components
        .iter()
        .any(|component| component.gpus_per_task > 0 && component.tasks_per_node.is_none())
    {
        text.push_str(
            "# Every task takes its own GPUs from those of its node: srun must not bind them, too.\n",
        );
        text.push_str("unset ${!SLURM_GPUS_PER_TASK*}\n");
    }
    // The ranks are told to end by Slurm itself; this script outlives them to say how.
    text.push_str("muster_told=\ntrap muster_told=1 TERM\n");
    text.push_str(SELF);
    text.push_str(PATH);
    if source.spec.restart.on_failure || saving::takes_turns(source) {
        text.push_str(saving::IS_ENDING);
    }
    if let Some(program) = source.verify {
        preflight(text, source, program, components);
        text.push_str("# Told to end before it began: its program does not start.\nif [ -n \"$muster_told\" ]; then\n  status=143\nelse\n");
    }
    let takes_turns = saving::takes_turns(source);
    if takes_turns {
        text.push_str("(\ntrap : TERM USR1\n");
    }
    steps(text, source, components);
    if takes_turns {
        text.push_str("exit \"$status\"\n) &\nmuster_step=$!\n");
        saving::turn(text, components);
    }
    if source.verify.is_some() {
        text.push_str("fi\n");
    }
    if source.kept.is_some() {
        text.push_str(FIRST);
    }
    text.push_str(PREEMPTED);
    restart(text, source);
    text.push_str(if source.kept.is_some() { END } else { "exit \"$status\"\n" });
}

/// Every component's ranks as a step, to the end of them all.
fn steps(text: &mut String, source: &Source<'_>, components: &[Component]) {
    let heard = if source.kept.is_some() { " 2>> \"$MUSTER_LOGS/srun.log\"" } else { "" };
    match components {
        [component] => {
            let _ = writeln!(text, "{}{heard}", srun(source, component, 0, false));
            text.push_str("status=$?\n");
        }
        several => {
            text.push_str(
                "# Roles that need different resources: a step each, and the first failure ends them all.\n",
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

/// By the number of an element alone scontrol means that element; by the number that it has beside
/// that of its array, all of it.
const SELF: &str = "muster_self=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}\n";

/// With `--export=NONE` there is none, and srun finds no bash for the ranks.
const PATH: &str = "[ -n \"$(printenv PATH)\" ] || export PATH=/usr/local/bin:/usr/bin:/bin\n";

/// Who was told to end has not come to its own end: it may be queued again, and then runs again.
const END: &str = r#"echo "$MUSTER_ATTEMPT $status" >> "$muster_dir/ends"
[ -z "$muster_told" ] || echo again >> "$muster_dir/ends"
exit "$status"
"#;

/// Every rank first starts as a probe, in its own place: what is found wrong ends the job with code
/// 78. Where the program that looks is not there, nothing was tested, and that is said.
fn preflight(text: &mut String, source: &Source<'_>, program: &str, components: &[Component]) {
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
# Is this place as it was asked for?
export MUSTER_PROBE={program}
if [ -x "$MUSTER_PROBE" ]; then
  timeout 60 "$MUSTER_PROBE" __preflight --job "$MUSTER_JOB_ID" ${{SLURM_ARRAY_TASK_ID:+--index "$SLURM_ARRAY_TASK_ID"}} --ranks {world} --report "$MUSTER_LOGS/verify.json" -- {start} >&2
  muster_found=$?
  if [ "$muster_found" = 78 ] && [ -z "$muster_told" ]; then
    echo "muster: the place is not as it was asked for; the program is not started" >&2
    echo "$MUSTER_ATTEMPT 78" >> "$muster_dir/ends"
    exit 78
  fi
else
  echo "muster: $MUSTER_PROBE is not there on $(hostname): nothing was verified" >&2
fi
export -n MUSTER_PROBE
unset MUSTER_PROBE

"#,
        program = quote::word(program),
    );
}

/// srun passes on the highest code of all tasks, and those that are ended for another's failure
/// have one above that.
const FIRST: &str = r#"# The code of who failed first, not of those that were ended for it.
cat "$MUSTER_LOGS/srun.log" >&2 2> /dev/null
muster_first=$(grep -m 1 -E ': tasks? [^:]*: ' "$MUSTER_LOGS/srun.log" 2> /dev/null)
case $muster_first in
  *"Exited with exit code "*) [ "$status" = 0 ] || status=${muster_first##* } ;;
esac
"#;

/// Who is preempted and ends within the grace has failed in Slurm's eyes, and is not queued again:
/// it waits to be ended.
const PREEMPTED: &str = r#"if [ "$status" != 0 ] && scontrol --oneliner show job "$muster_self" | grep -q 'PreemptTime=[0-9]'; then
  echo "muster: preempted; Slurm ends it or queues it again" >&2
  sleep infinity
fi
"#;

fn srun(
    source: &Source<'_>,
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
    // From 22.05 on srun does not take this over from the job.
    if component.cpus_per_task > 0 {
        words.push(format!("--cpus-per-task={}", component.cpus_per_task));
    }
    if source.kept.is_none() {
        words.extend(output::of_srun(source.files));
    }
    words.push(format!("bash -c \"$ranks_{index}\""));
    words.join(" ")
}

/// A failure of its own is not what Slurm's `--requeue` is for: the script asks for that itself.
/// What is being ended has not failed.
fn restart(text: &mut String, source: &Source<'_>) {
    let restart = &source.spec.restart;
    if !restart.on_failure {
        return;
    }
    // Slurm's own count has preemptions, lost nodes and turns in it, too.
    let (count, note) = match source.kept.is_some() || saving::takes_turns(source) {
        true => (
            "$(cat \"$muster_dir/failures\" 2> /dev/null | wc -l)",
            "  echo \"$status\" >> \"$muster_dir/failures\"\n",
        ),
        false => ("$MUSTER_RESTART_COUNT", ""),
    };
    let _ = write!(
        text,
        r#"if [ "$status" != 0 ] && [ "{count}" -lt {} ] && ! muster_is_ending; then
  echo "muster: failed with $status; queued again" >&2
{note}  scontrol requeue "$muster_self" && wait
fi
"#,
        restart.max_restarts
    );
}
