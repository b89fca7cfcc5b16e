//! An elastic gang with real processes: it starts with as many tasks as fit, grows when GPUs become
//! free, and shrinks for later jobs; each time its ranks get the new size and the last checkpoint.

use muster_model::GpuMilli;
use muster_model::view::{JobState, JobView};

use crate::home::Home;

/// Number of the gang, which is submitted second.
const GANG: u64 = 2;

/// Program that records its rank in each attempt, and acknowledges a checkpoint when the test
/// allows it, so that the test can observe the state meanwhile. It is never signalled before every
/// rank has written, and so set its trap.
fn gang(home: &Home) -> String {
    let saves = home.gate("save$MUSTER_ATTEMPT");
    let runs = home.gate("go");
    format!(
        "name: train\ntasks: 1..4\ngpus-per-task: 1\ngrow-after: 1s\ncheckpoint: {{grace: 10m}}\nrun: |\n  \
         trap '{saves}; echo \"step $MUSTER_ATTEMPT\" > \"$MUSTER_CHECKPOINT_FILE\"' USR1\n  \
         echo \"$MUSTER_ATTEMPT: $RANK of $WORLD_SIZE, $PET_NNODES agents, $MUSTER_LAST_CHECKPOINT\" | tee -a begun\n  \
         {runs}\n"
    )
}

/// Returns the lines that the ranks of an attempt have written, in order of rank.
fn begun(home: &Home, attempt: u32) -> Vec<String> {
    let attempt = format!("{attempt}: ");
    let mut lines: Vec<String> = home
        .read("begun")
        .lines()
        .filter_map(|line| Some(line.strip_prefix(&attempt)?.to_owned()))
        .collect();
    lines.sort();
    lines
}

fn ranks(size: u32, last: &str) -> Vec<String> {
    (0..size).map(|rank| format!("{rank} of {size}, {size} agents, {last}")).collect()
}

/// Waits until the gang runs with `size` ranks, in an attempt that got the last checkpoint, and
/// `ps` shows that size.
fn until_it_runs(home: &Home, attempt: u32, size: u32, last: &str) -> JobView {
    home.until("every rank has begun", || begun(home, attempt) == ranks(size, last));
    let note = format!("{size} of 1..4 ranks");
    home.until("ps has its size", || home.words("ps").ok().stdout.contains(&note));
    let job = home.job(GANG);
    assert_eq!((job.tasks, job.gpus), (size, GpuMilli(size * 1000)));
    assert_eq!(job.elements[0].tasks.len(), size as usize, "the tasks that run, and no others");
    assert_eq!((job.elements[0].attempt, job.elements[0].restarts_with_tasks), (attempt, None));
    let shown = home.words(&format!("show {GANG}")).ok().stdout;
    assert!(shown.contains("asks for   1..4 tasks, 1..4 GPUs"), "{shown}");
    job
}

fn until_it_changes(home: &Home, size: u32) {
    home.until("it is asked to save", || {
        home.job(GANG).elements[0].restarts_with_tasks == Some(size)
    });
    let rows = home.words("ps").ok().stdout;
    assert!(rows.contains(&format!("resumes with {size}")), "{rows}");
}

fn explain(home: &Home, job: u64) -> String {
    home.words(&format!("explain {job}")).ok().stdout
}

#[test]
fn a_gang_starts_with_what_fits_grows_and_shrinks_from_checkpoint_to_checkpoint() {
    let home = Home::with_gpus(4);
    // 1. Beside another job, two ranks fit.
    let gate = home.gate("other");
    home.sh("--gpus 2", &gate);
    home.write("gang.yaml", &gang(&home));
    home.words("run gang.yaml").ok();
    let job = until_it_runs(&home, 1, 2, "");
    let sizes = job.elastic.expect("an elastic gang");
    assert_eq!((sizes.fewest_tasks, sizes.most_tasks), (1, 4));
    // 2. The other job ends: the gang writes a checkpoint and restarts with four ranks.
    home.open("other");
    until_it_changes(&home, 4);
    let why = explain(&home, GANG);
    assert!(why.contains("more of its tasks fit now"), "{why}");
    assert_eq!(home.job(GANG).state, JobState::Running, "until it has saved");
    home.open("save1");
    until_it_runs(&home, 2, 4, "step 1");
    let follower = home.spawn(&["logs", "-f", &GANG.to_string()]);
    // 3. Another job needs three GPUs: the gang continues with one rank, beside it.
    let gate = home.gate("later");
    let later = home.sh("--gpus 3", &format!("echo up > up; {gate}"));
    until_it_changes(&home, 1);
    let why = explain(&home, GANG);
    assert!(why.contains("this job resumes with fewer tasks"), "{why}");
    assert_eq!(home.job(later).state, JobState::Pending);
    home.open("save2");
    until_it_runs(&home, 3, 1, "step 2");
    home.until("who came later runs", || home.path("up").exists());
    assert_eq!(home.job(GANG).state, JobState::Running, "beside it");
    let log = home.words(&format!("logs -r 0 {GANG}")).ok().stdout;
    assert_eq!(log, "3: 0 of 1, 1 agents, step 2\n", "the last attempt's");
    // 4. It never failed, so it ends as any job does, though it may not restart.
    home.open("go");
    home.words(&format!("wait {GANG}")).ok();
    // The follower shows each rank for as long as the gang has that rank.
    let followed = follower.wait_with_output().unwrap();
    let followed = String::from_utf8_lossy(&followed.stdout).into_owned();
    assert!(followed.contains("3: 2: 3 of 4"), "{followed}");
    assert!(followed.contains("0: 3: 0 of 1"), "{followed}");
    home.open("later");
    home.words(&format!("wait {later}")).ok();
}
