//! What Prometheus reads: figures of queues and GPUs as on one machine, and of what waits in the cluster.

use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{node, pod};

#[track_caller]
fn assert_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|one| one == *line), "{line} in\n{text}");
    }
}

#[test]
fn a_cluster_has_the_figures_of_one_machine_and_those_of_its_pods() {
    let mut cluster = Cluster::new([node("m", 4), node("n", 4)]);
    for one in ["a", "b", "c"] {
        cluster.create(&pod(&format!("{one}-0"), 3).gang(one, 2));
        cluster.create(&pod(&format!("{one}-1"), 3).gang(one, 2));
    }
    cluster.create(&pod("half-0", 1).gang("half", 2));
    cluster.create(&pod("odd", 1).spec("resourceClaims", json!([{}])));
    cluster.run(2_000);
    let text = cluster.scheduler.metrics(cluster.now);
    assert_lines(
        &text,
        &[
            r#"muster_jobs{queue="default",state="pending"} 2"#,
            r#"muster_jobs{queue="default",state="running"} 1"#,
            r#"muster_waiting_elements{queue="default",reason="capacity"} 2"#,
            r#"muster_user_gpus{user="team"} 6"#,
            r#"muster_node_up{node="n"} 1"#,
            r#"muster_gpus{node="n",model="gpu",state="free"} 1"#,
            r#"muster_gpus{node="n",model="gpu",state="held"} 3"#,
            "muster_waiting_pods 6",
            "muster_waiting_gangs 4",
            "muster_held_back_gangs 2",
            "muster_bindings_total 2",
            "muster_refused_plans_total 0",
        ],
    );
}

#[test]
fn the_longest_wait_counts_from_the_first_pod_also_after_a_restart() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create(&pod("holder", 4));
    cluster.create(&pod("late", 1));
    cluster.run(60_000);
    cluster.restart_scheduler();
    cluster.run(2_000);
    let text = cluster.scheduler.metrics(cluster.now);
    let prefix = r#"muster_oldest_waiting_seconds{queue="default"} "#;
    let waited: u64 =
        text.lines().find_map(|line| line.strip_prefix(prefix)).unwrap().parse().unwrap();
    assert!((61..=63).contains(&waited), "{text}");
}
