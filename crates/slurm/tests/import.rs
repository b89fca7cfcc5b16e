//! Import of Slurm scripts: each finding with a script that has it and a corrected one, and the
//! results for scripts published by others.

#![allow(clippy::disallowed_methods, reason = "the crate is pure; its tests read the scripts")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use muster_model::imported::{ImportOutcome, ImportReport, LaunchMode};
use muster_slurm::import::{self, ImportInput, NotAScript, ids};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Returns name and text of every file of a folder, in order.
fn files(name: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// Imports a script without arguments.
fn import(text: &str, file: &str) -> Result<ImportReport, NotAScript> {
    import::import(text, file, &ImportInput::default())
}

fn rules(report: &ImportReport) -> BTreeSet<&str> {
    report.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn every_rule_finds_its_script_and_lets_the_cured_one_be() {
    let files = files("findings");
    for (rule, text) in &files {
        let (wrong, cured) = text.split_once("---- cured\n").unwrap();
        let wrong = import(wrong, rule).unwrap();
        assert!(rules(&wrong).contains(rule.as_str()), "{rule}: {:#?}", wrong.findings);
        // Nothing else of weight is wrong with either, or the pair would not show what it is for.
        let cured = import(cured, rule).unwrap();
        assert!(!rules(&cured).contains(rule.as_str()), "{rule}: {:#?}", cured.findings);
        let new: Vec<_> =
            rules(&cured).difference(&rules(&wrong)).map(|rule| (*rule).to_owned()).collect();
        assert_eq!(new, Vec::<String>::new(), "{rule}: the cure brings something else");
    }
    let shown: BTreeSet<&str> = files.iter().map(|(rule, _)| rule.as_str()).collect();
    let all: BTreeSet<&str> = ids().map(|(id, ..)| id).collect();
    assert_eq!(shown, all, "every rule has a pair of scripts");
}

#[test]
fn what_scripts_become() {
    let mut text = String::new();
    for (name, script) in files("scripts") {
        let report = import(&script, &name).unwrap();
        let _ = writeln!(text, "== {name}: {:?}: {}", report.launch.how, report.launch.text);
        for option in report.options.iter().filter(|option| option.becomes != ImportOutcome::Field)
        {
            let _ = writeln!(text, "   {:?} {}: {}", option.becomes, option.written, option.text);
        }
        for step in &report.launch.steps {
            let product = (step.tasks, step.per_task, step.processes);
            let _ = writeln!(
                text,
                "   starts {} {product:?} {:?}",
                step.launchers.join(" "),
                step.unknown
            );
        }
        for finding in &report.findings {
            let _ = writeln!(
                text,
                "   {} {}: {}",
                finding.severity.name(),
                finding.rule,
                finding.evidence
            );
        }
        text.push_str(&report.job);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn no_option_of_a_script_is_left_out_of_the_answer() {
    for (name, script) in files("scripts") {
        let report = import(&script, &name).unwrap();
        let lines: BTreeSet<u32> = report.options.iter().map(|option| option.line).collect();
        for (index, line) in
            script.lines().enumerate().filter(|(_, line)| line.starts_with("#SBATCH "))
        {
            assert!(lines.contains(&u32::try_from(index + 1).unwrap()), "{name}: {line}");
        }
        for option in &report.options {
            assert!(!option.text.is_empty(), "{name}: {option:?}");
        }
    }
}

#[test]
fn what_is_no_script_says_what_it_is() {
    let check = |text: &str, expected: &str| {
        let error = import(text, "x").unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.hint().is_empty());
    };
    check("", "it is empty");
    check("#!/bin/bash\r\n#SBATCH -N 1\r\necho\r\n", "CR LF");
    check("import os\n", "Python");
    check("name: a\nrun: b\n", "job file");
    check("#!/bin/sh\n#PBS -N x\n", "PBS");
    check("#BSUB -n 4\necho\n", "LSF");
    assert_eq!(import("words\n", "x").unwrap_err(), NotAScript::NotAScript);
}

#[test]
fn arguments_reach_the_script_in_words_that_it_reads() {
    let check = |text: &str, arguments: &[&str], head: &str, is_found: bool| {
        let given = ImportInput {
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
            ..ImportInput::default()
        };
        let report = import::import(text, "x", &given).unwrap();
        assert!(report.job.contains(head), "{head}\n{}", report.job);
        assert_eq!(rules(&report).contains("arguments-lost"), is_found, "{:#?}", report.findings);
    };
    let text = "#!/bin/bash\n#SBATCH -N2\nsrun ./solve \"$1\" $2\n";
    check(text, &[], "  #!/bin/bash\n  ./solve", true);
    check(
        text,
        &["it's"],
        "  #!/bin/bash\n  # The arguments of the script.\n  set -- 'it'\\''s'\n  ./solve",
        true,
    );
    check(text, &["a", ""], "  set -- a ''\n", false);
    let text = "#!/usr/bin/env -S python3 -u\n#SBATCH -n1\nimport sys\nprint(sys.argv)\n";
    check(text, &[], "  #!/usr/bin/env -S python3 -u\n  import sys\n", true);
    let head = "  #!/bin/sh\n  exec /usr/bin/env -S python3 -u /dev/fd/3 a 'b c' 3<<'MUSTER'\n  import sys\n";
    check(text, &["a", "b c"], head, false);
}

/// Returns the scripts in published pages, from a folder beside the checkout or `MUSTER_SEEDS`.
fn printed() -> Vec<String> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().join("shared/seeds");
    let folder = std::env::var_os("MUSTER_SEEDS").map_or(beside, PathBuf::from);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut scripts = Vec::new();
    for entry in entries.flatten() {
        let page = fs::read_to_string(entry.path()).unwrap_or_default();
        for (start, _) in page.match_indices("#!/bin/bash\n#SBATCH") {
            // A script ends at the first empty line after its first command that does not continue
            // a line with a backslash.
            let rest = &page[start..];
            let first = rest
                .lines()
                .skip(1)
                .position(|line| !line.starts_with("#SBATCH") && !line.is_empty())
                .unwrap_or(0);
            let lines =
                rest.lines().enumerate().take_while(|(at, line)| *at <= first || !line.is_empty());
            let lines: Vec<&str> = lines.map(|(_, line)| line).collect();
            scripts.push(format!("{}\n", lines.join("\n")));
        }
    }
    scripts
}

#[test]
fn scripts_that_pages_print_are_found_wrong_where_they_are() {
    let scripts = printed();
    if scripts.is_empty() {
        println!("skipped: the pages are not here");
        return;
    }
    let found = |mark: &str| {
        let script = scripts.iter().find(|script| script.contains(mark)).unwrap();
        let report = import(script, mark).unwrap();
        let processes = report.launch.steps.iter().map(|step| step.processes).collect::<Vec<_>>();
        (rules(&report).into_iter().map(str::to_owned).collect::<Vec<_>>(), processes)
    };
    let (rules, processes) = found("qwen-finetune");
    let expected = [
        "few-cpus",
        "fixed-port",
        "meeting-without-id",
        "no-memory",
        "output-folder",
        "processes-squared",
    ];
    assert_eq!(rules, expected);
    assert_eq!(processes, [Some(128)], "on 16 GPUs");
    let (rules, processes) = found("--job-name=train");
    assert_eq!(rules, ["fixed-port", "meeting-without-id", "no-memory", "no-time"]);
    assert_eq!(processes, [Some(64)]);
}

/// Returns a script on two nodes with these lines before the head, and after the workers.
fn with_ray(before: &str, after: &str) -> String {
    format!(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n#SBATCH --cpus-per-task=16\n\
         {before}\nH=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n\
         srun -N1 -n1 -w $H ray start --head --port=6379 --block &\n\
         srun -N1 -n1 -x $H ray start --address=$H:6379 --block &\nsleep 30\n{after}\n"
    )
}

fn job_of_ray(text: &str) -> Option<String> {
    let report = import(text, "x").unwrap();
    (report.launch.how == LaunchMode::Ray).then_some(report.job)
}

#[test]
fn what_every_node_needs_is_prepared_in_the_order_of_the_script() {
    let mut wrong = Vec::new();
    let mut check = |before: &str, after: &str, expected: &[&str]| {
        let job = job_of_ray(&with_ray(before, after)).unwrap_or_default();
        if !expected.iter().all(|part| job.contains(part)) {
            wrong.push(format!("{before:?} {after:?}: {expected:?}\n{job}"));
        }
    };
    let program = "python train.py";
    check("", program, &["  #!/bin/bash\n  python train.py\n"]);
    check("export A=1", program, &["env:\n  A: \"1\"\n"]);
    check("module load cuda\nexport A=1", program, &["    module load cuda\n    export A=1\n"]);
    check("export A=~/x", program, &["setup: |\n    export A=~/x\n"]);
    check("export A+=x", program, &["setup: |\n    export A+=x\n"]);
    check("export R=/r\nexport A=$R/src", program, &["  R: /r\n", "    export A=$R/src\n"]);
    check("export NUM=16", program, &["  NUM: \"16\"\n"]);
    check("export REDIS_URL=redis://cache:6379", program, &["REDIS_URL: \"redis://cache:6379\""]);
    check("set -e\nmodule load cuda", program, &["    module load cuda\n", "  set -e\n"]);
    check("cd $SLURM_SUBMIT_DIR\nmodule load cuda", program, &["  cd $SLURM_SUBMIT_DIR\n"]);
    check("source /v/bin/activate", program, &["python: /v/bin/python3"]);
    check("source /opt/bin/activate env", program, &["    source /opt/bin/activate env\n"]);
    check("source env.sh", "python train.py $SLURM_JOB_ID $HOME $1", &["    source env.sh\n"]);
    check("M=/x", "python train.py $M", &["  M=/x\n", "  python train.py $M\n"]);
    check("", "python train.py &\nwait", &["  python train.py\n"]);
    check("", "python a.py\npython b.py &\nwait", &["  python a.py\n  python b.py\n"]);
    check("trap 'ray stop' EXIT", program, &["  #!/bin/bash\n  python train.py\n"]);
    check("", "echo ray start worked\npython train.py", &["  echo ray start worked\n"]);
    check("", "for ((i = 0; i < 2; i++)); do python train.py $i; done", &["python train.py $i"]);
    check(
        "eval \"$(conda shell.bash hook)\"\nconda activate ray",
        program,
        &["    eval \"$(conda shell.bash hook)\"\n    conda activate ray\n"],
    );
    check("ray stop --force\nexport A=1", program, &["  A: \"1\"\n"]);
    let submit = "ray job submit --address=http://127.0.0.1:8265 --working-dir . -- python a.py";
    check("", submit, &["  python a.py\n"]);
    check("", "srun --overlap -N1 --ntasks-per-node=1 -n1 python a.py", &["  python a.py\n"]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_script_of_ray_whose_job_would_differ_stays_as_it_is() {
    let program = "python train.py";
    let scripts = [
        // A program that runs beside the next one.
        ("", "nvidia-smi dmon > gpu.log &\npython train.py"),
        ("", "nvidia-smi dmon &\npython train.py"),
        ("", "python serve.py &\nsleep 60\npython client.py"),
        ("", "(python train.py) &\nwait"),
        ("", "for i in 1 2; do\n  (python train.py $i) &\ndone\nwait"),
        // What the preparation needs comes before it.
        ("VENV=/x\nsource $VENV/bin/activate", program),
        ("ROOT=/x\nexport PYTHONPATH=$ROOT/src", program),
        ("B=$(conda info --base)\nsource $B/etc/profile.d/conda.sh", program),
        ("A=1\nexport A", program),
        ("A=1\nexport A=2", program),
        ("OLD=$A\nexport A=2", program),
        ("export A=1\nA=2", program),
        ("PATH=/x:$PATH", program),
        ("cd /proj\nsource venv/bin/activate", program),
        ("cd /proj", program),
        ("pushd /proj\nsource env.sh", program),
        ("tar xf v.tar\nsource v/bin/activate", program),
        ("if [ -d v ]; then\n  source v/bin/activate\nfi", program),
        ("unset A", program),
        ("set -a\nsource env.sh", program),
        ("source $1/env.sh", program),
        ("source env.sh", "python train.py $MODEL"),
        ("source v/bin/activate\nmodule load python", program),
        ("source v/bin/activate\nexport PATH=/x:$PATH", program),
        ("export A=$(hostname)", program),
        ("N=$(scontrol show hostnames)\nexport A=$N", program),
        ("load() {\n  module load cuda\n}\nload", program),
        ("printf -v A %s x\nexport B=$A", program),
        ("conda create -y -n ray python=3.11", program),
        ("eval python prepare.py", program),
        // What goes with the cluster is more than the cluster.
        ("trap 'ray stop; cp -r out /x' EXIT", program),
        ("if true; then\n  M=/x\n  ray status\nfi", "python train.py $M"),
        ("H=a\nexport A=$H:6379 M=/x", program),
        ("ray status\nfor ((i = 0; i < 2; i++)); do ray status; python train.py; done", program),
        ("", "if true; then\n  export M=/x\n  ray status\nfi\npython train.py"),
        // Ray that other programs start.
        ("ssh node 'ray stop --force'", program),
        ("for n in a b; do\n  ssh $n \"ray start --address=$A\"\ndone", program),
        ("pdsh -w a,b ray  start --address=$A", program),
        ("timeout 60 ray start --address=$A", program),
        ("RAY=/x/ray\n$RAY start --address=$A", program),
        ("cat > w.sh <<X\nray start --address=$A\nX", program),
        // Programs that would run otherwise.
        ("", "srun --nodes=1 --ntasks-per-node=8 python train.py"),
        ("", "ray job submit --working-dir ./src -- python train.py"),
        ("", "ray job submit --runtime-env env.yaml -- python train.py"),
        ("", "ray job submit --entrypoint-num-cpus=1 -- python train.py"),
    ];
    let wrong: Vec<_> = scripts
        .into_iter()
        .filter_map(|(before, after)| Some((before, after, job_of_ray(&with_ray(before, after))?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let elsewhere = with_ray("cd $SLURM_SUBMIT_DIR", program)
        .replace("#SBATCH --nodes", "#SBATCH --chdir=/x\n#SBATCH --nodes");
    assert_eq!(job_of_ray(&elsewhere), None);
}

#[test]
fn a_start_of_ray_with_more_around_it_stays_in_its_script() {
    let written = "srun -N1 -n1 -x $H ray start --address=$H:6379 --block";
    for (worker, is_converted) in [
        (written, true),
        ("ray start --address=$H:6379 --block", true),
        ("nohup srun -N1 -n1 nohup ray start --address=$H:6379 --block", true),
        ("srun -N1 -n1 bash -c 'module load cuda; ray start --address=$H:6379 --block'", false),
        ("bash -c 'ray start --address=$H:6379; python serve.py'", false),
        ("bash -c 'ray start --address=$H:6379'", false),
        ("RAY_x=0 ray start --address=$H:6379", false),
        ("RAY_x=0 srun -N1 -n1 ray start --address=$H:6379", false),
        ("CUDA_VISIBLE_DEVICES=0,1 ray start --address=$H:6379", false),
        ("env X=1 ray start --address=$H:6379", false),
        ("srun -N1 -n1 env X=1 ray start --address=$H:6379", false),
        ("srun -N1 -n1 --export=ALL,X=1 ray start --address=$H:6379", false),
        ("srun -N1 -n1 --chdir=/x ray start --address=$H:6379", false),
        ("srun -N1 -n1 singularity exec x.sif ray start --address=$H:6379", false),
        // Another number of nodes than the job has.
        ("srun -N2 -n2 ray start --address=$H:6379", false),
    ] {
        let text = with_ray("", "python train.py").replace(written, worker);
        assert_eq!(job_of_ray(&text).is_some(), is_converted, "{worker}");
    }
    let text = with_ray("", "python train.py").replace(&format!("{written} &\n"), "");
    assert_eq!(job_of_ray(&text), None, "one node of two");
}

#[test]
fn nodes_of_ray_that_are_told_other_sizes_than_the_job_has_stay_in_their_script() {
    let check = |head: &str, worker: &str, is_converted: bool| {
        let text = with_ray("CPUS=$((SLURM_CPUS_PER_TASK / 2))", "python train.py")
            .replace("--head", &format!("--head {head}"))
            .replace("--address", &format!("{worker} --address"));
        assert_eq!(job_of_ray(&text).is_some(), is_converted, "{head}, {worker}");
    };
    check("--num-gpus=4 --num-cpus=16", "--num-gpus 4 --num-cpus $SLURM_CPUS_PER_TASK", true);
    check("--num-gpus=4", "", true);
    check("--num-gpus=$SLURM_GPUS", "--num-gpus=$SLURM_GPUS", true);
    check("--num-gpus=0", "", false);
    check("--num-gpus=4", "--num-gpus=2", false);
    check("--num-gpus=2", "--num-gpus=2", false);
    check("--num-gpus=$SLURM_GPUS", "--num-gpus=$X", false);
    check("--num-gpus=$X", "", false);
    check("--num-cpus=8", "--num-cpus=16", false);
    check("--num-cpus=$CPUS", "--num-cpus=$CPUS", false);
    check("--resources='{\"a\": 1}'", "", false);
}
