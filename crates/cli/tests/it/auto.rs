//! `--on auto`: where the site file sends each kind of job, what is said of it, and what cannot be
//! decided.

use std::fs;

use crate::home::Home;

const SITE: &str = "\
fleet: {nodes: 4, gpus: 32}
people: {users: 6, operates: [slurm, kubernetes]}
";
const GANG: &str = "name: fsdp\nnodes: 2\ngpus: 8\ntime: 1h\nrun: torchrun train.py\n";
const SERVICE: &str = "name: api\nkind: service\nport: 8000\nrun: serve\n";

/// Runs `muster run --on auto` with these lines of a site file; returns its messages.
fn auto(home: &Home, lines: &str, words: &str, code: i32) -> String {
    home.write("site.yaml", &format!("{SITE}{lines}"));
    home.words(&format!("run --on auto --site site.yaml {words}")).code(code).stderr
}

#[test]
fn jobs_run_where_the_site_file_says() {
    let home = Home::with_gpus(2);
    home.write("job.yaml", "name: one\nrun: exit 3\n---\nname: other\nrun: 'true'\n");
    // 1. The line of the site file decides, and is told before the jobs are submitted.
    let said = auto(&home, "clusters: {batch: local}\n", "--wait job.yaml", 3);
    assert!(
        said.starts_with("one and other go to local: site.yaml says `batch: local`\n"),
        "{said}"
    );
    assert_eq!(home.jobs().len(), 2);
    // 2. Options override the file before the kind is seen; a dry run says where it would go.
    let said =
        auto(&home, "clusters: {batch: slurm, gangs: local}\n", "--tasks 2 --dry-run -- true", 0);
    assert!(said.contains("true goes to local: site.yaml says `gangs: local`"), "{said}");
    assert!(said.contains("nothing was submitted"), "{said}");
    assert_eq!(home.jobs().len(), 2);
    // 3. Jobs that wait for one of the cluster are sent after their name is known there.
    let said = auto(&home, "clusters: {batch: local}\n", "--after other --wait -- true", 0);
    assert!(said.contains("true goes to local"), "{said}");
    // 4. The lists of all its clusters are one; those that do not answer are named.
    let listed = home.words("ps --on auto --all --site site.yaml");
    assert_eq!(listed.code, 1, "{}", listed.stderr);
    assert!(listed.stdout.lines().any(|line| line.contains(" one ")), "{}", listed.stdout);
    for cluster in ["slurm", "kubernetes"] {
        assert!(listed.stderr.contains(&format!("warning: {cluster}: ")), "{}", listed.stderr);
    }
}

#[test]
fn without_a_line_a_rule_decides_and_says_so() {
    let home = Home::new();
    home.write("fsdp.yaml", GANG);
    home.write("api.yaml", SERVICE);
    let said = auto(&home, "", "fsdp.yaml", 1);
    assert!(
        said.starts_with("fsdp goes to slurm: site.yaml has no line for gangs, and Slurm grants the whole allocation at once\n"),
        "{said}"
    );
    // The cluster that does not answer is named.
    assert!(said.contains("hint: --on auto chose slurm; --on names another cluster"), "{said}");
    let said = auto(&home, "", "api.yaml", 1);
    assert!(
        said.starts_with("api goes to kubernetes: site.yaml has no line for services, and "),
        "{said}"
    );
    assert!(
        said.contains("hint: --on auto chose kubernetes; --on names another cluster"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_decided_names_the_line_to_add() {
    let home = Home::new();
    home.write("api.yaml", SERVICE);
    home.write("site.yaml", "fleet: {nodes: 1, gpus: 8}\npeople: {users: 2}\n");
    let none = home.words("run --on auto --site site.yaml api.yaml").code(2);
    assert_eq!(
        none.stderr,
        "error: no cluster for api (a service): site.yaml names no cluster that takes jobs: none under `clusters`, and neither Slurm nor Kubernetes under `people.operates`\n\
         hint: add a line to `clusters` in site.yaml, such as `services: kubernetes`\n\
         hint: if the file has `people.operates`, add kubernetes there, too\n"
    );
    let none = home.words("ps --on auto --site site.yaml").code(2);
    assert!(none.stderr.contains("site.yaml names no cluster"), "{}", none.stderr);
    home.write("site.yaml", "fleet: {nodes: 1, gpus: 8}\npeople: {users: 2, operates: slurm}\n");
    let unsuited = home.words("run --on auto --site site.yaml api.yaml").code(2);
    assert!(
        unsuited.stderr.contains("has no line for them, and only slurm: "),
        "{}",
        unsuited.stderr
    );
    // The hints lead to a file that is accepted: the job is then sent there.
    assert!(unsuited.stderr.contains("add kubernetes there, too"), "{}", unsuited.stderr);
    home.write(
        "site.yaml",
        "fleet: {nodes: 1, gpus: 8}\npeople: {users: 2, operates: [slurm, kubernetes]}\nclusters: {services: kubernetes}\n",
    );
    let sent = home.words("run --on auto --site site.yaml api.yaml").code(1);
    assert!(sent.stderr.contains("api goes to kubernetes: "), "{}", sent.stderr);
    let two = auto(&home, "clusters: {batch: kubernetes@a, gangs: kubernetes@b}\n", "api.yaml", 2);
    assert!(two.contains("several clusters that suit: kubernetes@a, kubernetes@b"), "{two}");
    assert!(two.contains("such as `services: kubernetes@a`"), "{two}");
    assert!(!home.path("m").exists());
}

#[test]
fn jobs_that_were_submitted_before_a_refusal_are_told() {
    let home = Home::with_gpus(8);
    home.write("hold.yaml", "name: hold\nhold: true\ngpus: 1\nrun: true\n");
    home.write("api.yaml", SERVICE);
    let lines = "clusters: {batch: local, services: kubernetes}\n";
    let tried = auto(&home, lines, "--dry-run hold.yaml api.yaml", 1);
    assert!(tried.contains("auto chose kubernetes") && !tried.contains("submitted:"), "{tried}");
    let refused = auto(&home, lines, "hold.yaml api.yaml", 1);
    let hint = "hint: jobs for local were submitted: do not submit them again";
    assert!(refused.contains(hint), "{refused}");
    home.words("cancel hold").ok();
}

#[test]
fn mistakes_are_refused_before_anything_is_submitted() {
    let home = Home::new();
    home.write("both.yaml", &format!("{GANG}---\n{SERVICE}"));
    home.write("fsdp.yaml", GANG);
    home.write("api.yaml", SERVICE);
    // 1. No site file, or one that is wrong.
    let none = home.words("run --on auto fsdp.yaml").code(2);
    assert!(none.stderr.contains("--on auto needs a site file"), "{}", none.stderr);
    let wrong = auto(&home, "clusters: {services: k8s}\n", "fsdp.yaml", 2);
    assert!(
        wrong.contains("site.yaml:3:22") && wrong.contains("did you mean `kubernetes`?"),
        "{wrong}"
    );
    let missing = home.words("run --on auto --site missing.yaml fsdp.yaml").code(2);
    assert_eq!(missing.stderr, "error: cannot read missing.yaml: no such file or directory\n");
    // 2. Jobs that do not belong together.
    let both = auto(&home, "", "both.yaml", 2);
    assert!(
        both.contains("jobs of both.yaml belong to two clusters: fsdp to slurm, api to kubernetes"),
        "{both}"
    );
    for mode in ["--wait", "--watch", "--follow", "--json"] {
        let several = auto(&home, "", &format!("{mode} fsdp.yaml api.yaml"), 2);
        assert!(
            several.contains("these files belong to several clusters, slurm and kubernetes"),
            "{several}"
        );
    }
    // 3. Other subcommands work on one cluster, and --site is for `auto` only.
    for words in ["show --on auto 1", "cancel --on auto 1", "logs --on auto 1", "reserve --on auto"]
    {
        let one = home.words(words).code(2);
        assert!(one.stderr.contains("this command works on one"), "{words}: {}", one.stderr);
    }
    for words in ["run --site site.yaml fsdp.yaml", "ps --site site.yaml --on slurm"] {
        let alone = home.words(words).code(2);
        assert!(alone.stderr.contains("--site needs --on auto"), "{words}: {}", alone.stderr);
    }
    assert!(!home.path("m").exists());
}

#[test]
fn the_site_file_is_found_by_variable_or_place() {
    let home = Home::new();
    home.write("fsdp.yaml", GANG);
    let site = |cluster: &str| format!("{SITE}clusters: {{gangs: kubernetes@{cluster}}}\n");
    fs::create_dir_all(home.path("home/.config/muster")).unwrap();
    home.write("home/.config/muster/site.yaml", &site("own"));
    home.write("other.yaml", &site("other"));
    let run = |variable: &str| {
        let mut command = home.command(&["run", "--on", "auto", "fsdp.yaml"]);
        String::from_utf8(command.env("MUSTER_SITE", variable).output().unwrap().stderr).unwrap()
    };
    assert!(run("").contains("says `gangs: kubernetes@own`"), "{}", run(""));
    assert!(run("other.yaml").contains("other.yaml says `gangs: kubernetes@other`"));
    // A variable that names no file is not passed over.
    assert!(run("missing.yaml").contains("cannot read missing.yaml"));
}
