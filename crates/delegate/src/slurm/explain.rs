//! Why a job waits: Slurm's word as a sentence, and what decided it, from the controller's own figures.

use muster_api::types::Explained;
use muster_backends::slurm::host::NativeNode;
use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::limits::{Gauges, Limits};
use muster_model::view::{Eta, Explanation, Holder, HolderEnd, State};
use muster_model::{ElementId, GpuMilli, JobId, Reason};

use super::queue::Whose;
use super::{Refusal, Result, Slurm, headroom, sooner, view};

/// Holders and limits named at most.
const NAMED: usize = 10;

impl Slurm {
    /// Of a job, or of one element.
    pub(super) async fn explain(&self, job: JobId, index: Option<u32>) -> Result<Explained> {
        // 1. The job, and what else is in the queue.
        let rows = self.rows_of(job).await?;
        let state_of = |row: &NativeJob| row.state.state(row.is_held());
        let waits = |row: &&NativeJob| matches!(state_of(row), State::Pending | State::Held);
        let row = match index {
            Some(index) => rows.iter().find(|row| row.array.is_some() && view::index(row) == index),
            None => rows.iter().find(waits).or_else(|| rows.first()),
        };
        let Some(row) = row.or_else(|| rows.iter().find(waits)) else {
            return Err(Refusal::not_found(format!("Slurm knows no job {job}")));
        };
        let state = state_of(row);
        let element = ElementId { job, index: view::index(row) };
        let blank = Explanation::blank(element, row.name.clone(), state, row.account.as_str().into());
        if !waits(&row) {
            return Ok(Explained { now: self.now(), explanation: blank });
        }
        // 2. What decided it.
        let (all, hosts) = (self.queue(Whose::All).await?, self.hosts().await?);
        let limits = self.limits().await.unwrap_or_default();
        let mut reason = view::why(row, state);
        if let Reason::Native { code, evidence, .. } = &mut reason {
            *evidence = self.evidence(code, row, &all, &hosts, &limits).await;
        }
        // 3. When, behind whom, who holds what it waits for, and what would start it now.
        let is_one = row.component.is_none() && view::elements_of(row) == 1;
        let limited = sooner::waits_for_gpus_of_a_limit(row);
        let gpus_left = limited.then(|| headroom::gpus(row, &limits)).flatten();
        let is_known = sooner::waits_for_room(row) || gpus_left.is_some();
        let sooner = match state == State::Pending && is_one && is_known && self.is_unbound(row.id).await {
            true => sooner::sooner(row, gpus_left, &all, &ahead(row, &all), &hosts, self.now()),
            false => Vec::new(),
        };
        let explanation = Explanation {
            reasons: vec![reason],
            position: (state == State::Pending).then(|| position(row, &all)),
            holders: holders(row, &all),
            sooner,
            eta: row.start.filter(|_| state == State::Pending).map(|start| Eta { start, reserved: false }),
            ..blank
        };
        Ok(Explained { now: self.now(), explanation })
    }

    /// What the controller's figures say to a reason, a fragment each.
    async fn evidence(
        &self,
        code: &str,
        row: &NativeJob,
        all: &[NativeJob],
        hosts: &[NativeNode],
        limits: &Limits,
    ) -> Vec<String> {
        let word = code.split([',', '(']).next().unwrap_or_default();
        let mut found = match word {
            "Resources" | "ReqNodeNotAvail" | "None" => capacity(row, hosts),
            "Priority" => before(row, all).into_iter().chain(self.factors(row.id).await).collect(),
            "Dependency" | "DependencyNeverSatisfied" => vec![format!("waits for {}", row.dependency)],
            "PartitionTimeLimit" | "PartitionNodeLimit" => self.partition(&row.partition).await,
            "BeginTime" => Vec::new(),
            _ if word.starts_with("QOS") => of_qos(row, limits),
            _ if word.starts_with("Assoc") => of_accounts(row, limits),
            _ => Vec::new(),
        };
        found.truncate(NAMED);
        found
    }

    /// The parts of its priority, the largest first; empty where sprio says nothing.
    async fn factors(&self, id: u64) -> Option<String> {
        let format = "--format=%A %B %F %J %P %Q %T %N";
        let asked = ["--noheader", "--jobs", &id.to_string(), format].map(str::to_owned);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let text = self.tools().output("sprio", &asked).await.ok()?;
        let names = ["age", "association", "fair share", "size", "partition", "QOS", "resources", "nice"];
        let values = text.lines().next()?.split_whitespace().map(|value| value.parse::<i64>().ok());
        let mut parts: Vec<(i64, &str)> = values
            .zip(names)
            .filter_map(|(value, name)| Some((value?, name)))
            .filter(|(value, _)| *value != 0)
            .collect();
        parts.sort_by_key(|(value, _)| std::cmp::Reverse(value.abs()));
        let parts: Vec<String> = parts.iter().map(|(value, name)| format!("{name} {value}")).collect();
        (!parts.is_empty()).then(|| format!("its priority is made of {}", parts.join(", ")))
    }

    /// It goes to any node of its partition: what binds it to some is not told to the engine.
    async fn is_unbound(&self, id: u64) -> bool {
        const BONDS: [&str; 7] = [
            "ReqNodeList",
            "ExcNodeList",
            "Features",
            "Licenses",
            "Reservation",
            "ReqSwitch",
            "OverSubscribe",
        ];
        let asked = self.tools().output("scontrol", &["--oneliner", "show", "job", &id.to_string()]).await;
        let Ok(text) = asked else { return false };
        let words = text.split_whitespace().filter_map(|word| word.split_once('='));
        let binds = |(name, value): (&str, &str)| {
            BONDS.contains(&name) && !matches!(value, "(null)" | "" | "0" | "OK" | "YES")
        };
        !words.into_iter().any(binds)
    }

    /// What a partition allows.
    async fn partition(&self, names: &str) -> Vec<String> {
        let mut found = Vec::new();
        for name in names.split(',') {
            let Ok(text) = self.tools().output("scontrol", &["--oneliner", "show", "partition", name]).await
            else {
                continue;
            };
            let field = |name: &str| {
                text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
            };
            if let (Some(time), Some(most)) = (field("MaxTime"), field("MaxNodes")) {
                found.push(format!("{name} allows {time} and {most} nodes"));
            }
        }
        found
    }
}

/// How many nodes could take their part of it now, and which came closest.
fn capacity(row: &NativeJob, hosts: &[NativeNode]) -> Vec<String> {
    let partitions: Vec<&str> = row.partition.split(',').collect();
    let in_partition =
        |host: &&NativeNode| host.partitions.iter().any(|partition| partitions.contains(&partition.as_str()));
    let hosts: Vec<&NativeNode> = hosts.iter().filter(in_partition).collect();
    let nodes = row.node_count.max(1);
    let gpus = NativeJob::gpus_of(&row.tres_asked).div_ceil(nodes);
    let cpus = row.cpus.div_ceil(nodes);
    let fits = |host: &&&NativeNode| {
        host.takes_work() && host.gpus_free() >= gpus && host.cpus.saturating_sub(host.cpus_used) >= cpus
    };
    let enough = hosts.iter().filter(fits).count();
    let each = if gpus > 0 { format!("{gpus} free GPUs") } else { format!("{cpus} free CPUs") };
    let mut lines =
        vec![format!("needs {nodes} nodes with {each} each; {enough} of {} have them now", hosts.len())];
    let mut close: Vec<&&NativeNode> = hosts.iter().filter(|host| host.takes_work() && !fits(host)).collect();
    close.sort_by_key(|host| std::cmp::Reverse(host.gpus_free()));
    if let (Some(host), true) = (close.first(), gpus > 0) {
        lines.push(format!("closest of the others: {} with {} free GPUs", host.name, host.gpus_free()));
    }
    let out: Vec<String> =
        hosts.iter().filter(|host| !host.takes_work()).map(|host| out_of_service(host)).collect();
    if !out.is_empty() {
        lines.push(format!("out of service: {}", out.join(", ")));
    }
    lines
}

fn out_of_service(host: &NativeNode) -> String {
    match host.reason.split(" [").next().unwrap_or_default() {
        "" => format!("{} ({})", host.name, host.state.to_lowercase()),
        reason => format!("{} ({reason})", host.name),
    }
}

/// Jobs before it in its partition.
fn ahead<'a>(row: &NativeJob, all: &'a [NativeJob]) -> Vec<&'a NativeJob> {
    let waits = |other: &&NativeJob| other.state.state(other.is_held()) == State::Pending;
    let shares = |other: &&NativeJob| {
        other.partition.split(',').any(|name| row.partition.split(',').any(|own| own == name))
    };
    let mut ahead: Vec<&NativeJob> = all
        .iter()
        .filter(waits)
        .filter(shares)
        .filter(|other| {
            (other.priority, std::cmp::Reverse(other.id)) > (row.priority, std::cmp::Reverse(row.id))
                && other.job() != row.job()
        })
        .collect();
    ahead.sort_by_key(|other| std::cmp::Reverse(other.priority));
    ahead
}

fn position(row: &NativeJob, all: &[NativeJob]) -> (u32, u32) {
    let waiting = all.iter().filter(|other| other.state.state(other.is_held()) == State::Pending).count();
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    (small(ahead(row, all).len()) + 1, small(waiting))
}

fn before(row: &NativeJob, all: &[NativeJob]) -> Vec<String> {
    let ahead = ahead(row, all);
    let Some(first) = ahead.first() else { return Vec::new() };
    let (own, theirs) = (row.priority, first.priority);
    vec![format!(
        "{} before it, the first is {} of {} with priority {theirs}; its own is {own}",
        ahead.len(),
        first.job(),
        first.user
    )]
}

/// Who runs in its partition and ends first.
fn holders(row: &NativeJob, all: &[NativeJob]) -> Vec<Holder> {
    let shares = |other: &&NativeJob| row.partition.split(',').any(|name| name == other.partition);
    let runs = |other: &&NativeJob| {
        other.state.state(false) == State::Running && NativeJob::gpus_of(&other.tres_held) > 0
    };
    let mut rows: Vec<&NativeJob> = all.iter().filter(runs).filter(shares).collect();
    rows.sort_by_key(|other| (other.end.is_none(), other.end));
    let holder = |other: &&NativeJob| Holder {
        element: ElementId { job: JobId(other.job()), index: view::index(other) },
        name: other.name.clone(),
        gpus: GpuMilli(NativeJob::gpus_of(&other.tres_held).saturating_mul(1000)),
        ends_by: other.end,
        end: HolderEnd::TimeLimit,
    };
    rows.iter().take(NAMED).map(holder).collect()
}

/// Limits that are set, with what is used of them.
fn set(whose: &str, gauges: &Gauges) -> Vec<String> {
    let limited = gauges.iter().filter_map(|(name, gauge)| Some((name, gauge.limit?, gauge.used)));
    limited.map(|(name, limit, used)| format!("{whose}: {used} of {limit} in use ({name})")).collect()
}

fn of_qos(row: &NativeJob, limits: &Limits) -> Vec<String> {
    let Some(qos) = limits.qos.iter().find(|qos| qos.name == row.qos) else { return Vec::new() };
    let asked = NativeJob::gpus_of(&row.tres_asked);
    let mut lines = set(&format!("all of {}", qos.name), &qos.gauges);
    if let Some(gauges) = limits.uids.get(&row.user).and_then(|uid| qos.by_user.get(uid)) {
        lines.extend(set(&format!("{} in {}", row.user, qos.name), gauges));
    }
    if let Some(gauges) = qos.by_account.get(&row.account) {
        lines.extend(set(&format!("{} in {}", row.account, qos.name), gauges));
    }
    if asked > 0 {
        lines.push(format!("it asks for {asked} GPUs"));
    }
    lines
}

fn of_accounts(row: &NativeJob, limits: &Limits) -> Vec<String> {
    let own = limits.associations.iter().find(|one| one.account == row.account && one.user == row.user);
    let mut lines: Vec<String> = own
        .into_iter()
        .flat_map(|one| set(&format!("{} in {}", row.user, row.account), &one.gauges))
        .collect();
    lines.extend(limits.above(&row.account).iter().flat_map(|one| set(&one.account, &one.gauges)));
    let asked = NativeJob::gpus_of(&row.tres_asked);
    if asked > 0 {
        lines.push(format!("it asks for {asked} GPUs"));
    }
    lines
}
