//! `muster logs` of several tasks: all ranks of a gang, all elements of an array, what is filtered and since when.

use crate::home::Home;

#[test]
fn lines_of_a_gang_have_their_rank() {
    let home = Home::with_gpus(2);
    let script = "echo one $RANK; echo loss $RANK.5; printf end";
    home.muster(&[
        "run",
        "--wait",
        "--tasks",
        "2",
        "--gpus-per-task",
        "1",
        "--name",
        "gang",
        "--",
        "sh",
        "-c",
        script,
    ])
    .ok();
    let all = "0: one 0\n0: loss 0.5\n0: end\n1: one 1\n1: loss 1.5\n1: end\n";
    assert_eq!(home.words("logs gang").ok().stdout, all);
    assert_eq!(home.words("logs gang -r all").ok().stdout, all);
    assert_eq!(home.words("logs gang -r 1").ok().stdout, "one 1\nloss 1.5\nend");
    assert_eq!(home.words("logs gang -n 1").ok().stdout, "0: end\n1: end\n");
    assert_eq!(home.words("logs gang -g ^loss").ok().stdout, "0: loss 0.5\n1: loss 1.5\n");
    assert_eq!(home.words("logs gang -r 1 -g ^[eo]n").ok().stdout, "one 1\nend\n");
    assert_eq!(home.words("logs gang -n 1 -g loss").ok().stdout, "", "--tail counts first");
    let followed = home.words("logs -f gang").ok().stdout;
    let mut lines: Vec<&str> = followed.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<&str> = all.lines().collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    home.words("logs gang -r 2").code(4);
    let early = home.words("logs gang --attempt 3").code(4).stderr;
    assert!(early.contains("job 1 has no such attempt"), "{early}");
    let refused = home.words("logs gang -g [").code(2).stderr;
    assert!(refused.contains("unclosed character class"), "{refused}");
    let refused = home.words("logs gang --since soon").code(2).stderr;
    assert!(refused.contains("such as 10m"), "{refused}");
}

#[test]
fn lines_of_an_array_have_their_element_also_of_elements_that_start_later() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let script = format!("echo begin $MUSTER_ARRAY_INDEX; {gate}; echo end $MUSTER_ARRAY_INDEX");
    let array = home.sh("--array 8-11 --gpus 1 --name array", &script);
    assert_eq!(array, 1);
    let follower = home.spawn(&["logs", "-f", "array"]);
    home.until("two elements", || home.words("logs array").stdout.lines().count() == 2);
    assert_eq!(home.words("logs array").ok().stdout, "[8]  begin 8\n[9]  begin 9\n");
    home.open("go");
    let followed = follower.wait_with_output().unwrap();
    assert!(followed.status.success());
    let mut lines: Vec<String> =
        String::from_utf8(followed.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected: Vec<String> = (8..12)
        .flat_map(|index| {
            let prefix = format!("{:5}", format!("[{index}]"));
            ["begin", "end"].map(|word| format!("{prefix}{word} {index}"))
        })
        .collect();
    expected.sort();
    assert_eq!(lines, expected, "each line once");
    let all = home.words("logs array").ok().stdout;
    assert_eq!(all.lines().collect::<Vec<_>>(), {
        let mut sorted = expected.clone();
        sorted.sort_by_key(|line| line.trim_start_matches('[').split(']').next().map(str::len));
        sorted
    });
    assert_eq!(home.words("logs array[9]").ok().stdout, "begin 9\nend 9\n");
    assert_eq!(home.words("logs array --since 1h -n 1 -g 9").ok().stdout, "[9]  end 9\n");
    // To the second: the output is older than that.
    home.until("time", || home.words("logs array --since 1s").ok().stdout.is_empty());
}

#[test]
fn one_element_with_several_tasks_is_followed_to_its_own_end() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let script = format!("echo $RANK; test $MUSTER_ARRAY_INDEX = 0 || {gate}");
    let array = home.sh("--array 0-1 --tasks 2 --cpus-per-task 1 --name pairs", &script);
    // The other one still runs.
    let followed = home.words(&format!("logs -f {array}[0]")).ok().stdout;
    let mut lines: Vec<&str> = followed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: 0", "1: 1"]);
    assert_eq!(home.words("logs -f pairs[0] -r 1").ok().stdout, "1\n");
    home.open("go");
    home.words("wait pairs").ok();
    let all = home.words("logs pairs").ok().stdout;
    assert_eq!(all, "[0] 0: 0\n[0] 1: 1\n[1] 0: 0\n[1] 1: 1\n");
    assert_eq!(home.words("logs -f pairs[1]").ok().stdout.lines().count(), 2);
}

#[test]
fn a_file_that_elements_share_is_followed_to_the_end_of_the_last() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let script = format!("test $MUSTER_ARRAY_INDEX = 0 || {gate}; echo end $MUSTER_ARRAY_INDEX");
    home.sh("--array 0-1 -o shared-%A --name shared", &script);
    let follower = home.spawn(&["logs", "-f", "shared"]);
    home.until("the first element", || home.words("logs shared").stdout == "end 0\n");
    home.open("go");
    let followed = follower.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(followed.stdout).unwrap(), "end 0\nend 1\n");
}

#[test]
fn run_follows_an_array_and_says_what_failed_once() {
    let home = Home::with_gpus(2);
    let script = "echo here $MUSTER_ARRAY_INDEX; exit $((MUSTER_ARRAY_INDEX == 1))";
    let run =
        home.muster(&["run", "-f", "--array", "0-2", "--name", "array", "--", "sh", "-c", script]);
    let run = run.code(1);
    let mut lines: Vec<&str> = run.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] here 0", "[1] here 1", "[2] here 2"]);
    assert!(run.stderr.contains("job 1[1]: rank 0 exited with 1"), "{}", run.stderr);
    assert!(!run.stderr.contains("the last lines"), "shown before: {}", run.stderr);
}

#[test]
fn an_array_that_has_not_started_says_so() {
    let home = Home::with_gpus(1);
    home.words("run --array 0-2 --hold -- true").ok();
    let early = home.words("logs 1").code(1).stderr;
    assert!(early.contains("job 1 has not started"), "{early}");
    home.words("cancel 1").ok();
    let never = home.words("logs -f 1").code(4).stderr;
    assert!(never.contains("job 1"), "{never}");
}

#[test]
fn a_file_that_elements_share_is_shown_once() {
    let home = Home::with_gpus(1);
    home.words("run --wait --array 0-2 --gpus 1 -o both-%A --name one -- printenv MUSTER_JOB_NAME")
        .ok();
    assert_eq!(home.words("logs one").ok().stdout, "one\none\none\n");
    assert_eq!(home.words("logs -f one").ok().stdout, "one\none\none\n");
    home.words(
        "run --wait --array 0-1 --gpus 1 -o own-%a --name own -- printenv MUSTER_ARRAY_INDEX",
    )
    .ok();
    assert_eq!(home.words("logs own").ok().stdout, "[0] 0\n[1] 1\n");
    let refused = home.words("logs own --since 1h").code(2).stderr;
    assert!(refused.contains("are not recorded"), "{refused}");
}
