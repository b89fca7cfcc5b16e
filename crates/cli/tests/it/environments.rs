//! Environments of jobs on this machine: real virtual environments, files with variables and secrets, and conda's
//! layout. What is missing is told before anything is queued.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::home::{Home, HomeRun};

/// Makes a virtual environment with the `venv` of Python, without pip, which would take seconds.
fn venv(home: &Home, name: &str) {
    let mut python = Command::new("/usr/bin/python3");
    let made = python.args(["-m", "venv", "--without-pip"]).arg(home.path(name)).status().unwrap();
    assert!(made.success());
}

/// Runs a job file to its end; returns its output.
fn output(home: &Home, text: &str) -> String {
    let run = home.with_stdin(&["run", "--json", "-"], text).ok();
    let job: muster_api::types::SubmitResponse = serde_json::from_str(&run.stdout).unwrap();
    let job = job.jobs[0].job.to_string();
    let waited = home.muster(&["wait", &job]);
    assert_eq!(waited.code, 0, "{}", home.muster(&["logs", &job]).stdout);
    home.muster(&["logs", "-r", "all", &job]).ok().stdout
}

/// Submits a job file that is refused; returns the message, and checks that nothing was queued.
fn refusal(home: &Home, text: &str) -> String {
    let said = home.with_stdin(&["run", "-"], text).code(2).stderr;
    assert_eq!(
        home.words("ps --json").json::<muster_api::types::JobList>().jobs.len(),
        0,
        "{said}"
    );
    said
}

fn check(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

const PRINT: &str =
    "import os, sys\nprint(sys.prefix, os.environ['VIRTUAL_ENV'], os.environ['RANK'])\n";

#[test]
fn a_virtual_environment_needs_no_lines_of_activation() {
    let home = Home::with_gpus(2);
    venv(&home, "env");
    home.write("train.py", PRINT);
    let env = home.path("env").display().to_string();
    let expected = format!("0: {env} {env} 0\n1: {env} {env} 1\n");
    for run in ["train.py", "python train.py", "[python, train.py]", "[train.py]"] {
        let text = format!("run: {run}\nvenv: env\ntasks: 2\ngpus-per-task: 1");
        assert_eq!(output(&home, &text), expected, "{run}");
    }
    let shown = home.words("show 1").ok().stdout;
    check(&shown, &["with       venv env", "python train.py"]);
    // Elements of a sweep, an option in place of the field, and Python's variable that would mislead it.
    let sweep = "kind: sweep\nparams: {x: [1, 2]}\nvenv: env\nrun: python -c 'import sys; print(sys.prefix)' {x}\nenv: {PYTHONHOME: /nowhere}";
    home.with_stdin(&["run", "--wait", "-o", "sweep-%a", "-"], sweep).ok();
    assert_eq!(home.read("sweep-1"), format!("{env}\n"));
    home.muster(&["run", "--wait", "--venv", "env", "-o", "option", "--", "train.py"]).ok();
    assert_eq!(home.read("option"), format!("{env} {env} 0\n"));
}

#[test]
fn the_environment_of_a_project_of_uv_is_used_and_never_made_by_a_job() {
    let home = Home::with_gpus(1);
    fs::create_dir_all(home.path("ws/member")).unwrap();
    home.write(
        "ws/pyproject.toml",
        "[project]\nname = 'ws'\nversion = '1'\n[tool.uv.workspace]\nmembers = ['member']\n",
    );
    let said = refusal(&home, "run: python -V\nuv: ws/member");
    check(&said, &["is not a project of uv: it has no pyproject.toml"]);
    home.write("ws/member/pyproject.toml", "[project]\nname = 'member'\nversion = '1'\n");
    let said = refusal(&home, "run: python -V\nuv: ws/member");
    check(&said, &["has no environment yet", "uv sync --project"]);
    venv(&home, "ws/.venv");
    let text = "run: python -c 'import sys; print(sys.prefix)'\nuv: ws/member";
    assert_eq!(output(&home, text), format!("{}\n", home.path("ws/.venv").display()));
}

#[test]
fn variables_come_from_files_and_are_shown_nowhere() {
    let home = Home::with_gpus(1);
    fs::create_dir(home.path("jobs")).unwrap();
    home.write("jobs/.env", "# keys\nexport A='hunter2'\nB=file\nHOME=/changed\n");
    home.write("jobs/more.env", "B=later\nC=\"two\\nlines\"\n");
    home.write(
        "jobs/job.yaml",
        "run: echo $A $B $C $HOME\nenv-file: [.env, more.env]\nenv: {C: own}\n",
    );
    home.words("run --wait jobs/job.yaml").ok();
    assert_eq!(home.words("logs 1").ok().stdout, "hunter2 later own /changed\n");
    for shown in ["show 1", "show --json 1", "explain --json 1"] {
        let shown = home.words(shown).ok().stdout;
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    check(&home.words("show 1").ok().stdout, &["env-file .env, more.env"]);
    // A file of an option starts at the current directory.
    home.words("run --wait --env-file jobs/more.env -o option -- printenv B").ok();
    assert_eq!(home.read("option"), "later\n");

    let home = Home::with_gpus(1);
    home.write("bad.env", "A=1\nhunter2\n");
    let said = refusal(&home, "run: 'true'\nenv-file: bad.env");
    check(&said, &["bad.env: line 2: expected NAME=VALUE"]);
    assert!(!said.contains("hunter2"), "{said}");
    check(&refusal(&home, "run: 'true'\nenv-file: none.env"), &["none.env: No such file"]);
}

#[test]
fn secrets_reach_the_process_and_nothing_else() {
    let home = Home::with_gpus(1);
    let file = home.write("home/.key", "hunter2\n");
    let text = "run: echo ${#KEY} $KEY > out\nsecrets: {KEY: ~/.key}\ngpus: 1";
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let said = refusal(&home, text);
    check(
        &said,
        &["the secret KEY cannot be read: other users have access to", "(mode 0644)", "chmod 600"],
    );
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    check(
        &refusal(&home, "run: 'true'\nsecrets: {KEY: none}"),
        &["none: No such file", "umask 077"],
    );

    assert_eq!(output(&home, text), "");
    assert_eq!(home.read("out"), "7 hunter2\n");
    for shown in ["show 1", "show --json 1"] {
        let shown = home.words(shown).ok().stdout;
        check(&shown, &["KEY"]);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    // A job that is submitted from inside does not take it along.
    let inner =
        format!("{} run --wait -o inner -- printenv KEY USER_VALUE", env!("CARGO_BIN_EXE_muster"));
    let text = format!("run: {inner}; true\nsecrets: {{KEY: ~/.key}}\nenv: {{USER_VALUE: u}}");
    output(&home, &text);
    assert_eq!(home.read("inner"), "u\n");
    // Neither the journal nor the records of the task nor the daemon's log have it.
    let mut grep = Command::new("grep");
    let found = grep.args(["-rl", "hunter2"]).arg(home.path("m")).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    // A file that is gone at the start fails the job, with the reason.
    let job = home.run("--hold --secret KEY=home/.key", &["true"]);
    fs::remove_file(&file).unwrap();
    home.muster(&["release", &job.to_string()]).ok();
    assert_ne!(home.muster(&["wait", &job.to_string()]).code, 0);
    let shown = home.muster(&["show", &job.to_string()]).ok().stdout;
    check(&shown, &["the secret KEY cannot be read", "No such file"]);
}

#[test]
fn conda_environments_are_activated_by_their_layout() {
    let home = Home::with_gpus(1);
    let said = refusal(&home, "run: tool\nconda: torch");
    check(
        &said,
        &["there is no conda environment `torch`: no conda, mamba or micromamba was found"],
    );
    let prefix = home.path("home/miniconda3/envs/torch");
    for folder in ["bin", "conda-meta", "etc/conda/activate.d"] {
        fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    fs::create_dir(home.path("home/miniconda3/conda-meta")).unwrap();
    fs::write(
        prefix.join("bin/tool"),
        "#!/bin/sh\necho $CONDA_DEFAULT_ENV $FROM_SCRIPT $FROM_STATE $RANK $SECRET_SEEN\n",
    )
    .unwrap();
    fs::set_permissions(prefix.join("bin/tool"), Permissions::from_mode(0o755)).unwrap();
    fs::write(prefix.join("conda-meta/state"), r#"{"env_vars": {"FROM_STATE": "s"}}"#).unwrap();
    let script = prefix.join("etc/conda/activate.d/a.sh");
    fs::write(
        &script,
        "echo noise\nexport FROM_SCRIPT=\"$CONDA_PREFIX\" RANK=7 SECRET_SEEN=$KEY\n",
    )
    .unwrap();
    let key = home.write("key", "hunter2");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();

    let prefix = prefix.display().to_string();
    let text = "run: tool\nconda: torch\nsecrets: {KEY: key}";
    assert_eq!(output(&home, text), format!("torch {prefix} s 0\n"));
    let text = format!("run: tool\nconda: {prefix}");
    assert_eq!(output(&home, &text), format!("{prefix} {prefix} s 0\n"));
    let home_of = Home::with_gpus(1);
    fs::rename(home.path("home/miniconda3"), home_of.path("home/miniconda3")).unwrap();
    let said = refusal(&home_of, "run: tool\nconda: troch");
    check(&said, &["there is no conda environment `troch`", "the environments are base, torch"]);
    fs::write(home_of.path("home/miniconda3/envs/torch/etc/conda/activate.d/b.sh"), "exit 3\n")
        .unwrap();
    check(&refusal(&home_of, "run: tool\nconda: torch"), &["cannot be activated", "activate.d"]);
}

#[test]
fn a_missing_environment_is_told_before_the_job_is_queued() {
    let home = Home::with_gpus(1);
    venv(&home, "project/.venv");
    for (text, parts) in [
        ("venv: none", &["there is no virtual environment", "python3 -m venv"][..]),
        ("venv: project", &["is not a virtual environment", "did you mean `venv:", ".venv`?"]),
        ("conda: project", &["there is no conda environment `project`"]),
        ("venv: a\nconda: b", &["`venv` and `conda` contradict each other"]),
        (
            "image: x\nvenv: a",
            &["`image` and `venv` contradict each other", "an image has a Python of its own"],
        ),
        ("mounts: /a:/b", &["`mounts` without `image`"]),
        ("modules: [a b]", &["is not the name of a module"]),
        ("secrets: {RANK: f}", &["`RANK` cannot be a secret"]),
        ("secrets: {A: f}\nenv: {A: x}", &["`secrets` and `env` contradict each other"]),
        ("env-files: x", &["did you mean `env-file`?"]),
    ] {
        check(&refusal(&home, &format!("run: python train.py\n{text}")), parts);
    }
    let python = home.path("project/.venv/bin/python");
    fs::remove_file(&python).unwrap();
    std::os::unix::fs::symlink("/gone/python3", &python).unwrap();
    let said = refusal(&home, "run: python train.py\nvenv: project/.venv");
    check(&said, &["has no Python any more: /gone/python3 is missing"]);
}

/// A job with everything that a batch script activates.
const EVERYTHING: &str = "name: all\ngpus: 1\ntime: 1h\nvenv: ~/my env\nmodules: [gcc, cuda/12.4]\nenv-file: .env\nsecrets: {KEY: ~/.key, OTHER: key file}\nrun: train.py\n";

#[test]
fn a_batch_script_activates_the_same_and_becomes_the_same_job() {
    let home = Home::new();
    home.write(".env", "A=file\nB=file\n");
    home.write("job.yaml", &format!("{EVERYTHING}env: {{B: own}}\n"));
    let exported = home.words("export slurm job.yaml -o job.sbatch").ok();
    check(&exported.stderr, &["the values of .env are written out"]);
    let script = home.read("job.sbatch");
    check(
        &script,
        &[
            "export A=file\nexport B=own\n",
            "module load gcc || exit 1\nmodule load cuda/12.4 || exit 1\n",
            "\n. \"$HOME\"/'my env/bin/activate' || exit 1\n",
            "muster_secret KEY \"$HOME\"/.key\nmuster_secret OTHER 'key file'\n",
            "exec /bin/sh -c 'python train.py'",
        ],
    );
    // The job that it becomes gives the same script.
    home.write("again.yaml", &home.words("import job.sbatch").ok().stdout);
    home.words("export slurm again.yaml -o again.sbatch").ok();
    assert_eq!(home.read("again.sbatch"), script, "{}", home.read("again.yaml"));

    // Bash reads secrets under the terms of this machine.
    let start = script.find("muster_secret() {").unwrap();
    let end = start + script[start..].find("\n}\n").unwrap() + 3;
    let key = home.write("key", "hunter2\n\n");
    let read = |mode: u32| {
        fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let text = format!("{}muster_secret KEY key\nprintenv KEY", &script[start..end]);
        let mut bash = Command::new("bash");
        crate::home::HomeRun::of(
            bash.args(["-c", &text]).current_dir(home.path("")).output().unwrap(),
        )
    };
    assert_eq!(read(0o600).ok().stdout, "hunter2\n");
    assert_eq!(read(0o400).ok().stdout, "hunter2\n");
    assert_eq!(read(0o640).ok().stdout, "hunter2\n");
    for mode in [0o644, 0o660, 0o604, 0o620] {
        let refused = read(mode).code(1).stderr;
        check(&refused, &["other users have access to key: chmod 600 key"]);
    }
    fs::remove_file(&key).unwrap();
    check(&read_missing(&home, &script[start..end]), &["the secret KEY cannot be read on"]);
}

fn read_missing(home: &Home, function: &str) -> String {
    let text = format!("{function}muster_secret KEY key\necho reached");
    let mut bash = Command::new("bash");
    let run = bash.args(["-c", &text]).current_dir(home.path("")).output().unwrap();
    let run = HomeRun::of(run).code(1);
    assert_eq!(run.stdout, "");
    run.stderr
}

#[test]
fn an_image_is_one_field_everywhere_and_kubernetes_refuses_what_pods_lack() {
    let home = Home::new();
    home.write(
        "job.yaml",
        "name: one\nimage: nvcr.io/a/b:1\nmounts: /data:/data:ro\nrun: 'true'\n",
    );
    let script = home.words("export slurm job.yaml").ok().stdout;
    check(
        &script,
        &["--container-image='nvcr.io#a/b:1'", "/data:/data:ro", "docker://nvcr.io/a/b:1"],
    );
    let refused = home.words("export kubernetes job.yaml").code(2).stderr;
    check(
        &refused,
        &["`mounts` are directories of this machine", "kubernetes: {volumes: [CLAIM:/path]}"],
    );
    home.write("job.yaml", "name: one\nimage: nvcr.io/a/b:1\nenv-file: .env\nrun: 'true'\n");
    home.write(".env", "A=file\n");
    let objects = home.words("export kubernetes job.yaml").ok().stdout;
    check(&objects, &["nvcr.io/a/b:1", "value: file"]);
    home.write("job.yaml", EVERYTHING);
    let refused = home.words("export kubernetes job.yaml").code(2).stderr;
    check(
        &refused,
        &[
            "`venv`: a folder of this machine is not in the image",
            "`modules`: containers have none",
            "kubectl create secret generic",
            "kubernetes: {env-from: [secret/wandb]}",
        ],
    );
}

/// Stands in for enroot: notes its arguments, and runs the command on the machine itself.
const ENROOT: &str = r#"#!/bin/sh
echo "$@" > asked
for word; do shift; [ "$word" = -- ] && break; done
shift
exec "$@"
"#;

#[test]
fn enroot_runs_an_image_file_where_only_it_is_there() {
    let home = Home::with_gpus(1);
    fs::create_dir(home.path("bin")).unwrap();
    let program = home.write("bin/enroot", ENROOT);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    home.write("x.sqsh", "");
    let job = "name: boxed\nimage: ./x.sqsh\nenv: {TOKEN: hunter2}\nrun: 'echo \"$PWD $MUSTER_TASK $TOKEN\" > out'\n";
    home.write("job.yaml", job);
    let run = |file: &str| {
        let mut command = home.command(&["run", "--wait", file]);
        HomeRun::of(command.env("PATH", home.path("bin")).output().unwrap())
    };
    run("job.yaml").ok();
    let folder = home.path("").canonicalize().unwrap();
    assert_eq!(home.read("out").trim(), format!("{} 0 hunter2", folder.display()));
    let asked = home.read("asked");
    check(
        &asked,
        &["start --rw --mount ", "--env=TOKEN", "--env=NVIDIA_VISIBLE_DEVICES=void", "x.sqsh"],
    );
    assert!(!asked.contains("hunter2"), "{asked}");
    home.write("named.yaml", &job.replace("./x.sqsh", "python:3.12"));
    let refused = run("named.yaml").code(2).stderr;
    check(
        &refused,
        &["enroot cannot run python:3.12", "enroot import -o image.sqsh docker://python:3.12"],
    );
}
