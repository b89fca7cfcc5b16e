//! `muster advise` as people and programs use it. The rules are tested in `muster-advise`.

mod answers;
mod ask;
mod batch;
mod expect;
mod inputs;
mod mistakes;
mod prove;
mod schemas;

/// A site with a bit of everything.
pub const SITE: &str = "\
fleet: {nodes: 32, gpus: 256, models: [h100], fabric: infiniband, hosting: bare-metal}
people: {users: 60, teams: 12, platform-fte: 2.5, operates: [slurm], works: true, modernise: true}
needs: {services: true, notebooks: true, strict-quotas: true, shared-gpus: true}
mix:
  - {name: pretraining, share: 60, facts: {nodes: 16, tightly_coupled: true, bare_metal: true}}
  - {name: serving, share: 25, facts: {long_lived_services: true}}
  - {name: rlhf, share: 15, facts: {nodes: 4, tightly_coupled: true, python_native_pipeline: true}}
";

/// A site that needs no scheduler.
pub const SMALL_SITE: &str = "\
fleet: {nodes: 2, gpus: 8}
people: {users: 3, talk: true}
needs: {training: true}
";

/// The guide's rollout and trainer.
pub const GRPO: &str = "--nodes 4 --tightly-coupled --multi-tenant --python-native-pipeline";

/// Coupled training on bare metal, and services beside it.
pub const HYBRID: &str = "--nodes 8 --tightly-coupled --bare-metal --long-lived-services";
