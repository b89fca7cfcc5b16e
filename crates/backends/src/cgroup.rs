//! Control groups of a task: where they can be made, limits in them, and a kill that nothing
//! escapes.
//!
//! Works with v2, with v1, and with the mixed layout (v1 controllers beside a v2 tree without any):
//! whichever hierarchy offers a function is used for it, and none is needed. Paths are decided by
//! the daemon and recorded in the order, so that whoever sweeps later finds them even if the
//! supervisor died while making them.

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

/// Leaf that a daemon moves itself into, because in v2 a group with controllers for its children
/// may hold no process of its own. A unit with `DelegateSubgroup=` of this name starts there.
const DAEMON_LEAF: &str = "muster-daemon";

/// Top-level group of a daemon that runs as root.
const ROOT_GROUP: &str = "muster";

/// What a directory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A v2 group.
    Unified,
    /// v1 memory controller.
    Memory,
    /// v1 CPU controller.
    Cpu,
    /// v1 freezer.
    Freezer,
    /// v1 limit on the number of processes.
    Pids,
}

/// Groups of one task, in the order in which they are made and joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlan {
    /// The directories; empty where there is no writable hierarchy.
    pub dirs: Vec<CgroupDir>,
}

/// One directory to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupDir {
    /// What it is for.
    pub kind: Kind,
    /// Where.
    pub path: PathBuf,
    /// Files to write in it before anything joins.
    pub settings: Vec<Setting>,
}

/// A control file and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// File name.
    pub file: String,
    /// What to write.
    pub value: String,
    /// False for files that not every kernel has.
    pub required: bool,
}

impl Setting {
    fn new(file: &str, value: impl ToString, required: bool) -> Self {
        Self { file: file.to_owned(), value: value.to_string(), required }
    }
}

/// Where groups can be made on this machine, by function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// v2 directory under which groups can be made.
    pub unified: Option<PathBuf>,
    /// Where the v2 hierarchy is mounted.
    unified_mount: Option<PathBuf>,
    /// Controllers that groups made there will have.
    pub unified_controllers: BTreeSet<String>,
    /// v1 directories likewise.
    pub memory: Option<PathBuf>,
    /// See `memory`.
    pub cpu: Option<PathBuf>,
    /// See `memory`.
    pub freezer: Option<PathBuf>,
    /// See `memory`.
    pub pids: Option<PathBuf>,
}

/// Limits of one task; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPU time.
    pub cpus: CpuMilli,
    /// Memory.
    pub memory: Bytes,
    /// Processes and threads at one time.
    pub processes: u32,
}

impl Hierarchies {
    /// No hierarchy at all: everything is a convention, and the environment tag finds what is left.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Finds the directories in which this process may make groups and move a child into them, by
    /// trying.
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

    /// What enforces memory limits.
    #[must_use]
    pub fn memory_enforced_by(&self) -> Option<&'static str> {
        match (self.unified_controllers.contains("memory"), &self.memory) {
            (true, _) => Some("cgroup v2"),
            (false, Some(_)) => Some("cgroup v1"),
            (false, None) => None,
        }
    }

    /// What enforces CPU limits.
    #[must_use]
    pub fn cpu_enforced_by(&self) -> Option<&'static str> {
        match (self.unified_controllers.contains("cpu"), &self.cpu) {
            (true, _) => Some("cgroup v2"),
            (false, Some(_)) => Some("cgroup v1"),
            (false, None) => None,
        }
    }

    /// Returns what enforces the limit on processes.
    #[must_use]
    pub fn processes_enforced_by(&self) -> Option<&'static str> {
        match (self.unified_controllers.contains("pids"), &self.pids) {
            (true, _) => Some("cgroup v2"),
            (false, Some(_)) => Some("cgroup v1"),
            (false, None) => None,
        }
    }

    /// What ends everything that a task started.
    #[must_use]
    pub fn kill_by(&self) -> &'static str {
        match (&self.unified, &self.freezer) {
            (Some(_), _) => "cgroup v2",
            (None, Some(_)) => "cgroup v1",
            (None, None) => "environment tag",
        }
    }

    /// Returns true when each task has a group that ends it.
    #[must_use]
    pub fn kill_by_group(&self) -> bool {
        self.unified.is_some() || self.freezer.is_some()
    }

    /// The groups of a task with this name: one to kill by, and one per limit that is asked for and
    /// possible.
    #[must_use]
    pub fn plan(&self, name: &str, limits: Limits) -> CgroupPlan {
        let Limits { cpus, memory, processes } = limits;
        let mut dirs = Vec::new();
        let mut add = |kind, base: &Option<PathBuf>, settings| {
            if let Some(base) = base {
                dirs.push(CgroupDir { kind, path: base.join(name), settings });
            }
        };
        let quota_us = (u64::from(cpus.0) * CPU_PERIOD_US / 1000).max(1000);
        let (limit_memory, limit_cpu, limit_pids) = (memory.0 > 0, cpus.0 > 0, processes > 0);
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
            Some(_) => add(Kind::Unified, &self.unified, settings),
            None => add(Kind::Freezer, &self.freezer, Vec::new()),
        }
        if limit_memory && !memory_v2 {
            let settings = vec![
                Setting::new("memory.limit_in_bytes", memory.0, true),
                Setting::new("memory.memsw.limit_in_bytes", memory.0, false),
            ];
            add(Kind::Memory, &self.memory, settings);
        }
        if limit_cpu && !cpu_v2 {
            let settings = vec![
                Setting::new("cpu.cfs_period_us", CPU_PERIOD_US, true),
                Setting::new("cpu.cfs_quota_us", quota_us, true),
            ];
            add(Kind::Cpu, &self.cpu, settings);
        }
        if limit_pids && !pids_v2 {
            add(Kind::Pids, &self.pids, vec![Setting::new("pids.max", processes, true)]);
        }
        CgroupPlan { dirs }
    }

    /// Removes empty groups of this instance that nobody needs (left by a crash). Groups with
    /// processes in them cannot be removed and stay.
    pub fn tidy(&self, instance: &str, needed: &BTreeSet<String>) {
        let prefix = name_prefix(instance);
        let bases = [&self.unified, &self.memory, &self.cpu, &self.freezer, &self.pids];
        for base in bases.into_iter().flatten() {
            for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with(&prefix) && !needed.contains(&name) {
                    let _ = std::fs::remove_dir(entry.path());
                }
            }
        }
    }
}

/// The memory limit that this process itself is under, when there is one.
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

/// Returns the membership file of the group that this process is in, in whichever hierarchy has one
/// that it may write.
#[must_use]
pub fn own_group() -> Option<PathBuf> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let own = candidates(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let dirs = [own.unified, own.freezer, own.memory, own.cpu, own.pids];
    let mut files = dirs.into_iter().flatten().map(|dir| dir.join("cgroup.procs"));
    let id = std::process::id().to_string();
    files.find(|file| {
        // In a container the path may be another namespace's: only a group that this process is in
        // does not move it.
        let members = std::fs::read_to_string(file).unwrap_or_default();
        members.lines().any(|line| line == id)
            && rustix::fs::access(file, rustix::fs::Access::WRITE_OK).is_ok()
    })
}

/// What the names of an instance's groups begin with.
#[must_use]
pub fn name_prefix(instance: &str) -> String {
    format!("muster-{instance}-")
}

impl CgroupPlan {
    /// True when there is a group to kill by.
    #[must_use]
    pub fn can_kill(&self) -> bool {
        self.killer().is_some()
    }

    /// The directory that membership is read from and that kills.
    fn killer(&self) -> Option<&CgroupDir> {
        self.dirs.iter().find(|dir| matches!(dir.kind, Kind::Unified | Kind::Freezer))
    }

    /// Makes the groups and sets their limits. Groups that are there already (a crash) are used.
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

    /// Processes in the group now.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let Some(dir) = self.killer() else { return Vec::new() };
        let text = std::fs::read_to_string(dir.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect()
    }

    /// One round of killing everything in the group. True when nothing was in it.
    pub fn kill_round(&self) -> bool {
        let Some(dir) = self.killer() else { return true };
        if self.processes().is_empty() {
            return true;
        }
        let (freeze, frozen, thawed) = match dir.kind {
            Kind::Unified if std::fs::write(dir.path.join("cgroup.kill"), "1").is_ok() => {
                return false;
            }
            Kind::Unified => ("cgroup.freeze", "1", "0"),
            _ => ("freezer.state", "FROZEN", "THAWED"),
        };
        // Frozen, nothing can fork between reading the list and the last signal; a kill takes
        // effect on thaw.
        let _ = std::fs::write(dir.path.join(freeze), frozen);
        for pid in self.processes() {
            process::signal(pid, Signal::KILL);
        }
        let _ = std::fs::write(dir.path.join(freeze), thawed);
        false
    }

    /// Kills everything in the group until it is empty. False when something does not die in
    /// `patience`.
    #[must_use]
    pub fn kill_all(&self, patience: Duration) -> bool {
        process::until_empty(patience, || self.kill_round())
    }

    /// How often the kernel killed in the group for memory.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        let count = |dir: &CgroupDir| {
            let file = match dir.kind {
                Kind::Unified => "memory.events",
                Kind::Memory => "memory.oom_control",
                Kind::Cpu | Kind::Freezer | Kind::Pids => return 0,
            };
            let text = std::fs::read_to_string(dir.path.join(file)).unwrap_or_default();
            let value = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            value.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        self.dirs.iter().map(count).sum()
    }

    /// Returns the limit on processes, if a process could not be made because of it.
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

    /// Removes the groups. False when one is still there: something is in it.
    #[must_use]
    pub fn remove(&self) -> bool {
        let gone = |path: &PathBuf| match std::fs::remove_dir(path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        };
        // All are tried, also after one that is still in use.
        self.dirs.iter().rev().filter(|dir| !gone(&dir.path)).count() == 0
    }
}

/// Directories that are this process's own place in each hierarchy, from `/proc/self/mountinfo` and
/// `/proc/self/cgroup`. Groups are made below it, so limits set on the daemon itself hold for its
/// tasks too.
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
        let place = |wanted: &dyn Fn(&str, &str) -> bool| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                wanted(id, controllers).then(|| below(point, root, path))
            })
        };
        let has = |list: &str, name: &str| list.split(',').any(|item| item == name);
        match *kind {
            "cgroup2" => {
                found.unified_mount.get_or_insert_with(|| PathBuf::from(*point));
                found.unified = found
                    .unified
                    .or_else(|| place(&|id, controllers| id == "0" && controllers.is_empty()));
            }
            "cgroup" => {
                for (name, slot) in [
                    ("memory", &mut found.memory),
                    ("cpu", &mut found.cpu),
                    ("freezer", &mut found.freezer),
                    ("pids", &mut found.pids),
                ] {
                    if slot.is_none() && has(options, name) {
                        *slot = place(&|_, controllers| has(controllers, name));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Where in v2 the groups of tasks are made, for a daemon whose own group is `own`: beside the leaf
/// that it was started in, where its unit says so; as root at the top, as container engines do,
/// because a service manager cannot restart a daemon whose own group has controllers for children
/// that still run; else below its own group.
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

/// The directory of group `path` where a hierarchy's `root` is mounted at `point`. In a container
/// the path may be another namespace's: then the mount point is the nearest known place.
fn below(point: &str, root: &str, path: &str) -> PathBuf {
    let relative = match path.strip_prefix(root.trim_end_matches('/')) {
        Some(rest) if !rest.contains("..") => rest.trim_start_matches('/'),
        _ => "",
    };
    let dir = Path::new(point).join(relative);
    if dir.is_dir() || !Path::new(point).is_dir() { dir } else { PathBuf::from(point) }
}

/// Enables the memory, CPU and process controllers for the children of a v2 group; returns those
/// that are enabled.
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

/// For each directory, whether a child of this process can be moved into a group made there.
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
        let _ = process::until_empty(Duration::from_millis(200), || {
            std::fs::remove_dir(&probe).is_ok()
        });
    }
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_v2_v1_mixed_and_container_layouts() {
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
    fn a_plan_makes_only_what_is_asked_for() {
        let mixed = Hierarchies {
            unified: Some("/u".into()),
            memory: Some("/m".into()),
            cpu: Some("/c".into()),
            ..Hierarchies::none()
        };
        let kinds = |plan: CgroupPlan| plan.dirs.iter().map(|dir| dir.kind).collect::<Vec<_>>();
        let none = Limits::default();
        let some = Limits { cpus: CpuMilli(1500), memory: Bytes(1), processes: 9 };
        assert_eq!(kinds(mixed.plan("t", none)), [Kind::Unified]);
        assert_eq!(kinds(mixed.plan("t", some)), [Kind::Unified, Kind::Memory, Kind::Cpu]);
        assert!(Hierarchies::none().plan("t", some).dirs.is_empty());
        let pids = Hierarchies { pids: Some("/p".into()), ..mixed.clone() };
        let plan = pids.plan("t", Limits { processes: 9, ..none });
        assert_eq!(plan.dirs[1].kind, Kind::Pids);
        assert_eq!(plan.dirs[1].settings, [Setting::new("pids.max", 9, true)]);

        let v2 = Hierarchies {
            unified: Some("/u".into()),
            unified_controllers: ["memory", "cpu", "pids"].map(str::to_owned).into(),
            ..mixed
        };
        let plan = v2.plan("t", Limits { memory: Bytes(4096), ..some });
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
