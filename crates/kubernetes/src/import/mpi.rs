//! MPIJobs of Kubeflow's MPI operator. Where the launcher is an `mpirun` whose options are known, each
//! rank becomes a task; else launcher and workers become groups, and need what the operator prepares.

use super::draft::{GroupDraft, ProgramDraft};
use super::found::{FoundJob, MpiFacts, role};
use super::kubeflow::run_policy;
use super::object::ImportedObject;
use super::pod::PodTemplate;

/// Command of a worker that names none (kubeflow.org/v2beta1).
const SSHD: [&str; 2] = ["/usr/sbin/sshd", "-De"];

/// Note on the command of a launcher whose ranks are tasks.
const RANK_TASK: &str = "run: the program after mpirun, which starts once as each task";

/// `mpirun` as it is written.
#[derive(Clone, Debug, Default, PartialEq)]
struct MpiRun {
    ranks: Option<u64>,
    env: Vec<(String, String)>,
    program: Vec<String>,
}

/// Reads launcher and workers of an MPIJob, and what its command says of the ranks.
pub(super) fn mpi_job(object: &mut ImportedObject, found: &mut FoundJob) {
    let slots = object.peek_number("/spec/slotsPerWorker").unwrap_or(1).max(1);
    for (name, at) in [("launcher", "Launcher"), ("worker", "Worker")] {
        let at = format!("/spec/mpiReplicaSpecs/{at}");
        if object.get(&at).is_none() {
            continue;
        }
        let pods = object.number(&format!("{at}/replicas"), "the number of tasks").unwrap_or(1);
        object.near(&format!("{at}/restartPolicy"), "restart: the whole job starts again");
        let template = format!("{at}/template");
        role(object, found, &PodTemplate { at: &template, role: name, pods });
        let container = format!("{template}/spec/containers/0");
        let has_command = ["command", "args"]
            .iter()
            .any(|field| object.get(&format!("{container}/{field}")).is_some());
        if name == "worker" && !has_command {
            let group = found.draft.groups.last_mut().expect("reading a template adds a group");
            group.task.run = ProgramDraft::Words(SSHD.map(str::to_owned).to_vec());
        }
    }
    let launcher_works = object.is_set("/spec/runLauncherAsWorker");
    ranks(object, found, slots, launcher_works);
    object.near("/spec/launcherCreationPolicy", "all tasks of a job start together");
    if !launcher_works {
        object.field("/spec/runLauncherAsWorker", "the launcher runs no rank");
    }
    run_policy(object, found, "/spec/runPolicy");
}

/// Converts the ranks that `mpirun` starts to tasks, where its options are known.
fn ranks(object: &mut ImportedObject, found: &mut FoundJob, slots: u64, launcher_works: bool) {
    let groups = &found.draft.groups;
    let gpus = |name: &str| {
        let group = groups.iter().find(|group| group.name == name);
        group.map_or(0, |group| group.task.gpus)
    };
    let mut facts = MpiFacts {
        slots,
        workers: groups.iter().filter(|group| group.name == "worker").map(|one| one.pods).sum(),
        worker_gpus: gpus("worker"),
        launcher_gpus: if launcher_works { 0 } else { gpus("launcher") },
        ..MpiFacts::default()
    };
    if let [launcher, worker] = &groups[..]
        && let Some(run) = mpirun(&launcher.task.run)
    {
        facts.ranks = run.ranks;
        if let Some(group) = rank_tasks(worker, &run, slots).filter(|_| !launcher_works) {
            for field in ["command", "args"] {
                let at = format!("{}/spec/containers/0/{field}", found.templates[0]);
                object.near(&at, RANK_TASK);
            }
            let launcher = found.templates.remove(0);
            for (at, _) in object.notes_at(&format!("{launcher}/spec/containers/0/resources")) {
                object.near(&at, "a job has no launcher: its resources are those of the workers");
            }
            found.draft.groups = vec![group];
            found.draft.env.retain(|(name, _)| run.env.iter().all(|(known, _)| known != name));
            found.draft.env.extend(run.env);
            object.field("/spec/slotsPerWorker", "tasks-per-node");
            object.near(
                "/spec/mpiImplementation",
                "the launcher of the place where it runs starts the ranks",
            );
            object.near("/spec/sshAuthMountPath", "tasks are started without SSH");
            facts.has_rank_tasks = true;
        }
    }
    found.mpi = Some(facts);
}

/// Converts the ranks of a TrainJob of MPI, whose nodes all run them, to tasks.
pub(super) fn of_trainer(object: &mut ImportedObject, found: &mut FoundJob, slots: u64) {
    let [node] = &found.draft.groups[..] else { return };
    let Some(run) = mpirun(&node.task.run) else { return };
    let mut facts =
        MpiFacts { slots, workers: node.pods, worker_gpus: node.task.gpus, ..MpiFacts::default() };
    facts.ranks = run.ranks;
    if let Some(group) = rank_tasks(node, &run, slots) {
        let at = format!("{}/spec/containers/0/command", found.templates[0]);
        object.near(&at, RANK_TASK);
        found.draft.groups = vec![group];
        facts.has_rank_tasks = true;
    }
    found.mpi = Some(facts);
}

/// Returns the ranks of a worker as its tasks; `None` if they cannot have the same share each.
fn rank_tasks(worker: &GroupDraft, run: &MpiRun, slots: u64) -> Option<GroupDraft> {
    let task = &worker.task;
    let is_whole = task.gpus.is_multiple_of(slots) && task.extras.is_empty();
    if !is_whole || run.program.is_empty() {
        return None;
    }
    let mut group = worker.clone();
    group.name = "main".to_owned();
    group.tasks_per_pod = slots;
    group.task.gpus = task.gpus / slots;
    group.task.cpus_milli = task.cpus_milli / slots;
    group.task.memory_bytes = task.memory_bytes / slots;
    group.task.run = ProgramDraft::Words(run.program.clone());
    Some(group)
}

/// Options of mpirun without a value (Open MPI's and MPICH's).
const FLAGS: [&str; 8] = [
    "allow-run-as-root",
    "tag-output",
    "oversubscribe",
    "v",
    "verbose",
    "q",
    "report-bindings",
    "display-map",
];
/// Options of mpirun with a value that places or binds processes, or names hosts.
const WITH_VALUE: [&str; 10] =
    ["hostfile", "machinefile", "f", "H", "host", "hosts", "bind-to", "map-by", "rank-by", "wdir"];

/// Reads the words of an `mpirun`; `None` for other programs, and for options that are not known.
fn mpirun(run: &ProgramDraft) -> Option<MpiRun> {
    let ProgramDraft::Words(words) = run else { return None };
    let (first, mut rest) = words.split_first()?;
    let name = first.rsplit('/').next()?;
    if !matches!(name, "mpirun" | "mpiexec") {
        return None;
    }
    let mut found = MpiRun::default();
    while let Some((word, others)) = rest.split_first() {
        let Some(option) = word.strip_prefix('-') else {
            found.program = rest.to_vec();
            break;
        };
        let option = option.trim_start_matches('-');
        let values = match option {
            "n" | "np" | "c" => {
                found.ranks = Some(others.first()?.parse().ok()?);
                1
            }
            // A variable without a value is that of the launcher.
            "x" => {
                found.env.extend(
                    others.first()?.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())),
                );
                1
            }
            "mca" => 2,
            "N" | "npernode" | "ppn" => 1,
            _ if FLAGS.contains(&option) => 0,
            _ if WITH_VALUE.contains(&option) => 1,
            _ => return None,
        };
        rest = others.get(values..)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(Option<u64>, &str, usize)>) {
        let words = text.split_whitespace().map(str::to_owned).collect();
        let found = mpirun(&ProgramDraft::Words(words));
        let found = found.map(|run| (run.ranks, run.program.join(" "), run.env.len()));
        let expected = expected.map(|(ranks, program, env)| (ranks, program.to_owned(), env));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn options_of_mpirun_are_told_from_its_program() {
        check("mpirun -np 16 python train.py --n 2", Some((Some(16), "python train.py --n 2", 0)));
        check(
            "/usr/bin/mpirun --allow-run-as-root -n 2 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x PATH -mca pml ob1 ./a",
            Some((Some(2), "./a", 1)),
        );
        check("mpirun --unknown 3 ./a", None);
        check("mpirun -np", None);
        check("bash -c mpirun", None);
    }
}
