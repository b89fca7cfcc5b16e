//! Rules on operation: controller state, health checks, failing nodes, logs.

use muster_model::check::Severity::{High, Low, Medium};

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::evidence::{Evidence, needs_input};

/// Minimum in seconds, which is Slurm's default: a GPU driver can take that long to release a
/// process, and a shorter timeout drains nodes needlessly.
const SHORTEST_UNKILLABLE_SECS: u64 = 60;
/// Minimum time in seconds between SIGTERM and SIGKILL; Slurm's default is 30.
const SHORTEST_KILL_WAIT_SECS: u64 = 10;

/// Directories on a machine's own disk or in its memory.
const LOCAL: [&str; 6] = ["/var/", "/tmp/", "/run/", "/dev/shm/", "/root/", "/etc/"];
/// Directories that are emptied at boot.
const VOLATILE: [&str; 4] = ["/tmp/", "/run/", "/var/run/", "/dev/shm/"];

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "state-not-shared",
        severity: High,
        title: "two controllers, but the state is on a local disk",
        meaning: "the backup takes over without any jobs",
        cure: "StateSaveLocation on a file system that all controllers can write to",
        page: DocPage::Man("slurm.conf", "StateSaveLocation"),
        check: state_shared,
    },
    CheckRule {
        id: "state-lost-at-reboot",
        severity: High,
        title: "the state is lost when the controller's machine reboots",
        meaning: "all jobs, running and pending, are lost",
        cure: "StateSaveLocation on a persistent disk, such as /var/spool/slurmctld",
        page: DocPage::Man("slurm.conf", "StateSaveLocation"),
        check: |evidence| {
            let state = evidence.conf_setting("StateSaveLocation", Some("/var/spool"))?;
            check_setting(
                &state,
                !VOLATILE.iter().any(|folder| slashed(&state.value).starts_with(folder)),
            )
        },
    },
    CheckRule {
        id: "no-health-check",
        severity: Medium,
        title: "nodes have no health check",
        meaning: "a node with a dead GPU stays in service and fails one job after another",
        cure: "a HealthCheckProgram that drains failing nodes, and HealthCheckInterval above 0",
        page: DocPage::Man("slurm.conf", "HealthCheckProgram"),
        check: health,
    },
    CheckRule {
        id: "dead-nodes-not-seen",
        severity: Medium,
        title: "a node that does not answer stays in service",
        meaning: "SlurmdTimeout is zero, so the node is never set DOWN, and jobs stay on it",
        cure: "SlurmdTimeout=300",
        page: DocPage::Man("slurm.conf", "SlurmdTimeout"),
        check: |evidence| {
            let timeout = evidence.conf_setting("SlurmdTimeout", Some("300"))?;
            check_setting(&timeout, timeout.number() > Some(0))
        },
    },
    CheckRule {
        id: "nodes-stay-down",
        severity: Low,
        title: "a node that answers again stays DOWN",
        meaning: "after a network failure an administrator has to resume every node",
        cure: "ReturnToService=1",
        page: DocPage::Man("slurm.conf", "ReturnToService"),
        check: |evidence| {
            let back = evidence.conf_setting("ReturnToService", Some("0"))?;
            check_setting(&back, back.number() > Some(0))
        },
    },
    CheckRule {
        id: "unkillable-drains",
        severity: Low,
        title: "processes that end slowly drain nodes",
        meaning: "a process that a driver or file system blocks for a short time counts as unkillable, and its node is drained",
        cure: "UnkillableStepTimeout=180",
        page: DocPage::Man("slurm.conf", "UnkillableStepTimeout"),
        check: |evidence| {
            let timeout = evidence.conf_setting("UnkillableStepTimeout", Some("60"))?;
            check_setting(&timeout, timeout.number() >= Some(SHORTEST_UNKILLABLE_SECS))
        },
    },
    CheckRule {
        id: "no-time-to-save",
        severity: Low,
        title: "jobs have no time for a checkpoint at their time limit",
        meaning: "SIGKILL follows SIGTERM within seconds",
        cure: "KillWait=30 or more",
        page: DocPage::Man("slurm.conf", "KillWait"),
        check: |evidence| {
            let wait = evidence.conf_setting("KillWait", Some("30"))?;
            check_setting(&wait, wait.number() >= Some(SHORTEST_KILL_WAIT_SECS))
        },
    },
    CheckRule {
        id: "memlock-of-login-node",
        severity: Low,
        title: "jobs inherit the resource limits of the submitting shell",
        meaning: "a low limit on locked memory on the login node applies to the job, and RDMA fails to register memory",
        cure: "PropagateResourceLimitsExcept=MEMLOCK, and memlock unlimited for slurmd",
        page: DocPage::Guide("faq"),
        check: memlock,
    },
    CheckRule {
        id: "debug-left-on",
        severity: Low,
        title: "debug logging is on",
        meaning: "logs grow fast, and the controller answers more slowly",
        cure: "no DebugFlags; SlurmctldDebug=info and SlurmdDebug=info",
        page: DocPage::Man("slurm.conf", "DebugFlags"),
        check: debug,
    },
    CheckRule {
        id: "suspended-nodes-stay-off",
        severity: High,
        title: "nodes are powered down and never up again",
        meaning: "SuspendProgram powers down idle nodes, and without ResumeProgram they are not powered up for the next job",
        cure: "ResumeProgram, or no SuspendProgram",
        page: DocPage::Man("slurm.conf", "ResumeProgram"),
        check: |evidence| {
            let suspend = evidence.conf_setting("SuspendProgram", Some(""))?;
            let resume = evidence.conf_setting("ResumeProgram", Some(""))?;
            let is_wrong = !suspend.value.is_empty() && resume.value.is_empty();
            let says = format!("{}, and {}", suspend.text(), resume.text());
            let finding =
                is_wrong.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&suspend) });
            fail_if_any(finding.into_iter().collect(), says)
        },
    },
    CheckRule {
        id: "password-readable",
        severity: High,
        title: "other users can read slurmdbd.conf",
        meaning: "it contains the database password, with which every account, share and record can be changed; slurmdbd refuses to start with such a file",
        cure: "chmod 600 slurmdbd.conf, owned by the user that runs slurmdbd; then change the password",
        page: DocPage::Man("slurmdbd.conf", "StoragePass"),
        check: password_readable,
    },
    CheckRule {
        id: "line-left-open",
        severity: High,
        title: "a FILL_IN value was not replaced",
        meaning: "the generated file lacks a value such as a password, and the daemon that reads it does not work",
        cure: "replace FILL_IN by the value; `muster init slurm --db-password-file FILE` fills in the database password",
        page: DocPage::Man("slurmdbd.conf", "StoragePass"),
        check: left_open,
    },
];

/// Placeholder of `muster init slurm` for a value that it does not have.
const FILL_IN: &str = "FILL_IN";

/// Appends a slash, so that `/tmp` counts as inside `/tmp/`.
fn slashed(path: &str) -> String {
    format!("{}/", path.trim_end_matches('/'))
}

fn state_shared(evidence: &Evidence) -> RuleResult {
    let controllers = evidence.all_conf_settings("SlurmctldHost")?.len();
    let backups = evidence
        .all_conf_settings("BackupController")?
        .iter()
        .filter(|said| !said.value.is_empty())
        .count();
    let state = evidence.conf_setting("StateSaveLocation", Some("/var/spool"))?;
    if controllers + backups < 2 {
        return fail_if_any(Vec::new(), "one controller");
    }
    let says = format!("{} controllers, and {}", (controllers + backups).max(2), state.text());
    if LOCAL.iter().any(|folder| slashed(&state.value).starts_with(folder)) {
        return fail_if_any(vec![RuleFinding { says, ..RuleFinding::of(&state) }], "");
    }
    needs_input(format!(
        "a check from both controllers whether {} is the same directory",
        state.value
    ))
}

fn health(evidence: &Evidence) -> RuleResult {
    let program = evidence.conf_setting("HealthCheckProgram", Some(""))?;
    let interval = evidence.conf_setting("HealthCheckInterval", Some("0"))?;
    if program.value.is_empty() {
        return fail_if_any(vec![RuleFinding::of(&program)], "");
    }
    let says = format!("{}, and {}", program.text(), interval.text());
    let is_off = interval.number().unwrap_or(0) == 0;
    let finding = is_off.then(|| RuleFinding { says: says.clone(), ..RuleFinding::of(&interval) });
    fail_if_any(finding.into_iter().collect(), says)
}

fn memlock(evidence: &Evidence) -> RuleResult {
    let except = evidence.conf_setting("PropagateResourceLimitsExcept", Some(""))?;
    if except.lists("memlock") || except.lists("all") {
        return check_setting(&except, true);
    }
    if !except.value.is_empty() {
        return check_setting(&except, false);
    }
    let limits = evidence.conf_setting("PropagateResourceLimits", Some("ALL"))?;
    check_setting(&limits, !limits.lists("all") && !limits.lists("memlock"))
}

fn debug(evidence: &Evidence) -> RuleResult {
    let flags = evidence.conf_setting("DebugFlags", Some(""))?;
    let mut findings = Vec::new();
    if !flags.value.is_empty() && !flags.is("none") {
        findings.push(RuleFinding::of(&flags));
    }
    for key in ["SlurmctldDebug", "SlurmdDebug"] {
        let level = evidence.conf_setting(key, Some("info"))?;
        let is_number_above_info = level.number().is_some_and(|number| number > 4);
        if level.value.to_ascii_lowercase().starts_with("debug") || is_number_above_info {
            findings.push(RuleFinding::of(&level));
        }
    }
    fail_if_any(findings, "no DebugFlags, and no log level above verbose")
}

/// Judges the permissions of the file, which its text does not show.
fn password_readable(evidence: &Evidence) -> RuleResult {
    let Some((name, mode)) = &evidence.dbd_mode else {
        return needs_input("the permissions of slurmdbd.conf, on the machine that runs slurmdbd");
    };
    // A file that this user cannot read is assumed to contain one.
    if evidence.dbd("StoragePass", "").is_ok_and(|pass| pass.value.is_empty() || pass.is(FILL_IN)) {
        return fail_if_any(Vec::new(), format!("{name} contains no password"));
    }
    let says = format!("{name} has mode {:04o}", mode & 0o7777);
    let finding = (mode & 0o077 != 0).then(|| RuleFinding {
        key: "mode".to_owned(),
        says: says.clone(),
        place: Some(muster_model::check::CheckPlace { source: name.clone(), line: None }),
    });
    fail_if_any(finding.into_iter().collect(), says)
}

fn left_open(evidence: &Evidence) -> RuleResult {
    let open = evidence.with_value(FILL_IN)?;
    fail_if_any(open.iter().map(RuleFinding::of).collect(), "no FILL_IN value is left")
}
