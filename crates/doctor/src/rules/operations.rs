//! Rules on what keeps the cluster alive: state, health, nodes that fail, logs.

use muster_model::check::Severity::{High, Low, Medium};

use crate::evidence::{Evidence, Said, untested};
use crate::rule::{Judged, Page, Rule, Trip, none_of, right};

/// The manual's default. A driver that lets go of a GPU can take longer; shorter drains nodes for
/// nothing.
const SHORTEST_UNKILLABLE_SECS: u64 = 60;
/// Time between SIGTERM and SIGKILL; the manual's default is 30.
const SHORTEST_KILL_WAIT_SECS: u64 = 10;

/// Folders of one machine's own disk, or of its memory.
const LOCAL: [&str; 6] = ["/var/", "/tmp/", "/run/", "/dev/shm/", "/root/", "/etc/"];
/// Folders that are emptied when the machine starts.
const VOLATILE: [&str; 4] = ["/tmp/", "/run/", "/var/run/", "/dev/shm/"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "state-not-shared",
        severity: High,
        title: "two controllers, and the state on one's own disk",
        meaning: "when the backup takes over it knows of no job",
        cure: "StateSaveLocation on a file system that all controllers can write",
        page: Page::Man("slurm.conf", "StateSaveLocation"),
        check: state_shared,
    },
    Rule {
        id: "state-lost-at-reboot",
        severity: High,
        title: "the state is lost when the controller restarts its machine",
        meaning: "all jobs, running and pending, are forgotten",
        cure: "StateSaveLocation on a disk that stays, such as /var/spool/slurmctld",
        page: Page::Man("slurm.conf", "StateSaveLocation"),
        check: |evidence| {
            let state = evidence.said("StateSaveLocation", Some("/var/spool"))?;
            right(&state, !VOLATILE.iter().any(|folder| slashed(&state.value).starts_with(folder)))
        },
    },
    Rule {
        id: "no-health-check",
        severity: Medium,
        title: "nobody looks whether nodes are healthy",
        meaning: "a node with a dead GPU stays in service and fails one job after the other",
        cure: "HealthCheckProgram that drains the node, and HealthCheckInterval above 0",
        page: Page::Man("slurm.conf", "HealthCheckProgram"),
        check: health,
    },
    Rule {
        id: "dead-nodes-not-seen",
        severity: Medium,
        title: "a node that does not answer stays in service",
        meaning: "SlurmdTimeout is zero, so nothing sets it DOWN, and jobs stay on it",
        cure: "SlurmdTimeout=300",
        page: Page::Man("slurm.conf", "SlurmdTimeout"),
        check: |evidence| {
            let timeout = evidence.said("SlurmdTimeout", Some("300"))?;
            right(&timeout, timeout.number() > Some(0))
        },
    },
    Rule {
        id: "nodes-stay-down",
        severity: Low,
        title: "a node that is back stays DOWN",
        meaning: "after a break in the network somebody has to resume every node by hand",
        cure: "ReturnToService=1",
        page: Page::Man("slurm.conf", "ReturnToService"),
        check: |evidence| {
            let back = evidence.said("ReturnToService", Some("0"))?;
            right(&back, back.number() > Some(0))
        },
    },
    Rule {
        id: "unkillable-drains",
        severity: Low,
        title: "slow ends drain nodes",
        meaning: "a process that a driver or file system holds for a moment counts as unkillable, and its node is drained",
        cure: "UnkillableStepTimeout=180",
        page: Page::Man("slurm.conf", "UnkillableStepTimeout"),
        check: |evidence| {
            let timeout = evidence.said("UnkillableStepTimeout", Some("60"))?;
            right(&timeout, timeout.number() >= Some(SHORTEST_UNKILLABLE_SECS))
        },
    },
    Rule {
        id: "no-time-to-save",
        severity: Low,
        title: "jobs have no time to save at their time limit",
        meaning: "SIGKILL follows SIGTERM within seconds",
        cure: "KillWait=30 or more",
        page: Page::Man("slurm.conf", "KillWait"),
        check: |evidence| {
            let wait = evidence.said("KillWait", Some("30"))?;
            right(&wait, wait.number() >= Some(SHORTEST_KILL_WAIT_SECS))
        },
    },
    Rule {
        id: "memlock-of-login-node",
        severity: Low,
        title: "jobs get the limits of the shell that submitted them",
        meaning: "a small limit of locked memory on the login node comes along, and RDMA fails to register memory",
        cure: "PropagateResourceLimitsExcept=MEMLOCK, and memlock unlimited for slurmd",
        page: Page::Guide("faq"),
        check: memlock,
    },
    Rule {
        id: "debug-left-on",
        severity: Low,
        title: "debugging was left on",
        meaning: "logs grow fast, and the controller answers later",
        cure: "no DebugFlags; SlurmctldDebug=info and SlurmdDebug=info",
        page: Page::Man("slurm.conf", "DebugFlags"),
        check: debug,
    },
    Rule {
        id: "suspended-nodes-stay-off",
        severity: High,
        title: "nodes are switched off and never on again",
        meaning: "SuspendProgram ends idle nodes, and without ResumeProgram nothing starts them for the next job",
        cure: "ResumeProgram, or no SuspendProgram",
        page: Page::Man("slurm.conf", "ResumeProgram"),
        check: |evidence| {
            let suspend = evidence.said("SuspendProgram", Some(""))?;
            let resume = evidence.said("ResumeProgram", Some(""))?;
            let is_wrong = !suspend.value.is_empty() && resume.value.is_empty();
            let says = format!("{}, and {}", suspend.text(), resume.text());
            let trip = is_wrong.then(|| Trip { says: says.clone(), ..suspend.trip() });
            none_of(trip.into_iter().collect(), says)
        },
    },
    Rule {
        id: "password-readable",
        severity: High,
        title: "others can read slurmdbd.conf",
        meaning: "it holds the password of the database: who reads it can change every account, share and record; slurmdbd refuses to start with such a file",
        cure: "chmod 600 slurmdbd.conf, owned by the user that runs slurmdbd; then change the password",
        page: Page::Man("slurmdbd.conf", "StoragePass"),
        check: password_readable,
    },
    Rule {
        id: "line-left-open",
        severity: High,
        title: "a line was left to be filled in",
        meaning: "the file was written for somebody to complete it, such as with a password, and the daemon that reads it cannot do its work",
        cure: "the value in place of FILL_IN; `muster init slurm --db-password-file FILE` writes the password of the database",
        page: Page::Man("slurmdbd.conf", "StoragePass"),
        check: left_open,
    },
];

/// What `muster init slurm` writes where it knows no value.
const FILL_IN: &str = "FILL_IN";

/// `/tmp` is in `/tmp/`, too.
fn slashed(path: &str) -> String {
    format!("{}/", path.trim_end_matches('/'))
}

fn state_shared(evidence: &Evidence) -> Judged {
    let controllers = evidence.all_said("SlurmctldHost")?.len();
    let backups =
        evidence.all_said("BackupController")?.iter().filter(|said| !said.value.is_empty()).count();
    let state = evidence.said("StateSaveLocation", Some("/var/spool"))?;
    if controllers + backups < 2 {
        return none_of(Vec::new(), "one controller");
    }
    let says = format!("{} controllers, and {}", (controllers + backups).max(2), state.text());
    if LOCAL.iter().any(|folder| slashed(&state.value).starts_with(folder)) {
        return none_of(vec![Trip { says, ..state.trip() }], "");
    }
    untested(format!("to look from both controllers whether {} is the same folder", state.value))
}

fn health(evidence: &Evidence) -> Judged {
    let program = evidence.said("HealthCheckProgram", Some(""))?;
    let interval = evidence.said("HealthCheckInterval", Some("0"))?;
    if program.value.is_empty() {
        return none_of(vec![program.trip()], "");
    }
    let says = format!("{}, and {}", program.text(), interval.text());
    let is_off = interval.number().unwrap_or(0) == 0;
    let trip = is_off.then(|| Trip { says: says.clone(), ..interval.trip() });
    none_of(trip.into_iter().collect(), says)
}

fn memlock(evidence: &Evidence) -> Judged {
    let except = evidence.said("PropagateResourceLimitsExcept", Some(""))?;
    if except.lists("memlock") || except.lists("all") {
        return right(&except, true);
    }
    if !except.value.is_empty() {
        return right(&except, false);
    }
    let limits = evidence.said("PropagateResourceLimits", Some("ALL"))?;
    right(&limits, !limits.lists("all") && !limits.lists("memlock"))
}

fn debug(evidence: &Evidence) -> Judged {
    let flags = evidence.said("DebugFlags", Some(""))?;
    let mut trips = Vec::new();
    if !flags.value.is_empty() && !flags.is("none") {
        trips.push(flags.trip());
    }
    for key in ["SlurmctldDebug", "SlurmdDebug"] {
        let level = evidence.said(key, Some("info"))?;
        let is_number_above_info = level.number().is_some_and(|number| number > 4);
        if level.value.to_ascii_lowercase().starts_with("debug") || is_number_above_info {
            trips.push(level.trip());
        }
    }
    none_of(trips, "no DebugFlags, and no level above verbose")
}

/// The text of a file does not say who may read it.
fn password_readable(evidence: &Evidence) -> Judged {
    let Some((name, mode)) = &evidence.dbd_mode else {
        return untested("slurmdbd.conf on the machine that runs slurmdbd: who may read it");
    };
    // A file that this user may not read holds one as far as can be told.
    if evidence.dbd("StoragePass", "").is_ok_and(|pass| pass.value.is_empty() || pass.is(FILL_IN)) {
        return none_of(Vec::new(), format!("{name} holds no password"));
    }
    let says = format!("{name} has mode {:04o}", mode & 0o7777);
    let trip = (mode & 0o077 != 0).then(|| Trip {
        key: "mode".to_owned(),
        says: says.clone(),
        place: Some(muster_model::check::CheckPlace { source: name.clone(), line: None }),
    });
    none_of(trip.into_iter().collect(), says)
}

fn left_open(evidence: &Evidence) -> Judged {
    let open = evidence.with_value(FILL_IN)?;
    none_of(open.iter().map(Said::trip).collect(), "no line is left to be filled in")
}
