//! Control groups of a task: where they can be created, their limits, and a kill that no process
//! escapes.
//!
//! Works with v2, v1 and the mixed layout (v1 controllers beside a v2 tree without any): each
//! function uses a hierarchy that offers it, and none is required. The daemon chooses the paths and
//! records them in the order, so that cleanup finds them even if the supervisor died while creating
//! them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::{Bytes, CpuMilli};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::process;

/// Length of a CPU accounting period in microseconds: the kernel's default.
const CPU_PERIOD_US: u64 = 100_000;

/// Leaf group that a daemon moves itself into, because in v2 a group that enables controllers for
/// its children may hold no processes. A unit with `DelegateSubgroup=` of this name starts there.
const DAEMON_LEAF: &str = "muster-daemon";

/// Top-level group of a daemon that runs as root.
const ROOT_GROUP: &str = "muster";

/// Function of a group directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupKind {
    /// A group of the v2 hierarchy.
    Unified,
    /// A group of the v1 memory controller.
    Memory,
    /// A group of the v1 CPU controller.
    Cpu,
    /// A group of the v1 freezer.
    Freezer,
    /// A group of the v1 controller that limits the number of processes.
    Pids,
}

/// Groups of one task, in the order in which they are created and joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlan {
    /// The directories; empty where there is no writable hierarchy.
    pub dirs: Vec<CgroupDir>,
}

/// One group directory to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupDir {
    /// Function of the directory.
    pub kind: CgroupKind,
    /// Absolute path of the directory.
    pub path: PathBuf,
    /// Files to write in it before a process joins.
    pub settings: Vec<Setting>,
}

/// A control file and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Name of the control file.
    pub file: String,
    /// Value to write to it.
    pub value: String,
    /// False for files that some kernels lack.
    pub required: bool,
}

impl Setting {
    fn new(file: &str, value: impl ToString, required: bool) -> Self {
        Self { file: file.to_owned(), value: value.to_string(), required }
    }
}

/// Directories under which groups can be created on this machine, by function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// Directory in the v2 hierarchy.
    pub unified: Option<PathBuf>,
    /// Mount point of the v2 hierarchy.
    unified_mount: Option<PathBuf>,
    /// Controllers that are enabled for groups under `unified`.
    pub unified_controllers: BTreeSet<String>,
    /// Directory of the v1 memory controller.
    pub memory: Option<PathBuf>,
    /// Directory of the v1 CPU controller.
    pub cpu: Option<PathBuf>,
    /// Directory of the v1 freezer.
    pub freezer: Option<PathBuf>,
    /// Directory of the v1 pids controller.
    pub pids: Option<PathBuf>,
}

/// Resource limits of one task; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// CPU time, in thousandths of a CPU.
    pub cpus: CpuMilli,
    /// Memory, in bytes without swap.
    pub memory: Bytes,
    /// Processes and threads that exist at the same time.
    pub processes: u32,
}

impl Hierarchies {
    /// Returns no hierarchies: limits are a convention, and processes are found by environment tag.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Detects, by trying, the directories in which this process may create groups and move a child
    /// into them.
    #[must_use]
    pub fn detect(instance: &str) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let mut found = candidates(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        if let Some(own) = found.unified.take() {
            let is_root = rustix::process::geteuid().is_root();
            let base = unified_base(&own, found.unified_mount.as_deref(), is_root);
            let usable = base == own || base.is_dir() || std::fs::create_dir(&base).is_ok();
            let base = if usable { base } else { own };
            found.unified_controllers = enable_controllers(&base);
            found.unified = Some(base);
        }
        let dirs = [
            &mut found.unified,
            &mut found.memory,
            &mut found.cpu,
            &mut found.freezer,
            &mut found.pids,
        ];
        let works = try_each(&dirs.each_ref().map(|dir| (**dir).clone()), instance);
        for (dir, works) in dirs.into_iter().zip(works) {
            if !works {
                *dir = None;
            }
        }
        if found.unified.is_none() {
            found.unified_controllers.clear();
        }
        found
    }

    /// Returns the mechanism that enforces memory limits.
    #[must_use]
    pub fn memory_enforced_by(&self) -> Option<&'static str> {
        match (self.unified_controllers.contains("memory"), &self.memory) {
            (true, _) => Some("cgroup v2"),
            (false, Some(_)) => Some("cgroup v1"),
            (false, None) => None,
        }
    }

    /// Returns the mechanism that enforces CPU limits.
    #[must_use]
    pub fn cpu_enforced_by(&self) -> Option<&'static str> {
        match (self.unified_controllers.contains("cpu"), &self.cpu) {
            (true, _) => Some("cgroup v2"),
            (false, Some(_)) => Some("cgroup v1"),
            (false, None) => None,
        }
    }

    /// Returns the mechanism that enforces the limit on processes.
    #[must_use]
    pub fn processes_enforced_by(&self) -> Option<&'static str> {
        match (self.unified_controllers.contains("pids"), &self.pids) {
            (true, _) => Some("cgroup v2"),
            (false, Some(_)) => Some("cgroup v1"),
            (false, None) => None,
        }
    }

    /// Returns the mechanism by which all processes of a task are found and killed.
    #[must_use]
    pub fn kill_by(&self) -> &'static str {
        match (&self.unified, &self.freezer) {
            (Some(_), _) => "cgroup v2",
            (None, Some(_)) => "cgroup v1",
            (None, None) => "environment tag",
        }
    }

    /// Returns true when each task has a group by which it can be killed.
    #[must_use]
    pub fn kill_by_group(&self) -> bool {
        self.unified.is_some() || self.freezer.is_some()
    }

    /// Returns the groups of a task with this name: one for killing, and one per limit that is set
    /// and can be enforced.
    #[must_use]
    pub fn plan(&self, name: &str, limits: CgroupLimits) -> CgroupPlan {
        let CgroupLimits { cpus, memory, processes } = limits;
        let mut dirs = Vec::new();
        let mut add = |kind, base: &Option<PathBuf>, settings| {
            if let Some(base) = base {
                dirs.push(CgroupDir { kind, path: base.join(name), settings });
            }
        };
        let quota_us = (u64::from(cpus.0) * CPU_PERIOD_US / 1000).max(1000);
        let limit_memory = memory.0 > 0;
        let limit_cpu = cpus.0 > 0;
        let limit_pids = processes > 0;
        let [memory_v2, cpu_v2, pids_v2] =
            ["memory", "cpu", "pids"].map(|name| self.unified_controllers.contains(name));
        let mut settings = Vec::new();
        if limit_memory && memory_v2 {
            settings.push(Setting::new("memory.max", memory.0, true));
            settings.push(Setting::new("memory.swap.max", 0, false));
            settings.push(Setting::new("memory.oom.group", 1, false));
        }
        if limit_cpu && cpu_v2 {
            settings.push(Setting::new(
                "cpu.max",
                format_args!("{quota_us} {CPU_PERIOD_US}"),
                true,
            ));
        }
        if limit_pids && pids_v2 {
            settings.push(Setting::new("pids.max", processes, true));
        }
        match &self.unified {
            Some(_) => add(CgroupKind::Unified, &self.unified, settings),
            None => add(CgroupKind::Freezer, &self.freezer, Vec::new()),
        }
        if limit_memory && !memory_v2 {
            let settings = vec![
                Setting::new("memory.limit_in_bytes", memory.0, true),
                Setting::new("memory.memsw.limit_in_bytes", memory.0, false),
            ];
            add(CgroupKind::Memory, &self.memory, settings);
        }
        if limit_cpu && !cpu_v2 {
            let settings = vec![
                Setting::new("cpu.cfs_period_us", CPU_PERIOD_US, true),
                Setting::new("cpu.cfs_quota_us", quota_us, true),
            ];
            add(CgroupKind::Cpu, &self.cpu, settings);
        }
        if limit_pids && !pids_v2 {
            add(CgroupKind::Pids, &self.pids, vec![Setting::new("pids.max", processes, true)]);
        }
        CgroupPlan { dirs }
    }

    /// Removes empty groups of this instance that are not in `needed` (left by a crash). Groups
    /// with processes in them cannot be removed and stay.
    pub fn tidy(&self, instance: &str, needed: &BTreeSet<String>) {
        let bases = [&self.unified, &self.memory, &self.cpu, &self.freezer, &self.pids];
        for base in bases.into_iter().flatten() {
            for (name, path) in groups_of(base, instance) {
                if !needed.contains(&name) {
                    let _ = std::fs::remove_dir(path);
                }
            }
        }
    }

    /// Returns the groups of this instance that have processes: name without the prefix of the
    /// instance, and pids. Empty where tasks have no groups for killing.
    #[must_use]
    pub fn occupied(&self, instance: &str) -> Vec<(String, Vec<i32>)> {
        let prefix = name_prefix(instance);
        let base = self.unified.as_ref().or(self.freezer.as_ref());
        base.into_iter()
            .flat_map(|base| groups_of(base, instance))
            .filter_map(|(name, path)| Some((name.strip_prefix(&prefix)?.to_owned(), pids(&path))))
            .filter(|(_, pids)| !pids.is_empty())
            .collect()
    }
}

/// Returns the pids of the processes in a group.
fn pids(group: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect()
}

/// Returns name and path of each group of an instance in a directory.
fn groups_of(base: &Path, instance: &str) -> impl Iterator<Item = (String, PathBuf)> {
    let prefix = name_prefix(instance);
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(move |(name, _)| name.starts_with(&prefix))
}

/// Returns the memory limit of this process's own group; `None` without one.
#[must_use]
pub fn own_memory_limit() -> Option<Bytes> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let own = candidates(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let files = [
        own.unified.map(|dir| dir.join("memory.max")),
        own.memory.map(|dir| dir.join("memory.limit_in_bytes")),
    ];
    let texts = files.into_iter().flatten().filter_map(|file| std::fs::read_to_string(file).ok());
    // No limit is `max` in v2 and a number beyond any machine in v1.
    texts.filter_map(|text| text.trim().parse().ok().map(Bytes)).min()
}

/// Returns the membership file of this process's own group, in the first hierarchy where it is
/// writable.
#[must_use]
pub fn own_group() -> Option<PathBuf> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let own = candidates(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let dirs = [own.unified, own.freezer, own.memory, own.cpu, own.pids];
    let mut files = dirs.into_iter().flatten().map(|dir| dir.join("cgroup.procs"));
    let id = std::process::id().to_string();
    files.find(|file| {
        // In a container the path may belong to another namespace. Writing to the group that this
        // process is in must not move it, so its membership is verified.
        let members = std::fs::read_to_string(file).unwrap_or_default();
        members.lines().any(|line| line == id)
            && rustix::fs::access(file, rustix::fs::Access::WRITE_OK).is_ok()
    })
}

/// Returns the prefix of the names of an instance's groups.
#[must_use]
pub fn name_prefix(instance: &str) -> String {
    format!("muster-{instance}-")
}

/// Returns the job of a task in `/proc/<pid>/cgroup`, whichever daemon started it: its group is the
/// prefix followed by [`crate::live::task_name`].
#[must_use]
pub fn job_of(groups: &str) -> Option<u64> {
    let names = groups.lines().flat_map(|line| line.split('/'));
    names.filter_map(|name| name.strip_prefix("muster-")?.split_once('-')).find_map(|(_, task)| {
        let fields: Vec<&str> = task.split('.').collect();
        let from_job = fields.get(fields.len().checked_sub(4)?..)?;
        let numbers: Option<Vec<u64>> = from_job.iter().map(|field| field.parse().ok()).collect();
        numbers?.first().copied()
    })
}

impl CgroupPlan {
    /// Returns true when the task has a group by which it can be killed.
    #[must_use]
    pub fn can_kill(&self) -> bool {
        self.killer().is_some()
    }

    /// Returns the cgroup through which the task's processes are listed and killed.
    fn killer(&self) -> Option<&CgroupDir> {
        self.dirs.iter().find(|dir| matches!(dir.kind, CgroupKind::Unified | CgroupKind::Freezer))
    }

    /// Creates the groups and sets their limits. Groups that exist already (after a crash) are
    /// used.
    pub fn create(&self) -> Result<(), String> {
        for dir in &self.dirs {
            let failed = |what: &Path, error: io::Error| format!("{}: {error}", what.display());
            match std::fs::create_dir(&dir.path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(&dir.path, error));
                }
                _ => {}
            }
            for setting in &dir.settings {
                let file = dir.path.join(&setting.file);
                match std::fs::write(&file, &setting.value) {
                    Err(error) if setting.required => return Err(failed(&file, error)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Moves the calling process into every group.
    pub fn join(&self) -> Result<(), String> {
        for dir in &self.dirs {
            let file = dir.path.join("cgroup.procs");
            std::fs::write(&file, "0").map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    /// Returns the pids of the processes in the group.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        self.killer().map(|dir| pids(&dir.path)).unwrap_or_default()
    }

    /// Kills every process in the group once. Returns true when the group was empty.
    pub fn kill_round(&self) -> bool {
        let Some(dir) = self.killer() else { return true };
        if self.processes().is_empty() {
            return true;
        }
        let (freeze, frozen, thawed) = match dir.kind {
            CgroupKind::Unified if std::fs::write(dir.path.join("cgroup.kill"), "1").is_ok() => {
                return false;
            }
            CgroupKind::Unified => ("cgroup.freeze", "1", "0"),
            _ => ("freezer.state", "FROZEN", "THAWED"),
        };
        // While frozen, no process can fork between reading the list and the last signal; the kill
        // takes effect on thaw.
        let _ = std::fs::write(dir.path.join(freeze), frozen);
        for pid in self.processes() {
            process::signal(pid, Signal::KILL);
        }
        let _ = std::fs::write(dir.path.join(freeze), thawed);
        false
    }

    /// Kills every process in the group until it is empty. Returns false when a process does not
    /// die within `patience`.
    #[must_use]
    pub fn kill_all(&self, patience: Duration) -> bool {
        process::poll_until(patience, || self.kill_round())
    }

    /// Returns the number of out-of-memory kills in the group.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        let count = |dir: &CgroupDir| {
            let file = match dir.kind {
                CgroupKind::Unified => "memory.events",
                CgroupKind::Memory => "memory.oom_control",
                CgroupKind::Cpu | CgroupKind::Freezer | CgroupKind::Pids => return 0,
            };
            let text = std::fs::read_to_string(dir.path.join(file)).unwrap_or_default();
            let value = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            value.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        self.dirs.iter().map(count).sum()
    }

    /// Returns the limit on processes, if a fork failed because of it.
    #[must_use]
    pub fn reached_processes(&self) -> Option<String> {
        self.dirs.iter().find_map(|dir| {
            let limit = dir.settings.iter().find(|setting| setting.file == "pids.max")?;
            let text = std::fs::read_to_string(dir.path.join("pids.events")).ok()?;
            let refused: u64 =
                text.lines().find_map(|line| line.strip_prefix("max "))?.trim().parse().ok()?;
            (refused > 0).then(|| limit.value.clone())
        })
    }

    /// Removes the groups. Returns false when one is still there because it has processes.
    #[must_use]
    pub fn remove(&self) -> bool {
        let gone = |path: &PathBuf| match std::fs::remove_dir(path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        };
        // `count`, not `all`: each group is tried, also after one that is still in use.
        self.dirs.iter().rev().filter(|dir| !gone(&dir.path)).count() == 0
    }
}

/// Returns the directory of this process's own group in each hierarchy, from `/proc/self/mountinfo`
/// and `/proc/self/cgroup`. Groups of tasks are created below it, so that limits on the daemon's
/// group apply to its tasks too.
fn candidates(mountinfo: &str, own: &str) -> Hierarchies {
    let mut found = Hierarchies::default();
    for line in mountinfo.lines() {
        let Some((mount, source)) = line.split_once(" - ") else { continue };
        let mount: Vec<&str> = mount.split(' ').collect();
        let source: Vec<&str> = source.split(' ').collect();
        let (Some(root), Some(point), Some(kind), options) =
            (mount.get(3), mount.get(4), source.first(), source.get(2).copied().unwrap_or(""))
        else {
            continue;
        };
        let own_dir = |wanted: &dyn Fn(&str, &str) -> bool| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let id = parts.next()?;
                let controllers = parts.next()?;
                let path = parts.next()?;
                wanted(id, controllers).then(|| below(point, root, path))
            })
        };
        let has = |list: &str, name: &str| list.split(',').any(|item| item == name);
        match *kind {
            "cgroup2" => {
                found.unified_mount.get_or_insert_with(|| PathBuf::from(*point));
                found.unified = found
                    .unified
                    .or_else(|| own_dir(&|id, controllers| id == "0" && controllers.is_empty()));
            }
            "cgroup" => {
                for (name, slot) in [
                    ("memory", &mut found.memory),
                    ("cpu", &mut found.cpu),
                    ("freezer", &mut found.freezer),
                    ("pids", &mut found.pids),
                ] {
                    if slot.is_none() && has(options, name) {
                        *slot = own_dir(&|_, controllers| has(controllers, name));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the v2 directory under which groups of tasks are created, for a daemon whose own group
/// is `own`: beside the leaf that its unit started it in, if any; as root at the top of the
/// hierarchy, as container engines do, because a service manager cannot restart a daemon whose own
/// group has controllers enabled for children that still run; else below its own group.
fn unified_base(own: &Path, mount: Option<&Path>, is_root: bool) -> PathBuf {
    match (own.parent(), mount) {
        (Some(parent), _) if own.file_name().is_some_and(|name| name == DAEMON_LEAF) => {
            parent.to_owned()
        }
        (_, Some(mount)) if is_root && own.components().ne(mount.components()) => {
            mount.join(ROOT_GROUP)
        }
        _ => own.to_owned(),
    }
}

/// Returns the directory of group `path` where a hierarchy's `root` is mounted at `point`. In a
/// container the path may belong to another namespace; then this returns the mount point.
fn below(point: &str, root: &str, path: &str) -> PathBuf {
    let relative = match path.strip_prefix(root.trim_end_matches('/')) {
        Some(rest) if !rest.contains("..") => rest.trim_start_matches('/'),
        _ => "",
    };
    let dir = Path::new(point).join(relative);
    if dir.is_dir() || !Path::new(point).is_dir() { dir } else { PathBuf::from(point) }
}

/// Enables the memory, CPU and pids controllers for the children of a v2 group; returns those that
/// are enabled.
fn enable_controllers(base: &Path) -> BTreeSet<String> {
    let wanted = ["memory", "cpu", "pids"];
    let list = |file: &str| -> BTreeSet<String> {
        let text = std::fs::read_to_string(base.join(file)).unwrap_or_default();
        text.split_ascii_whitespace()
            .filter(|name| wanted.contains(name))
            .map(str::to_owned)
            .collect()
    };
    let missing: Vec<String> = list("cgroup.controllers")
        .difference(&list("cgroup.subtree_control"))
        .map(|name| format!("+{name}"))
        .collect();
    if !missing.is_empty() {
        let enable = || std::fs::write(base.join("cgroup.subtree_control"), missing.join(" "));
        if enable().is_err() {
            let leaf = base.join(DAEMON_LEAF);
            let _ = std::fs::create_dir(&leaf);
            let _ = std::fs::write(leaf.join("cgroup.procs"), "0");
            let _ = enable();
        }
    }
    list("cgroup.subtree_control")
}

/// Returns for each directory whether a child of this process can be moved into a group created
/// there.
fn try_each(dirs: &[Option<PathBuf>], instance: &str) -> Vec<bool> {
    let name = format!("{}probe-{}", name_prefix(instance), std::process::id());
    let probes: Vec<Option<PathBuf>> = dirs
        .iter()
        .map(|dir| {
            let probe = dir.as_ref()?.join(&name);
            std::fs::create_dir(&probe).ok().map(|()| probe)
        })
        .collect();
    let joined = |probe: &Path| {
        std::process::Command::new("/bin/sh")
            .args(["-c", "echo 0 > \"$0\"/cgroup.procs"])
            .arg(probe)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let works = probes.iter().map(|probe| probe.as_deref().is_some_and(joined)).collect();
    for probe in probes.into_iter().flatten() {
        let _ =
            process::poll_until(Duration::from_millis(200), || std::fs::remove_dir(&probe).is_ok());
    }
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_of_a_task_is_read_from_its_group() {
        use muster_model::{AttemptId, ElementId, JobId, Rank};
        let id = AttemptId {
            element: ElementId { job: JobId(15), index: 2 },
            attempt: muster_model::Attempt(1),
        };
        let task = crate::live::task_name(None, id, Rank(3));
        for name in [task.clone(), format!("e4de16d9.{task}")] {
            let group = format!("{}{name}", name_prefix("f4f86ed5d0d9"));
            let v1 = format!("4:memory:/api/1\n3:pids:/muster/{group}/below\n");
            assert_eq!(job_of(&v1), Some(15), "{group}");
            assert_eq!(job_of(&format!("0::/muster/{group}\n")), Some(15), "{group}");
        }
        for other in ["0::/user.slice\n", "0::/muster/muster-daemon\n", "0::/muster-a-b.c\n", ""] {
            assert_eq!(job_of(other), None, "{other}");
        }
    }

    #[test]
    fn own_groups_are_found_in_v2_v1_mixed_and_container_layouts() {
        let v2 = candidates(
            "35 24 0:30 / /nowhere/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate",
            "0::/user.slice/user-1000.slice/session-2.scope\n",
        );
        assert_eq!(
            v2.unified.as_deref(),
            Some(Path::new("/nowhere/cgroup/user.slice/user-1000.slice/session-2.scope"))
        );
        assert_eq!((v2.memory, v2.freezer), (None, None));

        let mixed = candidates(
            "32 31 0:29 / /nowhere/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 / /nowhere/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /nowhere/unified rw - cgroup2 cgroup2 rw\n",
            "4:memory:/api/1\n1:cpu,cpuacct:/\n0::/\n",
        );
        assert_eq!(mixed.unified.as_deref(), Some(Path::new("/nowhere/unified/")));
        assert_eq!(mixed.memory.as_deref(), Some(Path::new("/nowhere/memory/api/1")));
        assert_eq!(mixed.cpu.as_deref(), Some(Path::new("/nowhere/cpu/")));
        assert_eq!(mixed.freezer, None);

        let container = candidates(
            "35 31 0:32 /docker/abc /nowhere/memory rw - cgroup cgroup rw,memory",
            "4:memory:/docker/abc/inner\n",
        );
        assert_eq!(container.memory.as_deref(), Some(Path::new("/nowhere/memory/inner")));
    }

    proptest::proptest! {
        #[test]
        fn any_mount_table_is_read(table in "([ -~]{0,30} (-|cgroup2?|/sys)? ?){0,12}", own in "([0-9]:[a-z,]*:/?[ -~]{0,20}\n?){0,4}") {
            let found = candidates(&table, &own);
            proptest::prop_assert!(found.unified_controllers.is_empty());
        }
    }

    #[test]
    fn tasks_live_where_their_daemon_can_be_restarted() {
        let mount = Some(Path::new("/sys/fs/cgroup"));
        for (own, is_root, base) in [
            ("/sys/fs/cgroup/system.slice/muster.service", true, "/sys/fs/cgroup/muster"),
            (
                "/sys/fs/cgroup/system.slice/m.service/muster-daemon",
                true,
                "/sys/fs/cgroup/system.slice/m.service",
            ),
            ("/sys/fs/cgroup/", true, "/sys/fs/cgroup/"),
            ("/sys/fs/cgroup/user.slice/x", false, "/sys/fs/cgroup/user.slice/x"),
        ] {
            assert_eq!(unified_base(Path::new(own), mount, is_root), Path::new(base));
        }
    }

    #[test]
    fn a_plan_has_only_groups_for_the_limits_that_are_set() {
        let mixed = Hierarchies {
            unified: Some("/u".into()),
            memory: Some("/m".into()),
            cpu: Some("/c".into()),
            ..Hierarchies::none()
        };
        let kinds = |plan: CgroupPlan| plan.dirs.iter().map(|dir| dir.kind).collect::<Vec<_>>();
        let none = CgroupLimits::default();
        let some = CgroupLimits { cpus: CpuMilli(1500), memory: Bytes(1), processes: 9 };
        assert_eq!(kinds(mixed.plan("t", none)), [CgroupKind::Unified]);
        assert_eq!(
            kinds(mixed.plan("t", some)),
            [CgroupKind::Unified, CgroupKind::Memory, CgroupKind::Cpu]
        );
        assert!(Hierarchies::none().plan("t", some).dirs.is_empty());
        let pids = Hierarchies { pids: Some("/p".into()), ..mixed.clone() };
        let plan = pids.plan("t", CgroupLimits { processes: 9, ..none });
        assert_eq!(plan.dirs[1].kind, CgroupKind::Pids);
        assert_eq!(plan.dirs[1].settings, [Setting::new("pids.max", 9, true)]);

        let v2 = Hierarchies {
            unified: Some("/u".into()),
            unified_controllers: ["memory", "cpu", "pids"].map(str::to_owned).into(),
            ..mixed
        };
        let plan = v2.plan("t", CgroupLimits { memory: Bytes(4096), ..some });
        assert_eq!(plan.dirs.len(), 1);
        let settings: Vec<String> =
            plan.dirs[0].settings.iter().map(|s| format!("{}={}", s.file, s.value)).collect();
        assert_eq!(
            settings,
            [
                "memory.max=4096",
                "memory.swap.max=0",
                "memory.oom.group=1",
                "cpu.max=150000 100000",
                "pids.max=9"
            ]
        );
    }
}
