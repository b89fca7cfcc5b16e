//! Options that describe a job, as fields of a job file. Values are passed on as typed:
//! `muster-spec` parses them, so that its errors are the same as for a file.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::exit::Failure;

/// Options of the job; each overrides the same field in every document.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Job (each option overrides the field of the same name in the file)")]
pub struct Overrides {
    /// Name of the job
    #[arg(short = 'J', long, alias = "job-name", value_name = "NAME")]
    name: Option<String>,
    /// Kind of workload: task, service or notebook
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// For a service: number of replicas: 2, or 2..6 for 2 guaranteed and up to 4 opportunistic
    /// ones on idle GPUs
    #[arg(long, value_name = "RANGE", allow_negative_numbers = true)]
    replicas: Option<String>,
    /// For a service: port of its first replica; each further replica has the next port
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    port: Option<String>,
    /// For a notebook: stop it after this time without activity, or `none`
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    idle: Option<String>,
    /// GPUs per node, or of the single task without --nodes: 8, or 0.5 for half a GPU
    #[arg(short = 'G', long, value_name = "N", allow_negative_numbers = true)]
    gpus: Option<String>,
    /// GPU model, or several acceptable ones: h100 or h100,a100
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    gpu: Vec<String>,
    /// Number of nodes; all start together (gang scheduling)
    #[arg(short = 'N', long, value_name = "N", allow_negative_numbers = true)]
    nodes: Option<String>,
    /// Number of tasks, on any nodes; all start together (gang scheduling)
    #[arg(short = 'n', long, alias = "ntasks", value_name = "N", allow_negative_numbers = true)]
    tasks: Option<String>,
    /// Number of GPUs per task
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    gpus_per_task: Option<String>,
    /// Tasks per node; the GPUs of the node are divided among them
    #[arg(long, alias = "ntasks-per-node", value_name = "N", allow_negative_numbers = true)]
    tasks_per_node: Option<String>,
    /// Number of CPUs per task
    #[arg(
        short = 'c',
        long,
        alias = "cpus-per-task",
        value_name = "N",
        allow_negative_numbers = true
    )]
    cpus: Option<String>,
    /// Memory per task, such as 64GB
    #[arg(long, alias = "mem", value_name = "SIZE", allow_negative_numbers = true)]
    memory: Option<String>,
    /// Time limit: 12h, 90m, 1-12:00:00 or none; backfill uses it
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    time: Option<String>,
    /// Time between SIGTERM and SIGKILL when the job is stopped
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// Queue; on Slurm its last component is the account
    #[arg(short, long, value_name = "QUEUE")]
    queue: Option<String>,
    /// On Slurm: partition, or several; the job runs in the one where it starts first
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    partition: Vec<String>,
    /// On Slurm: account to charge
    #[arg(short = 'A', long, value_name = "NAME")]
    account: Option<String>,
    /// On Slurm: quality of service (QOS)
    #[arg(long, value_name = "NAME")]
    qos: Option<String>,
    /// On Slurm: required node features, such as a100&nvlink
    #[arg(short = 'C', long, value_name = "FEATURES")]
    constraint: Option<String>,
    /// On Slurm: an additional sbatch option, such as --mail-type=END
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Advance reservation; the job runs only inside it
    #[arg(long, value_name = "NAME")]
    reservation: Option<String>,
    /// Priority within the queue; higher starts first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<String>,
    /// Array job, one element per index: 0-199, 0-199%32 for at most 32 at a time, 1-9:2 with a
    /// step, 1,3,7-9 as a list
    #[arg(short, long, value_name = "RANGE", allow_negative_numbers = true)]
    array: Option<String>,
    /// Dependency on a job, by number or by the name of one of yours: 12, afterok:12,
    /// afternotok:12, afterany:12, after:12
    #[arg(short = 'd', long, alias = "dependency", value_name = "JOB")]
    after: Vec<String>,
    /// Submit the job held; `muster release` lets it start
    #[arg(short = 'H', long)]
    hold: bool,
    /// Earliest start: +2h, or 2026-08-01T06:00:00Z
    #[arg(short = 'b', long, value_name = "WHEN")]
    begin: Option<String>,
    /// Environment variable, in addition to those of the current environment
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// File with environment variables, NAME=VALUE lines; --env overrides them
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
    /// Environment variable whose value is in a file that only you can read
    #[arg(long, value_name = "NAME=FILE")]
    secret: Vec<String>,
    /// Python virtual environment to run in
    #[arg(long, value_name = "DIR")]
    venv: Option<String>,
    /// Conda environment to run in, by name or folder
    #[arg(long, value_name = "NAME")]
    conda: Option<String>,
    /// Project of uv to run in: the folder with its pyproject.toml
    #[arg(long, value_name = "DIR")]
    uv: Option<String>,
    /// Environment modules to load: gcc,cuda/12.4
    #[arg(long, alias = "module", value_name = "NAME", value_delimiter = ',')]
    modules: Vec<String>,
    /// Image to run in: nvcr.io/nvidia/pytorch:24.05-py3, or a file
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Directory to mount into the image: /data:/data, or /models:/models:ro
    #[arg(long, value_name = "SOURCE:TARGET")]
    mount: Vec<String>,
    /// Working directory; by default the current one
    #[arg(short = 'D', long, alias = "chdir", value_name = "DIR")]
    workdir: Option<String>,
    /// File that output is appended to; %j is the job, %A the array job, %a the array index, %t the
    /// rank, %x the name, %u the user
    #[arg(short, long, value_name = "PATH")]
    output: Option<String>,
    /// File for standard error; by default the same as for the output
    #[arg(long, value_name = "PATH")]
    error: Option<String>,
    /// Restart policy when a task fails or is lost: never, on-failure, or the maximum number of
    /// restarts of the gang
    #[arg(long, value_name = "RULE", allow_negative_numbers = true)]
    restart: Option<String>,
    /// Checkpoint signal and how long before the time limit it is sent: USR1@60s
    #[arg(long, alias = "signal", value_name = "SIGNAL@TIME")]
    checkpoint: Option<String>,
    /// Address that is told when the job ends, is preempted, leaves its GPUs idle, or comes near its time limit: a
    /// mail address or a URL; none for no notices
    #[arg(long, value_name = "ADDRESS")]
    notify: Vec<String>,
    /// Node label that is required
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// Nodes to exclude: node07 or node[01-04]
    #[arg(short = 'x', long, value_name = "NODES")]
    exclude: Vec<String>,
}

impl Overrides {
    /// Returns the options as fields of a job document, by their names there.
    pub fn fields(&self) -> Result<Map<String, Value>> {
        self.check_output()?;
        let mut fields = self.scalars();
        self.add_lists(&mut fields)?;
        let slurm = self.slurm();
        if !slurm.is_empty() {
            fields.insert("slurm".to_owned(), Value::Object(slurm));
        }
        if self.hold {
            fields.insert("hold".to_owned(), json!(true));
        }
        if let Some(rule) = &self.restart {
            let value =
                if rule.parse::<i64>().is_ok() { json!({ "max": rule }) } else { json!(rule) };
            fields.insert("restart".to_owned(), value);
        }
        if let Some(checkpoint) = &self.checkpoint {
            let (signal, grace) = checkpoint.split_once('@').ok_or_else(|| {
                Failure::usage(format!("`--checkpoint {checkpoint}` has no time"))
                    .hint("for example: --checkpoint USR1@60s")
            })?;
            fields.insert("checkpoint".to_owned(), json!({ "signal": signal, "grace": grace }));
        }
        Ok(fields)
    }

    /// Rejects `--output json` and `--output text`, which other subcommands take for formats.
    fn check_output(&self) -> Result<(), Failure> {
        match self.output.as_deref() {
            Some(format @ ("json" | "text")) => Err(Failure::usage(format!(
                "--output of `run` takes a file, but `{format}` is a format"
            ))
            .hint(format!("`--json` writes JSON; `--output ./{format}` names a file"))),
            _ => Ok(()),
        }
    }

    /// Returns the fields with a single value.
    fn scalars(&self) -> Map<String, Value> {
        let options = [
            ("name", &self.name),
            ("kind", &self.kind),
            ("replicas", &self.replicas),
            ("port", &self.port),
            ("idle", &self.idle),
            ("gpus", &self.gpus),
            ("nodes", &self.nodes),
            ("tasks", &self.tasks),
            ("gpus-per-task", &self.gpus_per_task),
            ("tasks-per-node", &self.tasks_per_node),
            ("cpus", &self.cpus),
            ("memory", &self.memory),
            ("time", &self.time),
            ("grace", &self.grace),
            ("queue", &self.queue),
            ("reservation", &self.reservation),
            ("priority", &self.priority),
            ("array", &self.array),
            ("begin", &self.begin),
            ("venv", &self.venv),
            ("conda", &self.conda),
            ("uv", &self.uv),
            ("image", &self.image),
            ("workdir", &self.workdir),
            ("output", &self.output),
            ("error", &self.error),
        ];
        let given = |(name, value): (&str, &Option<String>)| {
            value.as_ref().map(|value| (name.to_owned(), json!(value)))
        };
        options.into_iter().filter_map(given).collect()
    }

    /// Adds the fields with lists and mappings.
    fn add_lists(&self, fields: &mut Map<String, Value>) -> Result<()> {
        for (name, values) in [
            ("gpu", &self.gpu),
            ("after", &self.after),
            ("exclude", &self.exclude),
            ("notify", &self.notify),
            ("modules", &self.modules),
            ("mounts", &self.mount),
        ] {
            if !values.is_empty() {
                fields.insert(name.to_owned(), json!(values));
            }
        }
        if !self.env_file.is_empty() {
            fields.insert("env-file".to_owned(), json!(self.env_files()?));
        }
        for (name, option, pairs) in [
            ("env", "--env", &self.env),
            ("secrets", "--secret", &self.secret),
            ("labels", "--label", &self.label),
        ] {
            if !pairs.is_empty() {
                fields.insert(name.to_owned(), Value::Object(mapping(option, pairs)?));
            }
        }
        Ok(())
    }

    /// Returns the files of variables: those of options start at the current directory, not at the job file.
    fn env_files(&self) -> Result<Vec<String>> {
        let whole = |file: &PathBuf| {
            let path = std::path::absolute(file)?;
            path.into_os_string().into_string().map_err(|_| {
                Failure::usage(format!("{}: the path is not UTF-8 text", file.display())).into()
            })
        };
        self.env_file.iter().map(whole).collect()
    }

    /// Returns the fields of `slurm:`, which only apply on Slurm.
    fn slurm(&self) -> Map<String, Value> {
        let mut slurm = Map::new();
        for (name, value) in
            [("account", &self.account), ("qos", &self.qos), ("constraint", &self.constraint)]
        {
            slurm.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
        }
        for (name, values) in [("partition", &self.partition), ("options", &self.sbatch)] {
            if !values.is_empty() {
                slurm.insert(name.to_owned(), json!(values));
            }
        }
        slurm
    }
}

fn mapping(option: &str, pairs: &[String]) -> Result<Map<String, Value>> {
    let pair = |text: &String| {
        let (name, value) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                let failure = Failure::usage(format!("`{option} {text}` is not NAME=VALUE"));
                match option {
                    "--env" => failure.hint("the current environment is passed to the job anyway"),
                    _ => failure,
                }
            })?;
        Ok((name.to_owned(), json!(value)))
    };
    pairs.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct OverridesCommand {
        #[command(flatten)]
        overrides: Overrides,
    }

    fn check(words: &[&str], expected: Value) {
        let probe = OverridesCommand::try_parse_from([&["probe"], words].concat()).unwrap();
        assert_eq!(Value::Object(probe.overrides.fields().unwrap()), expected);
    }

    #[test]
    fn options_become_fields() {
        check(&[], json!({}));
        check(&["--gpus", "8", "--nodes", "2"], json!({ "gpus": "8", "nodes": "2" }));
        check(
            &["-n", "5", "-c", "4", "--mem", "64GB"],
            json!({ "tasks": "5", "cpus": "4", "memory": "64GB" }),
        );
        check(&["--gpu", "h100,a100"], json!({ "gpu": ["h100", "a100"] }));
        check(&["-e", "A=1", "-e", "B=x=y"], json!({ "env": { "A": "1", "B": "x=y" } }));
        check(&["-q", "vision", "-J", "fsdp"], json!({ "queue": "vision", "name": "fsdp" }));
        check(
            &["-p", "gpu,short", "-A", "ml", "--sbatch", "--mail-type=END"],
            json!({ "slurm": { "partition": ["gpu", "short"], "account": "ml", "options": ["--mail-type=END"] } }),
        );
        check(
            &["--hold", "--after", "3", "-d", "afterany:4"],
            json!({ "hold": true, "after": ["3", "afterany:4"] }),
        );
        check(
            &["--kind", "service", "--replicas", "2..6", "--port", "8000"],
            json!({ "kind": "service", "replicas": "2..6", "port": "8000" }),
        );
        check(
            &["--kind", "notebook", "--idle", "30m"],
            json!({ "kind": "notebook", "idle": "30m" }),
        );
        check(&["-o", "a-%j.txt", "--error", "e"], json!({ "output": "a-%j.txt", "error": "e" }));
        check(
            &["--venv", ".venv", "--secret", "KEY=~/.key", "--modules", "gcc,cuda/12.4"],
            json!({ "venv": ".venv", "secrets": { "KEY": "~/.key" }, "modules": ["gcc", "cuda/12.4"] }),
        );
        check(&["--env-file", "/a/.env"], json!({ "env-file": ["/a/.env"] }));
        check(
            &["--image", "ubuntu", "--mount", "/data:/data"],
            json!({ "image": "ubuntu", "mounts": ["/data:/data"] }),
        );
        check(&["--reservation", "exam"], json!({ "reservation": "exam" }));
        check(&["--restart", "3"], json!({ "restart": { "max": "3" } }));
        check(&["--restart", "on-failure"], json!({ "restart": "on-failure" }));
        check(
            &["--checkpoint", "USR1@60s"],
            json!({ "checkpoint": { "signal": "USR1", "grace": "60s" } }),
        );
        check(&["--priority", "-5"], json!({ "priority": "-5" }));
    }

    #[test]
    fn malformed_pairs_are_refused() {
        for words in [
            ["--env", "A"],
            ["--env", "=1"],
            ["--label", "x"],
            ["--checkpoint", "USR1"],
            ["-o", "json"],
        ] {
            let probe =
                OverridesCommand::try_parse_from([&["probe"], &words[..]].concat()).unwrap();
            assert!(probe.overrides.fields().is_err(), "{words:?}");
        }
    }
}
