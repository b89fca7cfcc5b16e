//! Output files that the user names, opened by each rank on its node.

use std::fs;

use crate::cluster::{SlurmCluster, User};
use crate::muster::Muster;

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask slurm test"]
fn output_is_in_the_files_that_a_job_names_and_logs_finds_it() {
    let cluster = SlurmCluster::here();
    let muster = Muster::of(&cluster, User::Mail);
    let work = cluster.work().join(format!("output-{}", std::process::id()));
    cluster.output_as(User::Mail, &["mkdir", "-p", work.to_str().unwrap()]);
    let read = |name: &str| {
        fs::read_to_string(work.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let head = |name: &str| format!("name: {name}\ntime: 5m\nworkdir: {}\n", work.display());
    // 1. A file for each rank on two nodes, in a missing directory, and one of errors for all.
    let text = format!(
        "{}nodes: 2\noutput: new/%x-%j-%2t.out\nerror: err-%u\nrun: echo rank $RANK ${{SLURM_TIME_FORMAT-plain}}; echo e$RANK >&2\n",
        head("ranks")
    );
    let job = muster.submit(&text)[0];
    muster.reaches(job, "done");
    for rank in 0..2 {
        assert_eq!(read(&format!("new/ranks-{job}-0{rank}.out")), format!("rank {rank} plain\n"));
        let logs = muster.output(&["logs", &job.to_string(), "--rank", &rank.to_string()]);
        assert_eq!(logs, format!("rank {rank} plain\n"));
    }
    let errors = read("err-mail");
    let mut errors: Vec<&str> = errors.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["e0", "e1"]);
    let shown = muster.output(&["show", &job.to_string()]);
    assert!(shown.contains(&format!("output     {}/new/%x-%j-%2t.out", work.display())), "{shown}");
    // 2. Elements of an array by index, and by their own job numbers.
    let text =
        format!("{}array: 3-4\noutput: a-%A-%a-%j\nrun: echo $MUSTER_ARRAY_INDEX\n", head("array"));
    let array = muster.submit(&text)[0];
    muster.reaches(array, "done");
    let mut names: Vec<String> = fs::read_dir(&work)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("a-"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    let numbers: Vec<&str> = names.iter().map(|name| name.rsplit('-').next().unwrap()).collect();
    assert_ne!(numbers[0], numbers[1], "an element has a number of its own: {names:?}");
    for (name, index) in names.iter().zip(3..) {
        assert!(name.starts_with(&format!("a-{array}-{index}-")), "{names:?}");
        assert_eq!(read(name), format!("{index}\n"));
    }
    // 3. A file that cannot be opened ends the job, and the log has the reason.
    let text = format!("{}output: /etc/not-mine\nrun: touch ran\n", head("closed"));
    let closed = muster.submit(&text)[0];
    muster.reaches(closed, "failed");
    assert_eq!(muster.call(&["wait", &closed.to_string()]).code, 73);
    let logs = muster.output(&["logs", &closed.to_string()]);
    assert!(logs.contains("cannot write the output into /etc/not-mine on node"), "{logs}");
    assert!(!work.join("ran").exists());
}
