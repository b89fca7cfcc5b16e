//! First steps of a new user: the first run starts a daemon, the second finds it.

use crate::home::Home;

#[test]
fn hello_from_an_empty_home() {
    let home = Home::new();
    let run = home.words("run --virtual-gpus 2 --gpus 1 --wait -- echo hello world").ok();
    assert_eq!(run.stdout, "job 1: echo\n");
    assert!(
        run.stderr.starts_with(
            "no daemon was running; started one for this user, with 2 virtual GPUs (stop it: muster stop-daemon)\n"
        ),
        "{}",
        run.stderr
    );
    assert_eq!(home.words("logs 1").ok().stdout, "hello world\n");
    assert_eq!(home.words("logs echo").ok().stdout, "hello world\n");
}

#[test]
fn a_second_run_finds_the_daemon_and_the_gpus() {
    let home = Home::new();
    home.words("run --virtual-gpus 2 --wait -- true").ok();
    let again = home.words("run --virtual-gpus 2 --wait -- true").ok();
    assert!(!again.stderr.contains("no daemon"), "{}", again.stderr);

    let other = home.words("run --virtual-gpus 4 -- true").code(2);
    assert_eq!(
        other.stderr,
        "error: a daemon is running with 2 virtual GPUs, not with 4 virtual\n\
         hint: without --virtual-gpus, its GPUs are used\n\
         hint: to use others: `muster stop-daemon --cancel`, then run this again\n"
    );
    home.words("run --virtual-gpus 2:h100 -- true").code(2);
    assert_eq!(home.jobs().len(), 2);
}

#[test]
fn several_documents_from_stdin() {
    let home = Home::with_gpus(2);
    let text = "name: one\ngpus: 1\nrun: echo 1\n---\nname: two\ngpus: 1\nrun: echo 2\n";
    let run = home.with_stdin(&["run", "--wait", "-"], text).ok();
    assert_eq!(run.stdout, "job 1: one\njob 2: two\n");
    assert_eq!(home.words("logs two").ok().stdout, "2\n");
}

#[test]
fn without_a_daemon_nothing_is_started_by_looking() {
    let home = Home::new();
    for verb in [
        "ps",
        "queues",
        "usage",
        "nodes",
        "show 1",
        "explain 1",
        "logs 1",
        "wait 1",
        "cancel 1",
        "stop-daemon",
    ] {
        let run = home.words(verb).code(3);
        assert_eq!(run.stdout, "");
        assert_eq!(
            run.stderr,
            "error: no daemon is running\nhint: `muster run` starts one for this user; `muster serve` runs one in the foreground\n",
            "{verb}"
        );
    }
    assert!(!home.path("m").exists());
    let named = home.words("ps --socket /nonexistent/socket").code(3);
    assert!(
        named.stderr.starts_with("error: no daemon listens on /nonexistent/socket\n"),
        "{}",
        named.stderr
    );
}

#[test]
fn a_job_gets_environment_directory_and_umask_of_its_submission() {
    let home = Home::with_gpus(1);
    let mut command =
        home.command(&["run", "-e", "B=two", "--wait", "--", "sh", "-c", "echo $A $B $PWD; umask"]);
    let status = command.env("A", "one").status().unwrap();
    assert!(status.success());
    let pwd = home.path("").canonicalize().unwrap();
    let log = home.words("logs 1").ok().stdout;
    assert!(log.starts_with(&format!("one two {}\n", pwd.display())), "{log}");
    let own = std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap();
    assert!(log.ends_with(&String::from_utf8(own.stdout).unwrap()), "{log}");
}

#[test]
fn a_gang_knows_its_ranks_and_its_devices() {
    let home = Home::with_gpus(4);
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK $CUDA_VISIBLE_DEVICES $MUSTER_JOB_ID";
    let job = home.sh("--tasks 3 --gpus-per-task 1", script);
    home.words(&format!("wait {job}")).ok();
    for rank in 0..3 {
        let log = home.words(&format!("logs {job} --rank {rank}")).ok().stdout;
        assert_eq!(log, format!("{rank}/3 {rank} {rank} {job}\n"));
    }
    home.words(&format!("logs {job} --rank 3")).code(4);
}
