//! Nodes as printed by `scontrol --oneliner --details show node` in all versions, and by
//! slurmrestd: resources, usage, and whether they take jobs.

use serde_json::Value;

use super::gres;
use super::json::{self, JsonError, number, text, words};

/// Node as Slurm reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeNode {
    /// Name of the node.
    pub name: String,
    /// Words of the state, such as `IDLE` or `MIXED+DRAIN`.
    pub state: String,
    /// Administrator's reason for draining the node, with user and time; empty where there is none.
    pub reason: String,
    /// Partitions that contain the node.
    pub partitions: Vec<String>,
    /// Number of CPUs of the node.
    pub cpus: u32,
    /// Number of CPUs that jobs hold.
    pub cpus_used: u32,
    /// Memory of the node in mebibytes.
    pub memory_mebibytes: u64,
    /// Memory that jobs hold, in mebibytes.
    pub memory_used_mebibytes: u64,
    /// GPUs by type, in order of the configuration; the type is empty where none is configured.
    pub gpus: Vec<(String, u32)>,
    /// Indices of the GPUs that jobs hold.
    pub gpus_used: Vec<u16>,
    /// Number of GPUs that jobs hold, where indices are not reported.
    pub gpus_used_count: u32,
}

impl NativeNode {
    /// Returns the administrator's reason and user, in place of Slurm's `[root@time]`.
    #[must_use]
    pub fn reason_and_who(&self) -> String {
        let by =
            self.reason.rsplit_once(" [").and_then(|(why, by)| Some((why, by.split_once('@')?.0)));
        by.map_or_else(|| self.reason.clone(), |(why, who)| format!("{why}, by {who}"))
    }

    /// Returns whether the node takes new jobs.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        !self.is_lost() && !self.is_drained()
    }

    /// Returns whether the node does not answer.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.has("DOWN")
            || self.has("NOT_RESPONDING")
            || self.state.contains('*')
            || self.has("UNKNOWN")
    }

    /// Returns whether the node was taken out of service, or is planned for another use.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        [
            "DRAIN",
            "FAIL",
            "MAINT",
            "INVAL",
            "INVALID_REG",
            "POWERED_DOWN",
            "POWERING_DOWN",
            "REBOOT",
        ]
        .iter()
        .any(|word| self.has(word))
    }

    fn has(&self, word: &str) -> bool {
        self.state.split('+').any(|part| {
            part.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-']) == word
        })
    }

    /// Returns the number of GPUs.
    #[must_use]
    pub fn gpu_count(&self) -> u32 {
        self.gpus.iter().map(|(_, count)| count).sum()
    }

    /// Returns the number of GPUs that no job holds.
    #[must_use]
    pub fn gpus_free(&self) -> u32 {
        self.gpu_count().saturating_sub(self.gpus_used_count.max(self.gpus_used.len() as u32))
    }
}

/// Reads one node per line. Other lines are skipped.
#[must_use]
pub fn read(text: &str) -> Vec<NativeNode> {
    text.lines().filter_map(node).collect()
}

fn node(line: &str) -> Option<NativeNode> {
    // The reason is free text and comes last: its content is not fields.
    let (fields, reason) = line.split_once(" Reason=").unwrap_or((line, ""));
    let field = |name: &str| {
        let found = fields.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.filter(|value| *value != "(null)" && *value != "N/A").unwrap_or_default()
    };
    let list = |name: &str| {
        field(name).split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let used = gres::gpus(field("GresUsed"));
    Some(NativeNode {
        name: Some(field("NodeName")).filter(|name| !name.is_empty())?.to_owned(),
        state: field("State").to_owned(),
        reason: reason.trim().to_owned(),
        partitions: list("Partitions"),
        cpus: field("CPUTot").parse().unwrap_or_default(),
        cpus_used: field("CPUAlloc").parse().unwrap_or_default(),
        memory_mebibytes: field("RealMemory").parse().unwrap_or_default(),
        memory_used_mebibytes: field("AllocMem").parse().unwrap_or_default(),
        gpus: types(field("Gres")),
        gpus_used_count: used.iter().map(|gpu| small(gpu.count)).sum(),
        gpus_used: used.into_iter().flat_map(|gpu| gpu.indices).collect(),
    })
}

/// Reads nodes of slurmrestd, converted to scontrol's form.
///
/// # Errors
/// When Slurm reports a failure, or this is not a list of nodes.
pub fn from_json(value: &Value) -> Result<Vec<NativeNode>, JsonError> {
    Ok(json::list(value, "nodes")?.iter().map(node_of_json).collect())
}

fn node_of_json(row: &Value) -> NativeNode {
    let whole = |path: &str| number(row, path).unwrap_or_default();
    let small = |path: &str| self::small(whole(path));
    let mut state = words(row, &["/state"]);
    state.extend(words(row, &["/state_flags"]));
    let mut reason = text(row, "/reason");
    if let (false, by, Some(at)) =
        (reason.is_empty(), text(row, "/reason_set_by_user"), number(row, "/reason_changed_at"))
    {
        reason = format!("{reason} [{by}@{at}]");
    }
    let used = gres::gpus(&text(row, "/gres_used"));
    NativeNode {
        name: text(row, "/name"),
        state: state.join("+").to_uppercase(),
        reason,
        partitions: words(row, &["/partitions"]),
        cpus: small("/cpus"),
        cpus_used: small("/alloc_cpus"),
        memory_mebibytes: whole("/real_memory"),
        memory_used_mebibytes: whole("/alloc_memory"),
        gpus: types(&text(row, "/gres")),
        gpus_used_count: used.iter().map(|gpu| self::small(gpu.count)).sum(),
        gpus_used: used.into_iter().flat_map(|gpu| gpu.indices).collect(),
    }
}

/// Returns the types of GPUs with their counts.
fn types(text: &str) -> Vec<(String, u32)> {
    gres::gpus(text).into_iter().map(|gpu| (gpu.kind, small(gpu.count))).collect()
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_22_05() {
        let line = "NodeName=node7 Arch=x86_64 CPUAlloc=3 CPUEfctv=64 CPUTot=64 AvailableFeatures=h100,nvlink \
                    Gres=gpu:h100:8 GresDrain=N/A GresUsed=gpu:h100:6(IDX:0-1,4-7) OS=Linux 6 #1 SMP RealMemory=1000000 \
                    AllocMem=600 State=MIXED+DRAIN Partitions=batch,short  Reason=fan State=IDLE [root@2026-11-22T18:00:00]";
        let node = &read(line)[0];
        assert_eq!((node.name.as_str(), node.cpus, node.cpus_used), ("node7", 64, 3));
        assert_eq!(node.gpus, [("h100".to_owned(), 8)]);
        assert_eq!((node.gpus_used.as_slice(), node.gpus_free()), (&[0, 1, 4, 5, 6, 7][..], 2));
        assert!(node.is_drained() && !node.is_lost() && !node.takes_work());
        assert_eq!(node.reason, "fan State=IDLE [root@2026-11-22T18:00:00]");
        assert_eq!(node.reason_and_who(), "fan State=IDLE, by root");
        let unsigned = NativeNode { reason: "rack [3]".to_owned(), ..NativeNode::default() };
        assert_eq!(unsigned.reason_and_who(), "rack [3]");
        assert!(read("slurm_load_node error: Unable to contact\n").is_empty());
    }

    #[test]
    fn slurmrestd_and_scontrol_say_the_same() {
        let line = "NodeName=node7 CPUAlloc=3 CPUTot=64 Gres=gpu:h100:8 GresUsed=gpu:h100:2(IDX:0-1) RealMemory=1000000 \
                    AllocMem=600 State=MIXED+DRAIN Partitions=batch,short  Reason=fan [root@1795387530]";
        let of_22_05 = serde_json::json!({
            "name": "node7", "cpus": 64, "alloc_cpus": 3, "gres": "gpu:h100:8", "gres_used": "gpu:h100:2(IDX:0-1)",
            "real_memory": 1_000_000, "alloc_memory": 600, "state": "mixed", "state_flags": ["DRAIN"],
            "partitions": ["batch", "short"], "reason": "fan", "reason_changed_at": 1_795_387_530, "reason_set_by_user": "root",
        });
        let mut later = of_22_05.clone();
        later["state"] = serde_json::json!(["MIXED", "DRAIN"]);
        later["reason_changed_at"] =
            serde_json::json!({"set": true, "infinite": false, "number": 1_795_387_530});
        later.as_object_mut().unwrap().remove("state_flags");
        for row in [of_22_05, later] {
            assert_eq!(from_json(&serde_json::json!({ "nodes": [row] })), Ok(read(line)));
        }
        assert_eq!(from_json(&serde_json::json!({})), Err(JsonError::NoList("nodes")));
    }
}
