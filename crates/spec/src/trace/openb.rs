//! The lists of the openb trace (Alibaba, cluster-trace-gpu-v2023): pods with whole GPUs or a share
//! of one, nodes with GPUs of one model, and the order in which an experiment submits the pods.

use muster_model::job::{GpuRequest, Resources};
use muster_model::node::Device;
use muster_model::{Bytes, CpuMilli, DeviceSet, GpuMilli, GpuModel, NodeSpec, Time};

use super::csv::{CsvLayout, CsvRow};
use super::names::NameCache;
use super::value::{count, ended, instant};
use super::{RowError, TraceJob};

/// Layout of a pod list:
/// `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time`;
/// sampled lists have no times, and all their pods exist from the start.
pub(super) const TABLE: CsvLayout = CsvLayout {
    separator: b',',
    columns: &[
        "name",
        "cpu_milli",
        "memory_mib",
        "num_gpu",
        "gpu_milli",
        "gpu_spec",
        "qos",
        "pod_phase",
        "creation_time",
        "deletion_time",
        "scheduled_time",
    ],
    needed: &["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"],
    read: pod,
};
/// Number of columns of a node: `sn,cpu_milli,memory_mib,gpu,model`.
const NODE_COLUMNS: usize = 5;
/// Separator in the name of a copy of a pod in an arrival order, between its name and a number.
const COPY: &str = "-tuned-";

fn pod(row: &CsvRow<'_>, names: &mut NameCache) -> Result<Option<TraceJob>, String> {
    let [name, cpus, memory, gpus, milli, models, qos, phase, created, deleted, scheduled] =
        row.fields();
    let started = scheduled.value("seconds", instant)?;
    let deleted = deleted.value("seconds", instant)?;
    let devices = gpus.needed_value("a number of GPUs", count)?;
    let milli = milli.needed_value("thousandths of a GPU", count)?;
    let mib = memory.needed_value("MiB", |text| text.parse().ok())?;
    Ok(Some(TraceJob {
        id: name.needed()?.into(),
        submit: created.value("seconds", instant)?.unwrap_or(Time(0)),
        runtime: started.zip(deleted).map(|(start, end)| end.since(start)),
        started,
        requested: None,
        tasks: 1,
        task: Resources {
            gpu: request(devices, milli, models.text.unwrap_or_default())?,
            cpus: cpus
                .needed_value("thousandths of CPUs", |text| text.parse().ok().map(CpuMilli))?,
            memory: mebibytes(mib),
            ..Resources::default()
        },
        user: None,
        queue: qos.text.map(|name| names.shared(name)),
        priority: 0,
        ended: ended(phase.text.unwrap_or_default()),
    }))
}

/// Returns the GPU request of a pod: thousandths of one GPU, or whole GPUs.
fn request(devices: u32, milli: u32, models: &str) -> Result<GpuRequest, String> {
    let models: Vec<GpuModel> =
        models.split('|').filter(|model| !model.is_empty()).map(model_of).collect();
    match (devices, milli) {
        (0, _) => Ok(GpuRequest::default()),
        (_, 1000) => Ok(GpuRequest { devices, share: GpuMilli(0), models }),
        (1, 1..1000) => Ok(GpuRequest { devices: 0, share: GpuMilli(milli), models }),
        _ => Err(format!(
            "`num_gpu` is {devices} and `gpu_milli` is {milli}: neither whole GPUs nor a share of one"
        )),
    }
}

/// Reads a node list line by line.
#[derive(Clone, Debug, Default)]
pub struct NodeReader {
    line: u64,
}

impl NodeReader {
    /// Returns a reader at the first line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next line, without its end. `None` for the header and for empty lines.
    ///
    /// # Errors
    /// The row cannot be read; later ones may be.
    pub fn read(&mut self, text: &str) -> Result<Option<NodeSpec>, RowError> {
        self.line += 1;
        node(text).map_err(|message| RowError { line: self.line, message })
    }
}

fn node(text: &str) -> Result<Option<NodeSpec>, String> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let [name, cpus, memory, gpus, model] = fields[..] else {
        let is_empty = text.trim().is_empty();
        return if is_empty {
            Ok(None)
        } else {
            Err(format!("{} columns of {NODE_COLUMNS}", fields.len()))
        };
    };
    if name == "sn" {
        return Ok(None);
    }
    if name.is_empty() {
        return Err("`sn` is empty".to_owned());
    }
    let count = number("gpu", gpus)? as usize;
    if count > DeviceSet::MAX_DEVICES {
        return Err(format!("`gpu` is {count}; a node has at most {}", DeviceSet::MAX_DEVICES));
    }
    if count > 0 && model.is_empty() {
        return Err("`model` is empty, but the node has GPUs".to_owned());
    }
    let device = Device::declared(model_of(model), Bytes(0));
    Ok(Some(NodeSpec {
        devices: vec![device; count],
        ..NodeSpec::plain(
            name,
            CpuMilli(number("cpu_milli", cpus)?),
            mebibytes(number("memory_mib", memory)?.into()),
        )
    }))
}

/// Returns the pod of a line of an arrival order: its name, or that of the pod it is a copy of.
/// `None` for empty lines.
#[must_use]
pub fn arriving_pod(line: &str) -> Option<&str> {
    let line = line.trim();
    let pod = match line.rsplit_once(COPY) {
        Some((pod, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => pod,
        _ => line,
    };
    (!pod.is_empty()).then_some(pod)
}

fn number(column: &str, text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{column}` is `{}`, not a number", super::csv::shown(text)))
}

fn mebibytes(mib: u64) -> Bytes {
    Bytes(mib.saturating_mul(1 << 20))
}

/// Returns a model as users name it.
fn model_of(text: &str) -> GpuModel {
    GpuModel::from(text.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use muster_model::Span;

    use super::super::{JobEnd, TraceFormat, tests::jobs};
    use super::*;

    const HEADER: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time";

    /// Returns the pod of a row, or its error.
    fn read(row: &str) -> Result<TraceJob, String> {
        let (jobs, bad) = jobs(TraceFormat::Openb, &format!("{HEADER}\n{row}\n"));
        jobs.into_iter().next().ok_or_else(|| bad.concat())
    }

    #[test]
    fn pods_ask_for_whole_gpus_a_share_or_none() {
        let check = |columns: &str, expected: GpuRequest| {
            let job = read(&format!("pod-1,6000,12288,{columns},LS,Running,100,160,110")).unwrap();
            assert_eq!(job.task.gpu, expected, "{columns}");
            assert_eq!((job.task.cpus, job.task.memory), (CpuMilli(6000), Bytes(12_288 << 20)));
            assert_eq!((job.submit, job.runtime), (Time(100_000), Some(Span(50_000))));
            assert_eq!(job.started, Some(Time(110_000)));
            assert_eq!((job.queue.as_deref(), job.ended), (Some("LS"), JobEnd::Unknown));
        };
        let models =
            |names: &[&str]| names.iter().map(|name| GpuModel::from(*name)).collect::<Vec<_>>();
        check("0,0,", GpuRequest::default());
        check("1,1000,", GpuRequest::whole(1));
        check("8,1000,G2", GpuRequest { models: models(&["g2"]), ..GpuRequest::whole(8) });
        let share = GpuRequest { share: GpuMilli(460), ..GpuRequest::default() };
        check("1,460,", share.clone());
        check(
            "1,460,V100M16|V100M32",
            GpuRequest { models: models(&["v100m16", "v100m32"]), ..share },
        );
    }

    #[test]
    fn what_never_started_or_ended_has_no_runtime() {
        let job = read("pod-1,6000,12288,0,0,,BE,Pending,100,160,").unwrap();
        assert_eq!((job.runtime, job.ended), (None, JobEnd::Unknown));
        let job = read("pod-1,6000,12288,0,0,,BE,Failed,100,,100").unwrap();
        assert_eq!((job.runtime, job.ended), (None, JobEnd::Failed));
    }

    #[test]
    fn a_row_that_is_none_says_why() {
        let check =
            |text: &str, expected: &str| assert_eq!(read(text).unwrap_err(), expected, "{text}");
        check(",6000,1,0,0,,LS,Running,1,2,3", "line 2: `name` is missing");
        check(
            "pod-1,six,1,0,0,,LS,Running,1,2,3",
            "line 2: `cpu_milli` is `six`, not thousandths of CPUs",
        );
        check(
            "pod-1,6000,1,2,500,,LS,Running,1,2,3",
            "line 2: `num_gpu` is 2 and `gpu_milli` is 500: neither whole GPUs nor a share of one",
        );
        check(
            "pod-1,6000,1,1,0,,LS,Running,1,2,3",
            "line 2: `num_gpu` is 1 and `gpu_milli` is 0: neither whole GPUs nor a share of one",
        );
    }

    #[test]
    fn nodes_have_gpus_of_one_model_or_none() {
        let mut reader = NodeReader::new();
        assert_eq!(reader.read("sn,cpu_milli,memory_mib,gpu,model"), Ok(None));
        let node = reader.read("node-1,64000,262144,2,P100").unwrap().unwrap();
        assert_eq!(
            (node.name.as_str(), node.cpus, node.memory),
            ("node-1", CpuMilli(64_000), Bytes(256 << 30))
        );
        assert_eq!(
            node.devices.iter().map(|device| device.model.as_str()).collect::<Vec<_>>(),
            ["p100", "p100"]
        );
        assert_eq!(reader.read("node-2,1").unwrap_err().message, "2 columns of 5");
        assert!(reader.read("node-2,64000,262144,0,").unwrap().unwrap().devices.is_empty());
        let error = reader.read("node-3,64000,262144,2,").unwrap_err();
        assert_eq!(error.to_string(), "line 5: `model` is empty, but the node has GPUs");
        assert_eq!(
            reader.read("node-3,64000,262144,129,A").unwrap_err().message,
            "`gpu` is 129; a node has at most 128"
        );
    }

    #[test]
    fn an_arrival_stands_for_a_pod_or_a_copy_of_one() {
        let check = |line, expected| assert_eq!(arriving_pod(line), expected, "{line}");
        check("openb-pod-0255", Some("openb-pod-0255"));
        check("openb-pod-3888-tuned-17\r", Some("openb-pod-3888"));
        check("my-tuned-model", Some("my-tuned-model"));
        check("", None);
    }
}
