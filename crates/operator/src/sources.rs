//! The kinds of objects that the scheduler watches, as observations for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use muster_kubernetes::device;
use muster_kubernetes::device::claim::{ClaimText as DeviceClaimText, TemplateText};
use muster_kubernetes::device::class::ClassText;
use muster_kubernetes::device::slice::SliceText;
use muster_kubernetes::group::{APIS, GroupApi, GroupKind, GroupText};
use muster_kubernetes::kueue::{
    self, ClusterQueueText, CohortText, FlavorText, LocalQueueText, NamespaceText,
};
use muster_kubernetes::node::NodeText;
use muster_kubernetes::object::{Metadata, ObjectKey};
use muster_kubernetes::pod::PodText;
use muster_kubernetes::priority::PriorityClassText;
use muster_kubernetes::queue::{self, POLICIES, POLICY, QUEUES, QueueText};
use muster_kubernetes::reservation::{RESERVATIONS, ReservationText};
use muster_kubernetes::volume::{ClaimText, VolumeText};
use muster_model::NodeName;
use muster_scheduler::{DeviceChange, Observation};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::QueueSource;
use crate::discovery::Discovery;
use crate::kueue::KueueChange;
use crate::queues::QueueChange;
use crate::watch::{self, Change, Watched};

/// Report for the scheduler.
#[derive(Debug)]
pub(crate) enum Report {
    /// Observed state of the cluster.
    Seen(Observation),
    /// A queue object exists, has changed, or is gone.
    Queue(QueueChange),
    /// An object that describes Kueue's queues exists, has changed, or is gone.
    Kueue(Box<KueueChange>),
    /// The cluster serves Kueue's queues in this version, such as `kueue.x-k8s.io/v1beta2`.
    KueueVersion(String),
    /// A status of a queue object could not be written.
    StatusLost(String),
    /// A kind has been listed for the first time.
    Listed,
    /// Listing the path failed, in sources that list once.
    Unlisted(String, kube::Error),
}

/// Makes kinds of objects with metadata ones that can be followed.
macro_rules! watched {
    ($($text:ty),*) => {$(
        impl Watched for $text {
            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    )*};
}

watched!(
    NodeText,
    PodText,
    SliceText,
    ClassText,
    DeviceClaimText,
    TemplateText,
    GroupText,
    ClaimText,
    VolumeText,
    PriorityClassText,
    ReservationText,
    QueueText,
    ClusterQueueText,
    CohortText,
    LocalQueueText,
    FlavorText,
    NamespaceText
);

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
    /// API group of the objects that describe the queues; `None` when none do.
    queue_group: Option<&'static str>,
    are_queues_followed: bool,
    are_reservations_followed: bool,
    are_devices_followed: bool,
    /// True where kinds are listed once, and not watched.
    is_once: bool,
}

impl Sources {
    pub(crate) fn new(
        client: Client,
        reports: UnboundedSender<Report>,
        served: Served,
        queues: &QueueSource,
    ) -> Self {
        Self {
            client,
            reports,
            tasks: JoinSet::new(),
            groups: Vec::new(),
            served,
            queue_group: match queues {
                QueueSource::Tree(_) => None,
                QueueSource::Objects => Some(queue::GROUP),
                QueueSource::Kueue => Some(kueue::GROUP),
            },
            are_queues_followed: false,
            are_reservations_followed: false,
            are_devices_followed: false,
            is_once: false,
        }
    }

    /// Makes sources that list each kind once.
    pub(crate) fn once(
        client: Client,
        reports: UnboundedSender<Report>,
        served: Served,
        queues: &QueueSource,
    ) -> Self {
        Self { is_once: true, ..Self::new(client, reports, served, queues) }
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

    /// Starts the watches of the device, gang and queue objects that the cluster serves and that are not
    /// watched yet; returns their number.
    ///
    /// # Errors
    /// If the API server does not say what it serves, or is older than Kubernetes 1.30.
    pub(crate) async fn start_served(&mut self) -> Result<usize, kube::Error> {
        let discovery = Discovery::of(&self.client).await?;
        let mut started = 0;
        if !self.are_queues_followed
            && let Some(group) = self.queue_group.filter(|group| discovery.has_group(group))
        {
            self.are_queues_followed = true;
            started += if group == kueue::GROUP {
                self.start_kueue(&discovery)
            } else {
                self.start_queues()
            };
        }
        if !self.are_reservations_followed
            && discovery.serves(queue::GROUP, queue::VERSION, RESERVATIONS)
        {
            self.are_reservations_followed = true;
            self.start_reservations();
            started += 1;
        }
        if !self.are_devices_followed
            && discovery.serves(device::GROUP, device::VERSION, device::CLAIMS)
        {
            self.are_devices_followed = true;
            started += self.start_devices();
        }
        for api in &APIS {
            if self.groups.contains(&api) {
                continue;
            }
            let mut versions = discovery.versions(api.group);
            let Some(version) =
                versions.find(|version| discovery.serves(api.group, version, api.plural))
            else {
                continue;
            };
            let version = format!("{}/{version}", api.group);
            let path = format!("/apis/{version}/{}", api.plural);
            tracing::info!("watching {path}");
            self.served.insert(api.kind, &version);
            let kind = api.kind;
            self.follow::<GroupText>(
                &path,
                move |group| Some(Observation::Group(Box::new(group.facts(kind)))),
                move |key| Some(Observation::GroupGone(kind, key)),
            );
            self.groups.push(api);
            started += 1;
        }
        Ok(started)
    }

    /// Starts the watches of devices and of what claims them; returns their number.
    fn start_devices(&mut self) -> usize {
        tracing::info!("watching the devices that pods claim");
        let path = |plural| format!("/apis/{}/{}/{plural}", device::GROUP, device::VERSION);
        self.follow_devices::<SliceText>(
            &path(device::SLICES),
            |slice| DeviceChange::Slice(slice.facts()),
            |key| DeviceChange::SliceGone(key.name),
        );
        self.follow_devices::<ClassText>(
            &path(device::CLASSES),
            |class| DeviceChange::Class(class.facts()),
            |key| DeviceChange::ClassGone(key.name),
        );
        self.follow_devices::<DeviceClaimText>(
            &path(device::CLAIMS),
            |claim| DeviceChange::Claim(claim.facts()),
            DeviceChange::ClaimGone,
        );
        self.follow_devices::<TemplateText>(
            &path(device::TEMPLATES),
            |template| DeviceChange::Template(template.metadata.key(), template.requests()),
            DeviceChange::TemplateGone,
        );
        4
    }

    /// Starts the watch of advance reservations.
    fn start_reservations(&mut self) {
        tracing::info!("watching the advance reservations");
        self.follow::<ReservationText>(
            &format!("/apis/{}/{}/{RESERVATIONS}", queue::GROUP, queue::VERSION),
            |reservation| Some(Observation::Reservation(Box::new(reservation.facts()))),
            |key| Some(Observation::ReservationGone((&*key.name).into())),
        );
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

    /// Starts the watches of Kueue's queues and of namespaces; returns their number.
    fn start_kueue(&mut self, discovery: &Discovery) -> usize {
        let is_served =
            |version: &&&str| discovery.versions(kueue::GROUP).any(|one| one == **version);
        let version = kueue::VERSIONS.iter().find(is_served).unwrap_or(&kueue::VERSIONS[0]);
        let version = format!("{}/{version}", kueue::GROUP);
        tracing::info!("watching the queues of {version}");
        let path = |plural| format!("/apis/{version}/{plural}");
        self.follow_kueue::<ClusterQueueText>(
            &path(kueue::CLUSTER_QUEUES),
            KueueChange::ClusterQueue,
            |key| KueueChange::ClusterQueueGone(key.name),
        );
        self.follow_kueue::<CohortText>(&path(kueue::COHORTS), KueueChange::Cohort, |key| {
            KueueChange::CohortGone(key.name)
        });
        self.follow_kueue::<LocalQueueText>(
            &path(kueue::LOCAL_QUEUES),
            KueueChange::LocalQueue,
            KueueChange::LocalQueueGone,
        );
        self.follow_kueue::<FlavorText>(&path(kueue::FLAVORS), KueueChange::Flavor, |key| {
            KueueChange::FlavorGone(key.name)
        });
        self.follow_kueue::<NamespaceText>("/api/v1/namespaces", KueueChange::Namespace, |key| {
            KueueChange::NamespaceGone(key.name)
        });
        // The receiver is gone only when the process ends.
        let _ = self.reports.send(Report::KueueVersion(version));
        5
    }

    fn follow_devices<T: Watched>(
        &mut self,
        path: &str,
        present: impl Fn(T) -> DeviceChange + Send + 'static,
        gone: impl Fn(ObjectKey) -> DeviceChange + Send + 'static,
    ) {
        self.follow::<T>(
            path,
            move |object| Some(Observation::Devices(Box::new(present(object)))),
            move |key| Some(Observation::Devices(Box::new(gone(key)))),
        );
    }

    fn follow_kueue<T: Watched>(
        &mut self,
        path: &str,
        present: impl Fn(T) -> KueueChange + Send + 'static,
        gone: impl Fn(ObjectKey) -> KueueChange + Send + 'static,
    ) {
        self.follow_reports::<T>(
            path,
            move |object| Some(Report::Kueue(Box::new(present(object)))),
            move |key| Some(Report::Kueue(Box::new(gone(key)))),
        );
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
        let own = path.to_owned();
        let report = move |change| {
            let seen = match change {
                Change::Present(object) => present(*object),
                Change::Gone(key) => gone(key),
                Change::Listed => Some(Report::Listed),
                Change::Failed(error) => Some(Report::Unlisted(own.clone(), error)),
            };
            seen.is_none_or(|seen| reports.send(seen).is_ok())
        };
        let client = self.client.clone();
        let path = path.to_owned();
        if self.is_once {
            self.tasks.spawn(watch::list_once(client, path, report));
        } else {
            self.tasks.spawn(watch::follow(client, path, report));
        }
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
