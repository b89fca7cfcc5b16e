//! Output in files that the user names: written as the user, and read by `logs`.

use crate::home::Home;

#[test]
fn output_is_in_the_file_that_is_named_and_logs_finds_it() {
    let home = Home::with_gpus(2);
    let run = home.muster(&[
        "run",
        "--wait",
        "--output",
        "out/%x-%j.txt",
        "--name",
        "named",
        "--",
        "sh",
        "-c",
        "seq 3; echo e >&2",
    ]);
    run.ok();
    assert_eq!(home.read("out/named-1.txt"), "1\n2\n3\ne\n");
    assert_eq!(home.words("logs 1").ok().stdout, "1\n2\n3\ne\n");
    assert_eq!(home.words("logs -n 2 named").ok().stdout, "3\ne\n");
    let shown = home.words("show 1").ok().stdout;
    assert!(
        shown.contains(&format!("output     {}", home.path("out/%x-%j.txt").display())),
        "{shown}"
    );
    let refused = home.words("logs --attempt 1 1").code(2).stderr;
    assert!(refused.contains("all attempts of job 1 write to"), "{refused}");
}

#[test]
fn logs_follows_a_named_file_until_the_job_has_ended() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let job = home.sh("-o late-%A.txt", &format!("echo first; {gate}; echo last"));
    let follower = home.spawn(&["logs", "-f", &job.to_string()]);
    home.until("the first line", || home.read(&format!("late-{job}.txt")) == "first\n");
    home.open("go");
    let followed = follower.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(followed.stdout).unwrap(), "first\nlast\n");
    assert!(followed.status.success());
}

#[test]
fn elements_and_ranks_have_files_of_their_own_where_the_name_says_so() {
    let home = Home::with_gpus(4);
    home.words("run --wait --array 3,5 -o a-%a --name array -- printenv MUSTER_ARRAY_INDEX").ok();
    assert_eq!((home.read("a-3"), home.read("a-5")), ("3\n".to_owned(), "5\n".to_owned()));
    assert_eq!(home.words("logs array[5]").ok().stdout, "5\n");
    home.words("run --wait --array 3,5 -o j-%j -- true").ok();
    assert!(home.path("j-2_3").exists() && home.path("j-2_5").exists());
    home.words(
        "run --wait --tasks 2 --gpus-per-task 1 -o r-%t --error e --name ranks -- sh -c printenv${IFS}RANK",
    )
    .ok();
    assert_eq!(home.words("logs -r 1 ranks").ok().stdout, "1\n");
    assert_eq!(home.words("logs -r all ranks").ok().stdout, "0: 0\n1: 1\n");
    home.words(
        "run --wait --tasks 2 --gpus-per-task 1 -o both --name both -- printenv MUSTER_JOB_NAME",
    )
    .ok();
    let all = home.words("logs -r all both").ok();
    assert_eq!(all.stdout, "both\nboth\n");
    assert!(all.stderr.contains("all ranks write to one file"), "{}", all.stderr);
}

#[test]
fn what_cannot_be_a_file_is_refused_with_what_can() {
    let home = Home::with_gpus(1);
    for (words, says) in [
        ("run -o x-%N -- true", "`%N` is not a known mark; the marks are %j (job)"),
        ("run -o logs/ -- true", "this names a folder, not a file"),
        ("run -o json -- true", "`--json` writes JSON"),
    ] {
        let refused = home.words(words).code(2).stderr;
        assert!(refused.contains(says), "{words}: {refused}");
    }
    // If the file cannot be written, the job fails with that reason before its program starts.
    home.write("file", "");
    home.words("run --name stuck -o file/x -- touch ran").ok();
    home.words("wait stuck").code(125);
    let why = home.words("show stuck").ok().stdout;
    assert!(why.contains("cannot write the output into file/x"), "{why}");
    assert!(!home.path("ran").exists());
    assert_eq!(home.words("logs stuck").code(4).stdout, "");
}

/// One rank fails: `wait`, `show` and `run --wait` print its last lines.
#[test]
fn the_last_lines_of_what_failed_are_shown() {
    let home = Home::with_gpus(2);
    let program = "seq 20; echo rank $RANK said so; [ $RANK = 0 ] && exec sleep 600; exit 3";
    let options = "--tasks 2 --gpus-per-task 1 --grace 1s";
    let job = home.sh(options, program);
    let end = "the last lines of rank 1 of job 1 (`muster logs 1 -r 1` shows all):\n  | 12\n";
    let waited = home.words(&format!("wait {job}")).code(3);
    assert_eq!(waited.stdout, "1: failed: rank 1 exited with 3\n");
    assert!(waited.stderr.starts_with(end), "{waited:?}");
    assert!(waited.stderr.ends_with("  | rank 1 said so\n"), "{waited:?}");
    let shown = home.words(&format!("show {job}")).ok().stdout;
    assert!(shown.contains(&format!("\n\n{end}")), "{shown}");
    let run = [
        &["run", "--wait"],
        &*options.split(' ').collect::<Vec<_>>(),
        &["--", "sh", "-c", program],
    ];
    let run = home.muster(&run.concat()).code(3);
    assert!(run.stderr.contains("  | rank 1 said so\n"), "{run:?}");
    // What succeeds says nothing, and a file that the user named is read as well.
    let good = home.sh("--gpus 1", "echo fine");
    assert_eq!(home.words(&format!("wait {good}")).ok().stderr, "");
    let named = home.sh("--gpus 1 -o named.%t", "echo named; exit 4");
    assert!(home.words(&format!("wait {named}")).code(4).stderr.ends_with("  | named\n"));
    // An element of an array has its own output.
    let array = home.sh("--array 0-4 --gpus 1", "echo element $MUSTER_ARRAY_INDEX; exit 5");
    let whole = home.words(&format!("wait {array}")).code(1).stdout;
    assert_eq!(whole, format!("{array}: failed: 5 of 5 elements failed\n"));
    let one = home.words(&format!("wait {array}[4]")).code(5).stderr;
    assert!(one.ends_with("  | element 4\n"), "{one}");
}
