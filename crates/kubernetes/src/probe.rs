//! The probe of a rank in a container, which has no program of Muster's: a shell script, and what its
//! lines mean.

use muster_model::verify::{ProbeObservation, SeenFile, SeenProcess, SeenRank};

/// Script that the shell of the container runs, with [`MARK`] in its environment.
pub const SCRIPT: &str = include_str!("probe.sh");

/// Variable by which the probe knows its own processes.
pub const MARK: &str = "MUSTER_PROBE=1";

/// Line after which an observation is complete.
pub const DONE: &str = "done";

/// Values of `NVIDIA_VISIBLE_DEVICES` that name no device: with these, the container runtime is told in
/// another way.
const NO_LIST: [&str; 4] = ["all", "none", "void", ""];

/// Rank whose container the probe runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedRank {
    /// Number of the rank in its job.
    pub rank: u32,
    /// Number of GPUs that its container requests; `None` if its environment does not name them.
    pub gpus: Option<u32>,
    /// Thousandths of its one GPU that it has a share of; `None` for whole GPUs.
    pub gpu_share_millis: Option<u32>,
    /// Name of the node of its pod.
    pub node: String,
}

/// Process as the script prints it.
#[derive(Clone, Debug, Default)]
struct ProbedProcess {
    pid: u32,
    variables: Vec<(String, String)>,
    memlock_bytes: Option<u64>,
    /// Device files that it has open; `None` if the probe may not read that.
    open: Option<Vec<String>>,
}

/// Returns the observation that these lines are, up to [`DONE`].
#[must_use]
pub fn observation(of: &ProbedRank, lines: &[String]) -> ProbeObservation {
    let mut processes: Vec<ProbedProcess> = Vec::new();
    let mut seen = ProbeObservation {
        node: of.node.clone(),
        allocation: None,
        ranks: Vec::new(),
        device_files: Vec::new(),
        gpu_users: None,
        shared_memory: Err("its free space is unknown".to_owned()),
        rdma_devices: Vec::new(),
        listens: None,
    };
    for line in lines {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "process" => processes.push(ProbedProcess {
                pid: rest.parse().unwrap_or_default(),
                ..ProbedProcess::default()
            }),
            "file" | "closed-file" => {
                seen.device_files.push(SeenFile { path: rest.to_owned(), is_open: word == "file" })
            }
            "rdma" => seen.rdma_devices.push(rest.to_owned()),
            "shm" => seen.shared_memory = free_bytes(rest),
            "no-shm" => seen.shared_memory = Err(rest.to_owned()),
            _ => {
                if let Some(process) = processes.last_mut() {
                    process.take_in(word, rest);
                }
            }
        }
    }
    // Tasks of a pod that share a container are told apart by their variable.
    processes.retain(|process| {
        let task = process.variable("MUSTER_TASK").and_then(|task| task.parse().ok());
        task.is_none_or(|task: u32| task == of.rank)
    });
    seen.ranks.extend(rank(of, &processes, &seen.device_files));
    seen
}

impl ProbedProcess {
    fn take_in(&mut self, word: &str, rest: &str) {
        match word {
            "env" => {
                let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
                self.variables.push((name.to_owned(), value.to_owned()));
            }
            "memlock" => self.memlock_bytes = rest.parse().ok(),
            "readable" => self.open = Some(Vec::new()),
            "open" => self.open.get_or_insert_default().push(rest.to_owned()),
            _ => {}
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let mut named = self.variables.iter().filter(|(one, _)| one == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// Returns the devices that its libraries use, by names that are unique on the node. Numbers in
    /// `CUDA_VISIBLE_DEVICES` count the devices of the container.
    fn visible(&self, files: &[SeenFile]) -> Option<Vec<String>> {
        let listed = self.variable("NVIDIA_VISIBLE_DEVICES").filter(|list| !NO_LIST.contains(list));
        let given: Vec<String> = match listed {
            Some(list) => words(list),
            None => files.iter().map(|file| file.path.clone()).collect(),
        };
        let Some(chosen) = self.variable("CUDA_VISIBLE_DEVICES") else {
            return (!given.is_empty()).then_some(given);
        };
        let device = |word: String| match word.parse::<usize>() {
            Ok(number) => given.get(number).cloned(),
            Err(_) => Some(word),
        };
        Some(words(chosen).into_iter().filter_map(device).collect())
    }
}

/// Returns the rank; `None` if no process of it runs. Its oldest process has the variables that it was
/// started with; its children may have changed theirs.
fn rank(of: &ProbedRank, processes: &[ProbedProcess], files: &[SeenFile]) -> Option<SeenRank> {
    let mut by_age: Vec<&ProbedProcess> = processes.iter().collect();
    by_age.sort_by_key(|process| process.pid);
    let oldest = *by_age.first()?;
    // A shell that prepares the variables has only those of the container. The world of a launcher such as
    // torchrun is its workers, and not the ranks of a job that others have written.
    let own = by_age.iter().find(|process| process.variable("MUSTER_TASK").is_some());
    let own_variable = |name: &str| own.and_then(|process| process.variable(name));
    let first = |name: &str| by_age.iter().find_map(|process| process.variable(name));
    let mut all: Vec<SeenProcess> = Vec::new();
    for process in &by_age {
        let visible = process.visible(files);
        let open = process.open.clone();
        if !all.iter().any(|one| one.visible == visible && one.open == open) {
            all.push(SeenProcess { pid: process.pid, visible, open });
        }
    }
    Some(SeenRank {
        rank: of.rank,
        world_size: own_variable("WORLD_SIZE").and_then(|size| size.parse().ok()),
        gpus: of.gpus,
        gpu_share_millis: of.gpu_share_millis,
        visible: oldest.visible(files),
        memlock_bytes: oldest.memlock_bytes,
        master: first("MASTER_ADDR").map(str::to_owned),
        processes: all,
    })
}

fn words(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Reads the free space from a line of `df -Pk`, whose fourth column has it in KiB.
fn free_bytes(line: &str) -> Result<u64, String> {
    let free = line.split_whitespace().nth(3).and_then(|kib| kib.parse::<u64>().ok());
    free.map(|kib| kib << 10).ok_or_else(|| "its free space is unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(of: &ProbedRank, text: &str) -> ProbeObservation {
        observation(of, &text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>())
    }

    fn probed(rank: u32, gpus: u32) -> ProbedRank {
        ProbedRank { rank, gpus: Some(gpus), gpu_share_millis: None, node: "node1".to_owned() }
    }

    fn list(text: &str) -> Option<Vec<String>> {
        Some(text.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn the_lines_of_a_rank_are_its_devices_limits_and_memory() {
        let text = "process 9
            env WORLD_SIZE=4
            env MUSTER_TASK=2
            env MASTER_ADDR=train-0.train
            env NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b
            memlock unlimited
            readable
            process 12
            env NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b
            env CUDA_VISIBLE_DEVICES=1
            memlock 65536
            readable
            open /dev/nvidia3
            file /dev/nvidia2
            closed-file /dev/nvidia3
            rdma mlx5_0
            shm tmpfs 1048576 0 2097152 0% /dev/shm";
        let seen = seen(&probed(2, 2), text);
        assert_eq!(seen.node, "node1");
        assert_eq!(seen.shared_memory, Ok(2 << 30));
        assert_eq!(seen.rdma_devices, ["mlx5_0"]);
        let files: Vec<_> =
            seen.device_files.iter().map(|file| (file.path.as_str(), file.is_open)).collect();
        assert_eq!(files, [("/dev/nvidia2", true), ("/dev/nvidia3", false)]);
        let [rank] = seen.ranks.as_slice() else { panic!("{seen:?}") };
        assert_eq!((rank.rank, rank.world_size, rank.gpus), (2, Some(4), Some(2)));
        assert_eq!(rank.visible, list("GPU-a GPU-b"));
        assert_eq!(rank.memlock_bytes, None);
        assert_eq!(rank.master.as_deref(), Some("train-0.train"));
        assert_eq!(rank.processes[1].visible, list("GPU-b"));
        assert_eq!(rank.processes[1].open, list("/dev/nvidia3"));
    }

    #[test]
    fn devices_have_names_that_are_unique_on_the_node() {
        let visible = |text: &str| seen(&probed(0, 1), text).ranks[0].visible.clone();
        // Device files are those of the container, whatever number a library gives them.
        let files = "process 7\nenv CUDA_VISIBLE_DEVICES=0\nfile /dev/nvidia5";
        assert_eq!(visible(files), list("/dev/nvidia5"));
        assert_eq!(
            visible("process 7\nenv NVIDIA_VISIBLE_DEVICES=void\nfile /dev/nvidia5"),
            list("/dev/nvidia5")
        );
        // A device that the container does not have is none, and so is an empty list.
        assert_eq!(visible("process 7\nenv CUDA_VISIBLE_DEVICES=3\nfile /dev/nvidia5"), list(""));
        assert_eq!(visible("process 7\nenv CUDA_VISIBLE_DEVICES="), list(""));
        assert_eq!(
            visible("process 7\nenv CUDA_VISIBLE_DEVICES=GPU-a\nfile /dev/nvidia5"),
            list("GPU-a")
        );
        // The world of a launcher's workers is not that of the job.
        let workers = seen(&probed(0, 1), "process 7\nprocess 9\nenv WORLD_SIZE=16");
        assert_eq!(workers.ranks[0].world_size, None);
        // Without any source nothing is known.
        assert_eq!(visible("process 7\nreadable"), None);
    }

    #[test]
    fn a_rank_without_a_process_is_not_there_and_memory_that_cannot_be_written_says_why() {
        let gone = seen(&probed(0, 1), "file /dev/nvidia0\nno-shm cannot create: Read-only");
        assert!(gone.ranks.is_empty());
        assert_eq!(gone.shared_memory, Err("cannot create: Read-only".to_owned()));
        let other = seen(&probed(0, 1), "process 7\nenv MUSTER_TASK=1\nshm tmpfs");
        assert!(other.ranks.is_empty());
        assert_eq!(other.shared_memory, Err("its free space is unknown".to_owned()));
    }
}
