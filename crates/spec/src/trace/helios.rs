//! The traces of Helios (Hu et al., SC 2021) and of Acme (Hu et al., NSDI 2024): tables made from
//! Slurm's accounting, and for Acme's cluster Kalos from that of Kubernetes. They have no time
//! limits. Helios writes dates without a zone, which are taken as UTC; Acme writes the offset.

use muster_model::Bytes;

use super::TraceJob;
use super::csv::{CsvLayout, CsvRow};
use super::names::NameCache;
use super::value::{JobResources, count, ended, instant, seconds};

/// Layout of Helios:
/// `job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue`;
/// the last is the waiting time.
pub(super) const HELIOS: CsvLayout = CsvLayout {
    separator: b',',
    columns: &columns("vc"),
    needed: &["job_id", "gpu_num", "node_num", "state", "submit_time", "duration"],
    read: row,
};

/// Layout of Acme:
/// `job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time`;
/// Kalos adds `mem_per_pod_GB` and more. The kind of work, `type`, is taken as the queue, which is
/// not recorded.
pub(super) const ACME: CsvLayout = CsvLayout {
    separator: b',',
    columns: &columns("type"),
    needed: &["job_id", "gpu_num", "node_num", "type", "state", "submit_time", "duration"],
    read: row,
};

/// Returns the columns that are read of both, with the column of the queue.
const fn columns(queue: &'static str) -> [&'static str; 11] {
    [
        "job_id",
        "user",
        queue,
        "gpu_num",
        "cpu_num",
        "node_num",
        "mem_per_pod_GB",
        "state",
        "submit_time",
        "start_time",
        "duration",
    ]
}

fn row(row: &CsvRow<'_>, names: &mut NameCache) -> Result<Option<TraceJob>, String> {
    let [id, user, queue, gpus, cpus, nodes, memory, state, submit, start, duration] = row.fields();
    let nodes = nodes.value("a number of nodes", count)?;
    let memory_gb = memory.value("gigabytes", |text| text.parse::<f64>().ok())?;
    let memory = memory_gb.unwrap_or(0.0).max(0.0) * 1e9 * f64::from(nodes.unwrap_or(1));
    let held = JobResources {
        nodes,
        gpus: gpus.value("a number of GPUs", count)?.unwrap_or(0),
        cpus: cpus.value("a number of CPUs", count)?.unwrap_or(0),
        memory: Bytes(memory as u64),
    };
    let (tasks, task) = held.tasks();
    // A job that was cancelled before it started has no start, and a duration of nothing.
    let runtime =
        duration.value("seconds", seconds)?.filter(|span| start.text.is_some() || span.0 > 0);
    Ok(Some(TraceJob {
        id: id.needed()?.into(),
        submit: submit.needed_value("a date", instant)?,
        runtime,
        started: start.text.filter(|_| runtime.is_some()).and_then(instant),
        requested: None,
        tasks,
        task,
        user: user.text.map(|name| names.shared(name)),
        queue: queue.text.map(|name| names.shared(name)),
        priority: 0,
        ended: ended(state.text.unwrap_or_default()),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::{JobEnd, TraceFormat, tests::jobs};
    use muster_model::Span;

    #[test]
    fn both_schemas_are_read() {
        let text = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
             1,uA,vc1,16,32,2,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n\
             2,uA,vc1,1,1,1,CANCELLED,2020-06-09 18:41:01,,,0,5\n";
        let (jobs, bad) = jobs(TraceFormat::Helios, text);
        assert_eq!((jobs[0].tasks, jobs[0].task.gpu.devices, jobs[0].task.cpus.0), (2, 8, 16_000));
        assert_eq!((jobs[0].queue.as_deref(), jobs[0].ended), (Some("vc1"), JobEnd::Completed));
        assert_eq!((jobs[1].runtime, jobs[1].started, bad.len()), (None, None, 0));
        assert_eq!(jobs[0].started, Some(jobs[0].submit));

        let text = "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,\
             start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n\
             d1,u1,8,64,960,1000,100.0,Pretrain,NODE_FAIL,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
             2023-05-17 11:01:16+00:00,,,18,10.0,1152.0\n";
        let (jobs, bad) = super::super::tests::jobs(TraceFormat::Acme, text);
        assert_eq!(
            (jobs[0].tasks, jobs[0].task.gpu.devices, jobs[0].task.memory.0),
            (8, 8, 1_000_000_000_000)
        );
        assert_eq!((jobs[0].queue.as_deref(), jobs[0].ended), (Some("Pretrain"), JobEnd::Failed));
        assert_eq!((jobs[0].runtime, bad.len()), (Some(Span(18_000)), 0));
    }
}
