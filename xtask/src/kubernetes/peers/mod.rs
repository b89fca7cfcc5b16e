//! Programs of other projects that clusters of users have: schedulers, for `cargo xtask kubernetes bench --peers` and for the
//! tests that submit jobs to them, and operators, for tests. Says where each comes from, what it needs in a cluster, and its
//! command lines. Schedulers have the limits on requests of kube-scheduler; all else is their own default.

mod module;
mod ray_image;
mod running;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use self::module::{GoModule, GoPrograms, Replacement};
use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
use super::dns;
use crate::test_cluster::command;

/// Scheduler or operator of another project.
pub struct Peer {
    /// Name in the table, and of the way in which its gangs say that they are gangs.
    pub name: &'static str,
    /// Name in `schedulerName` of its pods; empty for an operator, whose pods others place.
    pub scheduler: &'static str,
    source: GoPrograms,
    /// Folders of its resource definitions in the module.
    definitions: &'static [&'static str],
    /// Objects that an administrator would create: queues that allow the whole cluster. Empty if it needs none.
    objects: &'static str,
    /// Command lines of the programs that place pods. `{bin}` is their folder, `{module}` that of the module, `{dir}` the
    /// cluster's.
    commands: &'static [&'static str],
    /// Command lines of the programs that make gangs of the objects of users, beside those.
    controllers: &'static [&'static str],
    /// Addresses that answer when its programs work.
    health: &'static [&'static str],
    /// Path of the manifest of its webhooks in the module, and the port at which they listen; only clusters that run jobs
    /// have them.
    webhooks: Option<(&'static str, u16)>,
    /// True if it adds the GPUs that a driver offers by claims to those of the device plugin, also where both are the same.
    adds_claimed_gpus: bool,
    /// True if its pods run Ray, so that real nodes need an image that has it.
    runs_ray: bool,
}

/// All of them, schedulers in the order of the table.
pub static PEERS: [Peer; 4] = [VOLCANO, KUEUE, KAI, KUBERAY];

const VOLCANO: Peer = Peer {
    name: "volcano",
    scheduler: "volcano",
    source: GoPrograms {
        module: GoModule {
            path: "volcano.sh/volcano",
            version: "v1.15.0",
            sum: "h1:dW8hW/FPDqwcJ1GxGfpR/9qToH1t3+ySn+oaiEMfpm4=",
        },
        programs: &[
            ("cmd/scheduler", "vc-scheduler"),
            ("cmd/controller-manager", "vc-controller-manager"),
        ],
        // The newest that is published; one constant of 1.15 is missing in it.
        replacement: Some(Replacement {
            module: GoModule {
                path: "volcano.sh/apis",
                version: "v1.14.0",
                sum: "h1:Rf8wzGFmgzbyg85GO0CxapDDEk/VM3D7QbjbI/sH+OQ=",
            },
            added: &[
                (
                    "pkg/apis/scheduling/gate.go",
                    "package scheduling\nconst QueueAllocationGateKey = \"scheduling.volcano.sh/queue-allocation-gate\"\n",
                ),
                (
                    "pkg/apis/scheduling/v1beta1/gate.go",
                    "package v1beta1\nconst QueueAllocationGateKey = \"scheduling.volcano.sh/queue-allocation-gate\"\n",
                ),
            ],
        }),
    },
    definitions: &["config/crd/volcano/bases", "config/crd/jobflow/bases"],
    objects: include_str!("../conf/peers/volcano-queues.yaml"),
    commands: &["{bin}/vc-scheduler --kubeconfig={dir}/kubeconfig --leader-elect=false \
          --scheduler-conf={module}/installer/helm/chart/volcano/config/volcano-scheduler.conf \
          --kube-api-qps=5000 --kube-api-burst=10000 --enable-healthz=true --healthz-address=127.0.0.1:7001 \
          --listen-address=127.0.0.1:7002"],
    controllers: &[
        "{bin}/vc-controller-manager --kubeconfig={dir}/kubeconfig --leader-elect=false --enable-healthz=true \
          --healthz-address=127.0.0.1:7003 --listen-address=127.0.0.1:7004",
    ],
    health: &["http://127.0.0.1:7001/healthz", "http://127.0.0.1:7003/healthz"],
    webhooks: None,
    adds_claimed_gpus: false,
    runs_ray: false,
};

const KUEUE: Peer = Peer {
    name: "kueue",
    // It decides when pods may start, and kube-scheduler where.
    scheduler: "default-scheduler",
    source: GoPrograms {
        module: GoModule {
            path: "sigs.k8s.io/kueue",
            version: "v0.19.0",
            sum: "h1:5yCu85qsJhvUVVxE0Csw546DDBcRwUXpBEOmEFlws34=",
        },
        programs: &[("cmd/kueue", "kueue")],
        replacement: None,
    },
    definitions: &["config/components/crd/bases"],
    objects: include_str!("../conf/peers/kueue-queues.yaml"),
    // The gate needs an API server of its own.
    commands: &["unshare --mount sh -c {with-etc} {dir}/etc/peers {bin}/kueue \
          --config=/etc/kueue/config.yaml --feature-gates=VisibilityOnDemand=false --zap-log-level=2"],
    controllers: &[],
    health: &["http://127.0.0.1:7001/readyz"],
    webhooks: Some(("config/components/webhook/manifests.yaml", 9444)),
    adds_claimed_gpus: false,
    runs_ray: false,
};

const KAI: Peer = Peer {
    name: "kai",
    scheduler: "kai-scheduler",
    source: GoPrograms {
        module: GoModule {
            path: "github.com/NVIDIA/KAI-scheduler",
            version: "v0.12.0",
            sum: "h1:3rhB0TdbJYNgOiZ6E0cAa+VJnr4srhoigJI/PkY85vI=",
        },
        programs: &[
            ("cmd/scheduler", "kai-scheduler"),
            ("cmd/binder", "kai-binder"),
            ("cmd/podgrouper", "kai-podgrouper"),
        ],
        replacement: None,
    },
    definitions: &["deployments/kai-scheduler/crds"],
    objects: include_str!("../conf/peers/kai-queues.yaml"),
    commands: &[
        "{bin}/kai-scheduler --qps=5000 --burst=10000 --plugin-server-port=7002",
        "{bin}/kai-binder --qps=5000 --burst=10000 --metrics-bind-address=0 --health-probe-bind-address=0",
    ],
    controllers: &[
        "{bin}/kai-podgrouper --metrics-bind-address=0 --health-probe-bind-address=127.0.0.1:7001",
    ],
    // The other two answer nothing there.
    health: &["http://127.0.0.1:7001/readyz"],
    webhooks: None,
    adds_claimed_gpus: true,
    runs_ray: false,
};

const KUBERAY: Peer = Peer {
    name: "kuberay",
    scheduler: "",
    source: GoPrograms {
        module: GoModule {
            path: "github.com/ray-project/kuberay/ray-operator",
            version: "v1.6.2",
            sum: "h1:XUckRswLMyk71D00L62d2Vanh0fVkNqu56+IF/rr+O0=",
        },
        programs: &[(".", "kuberay-operator")],
        replacement: None,
    },
    definitions: &["config/crd/bases"],
    objects: "",
    commands: &[],
    // It asks the heads of clusters by their names. Its ports are free beside each scheduler.
    controllers: &["unshare --mount sh -c {with-etc} {dir}/etc/peers {bin}/kuberay-operator \
          --enable-leader-election=false --health-probe-bind-address=127.0.0.1:7005 --metrics-addr=127.0.0.1:7006"],
    health: &["http://127.0.0.1:7005/readyz"],
    webhooks: None,
    adds_claimed_gpus: false,
    runs_ray: true,
};

/// Finds a scheduler or operator by its name.
pub fn named(name: &str) -> Result<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name).with_context(|| not_one_of(name, PEERS.iter()))
}

/// Finds a scheduler by its name.
pub fn scheduler_named(name: &str) -> Result<&'static Peer> {
    schedulers().find(|peer| peer.name == name).with_context(|| not_one_of(name, schedulers()))
}

/// Returns those that place pods.
pub fn schedulers() -> impl Iterator<Item = &'static Peer> {
    PEERS.iter().filter(|peer| !peer.scheduler.is_empty())
}

fn not_one_of(name: &str, peers: impl Iterator<Item = &'static Peer>) -> String {
    let names: Vec<&str> = peers.map(|peer| peer.name).collect();
    format!("{name}: not one of {}", names.join(", "))
}

/// Runs a program with a folder laid over `/etc`, which only that program sees: Kueue has fixed paths there, and names are
/// resolved by the server that is named there.
const WITH_ETC: &str = r#"mount -t overlay -o "lowerdir=$0:/etc" none /etc && exec "$@""#;

impl Peer {
    /// Returns its name and version.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.source.module.version)
    }

    /// Builds its programs, and creates what they need in the cluster. Returns the command lines of those that place pods,
    /// each after a `--`.
    pub fn install(&self, root: &Path, cluster: &KubernetesTestCluster) -> Result<Vec<String>> {
        let mut words = Vec::new();
        for command in self.prepare(root, cluster, self.commands)? {
            words.push("--".to_owned());
            words.extend(command);
        }
        if self.scheduler == "default-scheduler" {
            words.push("--".to_owned());
            words.extend(KubernetesDaemon::Scheduler.words(cluster, &cluster.options()?));
        }
        Ok(words)
    }

    /// Builds its programs, and creates what they need in the cluster. Returns these command lines of its own.
    fn prepare(
        &self,
        root: &Path,
        cluster: &KubernetesTestCluster,
        commands: &[&str],
    ) -> Result<Vec<Vec<String>>> {
        let bin = self.source.ensure(root)?;
        let module = self.source.module.download(root)?;
        for folder in self.definitions {
            let folder = module.join(folder).display().to_string();
            apply(cluster, &["--filename", &folder], "")?;
        }
        let established = "--for=condition=Established";
        cluster.run(&["kubectl", "wait", established, "--timeout=25s", "crd", "--all"])?;
        if !self.objects.is_empty() {
            apply(cluster, &["--filename=-"], self.objects)?;
        }
        if self.objects.contains("\nstatus:") {
            // States are not created with their objects.
            apply(cluster, &["--filename=-", "--subresource=status"], self.objects)?;
        }
        write_etc(cluster)?;
        let fill = |word: &str| {
            let word = word.replace("{bin}", &bin.display().to_string());
            let word = word.replace("{module}", &module.display().to_string());
            word.replace("{dir}", cluster.text()).replace("{with-etc}", WITH_ETC)
        };
        Ok(commands.iter().map(|command| command.split_whitespace().map(fill).collect()).collect())
    }
}

fn apply(cluster: &KubernetesTestCluster, words: &[&str], input: &str) -> Result<()> {
    // Some definitions are too long for the annotation that kubectl writes otherwise.
    let options = ["kubectl", "apply", "--server-side", "--force-conflicts", "--validate=false"];
    command::with_input(cluster.inside(), &[&options[..], words].concat(), input).map(drop)
}

/// Writes the files that are laid over `/etc`.
fn write_etc(cluster: &KubernetesTestCluster) -> Result<()> {
    let folder = cluster.dir().join("etc/peers");
    let kueue = folder.join("kueue");
    let certificates = kueue.join("metrics/certs");
    fs::create_dir_all(&certificates)?;
    fs::write(kueue.join("config.yaml"), include_str!("../conf/peers/kueue.yaml"))?;
    fs::write(folder.join("resolv.conf"), format!("nameserver {}\n", dns::ADDRESS))?;
    for (from, to) in [("server.crt", "tls.crt"), ("server.key", "tls.key")] {
        let from = cluster.dir().join("pki").join(from);
        fs::copy(&from, certificates.join(to)).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_starts_its_program_in_the_order_of_both() {
        for peer in &PEERS {
            let commands: Vec<&str> =
                peer.commands.iter().chain(peer.controllers).copied().collect();
            assert_eq!(commands.len(), peer.source.programs.len(), "{}", peer.name);
            for ((_, program), command) in peer.source.programs.iter().zip(commands) {
                let word = format!("{{bin}}/{program}");
                assert!(command.split(' ').any(|one| one == word), "{command}");
            }
        }
    }
}
