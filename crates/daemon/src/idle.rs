//! Jobs that hold GPUs and leave them idle, found by polling the loads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use muster_model::queue::IdlePolicy;
use muster_model::unit::{Span, Time};
use muster_model::view::{GpuLoadView, IdleView, NodeView};
use muster_model::{ElementId, JobId, NodeName};
use muster_report::top::IDLE_BELOW_PERCENT;

/// Longest time between two polls for which the GPUs count as idle in between.
const LONGEST_GAP: Span = Span::from_secs(300);

/// Elements of jobs of which all GPUs are idle, with the time since when.
#[derive(Debug, Default)]
pub(crate) struct IdleWatch {
    observations: Mutex<Observations>,
}

#[derive(Debug, Default)]
struct Observations {
    last: Option<Time>,
    idle: BTreeMap<ElementId, IdleElement>,
}

/// Element of which all GPUs were idle at every poll since an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IdleElement {
    since: Time,
    devices: Vec<(NodeName, u16)>,
    policy: IdlePolicy,
}

impl IdleWatch {
    /// Takes the loads of this instant. An element is idle if the load of each of its GPUs is known and low; on other
    /// GPUs than at the last poll it begins anew. `policies` are those of the queues of jobs; the default applies to
    /// the others.
    pub(crate) fn observe(
        &self,
        now: Time,
        nodes: &[NodeView],
        loads: &[GpuLoadView],
        policies: &BTreeMap<JobId, IdlePolicy>,
    ) {
        let busy: BTreeMap<(&NodeName, u16), u8> = loads
            .iter()
            .filter_map(|gpu| Some(((&gpu.node, gpu.index), gpu.load?.busy_percent?)))
            .collect();
        let mut held: BTreeMap<ElementId, Vec<(NodeName, u16)>> = BTreeMap::new();
        for node in nodes {
            for device in &node.devices {
                for element in &device.elements {
                    held.entry(*element).or_default().push((node.name.clone(), device.index));
                }
            }
        }
        let is_idle = |(node, index): &(NodeName, u16)| {
            busy.get(&(node, *index)).is_some_and(|busy| *busy < IDLE_BELOW_PERCENT)
        };
        held.retain(|_, devices| devices.iter().all(is_idle));
        let mut observations = self.observations.lock().unwrap_or_else(PoisonError::into_inner);
        let gap = observations.last.replace(now).map(|last| now.since(last));
        let before = std::mem::take(&mut observations.idle);
        let is_continued = gap.is_some_and(|gap| gap <= LONGEST_GAP);
        observations.idle = held
            .into_iter()
            .map(|(element, devices)| {
                let earlier = before.get(&element).filter(|earlier| earlier.devices == devices);
                let since = earlier.filter(|_| is_continued).map_or(now, |earlier| earlier.since);
                let policy = policies.get(&element.job).copied().unwrap_or(IdlePolicy::DEFAULT);
                (element, IdleElement { since, devices, policy })
            })
            .collect();
    }

    /// Returns the elements that have been idle for as long as their queue says, in order.
    pub(crate) fn marked(&self, now: Time) -> Vec<IdleView> {
        self.marked_by_policy(now).into_iter().map(|(view, _)| view).collect()
    }

    /// Returns these elements with the policies of their queues.
    pub(crate) fn marked_by_policy(&self, now: Time) -> Vec<(IdleView, IdlePolicy)> {
        let observations = self.observations.lock().unwrap_or_else(PoisonError::into_inner);
        let is_long = |idle: &IdleElement| now.since(idle.since) >= idle.policy.after;
        let long = observations.idle.iter().filter(|(_, idle)| is_long(idle));
        long.map(|(element, idle)| {
            let gpus = u32::try_from(idle.devices.len()).unwrap_or(u32::MAX);
            (IdleView { element: *element, since: idle.since, gpus }, idle.policy)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use muster_model::queue::IdleAction;
    use muster_model::view::{DeviceView, GpuLoad};
    use muster_model::{Bytes, CpuMilli, GpuMilli, JobId};

    use super::*;

    /// Returns a view of a node with these devices.
    fn node(devices: Vec<DeviceView>) -> NodeView {
        NodeView {
            name: "n1".into(),
            up: true,
            drained: None,
            drain: None,
            cpus: CpuMilli(0),
            cpus_used: CpuMilli(0),
            memory: Bytes(0),
            memory_used: Bytes(0),
            devices,
            advance_reservations: Vec::new(),
        }
    }

    /// Returns a view of a device that these elements hold.
    fn device(index: u16, elements: &[ElementId]) -> DeviceView {
        DeviceView {
            index,
            model: "h100".into(),
            memory: Bytes(0),
            is_virtual: false,
            used: GpuMilli(0),
            foreign: false,
            foreign_processes: Vec::new(),
            drained: false,
            drain: None,
            elements: elements.to_vec(),
        }
    }

    fn loads(busy: &[Option<u8>]) -> Vec<GpuLoadView> {
        let load = |busy: &Option<u8>| Some(GpuLoad { busy_percent: *busy, ..GpuLoad::default() });
        let view = |(index, busy)| GpuLoadView { node: "n1".into(), index, load: load(busy) };
        (0..).zip(busy).map(view).collect()
    }

    fn minutes(n: u64) -> Time {
        Time(n * 60_000)
    }

    #[test]
    fn a_job_is_marked_after_half_an_hour_on_idle_gpus_and_only_then() {
        let element = ElementId::single(JobId(1));
        let other = ElementId::single(JobId(2));
        let nodes = vec![node(vec![
            device(0, &[element]),
            device(1, &[element]),
            device(2, &[other]),
            device(3, &[]),
        ])];
        let watch = IdleWatch::default();
        let jobs =
            |now| watch.marked(now).iter().map(|idle| idle.element.job.0).collect::<Vec<_>>();
        for minute in 0..=29 {
            watch.observe(
                minutes(minute),
                &nodes,
                &loads(&[Some(0), Some(4), Some(50), Some(0)]),
                &BTreeMap::new(),
            );
            assert_eq!(jobs(minutes(minute)), [0; 0], "minute {minute}");
        }
        watch.observe(
            minutes(30),
            &nodes,
            &loads(&[Some(0), Some(4), Some(50), Some(0)]),
            &BTreeMap::new(),
        );
        assert_eq!(jobs(minutes(30)), [1]);
        let marked = watch.marked(minutes(30));
        assert_eq!((marked[0].since, marked[0].gpus), (minutes(0), 2));
        // One busy GPU, or one whose load is unknown, ends it.
        watch.observe(
            minutes(31),
            &nodes,
            &loads(&[Some(0), Some(5), Some(50), Some(0)]),
            &BTreeMap::new(),
        );
        assert_eq!(jobs(minutes(31)), [0; 0]);
        watch.observe(
            minutes(32),
            &nodes,
            &loads(&[Some(0), None, Some(0), Some(0)]),
            &BTreeMap::new(),
        );
        assert_eq!(jobs(minutes(100)), [2], "since minute 32 the other one is idle");
    }

    #[test]
    fn the_queue_says_when_a_job_is_marked() {
        let element = ElementId::single(JobId(1));
        let nodes = vec![node(vec![device(0, &[element])])];
        let policy = IdlePolicy { after: Span::from_secs(120), action: IdleAction::Cancel };
        let watch = IdleWatch::default();
        for minute in 0..=2 {
            let policies = BTreeMap::from([(JobId(1), policy)]);
            watch.observe(minutes(minute), &nodes, &loads(&[Some(0)]), &policies);
            assert_eq!(watch.marked(minutes(minute)).len(), usize::from(minute == 2));
        }
        let marked = watch.marked_by_policy(minutes(2));
        assert_eq!((marked.len(), marked[0].1), (1, policy));
    }

    #[test]
    fn neither_a_gap_nor_other_gpus_count_as_idle_time() {
        let element = ElementId::single(JobId(1));
        let on = |index| {
            vec![node(vec![device(0, &[element][index..]), device(1, &[element][..index])])]
        };
        let watch = IdleWatch::default();
        let idle = loads(&[Some(0), Some(0)]);
        watch.observe(minutes(0), &on(0), &idle, &BTreeMap::new());
        watch.observe(minutes(60), &on(0), &idle, &BTreeMap::new());
        assert!(watch.marked(minutes(60)).is_empty(), "nobody looked for an hour");
        for minute in 61..95 {
            watch.observe(minutes(minute), &on(1), &idle, &BTreeMap::new());
        }
        assert_eq!(watch.marked(minutes(94)).first().unwrap().since, minutes(61));
    }
}
