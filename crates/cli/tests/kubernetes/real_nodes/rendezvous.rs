//! The ranks of a gang find rank 0 by its name: in the DNS of the cluster, from other nodes, and also in
//! the network of the nodes.

use super::target::{KubernetesTarget, submit};
use crate::conform::JobPlace;

/// Resolves the name of rank 0, then the other ranks each get a line from it. Rank 0 exits with a code, the
/// others with 0; with 9 if the name does not resolve in time, and with 8 if they get anything else. Lines are
/// sent from files, since `nc` ends when its peer does, even if it has not yet read a pipe.
const MEET: &str = "\
address=$PREFIX$MASTER_ADDR
tries=0
until found=$(ping -c 1 -W 1 $address 2>&1); do
  tries=$((tries + 1))
  [ $tries -lt 100 ] || { echo \"$found\"; exit 9; }
  usleep 50000
done
echo rank $RANK resolved $address
if [ $RANK = 0 ]; then
  echo hello from $HOSTNAME > /tmp/line
  for peer in 1 2 3; do nc -l -p $MASTER_PORT < /tmp/line; done
  exit $CODE
else
  echo rank $RANK connected > /tmp/line
  until said=$(nc $address $MASTER_PORT < /tmp/line) && [ -n \"$said\" ]; do usleep 50000; done
  echo $said
  [ \"${said#hello from $FIRST}\" != \"$said\" ] || exit 8
fi
";

/// Returns a gang of four ranks on two nodes, which ends with a code after they met.
fn gang(name: &str, prefix: &str, first: &str, code: u8, options: &str) -> String {
    let run: String = MEET.lines().map(|line| format!("  {line}\n")).collect();
    let env = format!("{{PREFIX: '{prefix}', FIRST: '{first}', CODE: '{code}'}}");
    format!(
        "name: {name}\nnodes: 2\ntasks-per-node: 2\ngpus: 2\ntime: 5m\nenv: {env}\n{options}run: |\n{run}"
    )
}

/// Checks that rank 0 heard from all others, which connect only once they have resolved its name. Its pod
/// stays when it fails; that of the others is deleted, if it has not yet ended.
fn all_met(place: &KubernetesTarget, name: &str) {
    let log = place.ok(&["logs", name, "-r", "0"]);
    for rank in 1..4 {
        assert!(log.contains(&format!("rank {rank} connected\n")), "{log}");
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_ranks_of_a_gang_meet_by_the_name_of_the_first() {
    let place = KubernetesTarget::new();
    // 1. They meet, and the exit code after that is the job's.
    for (name, code) in [("meet", 0), ("leave", 7)] {
        submit(&place, &gang(name, "", &format!("{name}-"), code, ""));
        let (ended, stdout, stderr) = place.call(&["wait", name]);
        let logs = place.call(&["logs", name]);
        assert_eq!(ended, i32::from(code), "{stdout}{stderr}{logs:?}");
        all_met(&place, name);
    }
    let logs = place.ok(&["logs", "meet"]);
    for rank in 0..4 {
        assert!(logs.contains(&format!("{rank}: rank {rank} resolved meet-")), "{logs}");
    }
    // 2. In the network of the nodes, too, where pods otherwise use the DNS of their node.
    let options = "kubernetes: {host-network: true}\n";
    submit(&place, &gang("host", "", "node", 0, options));
    let (ended, ..) = place.call(&["wait", "host"]);
    let logs = place.call(&["logs", "host"]);
    assert_eq!(ended, 0, "{logs:?}");
    all_met(&place, "host");
    // 3. A name that is not rank 0's does not resolve: the others did not meet by chance.
    submit(&place, &gang("lost", "not-", "lost-", 0, ""));
    let (ended, ..) = place.call(&["wait", "lost"]);
    let logs = place.call(&["logs", "lost"]);
    assert_eq!(ended, 9, "{logs:?}");
    assert!(logs.1.contains("bad address 'not-lost-"), "{logs:?}");
}
