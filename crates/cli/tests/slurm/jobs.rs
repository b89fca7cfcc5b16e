//! Muster's jobs on a real Slurm: environment, start, end, and Muster's report of them.

use std::collections::BTreeSet;

use crate::cluster::{SlurmCluster, StoppedDaemon, User};
use crate::muster::Muster;

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn the_five_line_job_runs_on_two_nodes_with_eight_gpus_each() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let run = "echo $RANK $WORLD_SIZE $NODE_RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $PET_NNODES $PET_NPROC_PER_NODE $CUDA_VISIBLE_DEVICES";
    let job = muster.submit(&format!("name: five\nnodes: 2\ngpus: 8\ntime: 5m\nrun: {run}\n"))[0]
        .to_string();
    assert_eq!(muster.call(&["wait", &job]).code, 0);
    assert_eq!(
        muster.output(&["logs", &job]),
        "0: 0 2 0 0 1 2 8 0,1,2,3,4,5,6,7\n1: 1 2 1 0 1 2 8 0,1,2,3,4,5,6,7\n"
    );
    assert_eq!(muster.output(&["logs", &job, "--rank", "1"]), "1 2 1 0 1 2 8 0,1,2,3,4,5,6,7\n");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn ranks_that_share_a_node_see_devices_of_their_own_and_reach_their_master() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    // Every rank connects to rank 0, which counts them.
    let text = r#"
name: meet
nodes: 2
tasks-per-node: 3
gpus: 6
time: 5m
run: |
  #!/usr/bin/env python3
  import os, socket, time
  rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
  at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
  print(rank, world, len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")), flush=True)
  if rank == 0:
      server = socket.create_server(at)
      for _ in range(world - 1):
          server.accept()[0].close()
      print("all met")
  else:
      for _ in range(600):
          try:
              socket.create_connection(at).close()
              break
          except OSError:
              time.sleep(0.05)
      else:
          raise SystemExit("no master")
"#;
    let job = muster.submit(text)[0].to_string();
    assert_eq!(muster.call(&["wait", &job]).code, 0, "{}", muster.output(&["logs", &job]));
    assert_eq!(muster.output(&["logs", &job, "-r", "0"]), "0 6 2\nall met\n");
    assert_eq!(muster.output(&["logs", &job, "-r", "5"]), "5 6 2\n");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_gang_of_thirty_two_starts_at_one_instant_on_one_leaf() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let text = "name: gang\nnodes: 4\ntasks-per-node: 8\ngpus: 8\ngpu: h100\ntopology: {required: leaf}\ntime: 5m\n\
                run: echo $(date +%s) $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES\n";
    let job = muster.submit(text)[0];
    assert_eq!(muster.call(&["wait", &job.to_string()]).code, 0);
    let ranks = (0..32)
        .map(|rank: u32| muster.output(&["logs", &job.to_string(), "-r", &rank.to_string()]));
    let ranks: Vec<Vec<String>> =
        ranks.map(|said| said.split_whitespace().map(str::to_owned).collect()).collect();
    let seconds: BTreeSet<u64> = ranks.iter().map(|rank| rank[0].parse().unwrap()).collect();
    assert!(seconds.last().unwrap() - seconds.first().unwrap() <= 5, "{seconds:?}");
    let nodes: Vec<&str> =
        ranks.iter().map(|rank| rank[1].as_str()).collect::<BTreeSet<_>>().into_iter().collect();
    let leaves = [["node1", "node2", "node3", "node4"], ["node5", "node6", "node7", "node8"]];
    assert!(leaves.iter().any(|leaf| nodes == leaf), "{nodes:?}");
    assert!(ranks.iter().all(|rank| rank[2].split(',').count() == 1), "{ranks:?}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn an_array_of_two_hundred_keeps_its_cap_and_counts_its_ends() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let busy = cluster.work().join("busy");
    cluster.output_as(User::Mail, &["mkdir", "-p", busy.to_str().unwrap()]);
    // Each element counts the concurrently running ones, itself included.
    let text = format!(
        "name: sweep\narray: 0-199%12\ntime: 2m\nworkdir: {}\nrun: |\n  touch run-$MUSTER_ARRAY_INDEX\n  ls | grep -c run-\n  \
         rm run-$MUSTER_ARRAY_INDEX\n  exit $((MUSTER_ARRAY_INDEX == 7))\n",
        busy.display()
    );
    let job = muster.submit(&text)[0];
    assert_eq!(muster.call(&["wait", &job.to_string()]).code, 1, "one element fails");
    let array = muster.job(job)["array"].clone();
    assert_eq!(
        (array["total"].as_u64(), array["succeeded"].as_u64(), array["failed"].as_u64()),
        (Some(200), Some(199), Some(1))
    );
    let most = (0..200)
        .map(|index| {
            muster.output(&["logs", &format!("{job}[{index}]")]).trim().parse::<u32>().unwrap()
        })
        .max();
    assert!(most.unwrap() <= 12, "{most:?} at once");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn dependencies_hold_and_one_that_cannot_come_true_ends_its_job() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let jobs = muster.submit(
        "name: prepare\ntime: 2m\nrun: exit 3\n---\nname: train\ntime: 2m\nafter: prepare\nrun: 'true'\n---\n\
         name: mend\ntime: 2m\nafter: 'afternotok:prepare'\nrun: echo mended\n---\n\
         name: tell\ntime: 2m\nafter: 'afterany:mend'\nrun: echo told\n",
    );
    let codes: Vec<i32> =
        jobs.iter().map(|job| muster.call(&["wait", &job.to_string()]).code).collect();
    assert_eq!((codes[0], codes[2], codes[3]), (3, 0, 0));
    assert_eq!(codes[1], 130, "Slurm cancels it: {}", muster.job(jobs[1]));
    let started = |job| muster.job(job)["started"].as_u64().unwrap();
    assert!(started(jobs[3]) >= muster.job(jobs[2])["ended"].as_u64().unwrap());
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_job_is_cancelled_in_every_state() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let jobs = muster.submit(
        "name: held\nhold: true\ntime: 2m\nrun: 'true'\n---\nname: later\nbegin: +1h\ntime: 2m\nrun: 'true'\n---\n\
         name: runs\ntime: 5m\nrun: exec sleep 300\n",
    );
    muster.reaches(jobs[0], "held");
    muster.reaches(jobs[1], "pending");
    muster.reaches(jobs[2], "running");
    for job in jobs {
        assert!(muster.output(&["cancel", &job.to_string()]).contains("cancelled"));
        muster.reaches(job, "cancelled");
        // Only the accounting has the user who cancelled it, a moment later.
        cluster.until("by whom is known", || {
            muster.job(job)["elements"][0]["outcome"]["by"] == "mail"
        });
        assert_eq!(muster.call(&["wait", &job.to_string()]).code, 130);
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn ends_are_told_apart() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let jobs = muster.submit(
        "name: code\ntime: 2m\nrun: exit 7\n---\nname: signal\ntime: 2m\nrun: kill -SEGV $$\n---\n\
         name: memory\ntime: 2m\nmemory: 50MB\nrun: [python3, -c, 'b\"x\" * 400000000']\n",
    );
    let codes: Vec<i32> =
        jobs.iter().map(|job| muster.call(&["wait", &job.to_string()]).code).collect();
    assert_eq!(codes[..2], [7, 139]);
    if cluster.fact("constrained") == "yes" {
        assert_eq!(codes[2], 137, "{}", muster.job(jobs[2]));
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn who_was_preempted_is_queued_again_and_keeps_both_logs() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let low = muster.submit(
        "name: low\nnodes: 8\ngpus: 8\ntime: 10m\nslurm: {qos: low, requeue: true}\n\
         run: 'echo attempt $MUSTER_ATTEMPT after $MUSTER_RESTART_COUNT; [ $MUSTER_ATTEMPT = 2 ] || exec sleep 300'\n",
    )[0];
    // Slurm reports the job as running before any rank has started; a job that ends then has no
    // log.
    let log = || muster.call(&["logs", &low.to_string(), "-r", "0"]).stdout;
    cluster.until("its rank runs", || log() == "attempt 1 after 0\n");
    let high = muster
        .submit("name: high\nnodes: 8\ngpus: 8\ntime: 2m\nslurm: {qos: high}\nrun: 'true'\n")[0];
    cluster.until("the first goes", || muster.state(low) == "pending");
    let view = muster.job(low);
    assert_eq!(
        (view["native"]["restarts"].as_u64(), view["ended"].is_null()),
        (Some(1), true),
        "{view}"
    );
    assert_eq!(muster.call(&["wait", &high.to_string(), &low.to_string()]).code, 0);
    let of = |attempt: &[&str]| {
        muster.output(&[&["logs", &low.to_string(), "-r", "0"], attempt].concat())
    };
    assert_eq!(of(&["--attempt", "1"]), "attempt 1 after 0\n");
    assert_eq!(of(&[]), "attempt 2 after 1\n");
    // Both runs count, the first as one after which it started again. The accounting learns of ends later, and
    // counts in seconds: the second run may have none.
    let row = || {
        let usage = muster.json(&["usage", "--since", "1h", "--by", "job"]);
        let rows = usage["rows"].as_array().unwrap();
        rows.iter().find(|row| row["job"] == low).cloned().unwrap_or_default()
    };
    cluster.until("the accounting has both runs", || row()["attempts"] == 2);
    assert!(row()["restarted_gpu_secs"].as_u64() > Some(0), "{}", row());
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn who_was_preempted_for_good_is_not_called_failed() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let low = muster.submit(
        "name: low\nnodes: 8\ngpus: 8\ntime: 10m\nslurm: {qos: low, requeue: false}\nrun: exec sleep 300\n",
    )[0];
    muster.reaches(low, "running");
    let high = muster
        .submit("name: high\nnodes: 8\ngpus: 8\ntime: 2m\nslurm: {qos: high}\nrun: 'true'\n")[0];
    assert_eq!(muster.call(&["wait", &low.to_string()]).code, 125);
    assert_eq!(muster.state(low), "preempted");
    assert_eq!(muster.call(&["wait", &high.to_string()]).code, 0);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn a_node_that_fails_ends_a_job_as_slurm_says_or_queues_it_again() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let text = |name: &str, requeue: bool| {
        format!(
            "name: {name}\ngpus: 4\ntime: 10m\nslurm: {{nodelist: node7, requeue: {requeue}}}\n\
             run: 'echo up; exec sleep 300'\n"
        )
    };
    let ends = muster.submit(&text("ends", false))[0];
    let returns = muster.submit(&text("returns", true))[0];
    // Slurm reports the job as running before its script has started, which fails without slurmd.
    for job in [ends, returns] {
        cluster
            .until("its script runs", || muster.call(&["logs", &job.to_string()]).stdout == "up\n");
    }
    let down = StoppedDaemon::killed(&cluster, "node7");
    cluster.until("its end", || muster.job(ends)["native"]["state"] == "NODE_FAIL");
    let view = muster.job(ends);
    assert_eq!(
        (view["state"].as_str(), muster.call(&["wait", &ends.to_string()]).code),
        (Some("failed"), 125),
        "{view}"
    );
    assert_eq!(muster.job(returns)["native"]["restarts"], 1);
    assert_ne!(muster.state(returns), "failed");
    drop(down);
    muster.cancel(&[returns]);
    let state = || cluster.output(&["sinfo", "-h", "-N", "-n", "node7", "-p", "batch", "-o", "%T"]);
    cluster.until("node7 back", || !state().starts_with("down"));
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn hold_release_requeue_and_mistakes_are_answered_in_words() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let job = muster.submit("name: held\nhold: true\ntime: 2m\nrun: 'true'\n")[0];
    let number = job.to_string();
    muster.reaches(job, "held");
    muster.output(&["release", &number]);
    assert_eq!(muster.call(&["wait", &number]).code, 0);
    let again = muster.call(&["cancel", "999999"]);
    assert_eq!(again.code, 4, "{again:?}");
    let foreign = muster.call(&["run", "--account", "nonsense", "--time", "1m", "--", "true"]);
    assert!(
        foreign.code == 1
            && foreign.stderr.contains("Invalid account")
            && foreign.stderr.contains("hint:"),
        "{foreign:?}"
    );
    let service = muster.call(&["run", "--kind", "service", "--", "serve"]);
    assert!(service.code == 1 && service.stderr.contains("time: 24h"), "{service:?}");
    let others = Muster::of(&cluster, User::Games);
    let running = others.submit("name: theirs\ntime: 2m\nrun: exec sleep 60\n")[0];
    let denied = muster.call(&["cancel", &running.to_string()]);
    assert!(denied.code == 1 && denied.stderr.contains("not yours"), "{denied:?}");
    others.cancel(&[running]);
}
