//! Evidence for a pending reason from the controller's own figures, one fragment each: which nodes
//! could take the job, which limit is in use and by how much, which jobs are before it. Nothing is
//! inferred beyond Slurm's figures.

use std::collections::BTreeMap;

use muster_model::Span;
use muster_model::view::JobState;
use muster_slurm::job::NativeJob;
use muster_slurm::limits::{ClusterLimits, LimitUsages};
use muster_slurm::node::NativeNode;

use super::headroom::PartitionLimits;
use super::{SlurmScheduler, headroom};

/// Beginning of the pending reason for nodes that are out of service; a comma and the node list
/// follow.
const NODES_OUT: &str = "Nodes required for job are DOWN";
/// Maximum number of fragments.
const MAX_FRAGMENTS: usize = 10;

/// Constraints of a job: fields of `scontrol show job` that are set, by name.
pub(super) type NodeConstraints = BTreeMap<String, String>;

impl SlurmScheduler {
    /// Returns the evidence for why a job is pending.
    pub(super) async fn evidence(
        &self,
        row: &NativeJob,
        all: &[NativeJob],
        hosts: &[NativeNode],
        limits: &ClusterLimits,
        bonds: Option<&NodeConstraints>,
    ) -> Vec<String> {
        let word = headroom::reason_word(row);
        let mut found = match word {
            "Resources" | "ReqNodeNotAvail" | "None" | "Reservation" | "BadConstraints"
            | "NodeDown" | NODES_OUT => {
                let none = NodeConstraints::new();
                let mut lines = capacity(row, all, hosts, bonds.unwrap_or(&none));
                lines.extend(self.reservations(row, hosts, bonds.unwrap_or(&none)).await);
                lines
            }
            "Priority" => {
                jobs_before(row, all).into_iter().chain(self.factors(row.id).await).collect()
            }
            "Dependency" | "DependencyNeverSatisfied" => {
                vec![format!("depends on {}", row.dependency)]
            }
            "PartitionTimeLimit" | "PartitionNodeLimit" => {
                self.partitions(row).await.iter().map(|partition| allows(partition, word)).collect()
            }
            "Licenses" => self.licenses(bonds.unwrap_or(&NodeConstraints::new())).await,
            _ if word.starts_with("QOS") => {
                let partitions = self.partitions(row).await;
                let names = partitions
                    .iter()
                    .filter_map(|one| one.qos.as_deref())
                    .chain([row.qos.as_str()]);
                names.flat_map(|name| of_qos(name, row, limits, word)).collect()
            }
            _ if word.starts_with("Assoc") => of_accounts(row, limits, word),
            _ => Vec::new(),
        };
        found.extend(requested(row, word));
        found.truncate(MAX_FRAGMENTS);
        found.splice(0..0, headroom::exceeded_limits(row, limits));
        found
    }

    /// Returns the parts of the job's priority, largest first; `None` where sprio prints nothing.
    async fn factors(&self, id: u64) -> Option<String> {
        let format = "--format=%A %B %F %J %P %Q %T %N";
        let asked = ["--noheader", "--jobs", &id.to_string(), format].map(str::to_owned);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let text = self.tools().output("sprio", &asked).await.ok()?;
        let names =
            ["age", "association", "fair share", "size", "partition", "QOS", "resources", "nice"];
        let values = text.lines().next()?.split_whitespace().map(|value| value.parse::<i64>().ok());
        let mut parts: Vec<(i64, &str)> = values
            .zip(names)
            .filter_map(|(value, name)| Some((value?, name)))
            .filter(|(value, _)| *value != 0)
            .collect();
        parts.sort_by_key(|(value, _)| std::cmp::Reverse(value.abs()));
        let parts: Vec<String> =
            parts.iter().map(|(value, name)| format!("{name} {value}")).collect();
        (!parts.is_empty()).then(|| format!("priority: {}", parts.join(", ")))
    }

    /// Returns what restricts the job to some nodes of its partition; `None` where Slurm does not
    /// answer.
    pub(super) async fn constraints(&self, id: u64) -> Option<NodeConstraints> {
        let asked =
            self.tools().output("scontrol", &["--oneliner", "show", "job", &id.to_string()]).await;
        Some(parse_constraints(&asked.ok()?))
    }

    /// Returns the partitions of the job.
    pub(super) async fn partitions(&self, row: &NativeJob) -> Vec<PartitionLimits> {
        let mut found = Vec::new();
        for name in row.partition.split(',') {
            let asked = ["--oneliner", "show", "partition", name];
            if let Ok(text) = self.tools().output("scontrol", &asked).await {
                found.push(partition(&text));
            }
        }
        found
    }

    /// Returns how many of the requested licences are in use.
    async fn licenses(&self, bonds: &NodeConstraints) -> Vec<String> {
        let asked = self.tools().output("scontrol", &["--oneliner", "show", "licenses"]).await;
        let own = bonds.get("Licenses").map(String::as_str).unwrap_or_default();
        licenses(own, &asked.unwrap_or_default())
    }

    /// Returns advance reservations of others on nodes that the job could use.
    async fn reservations(
        &self,
        row: &NativeJob,
        hosts: &[NativeNode],
        bonds: &NodeConstraints,
    ) -> Vec<String> {
        // Times in readable form rather than as seconds since the epoch.
        let format = ["SLURM_TIME_FORMAT".to_owned()];
        let asked =
            self.tools().without(&format, "scontrol", &["--oneliner", "show", "reservation"]).await;
        let text = asked.unwrap_or_default();
        let own = bonds.get("Reservation").map(String::as_str);
        let only = only(row, bonds);
        let in_its = |name: &str| {
            only.as_ref().is_none_or(|only| only.iter().any(|own| own == name))
                && hosts.iter().any(|host| host.name == name && is_in_partition(host, row))
        };
        let line = |text: &str| {
            let name = field(text, "ReservationName")?;
            let nodes = field(text, "Nodes")?;
            let from = field(text, "StartTime")?;
            let to = field(text, "EndTime")?;
            let names = muster_spec::expand_names(nodes).unwrap_or_default();
            (Some(name) != own && names.iter().any(|name| in_its(name)))
                .then(|| format!("reservation {name} has {nodes} from {from} to {to}"))
        };
        text.lines().filter_map(line).collect()
    }
}

/// Reads the constraints in `scontrol show job`; values that mean no constraint are left out.
fn parse_constraints(text: &str) -> NodeConstraints {
    const NAMES: [(&str, &[&str]); 11] = [
        ("ReqNodeList", &[]),
        ("ExcNodeList", &[]),
        ("Features", &[]),
        ("Licenses", &[]),
        ("Reservation", &[]),
        ("Switches", &["0@00:00:00"]),
        ("Exclusive", &["NO"]),
        ("OverSubscribe", &["OK", "YES"]),
        ("Contiguous", &["0"]),
        ("MinTmpDiskNode", &["0"]),
        ("CoreSpec", &["*"]),
    ];
    let set = NAMES.iter().filter_map(|(name, neutral)| {
        let value = field(text, name).filter(|value| !neutral.contains(value))?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    let mut set: NodeConstraints = set.collect();
    // Where the version has an `Exclusive` field, `OverSubscribe=NO` is the default of every job.
    if field(text, "Exclusive").is_some() {
        set.remove("OverSubscribe");
    }
    set
}

/// Returns the usage of each licence in a list such as `matlab:2,ansys`.
fn licenses(own: &str, text: &str) -> Vec<String> {
    let line = |part: &str| {
        let (name, count) = part.split_once([':', '*']).unwrap_or((part, "1"));
        let Some(known) = text.lines().find(|line| field(line, "LicenseName") == Some(name)) else {
            return (!text.is_empty() && !name.is_empty()).then(|| {
                format!("{name}: not a licence that the cluster counts (`scontrol show licenses`)")
            });
        };
        let total = field(known, "Total")?;
        let used = field(known, "Used")?;
        Some(format!("{name}: {used} of {total} in use; the job requests {count}"))
    };
    own.split([',', ';', '|']).filter_map(line).collect()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value =
        text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    (!matches!(value, "" | "(null)")).then_some(value)
}

fn partition(text: &str) -> PartitionLimits {
    PartitionLimits {
        name: field(text, "PartitionName").unwrap_or_default().to_owned(),
        max_time: field(text, "MaxTime").and_then(muster_slurm::time::span),
        max_nodes: field(text, "MaxNodes").and_then(|most| most.parse().ok()),
        nodes: field(text, "TotalNodes").and_then(|count| count.parse().ok()).unwrap_or_default(),
        qos: field(text, "QoS").filter(|qos| *qos != "N/A").map(str::to_owned),
    }
}

fn allows(partition: &PartitionLimits, word: &str) -> String {
    let PartitionLimits { name, max_time, max_nodes, nodes, .. } = partition;
    match (word, max_time, max_nodes) {
        ("PartitionTimeLimit", Some(most), _) => format!("{name} allows {most}"),
        ("PartitionTimeLimit", None, _) => format!("{name} allows any time"),
        (_, _, Some(most)) => {
            format!("{name} has {} and allows a job {most}", count_of(*nodes, "node"))
        }
        (_, _, None) => format!("{name} has {}", count_of(*nodes, "node")),
    }
}

/// Returns how much the job requests of the resource that the reason names.
fn requested(row: &NativeJob, word: &str) -> Option<String> {
    let gpus = muster_slurm::tres::gpus(&row.tres_requested);
    let what = match word {
        "PartitionTimeLimit" => row.time_limit?.to_string(),
        "PartitionNodeLimit" => count_of(row.node_count, "node"),
        _ if !word.starts_with("QOS") && !word.starts_with("Assoc") => return None,
        _ if word.contains("Minutes") && word.contains("GRES") => {
            let minutes = u64::from(gpus) * row.time_limit?.as_secs() / 60;
            format!("{minutes} GPU-minutes: {} for {}", count_of(gpus, "GPU"), row.time_limit?)
        }
        _ if word.contains("Minutes") => return None,
        _ if word.contains("Wall") || word.ends_with("TimeLimit") => row.time_limit?.to_string(),
        _ if word.to_ascii_lowercase().contains("cpu") => count_of(row.cpus, "CPU"),
        _ if word.contains("Node") && !word.ends_with("PerNode") => {
            count_of(row.node_count, "node")
        }
        _ if word.contains("GRES") || word.contains("Resource") => count_of(gpus, "GPU"),
        _ => return None,
    };
    Some(format!("the job requests {what}"))
}

/// `1 node`, `3 nodes`.
fn count_of(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn is_in_partition(host: &NativeNode, row: &NativeJob) -> bool {
    host.partitions.iter().any(|partition| row.partition.split(',').any(|own| own == partition))
}

fn named(bond: &str, bonds: &NodeConstraints) -> Option<Vec<String>> {
    bonds.get(bond).map(|list| muster_spec::expand_names(list).unwrap_or_default())
}

/// Returns the nodes that the job requests by name, unless it needs further ones.
fn only(row: &NativeJob, bonds: &NodeConstraints) -> Option<Vec<String>> {
    named("ReqNodeList", bonds).filter(|only| only.len() >= row.node_count as usize)
}

/// Counts the nodes that could take a part of the job now, and names the closest other one.
fn capacity(
    row: &NativeJob,
    all: &[NativeJob],
    hosts: &[NativeNode],
    bonds: &NodeConstraints,
) -> Vec<String> {
    // 1. Select the nodes that the job may use; requested nodes may be joined by others.
    let only = only(row, bonds);
    let never = named("ExcNodeList", bonds).unwrap_or_default();
    let is_open = |host: &&NativeNode| {
        is_in_partition(host, row)
            && only.as_ref().is_none_or(|only| only.contains(&host.name))
            && !never.contains(&host.name)
    };
    let hosts: Vec<&NativeNode> = hosts.iter().filter(is_open).collect();
    let mut lines = Vec::new();
    let words = [
        ("ReqNodeList", "the job requests"),
        ("Reservation", "the job requests reservation"),
        ("Features", "its nodes must have"),
    ];
    for (bond, says) in words {
        lines.extend(bonds.get(bond).map(|value| format!("{says} {value}")));
    }
    // Features and reservations of nodes are not in these figures: no nodes are counted then.
    if bonds.contains_key("Reservation") || bonds.contains_key("Features") {
        return lines;
    }
    // 2. Compare each part with the nodes. Components of a heterogeneous job start together.
    let components = all.iter().filter(|other| row.component.is_some() && other.job() == row.job());
    let mut parts: Vec<&NativeJob> = components.collect();
    if parts.is_empty() {
        parts.push(row);
    }
    for part in &parts {
        lines.extend(free_nodes(part, &hosts));
    }
    // 3. List nodes that are out of service.
    let out: Vec<String> =
        hosts.iter().filter(|host| !host.takes_work()).map(|host| out_of_service(host)).collect();
    if !out.is_empty() {
        lines.push(format!("out of service: {}", out.join(", ")));
    }
    lines
}

fn free_nodes(row: &NativeJob, hosts: &[&NativeNode]) -> Vec<String> {
    let nodes = row.node_count.max(1);
    let gpus = muster_slurm::tres::gpus(&row.tres_requested).div_ceil(nodes);
    let cpus = row.cpus.div_ceil(nodes);
    let fits = |host: &&&NativeNode| {
        host.takes_work()
            && host.gpus_free() >= gpus
            && host.cpus.saturating_sub(host.cpus_used) >= cpus
    };
    let enough = hosts.iter().filter(fits).count();
    let each = if gpus > 0 { count_of(gpus, "free GPU") } else { count_of(cpus, "free CPU") };
    let needs = match nodes {
        1 => format!("needs a node with {each}"),
        _ => format!("needs {nodes} nodes with {each} each"),
    };
    let have = if enough == 1 { "has" } else { "have" };
    let there = format!("{enough} of {} {have} that now", hosts.len());
    let mut lines = vec![format!("{needs}; {there}")];
    let most = hosts.iter().map(|host| host.gpu_count()).max().unwrap_or(0);
    if gpus > most && most > 0 {
        // `sbatch -G 16 -N 2` means 16 in all.
        let in_all = (gpus.is_multiple_of(nodes) && gpus / nodes <= most && nodes > 1)
            .then(|| format!("; {gpus} in all on {nodes} nodes are `gpus: {}`", gpus / nodes));
        lines.push(format!(
            "no node has more than {}: `gpus` counts per node{}",
            count_of(most, "GPU"),
            in_all.unwrap_or_default()
        ));
        return lines;
    }
    let mut close: Vec<&&NativeNode> =
        hosts.iter().filter(|host| host.takes_work() && !fits(host)).collect();
    close.sort_by_key(|host| std::cmp::Reverse(host.gpus_free()));
    if let (Some(host), true) = (close.first(), gpus > 0) {
        let free = count_of(host.gpus_free(), "free GPU");
        lines.push(format!("closest of the others: {} with {free}", host.name));
    }
    lines
}

fn out_of_service(host: &NativeNode) -> String {
    match host.reason.split(" [").next().unwrap_or_default() {
        "" => format!("{} ({})", host.name, host.state.to_lowercase()),
        reason => format!("{} ({reason})", host.name),
    }
}

fn jobs_before(row: &NativeJob, all: &[NativeJob]) -> Vec<String> {
    let ahead = pending_before(row, all);
    let Some(first) = ahead.first() else { return Vec::new() };
    let own = row.priority;
    let theirs = first.priority;
    vec![format!(
        "{} before it in {}, the first is {} of {} with priority {theirs}; its own is {own}",
        ahead.len(),
        row.partition,
        first.job(),
        first.user
    )]
}

/// Returns the limits that a reason names, with usage, or the limit per job.
fn limits_of_reason(
    selection: &str,
    usages: &LimitUsages,
    caps: &BTreeMap<String, u64>,
    word: &str,
) -> Vec<String> {
    let limited = usages.iter().filter_map(|(name, usage)| Some((name, usage.limit?, usage.used)));
    let used = limited.map(|(name, limit, used)| {
        (name, format!("{selection}: {used} of {limit} in use ({name})"))
    });
    let capped = caps.iter().map(|(name, most)| match name.as_str() {
        "MaxWallPJ" => {
            (name, format!("{selection}: {} for one job ({name})", Span::from_secs(most * 60)))
        }
        _ => (name, format!("{selection}: {most} for one job ({name})")),
    });
    used.chain(capped)
        .filter(|(name, _)| headroom::is_about(word, name))
        .map(|(_, line)| line)
        .collect()
}

fn of_qos(name: &str, row: &NativeJob, limits: &ClusterLimits, word: &str) -> Vec<String> {
    let Some(qos) = limits.qos.iter().find(|qos| qos.name == name) else { return Vec::new() };
    let none = BTreeMap::new();
    let mut lines =
        limits_of_reason(&format!("all of {}", qos.name), &qos.usages, &qos.job_limits, word);
    if let Some(usages) = limits.uids.get(&row.user).and_then(|uid| qos.by_user.get(uid)) {
        lines.extend(limits_of_reason(
            &format!("{} in {}", row.user, qos.name),
            usages,
            &none,
            word,
        ));
    }
    if let Some(usages) = qos.by_account.get(&row.account) {
        lines.extend(limits_of_reason(
            &format!("{} in {}", row.account, qos.name),
            usages,
            &none,
            word,
        ));
    }
    lines
}

fn of_accounts(row: &NativeJob, limits: &ClusterLimits, word: &str) -> Vec<String> {
    let own =
        limits.associations.iter().find(|one| one.account == row.account && one.user == row.user);
    let mut lines: Vec<String> = own
        .into_iter()
        .flat_map(|one| {
            limits_of_reason(
                &format!("{} in {}", row.user, row.account),
                &one.usages,
                &one.job_limits,
                word,
            )
        })
        .collect();
    lines.extend(
        limits
            .above(&row.account)
            .iter()
            .flat_map(|one| limits_of_reason(&one.account, &one.usages, &one.job_limits, word)),
    );
    lines
}

/// Returns the pending jobs before this one in its partition.
pub(super) fn pending_before<'a>(row: &NativeJob, all: &'a [NativeJob]) -> Vec<&'a NativeJob> {
    let waits = |other: &&NativeJob| other.state.state(other.is_held()) == JobState::Pending;
    let shares = |other: &&NativeJob| {
        other.partition.split(',').any(|name| row.partition.split(',').any(|own| own == name))
    };
    let mut ahead: Vec<&NativeJob> = all
        .iter()
        .filter(waits)
        .filter(shares)
        .filter(|other| {
            (other.priority, std::cmp::Reverse(other.id))
                > (row.priority, std::cmp::Reverse(row.id))
                && other.job() != row.job()
        })
        .collect();
    ahead.sort_by_key(|other| std::cmp::Reverse(other.priority));
    ahead
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a real answer of Slurm 22.05, with and without constraints.
    const PLAIN: &str = "JobId=7 JobName=x Priority=3 Features=(null) Reservation=(null) NodeList= ReqNodeList=(null) ExcNodeList=(null) \
                         CoreSpec=* MinTmpDiskNode=0 OverSubscribe=OK Contiguous=0 Licenses=(null)";

    fn bound(more: &str) -> Vec<(String, String)> {
        parse_constraints(&format!("{PLAIN} {more}")).into_iter().collect()
    }

    #[test]
    fn what_binds_a_job_is_read_and_nothing_else() {
        assert_eq!(parse_constraints(PLAIN), NodeConstraints::new());
        let one = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(bound("Switches=1@00:10:00"), one("Switches", "1@00:10:00"));
        assert_eq!(
            parse_constraints(&PLAIN.replace("OverSubscribe=OK", "OverSubscribe=NO")).len(),
            1
        );
        // Format of 26.05.
        let with_a_field = |value: &str| {
            let fields = format!("OverSubscribe=NO Exclusive={value}");
            parse_constraints(&PLAIN.replace("OverSubscribe=OK", &fields))
                .into_keys()
                .collect::<Vec<_>>()
        };
        assert_eq!(with_a_field("NO"), Vec::<String>::new());
        assert_eq!(with_a_field("NODE"), ["Exclusive"]);
        assert_eq!(
            parse_constraints(&PLAIN.replace("ReqNodeList=(null)", "ReqNodeList=n[1-2]")).len(),
            1
        );
    }

    #[test]
    fn licences_are_counted() {
        let text = "LicenseName=matlab Total=2 Used=2 Free=0 Reserved=0 Remote=no\nLicenseName=ansys Total=9 Used=1 Free=8 Reserved=0 Remote=no\n";
        let said = [
            "matlab: 2 of 2 in use; the job requests 1",
            "ansys: 1 of 9 in use; the job requests 3",
        ];
        assert_eq!(licenses("matlab,ansys:3", text), said);
        assert!(licenses("", text).is_empty() && licenses("other", "").is_empty());
        let uncounted = "other: not a licence that the cluster counts (`scontrol show licenses`)";
        assert_eq!(licenses("other:2", text), [uncounted]);
    }

    /// Returns four nodes with 8 GPUs, of which the first is in use.
    fn hosts() -> Vec<NativeNode> {
        let host = |at: u32| NativeNode {
            name: format!("n{at}"),
            state: "IDLE".to_owned(),
            partitions: vec!["gpu".to_owned()],
            cpus: 64,
            gpus: vec![("h100".to_owned(), 8)],
            gpus_used: if at == 1 { (0..6).collect() } else { Vec::new() },
            ..NativeNode::default()
        };
        (1..=4).map(host).collect()
    }

    fn evidence_of(nodes: u32, bond: Option<(&str, &str)>) -> Vec<String> {
        evidence_of_gpus(nodes, 8, bond)
    }

    fn evidence_of_gpus(nodes: u32, gpus: u32, bond: Option<(&str, &str)>) -> Vec<String> {
        let row = NativeJob {
            partition: "gpu".to_owned(),
            node_count: nodes,
            tres_requested: format!("cpu={nodes},gres/gpu={}", gpus * nodes),
            ..NativeJob::default()
        };
        let bonds = bond.map(|(name, value)| (name.to_owned(), value.to_owned()));
        capacity(&row, &[], &hosts(), &bonds.into_iter().collect())
    }

    #[test]
    fn nodes_that_could_take_it_are_counted_as_far_as_is_seen() {
        let closest = "closest of the others: n1 with 2 free GPUs".to_owned();
        let needs = |text: &str| format!("needs {text} that now");
        assert_eq!(
            evidence_of(2, None),
            [needs("2 nodes with 8 free GPUs each; 3 of 4 have"), closest.clone()]
        );
        assert_eq!(
            evidence_of(1, Some(("ReqNodeList", "n1"))),
            [
                "the job requests n1".to_owned(),
                needs("a node with 8 free GPUs; 0 of 1 have"),
                closest.clone()
            ]
        );
        // The job requests one of its two nodes by name.
        assert_eq!(
            evidence_of(2, Some(("ReqNodeList", "n2")))[1],
            needs("2 nodes with 8 free GPUs each; 3 of 4 have")
        );
        assert_eq!(
            evidence_of(2, Some(("ExcNodeList", "n[2-3]")))[0],
            needs("2 nodes with 8 free GPUs each; 1 of 2 has")
        );
        assert_eq!(evidence_of(2, Some(("Features", "ib&fast"))), ["its nodes must have ib&fast"]);
        let all = "no node has more than 8 GPUs: `gpus` counts per node; 16 in all on 2 nodes are `gpus: 8`";
        assert_eq!(evidence_of_gpus(2, 16, None)[1..], [all.to_owned()]);
        assert_eq!(
            evidence_of_gpus(1, 9, None)[1..],
            ["no node has more than 8 GPUs: `gpus` counts per node".to_owned()]
        );
    }

    #[test]
    fn a_partition_is_read_with_its_limits_and_whether_a_qos_adds_others() {
        let text = "PartitionName=batch QoS=N/A MaxNodes=UNLIMITED MaxTime=2-00:00:00 TotalNodes=8";
        let batch = partition(text);
        assert_eq!(batch.max_time, Some(Span::from_secs(2 * 86_400)));
        assert_eq!(
            (batch.name.as_str(), batch.max_nodes, batch.nodes, batch.qos),
            ("batch", None, 8, None)
        );
        let other = partition(&text.replace("N/A", "big").replace("UNLIMITED", "2"));
        assert_eq!((other.max_nodes, other.qos.as_deref()), (Some(2), Some("big")));
    }
}
