//! `muster import` and `muster export slurm`: round trips on a corpus of scripts, and errors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_model::{QueueName, UserName};
use muster_spec::SubmissionSite;
use serde_json::Value;

use crate::home::{Home, HomeRun};

/// Options that an exported script has in addition to the imported one.
const ADDED: [&str; 4] = ["job-name", "kill-on-invalid-dep", "open-mode", "nodes"];

/// Returns the scripts of the corpus, in order.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slurm/tests/data/scripts");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn imported(home: &Home, path: &str) -> Value {
    serde_json::from_str(&home.muster(&["import", "--json", path]).ok().stdout).unwrap()
}

/// Parses and checks a job file.
fn checked(job: &str) -> Vec<muster_spec::CheckedJob> {
    let queue = QueueName::from("default");
    let documents = muster_spec::parse(job, Some("job.yaml"), &serde_json::Map::new()).unwrap();
    muster_spec::check_all(&documents, &SubmissionSite::unknown(UserName::from("nobody"), &queue))
        .unwrap()
}

/// Nodes one by one.
fn names(list: Option<&Value>) -> Vec<String> {
    muster_spec::expand_names(list.and_then(Value::as_str).unwrap_or_default()).unwrap_or_default()
}

/// Returns the seconds of `NAME@SECS`: how long before the limit Slurm sends the signal.
fn lead(signal: Option<&Value>) -> Option<&str> {
    signal.and_then(Value::as_str)?.split_once('@').map(|(_, lead)| lead)
}

/// Returns the names of options that the job does not have, or has with another value.
fn lossy(report: &Value) -> BTreeSet<String> {
    let options = report["options"].as_array().unwrap().iter();
    let lossy =
        options.filter(|option| option["becomes"] == "not-mapped" || option["becomes"] == "near");
    lossy.map(|option| option["option"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_script_that_became_a_job_becomes_the_same_job_again_and_asks_slurm_for_the_same() {
    let home = Home::new();
    let scripts = scripts();
    assert!(scripts.len() > 30, "{}", scripts.len());
    for path in scripts {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // 1. Script to job to script to job.
        let first = imported(&home, path.to_str().unwrap());
        let job = first["job"].as_str().unwrap();
        home.write("job.yaml", job);
        home.muster(&["export", "slurm", "job.yaml", "-o", "again.sbatch", "--force"]).ok();
        let second = imported(&home, "again.sbatch");
        assert_eq!(second["launch"]["how"], "exported", "{name}");
        let again = second["job"].as_str().unwrap();
        assert_eq!(
            checked(again),
            checked(job),
            "{name}:\n{job}\n{again}\n{}",
            home.read("again.sbatch")
        );
        // 2. All options of the script are in the exported one, except those that the import
        //    reported as
        //    not converted.
        let asked = first["asks"].as_object().unwrap();
        let again = second["asks"].as_object().unwrap();
        let lossy = lossy(&first);
        for (option, value) in asked {
            let plain = option.rsplit(':').next().unwrap();
            let is_size =
                ["gpus-per-task", "gpu-model", "memory-per-task", "memory", "ntasks", "nodes"]
                    .contains(&plain);
            let said = lossy.contains(plain)
                || is_size
                    && lossy.iter().any(|option| {
                        [
                            "gres",
                            "gpus",
                            "mem",
                            "nodes",
                            "ntasks",
                            "ntasks-per-gpu",
                            "gpus-per-socket",
                        ]
                        .contains(&option.as_str())
                    });
            // Of components that ask for the same Slurm makes one.
            let is_same = match plain {
                "nodelist" | "exclude" => names(again.get(option)) == names(Some(value)),
                // Slurm sends a signal that ends no process; the script then sends the job's own
                // signal to processes that handle it.
                "signal" => lead(again.get(option)) == lead(Some(value)),
                _ => again.get(option) == Some(value),
            };
            // A container is started in the body; that it is the same was compared with the job.
            if name != "het-alike" && !plain.starts_with("container-") && !is_same {
                assert!(said, "{name}: {option} was {value}, is {:?}", again.get(option));
            }
        }
        for option in again.keys().filter(|option| !asked.contains_key(*option)) {
            let plain = option.rsplit(':').next().unwrap();
            // Several tasks that became one have their CPUs together.
            let is_merged = plain == "cpus-per-task"
                && ["ntasks", "ntasks-per-node"].iter().any(|name| lossy.contains(*name));
            assert!(
                is_merged || ADDED.contains(&plain) || name == "het-alike" || plain == "partition",
                "{name}: {option} is new"
            );
        }
    }
}

#[test]
fn the_answer_keeps_to_its_schema_and_says_everything_on_stderr() {
    let home = Home::new();
    let text = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8 -o logs/%j.out\n\
                srun torchrun --nnodes=2 --nproc-per-node=8 train.py\n";
    home.write("train.sbatch", text);
    let schema: Value = home.words("schema import-report").json();
    let report = imported(&home, "train.sbatch");
    jsonschema::validator_for(&schema)
        .unwrap()
        .validate(&report)
        .unwrap_or_else(|error| panic!("{error}"));
    let run = home.words("import train.sbatch").ok();
    assert!(
        run.stdout.starts_with("name: train\nnodes: 2\ntasks-per-node: 8\ngpus: 8\n"),
        "{}",
        run.stdout
    );
    for line in [
        "train.sbatch: 4 options became fields of the job, 0 handed on to sbatch, 0 not mapped",
        "  nearly  line 2: -o logs/%j.out: output; output is appended, and a missing directory is created",
        "  starts  line 3: srun torchrun: 16 × 8 = 128 processes",
        "high    every task of srun starts workers for all GPUs of its node  [processes-squared]",
        "  found   16 tasks × 8 workers = 128 processes on 16 GPUs (train.sbatch:3)",
    ] {
        assert!(run.stderr.lines().any(|said| said == line), "{line}\n{}", run.stderr);
    }
    // The same from stdin, to a file, and strictly.
    let piped = home.with_stdin(&["import", "-"], text).ok();
    assert_eq!(piped.stdout.replace("name: stdin", "name: train"), run.stdout);
    home.words("import train.sbatch -o train.yaml").ok();
    assert_eq!(home.read("train.yaml"), run.stdout);
    assert!(
        home.words("import train.sbatch -o train.yaml").code(2).stderr.contains("already exists")
    );
    home.words("import train.sbatch -o train.yaml --force --strict").code(1);
}

#[test]
fn what_is_started_several_times_is_counted_once_and_said() {
    let home = Home::new();
    let text =
        "#!/bin/bash\n#SBATCH -n 4\nfor one in 1 2; do srun ./solve $one; done\nsrun $STEP\n";
    home.write("x.sbatch", text);
    let said = home.words("import x.sbatch").ok().stderr;
    for line in [
        "  starts  line 3: srun: 4 processes each time; not known: how often a loop or a function starts it",
        "  starts  line 4: srun: number of processes unknown: srun $STEP, what `$STEP` starts",
    ] {
        assert!(said.lines().any(|one| one == line), "{line}\n{said}");
    }
}

#[test]
fn variables_that_sbatch_would_take_in_place_of_the_script_are_warned_of() {
    let home = Home::new();
    home.write("x.sbatch", "#!/bin/bash\n#SBATCH --time=5 --partition=gpu\nhostname\n");
    let mut command = home.command(&["import", "x.sbatch"]);
    let run = HomeRun::of(command.env("SBATCH_PARTITION", "debug").output().unwrap()).ok();
    let reported = "warning: SBATCH_PARTITION=debug is set here: sbatch uses it instead of --partition=gpu on line 2";
    assert!(run.stderr.contains(reported), "{}", run.stderr);
    assert!(run.stdout.contains("partition: gpu"), "{}", run.stdout);
}

#[test]
fn a_service_comes_back_as_the_replicas_that_slurm_was_given() {
    let home = Home::new();
    let job =
        "name: srv\nkind: service\nreplicas: 2..4\nport: 8000\ntime: 1h\nrun: python serve.py\n";
    home.write("srv.yaml", job);
    home.words("export slurm srv.yaml -o srv.sbatch").ok();
    let back = home.words("import srv.sbatch").ok();
    assert_eq!(
        back.stdout,
        "name: srv\nkind: service\nreplicas: 2\nport: 8000\ntime: 1h\nrun: \"python serve.py\"\n"
    );
}

/// The launcher in the script is no program of the job.
#[test]
fn a_ray_job_round_trips_with_the_terms_of_its_cluster() {
    let home = Home::new();
    for terms in ["{version: \"2.60.0\", wait: 3}", "{python: /venv/bin/python, dashboard: false}"]
    {
        let job = format!(
            "name: tune\nkind: ray\ntime: 2h\nray: {terms}\nrun: \"python train.py\"\ngroups:\n  - name: head\n    cpus: 4\n  - name: worker\n    tasks: 4\n    gpus-per-task: 8\n"
        );
        home.write("tune.yaml", &job);
        home.words("export slurm tune.yaml -o tune.sbatch --force").ok();
        let back = home.words("import tune.sbatch").ok();
        assert_eq!(back.stdout, job);
    }
}

#[test]
fn a_requeued_job_round_trips_with_its_signal_and_acknowledging_ranks() {
    let home = Home::new();
    for checkpoint in [
        "{signal: USR2, grace: 60s, then: requeue, by: all}",
        "{signal: USR1, grace: 60s, then: requeue}",
        "{signal: USR1, grace: 60s, by: all}",
    ] {
        let job = format!(
            "name: turns\ngpus: 2\ntime: 1h\ncheckpoint: {checkpoint}\nrun: \"python train.py\"\n"
        );
        home.write("turns.yaml", &job);
        home.words("export slurm turns.yaml -o turns.sbatch --force").ok();
        let back = home.words("import turns.sbatch").ok();
        assert_eq!(back.stdout, job);
        assert!(!back.stderr.contains("nearly"), "{}", back.stderr);
    }
}

#[test]
fn arguments_of_a_script_go_with_it_there_and_back() {
    let home = Home::new();
    home.write("x.sbatch", "#!/bin/bash\n#SBATCH --time=1:00:00\necho \"$1-$2\"\n");
    let lost = home.words("import x.sbatch").ok().stderr;
    assert!(lost.contains("it reads $1, $2; none is given (x.sbatch:3)"), "{lost}");
    let run = home.muster(&["import", "x.sbatch", "-o", "x.yaml", "--", "it's", "7"]).ok();
    assert!(!run.stderr.contains("arguments-lost"), "{}", run.stderr);
    home.words("export slurm x.yaml -o again.sbatch").ok();
    assert!(
        home.read("again.sbatch").contains("it'\\''\\'\\'''\\''s"),
        "{}",
        home.read("again.sbatch")
    );
    home.words("import again.sbatch -o again.yaml").ok();
    assert_eq!(home.read("again.yaml"), home.read("x.yaml"));
}

#[test]
fn what_is_no_script_is_refused_with_a_hint() {
    let home = Home::new();
    let check = |text: &str, message: &str, hint: &str| {
        home.write("x", text);
        let said = home.words("import x").code(2).stderr;
        assert!(said.starts_with("error: cannot import x: ") && said.contains(message), "{said}");
        assert!(said.contains(hint), "{said}");
    };
    check("", "it is empty", "#!/bin/bash");
    check("import torch\n", "a Python program", "muster run");
    check("#!/bin/bash\r\n#SBATCH -N 1\r\n", "CR LF", "sed -i");
    check("#!/bin/bash\n#PBS -l select=1\n", "PBS", "docs/jobs.md");
    check("name: x\nrun: hostname\n", "already a job file of Muster", "muster export slurm");
    assert!(home.words("import nowhere").code(2).stderr.contains("cannot read nowhere"));
}

/// Runs a script in a shell that stands in for Slurm: one task on a list of one node.
fn by_hand(home: &Home, script: &str, programs: &[(&str, &str)]) -> std::process::Output {
    let stubs = home.path("stubs");
    std::fs::create_dir(&stubs).unwrap();
    let srun = "while case $1 in -*) true ;; *) false ;; esac; do shift; done\necho $$ > rank\n\
                SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NODEID=0 SLURM_LOCALID=0 exec \"$@\"";
    for (name, text) in programs.iter().chain(&[("srun", srun)]) {
        let path = stubs.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    std::process::Command::new("bash")
        .arg(home.path(script))
        .current_dir(home.path(""))
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", stubs.display()))
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_JOB_NUM_NODES", "1")
        .output()
        .unwrap()
}

#[test]
fn an_exported_script_runs_without_muster_as_far_as_no_slurm_is_needed() {
    let home = Home::new();
    home.write(
        "job.yaml",
        "name: x\nenv: {A: \"it's\"}\nslurm: {setup: 'B=2'}\nrun: |\n  #!/bin/sh\n  echo \"$A $RANK\"\n",
    );
    let run = home.words("export slurm job.yaml").ok();
    assert!(run.stderr.contains("left out: "), "{}", run.stderr);
    // A clean environment, without Muster's own programs.
    assert!(
        !run.stdout.contains("/muster/") && !run.stdout.contains("\nmuster "),
        "{}",
        run.stdout
    );
    home.write("x.sbatch", &run.stdout);
    let output = by_hand(&home, "x.sbatch", &[("scontrol", "echo localhost")]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "it's 0\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_signal_before_the_ranks_start_is_delivered_once_they_have() {
    let home = Home::new();
    // The checkpoint signal arrives while the script prepares.
    std::fs::create_dir_all(home.path("venv/bin")).unwrap();
    home.write("venv/bin/activate", "kill -USR1 $$\n");
    let run = "#!/bin/bash\n  trap 'echo step 5 > $MUSTER_CHECKPOINT_FILE' USR2\n  : > ready\n  \
               for ((look = 0; look < 300; look++)); do sleep 0.1; done\n";
    let job = format!(
        "name: turns\ntime: 1h\ncheckpoint: {{signal: USR2, grace: 1m, then: requeue}}\n\
         slurm: {{venv: {}}}\nrun: |\n  {run}",
        home.path("venv").display()
    );
    home.write("turns.yaml", &job);
    home.words("export slurm turns.yaml -o turns.sbatch").ok();
    // Ranks that have not started get no signal; the others handle it from then on.
    let scancel = "[ -e muster-7/0/1/begun-0 ] || exit 1\nuntil [ -e ready ]; do sleep 0.1; done\n\
                   echo \"$*\" >> asked\nkill -WINCH $(ps -o pid= --ppid $(cat rank)) $(cat rank)";
    let scontrol = "case $* in\n  'show hostnames '*) echo localhost ;;\n  \
                    requeue*) echo \"$*\" >> again; kill $(cat rank) ;;\n  \
                    *) echo 'JobId=7 JobName=turns JobState=RUNNING Reason=None' ;;\nesac";
    let output = by_hand(&home, "turns.sbatch", &[("scancel", scancel), ("scontrol", scontrol)]);
    assert!(home.path("asked").exists() && home.path("again").exists(), "{output:?}");
    assert_eq!(
        (home.read("asked"), home.read("again")),
        ("--signal=28 7\n".into(), "requeue 7\n".into())
    );
}

#[test]
fn export_takes_one_document_and_says_what_slurm_cannot_have() {
    let home = Home::new();
    home.write("two.yaml", "name: a\nrun: 'true'\n---\nname: b\nafter: a\nrun: 'false'\n");
    let said = home.words("export slurm two.yaml").code(2).stderr;
    assert!(said.contains("holds 2 jobs") && said.contains("--document 1"), "{said}");
    let run = home.words("export slurm two.yaml --document 2").ok();
    assert!(
        run.stdout.contains("--job-name=b") && run.stderr.contains("depends on document 1 of 2"),
        "{}",
        run.stderr
    );
    assert!(
        home.words("export slurm two.yaml --document 3").code(2).stderr.contains("no document 3")
    );
    home.write("share.yaml", "gpus: 0.5\nrun: 'true'\n");
    let said = home.words("export slurm share.yaml").code(2).stderr;
    assert!(said.contains("a share of a GPU") && said.contains("hint:"), "{said}");
}

#[test]
fn findings_of_a_script_become_sarif_and_a_baseline_accepts_them() {
    let home = Home::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../slurm/tests/data/findings/processes-squared.txt");
    let pair = std::fs::read_to_string(path).unwrap();
    let script = pair.split("---- cured").next().unwrap();
    home.write("train.sbatch", script);
    let log: Value = home.words("import train.sbatch --format sarif").json();
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "muster import");
    let results = run["results"].as_array().unwrap();
    let squared = results.iter().find(|result| result["ruleId"] == "processes-squared").unwrap();
    let place = &squared["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&"train.sbatch".into(), &9.into())
    );
    let rule = usize::try_from(squared["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(run["tool"]["driver"]["rules"][rule]["id"], "processes-squared");

    home.words("import train.sbatch --strict").code(1);
    home.words("import train.sbatch --write-baseline accepted.txt").ok();
    let again = home.words("import train.sbatch --baseline accepted.txt --strict").ok();
    assert!(!again.stderr.contains("[processes-squared]"), "{}", again.stderr);
    let log: Value =
        home.words("import train.sbatch --baseline accepted.txt --format sarif").json();
    assert_eq!(log["runs"][0]["results"][0]["baselineState"], "unchanged");
    // The same finding on another line stays accepted.
    home.write("train.sbatch", &script.replace("srun", "\n\nsrun"));
    home.words("import train.sbatch --baseline accepted.txt --strict").ok();
    home.words("import train.sbatch --json --format sarif").code(2);
}
