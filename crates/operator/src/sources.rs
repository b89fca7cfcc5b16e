//! The kinds of objects that the scheduler watches, as observations for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use muster_kubernetes::group::{APIS, GroupApi, GroupKind, GroupText};
use muster_kubernetes::node::NodeText;
use muster_kubernetes::object::{Metadata, ObjectKey};
use muster_kubernetes::pod::PodText;
use muster_kubernetes::priority::PriorityClassText;
use muster_kubernetes::queue::{self, POLICIES, POLICY, QUEUES, QueueText};
use muster_kubernetes::volume::{ClaimText, VolumeText};
use muster_model::NodeName;
use muster_scheduler::Observation;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::queues::QueueChange;
use crate::watch::{self, Change, Watched};

/// Report for the scheduler.
#[derive(Debug)]
pub(crate) enum Report {
    /// Observed state of the cluster.
    Seen(Observation),
    /// A queue object exists, has changed, or is gone.
    Queue(QueueChange),
    /// A status of a queue object could not be written.
    StatusLost(String),
    /// A kind has been listed for the first time.
    Listed,
}

impl Watched for NodeText {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
impl Watched for PodText {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
impl Watched for GroupText {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
impl Watched for ClaimText {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
impl Watched for QueueText {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
impl Watched for VolumeText {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Watched for PriorityClassText {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// API version of each kind of gang object that the cluster serves, such as `batch/v1`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served(Arc<Mutex<BTreeMap<GroupKind, String>>>);

impl Served {
    fn insert(&self, kind: GroupKind, version: &str) {
        let mut served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        served.insert(kind, version.to_owned());
    }

    /// Returns the version of a kind that is watched; `None` for others.
    pub(crate) fn version(&self, kind: GroupKind) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&kind).cloned()
    }
}

/// The watches of a cluster; they end with this value.
pub(crate) struct Sources {
    client: Client,
    reports: UnboundedSender<Report>,
    tasks: JoinSet<()>,
    groups: Vec<&'static GroupApi>,
    served: Served,
    /// True if the queue objects are wanted.
    has_queue_objects: bool,
    are_queues_followed: bool,
}

impl Sources {
    pub(crate) fn new(
        client: Client,
        reports: UnboundedSender<Report>,
        served: Served,
        has_queue_objects: bool,
    ) -> Self {
        Self {
            client,
            reports,
            tasks: JoinSet::new(),
            groups: Vec::new(),
            served,
            has_queue_objects,
            are_queues_followed: false,
        }
    }

    /// Starts the watches of nodes, pods, volumes and priority classes; returns their number.
    pub(crate) fn start_core(&mut self) -> usize {
        self.follow::<NodeText>("/api/v1/nodes", read_node, |key| {
            Some(Observation::NodeGone(NodeName(key.name)))
        });
        self.follow::<PodText>(
            "/api/v1/pods",
            |pod| Some(Observation::Pod(Box::new(pod.facts()))),
            |key| Some(Observation::PodGone(key)),
        );
        self.follow::<ClaimText>(
            "/api/v1/persistentvolumeclaims",
            |claim| {
                let volume = claim.volume().map(Arc::from);
                Some(Observation::Claim(claim.metadata.key(), volume))
            },
            |key| Some(Observation::ClaimGone(key)),
        );
        self.follow::<VolumeText>(
            "/api/v1/persistentvolumes",
            |volume| {
                let name = Arc::clone(&volume.metadata.name);
                Some(Observation::Volume(name, volume.terms()))
            },
            // A volume that is gone is that of no claim.
            |_| None,
        );
        self.follow::<PriorityClassText>(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            |class| Some(Observation::PriorityClass(class.facts())),
            |key| Some(Observation::PriorityClassGone(key.name)),
        );
        5
    }

    /// Starts the watches of the gang and queue objects that the cluster serves and that are not
    /// watched yet; returns their number.
    ///
    /// # Errors
    /// If the API server does not say what it serves.
    pub(crate) async fn start_served(&mut self) -> Result<usize, kube::Error> {
        let served = self.client.list_api_groups().await?;
        let mut started = 0;
        if self.has_queue_objects
            && !self.are_queues_followed
            && served.groups.iter().any(|group| group.name == queue::GROUP)
        {
            self.are_queues_followed = true;
            started += self.start_queues();
        }
        for api in &APIS {
            if self.groups.contains(&api) {
                continue;
            }
            let versions = served.groups.iter().find(|group| group.name == api.group);
            for version in versions.into_iter().flat_map(|group| &group.versions) {
                let resources =
                    self.client.list_api_group_resources(&version.group_version).await?;
                if resources.resources.iter().any(|resource| resource.name == api.plural) {
                    let path = format!("/apis/{}/{}", version.group_version, api.plural);
                    tracing::info!("watching {path}");
                    self.served.insert(api.kind, &version.group_version);
                    let kind = api.kind;
                    self.follow::<GroupText>(
                        &path,
                        move |group| Some(Observation::Group(Box::new(group.facts(kind)))),
                        move |key| Some(Observation::GroupGone(kind, key)),
                    );
                    self.groups.push(api);
                    started += 1;
                    break;
                }
            }
        }
        Ok(started)
    }

    /// Starts the watches of queues and policy; returns their number.
    fn start_queues(&mut self) -> usize {
        tracing::info!("watching the queue objects");
        let path = |plural| format!("/apis/{}/{}/{plural}", queue::GROUP, queue::VERSION);
        self.follow_reports::<QueueText>(
            &path(QUEUES),
            |queue| {
                let change = QueueChange::Queue(queue.metadata.name, Some(queue.spec));
                Some(Report::Queue(change))
            },
            |key| Some(Report::Queue(QueueChange::Queue(key.name, None))),
        );
        let of_policy =
            |name: &str, spec| (name == POLICY).then_some(Report::Queue(QueueChange::Policy(spec)));
        self.follow_reports::<QueueText>(
            &path(POLICIES),
            move |policy| of_policy(&policy.metadata.name, Some(policy.spec)),
            move |key| of_policy(&key.name, None),
        );
        2
    }

    fn follow<T: Watched>(
        &mut self,
        path: &str,
        present: impl Fn(T) -> Option<Observation> + Send + 'static,
        gone: impl Fn(ObjectKey) -> Option<Observation> + Send + 'static,
    ) {
        self.follow_reports(
            path,
            move |object| present(object).map(Report::Seen),
            move |key| gone(key).map(Report::Seen),
        );
    }

    fn follow_reports<T: Watched>(
        &mut self,
        path: &str,
        present: impl Fn(T) -> Option<Report> + Send + 'static,
        gone: impl Fn(ObjectKey) -> Option<Report> + Send + 'static,
    ) {
        let reports = self.reports.clone();
        let report = move |change| {
            let seen = match change {
                Change::Present(object) => present(*object),
                Change::Gone(key) => gone(key),
                Change::Listed => Some(Report::Listed),
            };
            seen.is_none_or(|seen| reports.send(seen).is_ok())
        };
        self.tasks.spawn(watch::follow(self.client.clone(), path.to_owned(), report));
    }
}

fn read_node(node: NodeText) -> Option<Observation> {
    let name = Arc::clone(&node.metadata.name);
    match node.facts() {
        Ok(facts) => Some(Observation::Node(Box::new(facts))),
        Err(error) => {
            tracing::error!("node {name} is not used: {error}");
            Some(Observation::NodeGone(NodeName(name)))
        }
    }
}
