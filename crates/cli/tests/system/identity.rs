//! Each job runs as the user who submitted it, without any of root's privileges or environment.

use std::collections::BTreeSet;
use std::process::Command;

use crate::actor::{SiteRun, UnixAccount, number};
use crate::raw::{as_user, attach, send, submission, type_into};
use crate::site::{GROUPS_OF_ROOT, SharedSite};

/// Groups that a login would give an account.
fn groups(account: &UnixAccount) -> BTreeSet<u32> {
    let said = Command::new("id").args(["-G", &account.name]).output().unwrap();
    numbers(&String::from_utf8(said.stdout).unwrap())
}

fn numbers(text: &str) -> BTreeSet<u32> {
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Lines of `name: value` or `name<tab>value` as a job printed them.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).trim()
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_job_is_its_submitter_in_every_respect() {
    let site = SharedSite::with_gpus(4);
    let script = "echo uids: $(grep ^Uid /proc/self/status); echo gids: $(grep ^Gid /proc/self/status); \
                  echo groups: $(id -G); echo umask: $(umask); echo dir: $(pwd); echo home: $HOME; echo mark: $MARK; \
                  grep ^Cap /proc/self/status; touch made; ls -n made; \
                  echo session: $(cut -d' ' -f6 /proc/self/stat) of $(cut -d' ' -f4 /proc/self/stat)";
    for (actor, mark) in [(site.alice(), "first"), (site.mallory(), "second")] {
        // The mask is the submitting shell's.
        let submission = actor.submission("--gpus 1", script);
        let mut shell = actor.program("/bin/sh");
        shell.args(["-c", "umask 027; exec \"$0\" \"$@\""]).env("MARK", mark);
        shell.arg(submission.get_program()).args(submission.get_args());
        let said = actor.result(number(shell));

        let uid = actor.account.uid;
        let gid = actor.account.gid;
        assert_eq!(field(&said, "uids: Uid:"), format!("{uid} {uid} {uid} {uid}"));
        assert_eq!(field(&said, "gids: Gid:"), format!("{gid} {gid} {gid} {gid}"));
        let inside = numbers(field(&said, "groups:"));
        assert_eq!(inside, groups(actor.account));
        assert!(GROUPS_OF_ROOT.iter().all(|group| !inside.contains(group)), "{said}");
        assert_eq!(field(&said, "umask:"), "0027");
        assert_eq!(field(&said, "dir:"), actor.home().to_str().unwrap());
        assert_eq!(field(&said, "home:"), actor.home().to_str().unwrap());
        assert_eq!(field(&said, "mark:"), mark);
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(u64::from_str_radix(field(&said, set), 16).unwrap(), 0, "{set}\n{said}");
        }
        let made = said.lines().find(|line| line.ends_with(" made")).unwrap();
        let words: Vec<&str> = made.split_whitespace().collect();
        assert_eq!(
            (words[0], words[2], words[3]),
            ("-rw-r-----", &*uid.to_string(), &*gid.to_string()),
            "{said}"
        );
    }
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_job_inherits_no_file_and_no_variable_of_the_daemon() {
    let site = SharedSite::with_gpus(0);
    // No subshell around it: `ls` itself has one descriptor more, the directory that it reads.
    let said = site.alice().output_of("", "exec ls -l /proc/self/fd");
    let open: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(" -> ").map(|(_, to)| to)).collect();
    assert_eq!(open.len(), 4, "{said}");
    assert_eq!(open[0], "/dev/null");
    assert!(open[1].starts_with("pipe:") && open[1] == open[2], "{said}");
    assert!(open[3].starts_with("/proc/"), "{said}");

    let environment = site.alice().output_of("", "exec env");
    let names: BTreeSet<&str> =
        environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(!environment.contains("of-root") && !names.contains("ROOTS_SECRET"), "{environment}");
    // The daemon's own places are none of the job's business; MUSTER_SOCKET is the submitter's own.
    assert!(!names.contains("MUSTER_HOME"), "{environment}");

    // The same for a script with an interpreter of its own: only the script is open beside the
    // three.
    let script = site.alice().write("list", "run: |\n  #!/bin/sh\n  exec ls -l /proc/self/fd\n");
    let job = number(site.alice().command(&["run", "--json", script.to_str().unwrap()]));
    let said = site.alice().result(job);
    let open: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(" -> ").map(|(_, to)| to)).collect();
    assert!(open.iter().all(|to| !to.contains("secret")) && open.len() <= 6, "{said}");
    assert!(
        open.iter().skip(3).all(|to| to.contains("muster-script") || to.starts_with("/proc/")),
        "{said}"
    );
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_uid_without_a_passwd_entry_is_not_another_user() {
    let site = SharedSite::with_gpus(0);
    let uid = 61_234;
    let gid = 61_235;
    let socket = site.socket();
    let script = "echo ids: $(id -u) $(id -g); echo groups: $(id -G)";
    let (status, body) =
        as_user(uid, gid, || send(&socket, "POST /v1/jobs", "", &submission("k", script)));
    assert_eq!(status, 200, "{body}");
    let job = body["jobs"][0]["job"].as_u64().unwrap();
    let said = site.root().result(job);
    assert_eq!(field(&said, "ids:"), format!("{uid} {gid}"));
    assert_eq!(numbers(field(&said, "groups:")), BTreeSet::from([gid]));
    // Shown so that no account can have that name by chance.
    let view = site.alice().show(job).job;
    assert!(view.user.as_str().starts_with('#'), "{}", view.user);
    site.alice().words(&format!("logs {job}")).code(1);
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn root_is_a_user_like_others() {
    let site = SharedSite::with_gpus(0);
    let said = site.root().output_of("", "echo uid: $(id -u); echo groups: $(id -G)");
    assert_eq!(field(&said, "uid:"), "0");
    // The groups of a login, not those of the daemon.
    assert_eq!(numbers(field(&said, "groups:")), groups(site.root().account));
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_shell_beside_a_task_is_the_submitters_too_even_for_root() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let root = site.root();
    let mut submission =
        alice.submission("--gpus 1 --grace 1s", &format!("echo > up; {}", alice.gate("go")));
    // Without a prompt, what the shell says stands at the beginning of its lines.
    submission.env("SHELL", "/bin/sh").env("PS1", "").env("MARK", "hers");
    let job = number(submission);
    site.until("it runs", || alice.home().join("up").exists());

    let socket = site.socket();
    let session = |actor: crate::actor::SiteUser<'_>| {
        as_user(actor.account.uid, actor.account.gid, || attach(&socket, job))
    };
    let (status, body) = session(mallory).unwrap_err();
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("another user"), "{body}");
    for actor in [alice, root] {
        let keys = "echo ids: $(id -u) $(id -g); echo groups: $(id -G); echo mark: $MARK; echo gpus: $CUDA_VISIBLE_DEVICES; \
                    grep CapEff /proc/self/status; echo tty: $(ls -n $(tty)); exit\n";
        let shown = type_into(session(actor).unwrap(), keys).replace('\r', "");
        // What was typed is shown too, with the questions instead of the answers.
        let answers: String = shown
            .lines()
            .filter(|line| !line.contains('$'))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(
            field(&answers, "ids:"),
            format!("{} {}", alice.account.uid, alice.account.gid),
            "{shown}"
        );
        assert_eq!(numbers(field(&answers, "groups:")), groups(alice.account));
        assert_eq!(field(&answers, "mark:"), "hers");
        assert_eq!(field(&answers, "gpus:"), "0");
        assert_eq!(u64::from_str_radix(field(&answers, "CapEff:"), 16).unwrap(), 0);
        assert_eq!(
            field(&answers, "tty:").split_whitespace().nth(2).unwrap(),
            alice.account.uid.to_string()
        );
    }
    let stopped: SiteRun = alice.words(&format!("cancel {job}")).ok();
    assert!(stopped.stdout.contains(&job.to_string()));
}
