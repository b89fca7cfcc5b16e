//! Input of a user must not influence what root does: directories, links, programs, variables, and
//! the task's own files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use muster_model::view::JobState;

use crate::actor::{SiteUser, number};
use crate::site::SharedSite;

/// Waits for a job that cannot start, and returns the reason that its owner sees.
#[track_caller]
fn why_not(actor: SiteUser<'_>, job: u64) -> String {
    actor.words(&format!("wait {job}")).code(125);
    actor.words(&format!("show {job}")).ok().stdout
}

/// Submits a script that leaves a mark in its working directory, from that directory as a spec
/// names it.
fn from_workdir(actor: SiteUser<'_>, dir: &str, options: &str) -> u64 {
    let spec =
        actor.write("workdir.yaml", &format!("workdir: {dir}\nrun: 'touch mark; pwd -P; ls -a'\n"));
    let mut args = vec!["run", "--json", spec.to_str().unwrap()];
    args.extend(options.split_whitespace());
    number(actor.command(&args))
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_working_directory_is_entered_as_the_user() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    alice.shell("echo hers > private").ok();
    let closed = site.path("closed-by-root");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    mallory.shell(&format!(
        "ln -s /root to-root; ln -s {} to-closed; ln -s {} to-alice; ln -s loop loop; mkdir -m 000 shut; : > file; \
         mkdir open gone",
        closed.display(), alice.home().display()
    )).ok();

    // 1. Directories that the user may not enter are closed to the job, also through links.
    let closed_to_him = [
        "to-root",
        "to-closed",
        "to-alice",
        "loop",
        "shut",
        "file",
        "missing",
        "/root",
        "/proc/1/root",
        "/proc/1/cwd",
    ];
    let mut refused: Vec<(&str, u64)> =
        closed_to_him.iter().map(|dir| (*dir, from_workdir(mallory, dir, ""))).collect();

    // 2. The path is resolved at the start, not at submission: a directory that was swapped in
    //    between is entered as the user, too.
    let swapped = from_workdir(mallory, "open", "--hold");
    let gone = from_workdir(mallory, "gone", "--hold");
    mallory.shell("rmdir open gone; ln -s /root open").ok();
    mallory.words(&format!("release {swapped} {gone}")).ok();
    refused.extend([("open", swapped), ("gone", gone)]);
    for (dir, job) in refused {
        let reported = why_not(mallory, job);
        assert!(reported.contains("working directory"), "{dir}: {reported}");
    }
    assert!(!alice.home().join("mark").exists() && !closed.join("mark").exists());

    // 3. A link to a directory of one's own is fine.
    mallory.shell("mkdir own; ln -s own to-own").ok();
    let said = mallory.result(from_workdir(mallory, "to-own", ""));
    assert!(said.starts_with(&mallory.home().join("own").display().to_string()), "{said}");
    assert_eq!(fs::metadata(mallory.home().join("own/mark")).unwrap().uid(), mallory.account.uid);
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn an_environment_reaches_no_process_of_roots() {
    let site = SharedSite::with_gpus(1);
    let mallory = site.mallory();
    // The loader of every process with these variables leaves a file of its own there, whoever it
    // runs as; and each fake program, start-up file or shell that runs leaves its user.
    mallory.shell("mkdir -m 777 traces; mkdir -m 755 bin").ok();
    let home = mallory.home().display().to_string();
    let fake = format!("#!/bin/sh\n/usr/bin/id -u >> {home}/ran-as\nexec /bin/sh \"$@\"\n");
    for name in ["bin/sh", "bin/muster", "bin/env", "rc"] {
        mallory.write(name, &fake);
        mallory.shell(&format!("chmod 755 {name}")).ok();
    }
    let mut submission = mallory.command(&["run", "--json", "--", "sh", "-c", "true"]);
    submission
        .env("PATH", format!("{home}/bin:/usr/bin:/bin"))
        .env("LD_DEBUG", "files")
        .env("LD_DEBUG_OUTPUT", format!("{home}/traces/client"));
    let job = {
        // The client runs as the user and with these variables; what it submits names another file.
        let spec = mallory.write(
            "env.yaml",
            &format!(
                "env:\n  LD_DEBUG: files\n  LD_DEBUG_OUTPUT: {home}/traces/job\n  LD_PRELOAD: {home}/evil.so\n  \
                 LD_LIBRARY_PATH: {home}\n  LD_AUDIT: {home}/evil.so\n  PATH: {home}/bin:/usr/bin:/bin\n  \
                 BASH_ENV: {home}/rc\n  ENV: {home}/rc\n  SHELL: {home}/rc\n  HOME: /root\n  TMPDIR: {home}/traces\n  \
                 MUSTER_HOME: {home}/traces\n  MUSTER_LOG: trace\n  RUST_LOG: trace\n  GCONV_PATH: {home}\n  \
                 LOCPATH: {home}\n  NLSPATH: {home}\n  MALLOC_TRACE: {home}/traces/malloc\n  RESOLV_HOST_CONF: /etc/shadow\n\
                 run: [sh, -c, 'true; echo ran']\n"
            ),
        );
        number(mallory.command(&["run", "--json", spec.to_str().unwrap()]))
    };
    let said = mallory.result(job);
    assert!(said.ends_with("ran\n"), "{said}");
    let direct = number(submission);
    mallory.result(direct);

    let traces: Vec<_> =
        fs::read_dir(mallory.home().join("traces")).unwrap().map(|entry| entry.unwrap()).collect();
    let of_jobs =
        traces.iter().filter(|entry| entry.file_name().to_string_lossy().starts_with("job."));
    assert!(of_jobs.count() > 0, "the job's own loader left no trace: {traces:?}");
    for trace in &traces {
        assert_eq!(
            trace.metadata().unwrap().uid(),
            mallory.account.uid,
            "{:?} is of another user",
            trace.path()
        );
    }
    let ran = mallory.read("ran-as");
    assert!(ran.lines().count() > 0, "nothing of PATH ran");
    assert!(ran.lines().all(|uid| uid == mallory.account.uid.to_string()), "{ran}");
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_program_is_looked_up_and_run_as_the_user() {
    let site = SharedSite::with_gpus(1);
    let mallory = site.mallory();
    let secret = site.path("program-of-root");
    fs::write(&secret, "#!/bin/sh\nid -u\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&secret, site.path("link-to-it")).unwrap();
    let mut refused = Vec::new();
    for program in
        [secret.clone(), site.path("link-to-it"), "/root/anything".into(), "/etc/passwd".into()]
    {
        let job = number(mallory.command(&["run", "--json", "--", program.to_str().unwrap()]));
        refused.push((job, program.file_name().unwrap().to_str().unwrap().to_owned()));
    }
    // An interpreter too.
    let spec =
        mallory.write("script.yaml", &format!("run: |\n  #!{}\n  id -u\n", secret.display()));
    refused.push((
        number(mallory.command(&["run", "--json", spec.to_str().unwrap()])),
        "interpreter".to_owned(),
    ));
    for (job, named) in refused {
        let reported = why_not(mallory, job);
        assert!(reported.contains(&named), "{named}: {reported}");
    }
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_job_writes_nothing_as_root() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let victim = site.path("victim");
    fs::write(&victim, "untouched").unwrap();
    let job = mallory.submit(
        "--gpus 1 --grace 1s",
        &format!("echo $PPID > ~/supervisor; {}", mallory.gate("go")),
    );
    site.until("it is up", || mallory.read("supervisor").ends_with('\n'));
    let supervisor = mallory.read("supervisor").trim().to_owned();
    let files = site.files();
    let file = |end: &str| {
        files
            .iter()
            .find(|path| path.to_string_lossy().ends_with(end))
            .unwrap()
            .display()
            .to_string()
    };
    let log = file("/output.log");
    let order = file("/order.json");
    let dir = log.trim_end_matches("/output.log").to_owned();
    let victim_name = victim.display().to_string();

    // Each command must fail; one that succeeds prints `did`.
    let attempts = [
        format!("echo x > {victim_name}"),
        format!("ln {victim_name} hard && echo x > hard"),
        format!("rm -f {log}"),
        format!("ln -sf {victim_name} {log}"),
        format!("mv {dir} {dir}.old"),
        format!("cat {order}"),
        format!("echo x > /proc/{supervisor}/fd/1"),
        format!("cat /proc/{supervisor}/environ"),
        format!("for fd in 3 4 5 6 7 8 9 10 11 12; do (echo x > /proc/{supervisor}/fd/$fd) 2> /dev/null && exit 0; done; false"),
        "for fd in 3 4 5 6 7 8 9; do (echo x >&$fd) 2> /dev/null && exit 0; done; false".to_owned(),
        format!("kill -STOP {supervisor}"),
        format!("kill -KILL {supervisor}"),
        "echo $$ > /sys/fs/cgroup/cgroup.procs".to_owned(),
        "echo $$ > /sys/fs/cgroup/memory/cgroup.procs".to_owned(),
        "for file in $(cut -d: -f3 /proc/self/cgroup | sort -u); do for top in /sys/fs/cgroup /sys/fs/cgroup/*; do \
         (echo max > $top$file/memory.max || echo $$ > $top$file/../cgroup.procs) 2> /dev/null && exit 0; done; done; false"
            .to_owned(),
        "chown 0 own-file".to_owned(),
        "cd /root".to_owned(),
    ];
    mallory.shell(": > own-file").ok();
    for attempt in &attempts {
        let said =
            mallory.output_of("", &format!("{{ {attempt} ; }} 2> /dev/null && echo did; true"));
        assert_eq!(said, "", "it worked: {attempt}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");

    // A program that is set to root's id does not become root's by being run from a job.
    let said =
        mallory.output_of("", "cp /bin/sh mine; chmod 4755 mine; ./mine -c 'id -u'; ls -n mine");
    assert!(said.starts_with(&format!("{}\n", mallory.account.uid)), "{said}");
    // Its output can be opened again by name, as programs do, and goes to the log alone.
    let said = mallory.output_of(
        "",
        "echo one; echo two > /dev/stdout; echo three > /proc/self/fd/2; echo four >> /dev/stderr",
    );
    assert_eq!(said, "one\ntwo\nthree\nfour\n");

    assert_eq!(mallory.show(job).job.state, JobState::Running);
    mallory.write("go", "");
    mallory.words(&format!("wait {job}")).ok();
    assert!(!alice.home().join("hard").exists());
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_terminal_is_the_users_own() {
    let site = SharedSite::with_gpus(1);
    let mallory = site.mallory();
    let mut request = crate::raw::submission(
        "terminal",
        "tty; ls -n $(tty); cut -d' ' -f7 /proc/self/stat; id -u",
    );
    request["interactive"] = true.into();
    let uid = mallory.account.uid;
    let gid = mallory.account.gid;
    let socket = site.socket();
    let answer =
        crate::raw::as_user(uid, gid, || crate::raw::send(&socket, "POST /v1/jobs", "", &request));
    let said = mallory.result(crate::raw::number(&answer)).replace('\r', "");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("/dev/pts/"), "{said}");
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert!(words[0].starts_with("crw--w----") || words[0].starts_with("crw-------"), "{said}");
    assert_eq!(words[2], uid.to_string());
    assert_ne!(lines[2], "0", "it is the controlling terminal: {said}");
    assert_eq!(lines[3], uid.to_string());
}
