//! GPU time by namespace and queue: of the pods that the API server still has, and the decayed usage that
//! Muster's scheduler has recorded.

use std::collections::BTreeMap;

use muster_api::types::UsageList;
use muster_kubernetes::job::{self, JobObject};
use muster_model::view::UsageView;
use muster_model::{QueueName, UserName};

use super::{KubernetesScheduler, Result};
use crate::route::now;

impl KubernetesScheduler {
    /// Sums the GPU time of all jobs. Rows are of namespaces, as fair share has them: anyone may write any
    /// user name on a job.
    pub(super) async fn usage(&self) -> Result<UsageList> {
        let server = self.server().await?;
        let reader = self.reader(None).await?;
        let (objects, recorded) = tokio::join!(self.read_all(server), reader.usage());
        let objects = objects?;
        let now = now();
        let mut rows: BTreeMap<(UserName, QueueName), UsageView> = BTreeMap::new();
        for (key, object, pods) in objects.with_pods() {
            let used = job::used(JobObject { api: key.api, object }, &pods, now);
            let row = row(&mut rows, key.namespace.as_str().into(), used.queue.as_str().into());
            row.jobs += u64::from(used.elements);
            row.gpu_secs += used.gpu_secs;
        }
        match recorded {
            Ok(recorded) => recorded.into_iter().for_each(|(user, queue, gpu_secs)| {
                row(&mut rows, user, queue).decayed_gpu_secs = gpu_secs;
            }),
            Err(error) => (self.settings.warn)(&format!(
                "decayed usage is left out: {error}; an administrator can bind the ClusterRole muster-viewer to you"
            )),
        }
        let is_used = |row: &UsageView| row.jobs > 0 || row.decayed_gpu_secs > 0;
        Ok(UsageList { now, rows: rows.into_values().filter(is_used).collect() })
    }
}

fn row(
    rows: &mut BTreeMap<(UserName, QueueName), UsageView>,
    user: UserName,
    queue: QueueName,
) -> &mut UsageView {
    let key = (user.clone(), queue.clone());
    rows.entry(key).or_insert(UsageView { user, queue, jobs: 0, gpu_secs: 0, decayed_gpu_secs: 0 })
}
