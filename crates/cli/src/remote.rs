//! `--on slurm@HOST`: the verb runs there, over ssh, where Slurm's programs and the file system of
//! the nodes are. This very program is brought along once; nothing else is installed, and nothing
//! stays running.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result};
use clap::Parser;
use muster_backends::slurm::script::quote;

use crate::app::App;
use crate::args::{Cli, Command};
use crate::cmd::run::texts;
use crate::exit::{FAILURE, Failure};

/// Another ssh, with its first words: `ssh -F my.config`.
const SSH: &str = "MUSTER_SSH";
/// Where this program is kept there, below the home of its user. Nodes must see it for `verify`.
const FOLDER: &str = ".local/share/muster/bin";
/// Builds that nobody called for so long are removed when another is brought. Pre-flights of jobs
/// that still wait call theirs by its name.
const KEPT_DAYS: u32 = 90;
/// What stands before what is asked for.
const MARK: &str = "muster-asks";
/// ssh's own failure.
const UNREACHABLE: i32 = 255;

/// Runs the verb there, with this process's streams; answers its exit code.
pub fn run(app: &App, host: &str, command: &Command) -> Result<u8> {
    // 1. The same words, with jobs as text: files of this machine are not there.
    let (files, cures, needs_terminal) = match command {
        Command::Run(args) => (args.files(), args.cures(), false),
        Command::Attach(_) => (&[][..], &[][..], true),
        _ => (&[][..], &[][..], false),
    };
    let spoken =
        std::env::args_os().skip(1).map(OsString::into_string).collect::<Result<Vec<_>, _>>();
    let spoken =
        spoken.map_err(|word| Failure::usage(format!("{} is not UTF-8 text", word.display())))?;
    let mut words = own_words(spoken.into_iter());
    let text = match files {
        [] => None,
        files => {
            let texts = files
                .iter()
                .map(|file| texts::read(app, file, cures))
                .collect::<Result<Vec<_>>>()?;
            replace(&mut words, files)?;
            Some(texts.into_iter().map(|text| text.source).collect::<Vec<_>>().join("\n---\n"))
        }
    };

    // 2. This program, there.
    let program = install(app, host)?;
    let quoted: Vec<String> = words.iter().map(|word| quote::word(word)).collect();
    let line = format!("exec env MUSTER_ON=slurm ~/{program} {}", quoted.join(" "));

    // 3. The verb. A terminal goes along where somebody sits before one.
    let has_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let mut ssh = ssh(host);
    if text.is_none() && (needs_terminal || has_terminal) {
        ssh.insert(ssh.len() - 1, "-t".to_owned());
    }
    let mut process = Process::new(&ssh[0]);
    process.args(&ssh[1..]).arg(line);
    let status = match text {
        None => process.status().with_context(|| format!("cannot run {}", ssh[0]))?,
        Some(text) => {
            let mut child = process
                .stdin(Stdio::piped())
                .spawn()
                .with_context(|| format!("cannot run {}", ssh[0]))?;
            if let Some(mut stdin) = child.stdin.take() {
                // Who does not read it has ended, and its exit code says why.
                let _ = stdin.write_all(text.as_bytes());
            }
            child.wait()?
        }
    };
    // It was reached a moment ago: 255 may be a job's own code, and where it is ssh's, ssh has said
    // why.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE))
}

fn unreachable(host: &str) -> Failure {
    Failure::new(format!("{host} cannot be reached over ssh"))
        .hint(format!("`ssh {host} true` must work without muster; {SSH} names another ssh"))
}

/// The command line without where it runs.
fn own_words(words: impl Iterator<Item = String>) -> Vec<String> {
    let (mut own, mut is_where, mut is_command) = (Vec::new(), false, false);
    for word in words {
        match word.as_str() {
            _ if is_command => own.push(word),
            _ if is_where => is_where = false,
            "--on" => is_where = true,
            _ if word.starts_with("--on=") => {}
            _ => {
                is_command = word == "--";
                own.push(word);
            }
        }
    }
    own
}

/// Puts stdin in the place of files. A value of an option may look the same: what the words then
/// mean tells.
fn replace(words: &mut Vec<String>, files: &[PathBuf]) -> Result<()> {
    let mut places = Vec::new();
    for (nth, file) in files.iter().enumerate() {
        let is_it = |at: &usize| {
            let mut tried = words.clone();
            tried[*at] = "-".to_owned();
            let tried = Cli::try_parse_from(std::iter::once("muster".to_owned()).chain(tried));
            let Ok(Cli { command: Command::Run(args), .. }) = tried else { return false };
            args.files().get(nth).is_some_and(|file| file.as_os_str() == "-")
        };
        let same = |at: &usize| Some(words[*at].as_str()) == file.to_str() && !places.contains(at);
        let place = (0..words.len()).filter(same).find(is_it);
        places.push(
            place.with_context(|| format!("cannot find {} on the command line", file.display()))?,
        );
    }
    places.sort_unstable();
    for (nth, at) in places.iter().enumerate().rev() {
        match nth {
            0 => words[*at] = "-".to_owned(),
            _ => drop(words.remove(*at)),
        }
    }
    Ok(())
}

/// Words that run a line there; the host is the last.
fn ssh(host: &str) -> Vec<String> {
    let named = std::env::var(SSH).unwrap_or_default();
    let mut words: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        words.push("ssh".to_owned());
    }
    words.push(host.to_owned());
    words
}

/// Brings this program there, unless it is there already; answers where, below the home.
fn install(app: &App, host: &str) -> Result<String> {
    // 1. Its name is of its content: another build lies beside it.
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut bytes = Vec::new();
    File::open(&own)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .context("cannot read this program")?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    let path = format!("{FOLDER}/muster-{:016x}", hasher.finish());

    // 2. What there is.
    // A shell may greet first.
    let asked =
        format!("echo {MARK}; uname -sm; test -x ~/{path} && {{ touch ~/{path}; echo there; }}");
    let answer = said(host, &asked, &[])?;
    let mut lines = answer.lines().skip_while(|line| *line != MARK).skip(1);
    let theirs = lines.next().unwrap_or_default().to_owned();
    if lines.next() == Some("there") {
        return Ok(path);
    }
    let uname = rustix::system::uname();
    let ours =
        format!("{} {}", uname.sysname().to_string_lossy(), uname.machine().to_string_lossy());
    if theirs != ours {
        return Err(Failure::new(format!(
            "{host} is `{theirs}`, and this program is for `{ours}`"
        ))
        .hint(format!("install muster there, and `ssh {host} muster …`"))
        .into());
    }

    // 3. In one step: nobody runs half of it.
    app.ui.status(&format!("bringing muster to {host}:~/{path}"));
    let line = format!(
        "mkdir -p ~/{FOLDER} && cat > ~/{path}.$$ && chmod 755 ~/{path}.$$ && mv ~/{path}.$$ ~/{path} && \
         {{ find ~/{FOLDER} -name 'muster-*' -mtime +{KEPT_DAYS} -exec rm -f {{}} + || :; }}"
    );
    said(host, &line, &bytes)?;
    Ok(path)
}

/// What a line prints there.
fn said(host: &str, line: &str, input: &[u8]) -> Result<String> {
    let words = ssh(host);
    let mut process = Process::new(&words[0]);
    process.args(&words[1..]).arg(line).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = process.spawn().with_context(|| format!("cannot run {}", words[0]))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output()?;
    match output.status.code() {
        Some(UNREACHABLE) => Err(unreachable(host).into()),
        // The last of the line is a test, which may fail.
        _ if input.is_empty() || output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        _ => Err(Failure::new(format!("this program cannot be brought to {host}"))
            .hint("its home there must have room, and be writable")
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(line: &str) -> String {
        own_words(line.split(' ').map(str::to_owned)).join(" ")
    }

    #[test]
    fn where_it_runs_is_not_said_twice() {
        assert_eq!(own("ps --on slurm@login -a"), "ps -a");
        assert_eq!(own("--on=slurm@login run job.yaml"), "run job.yaml");
        assert_eq!(own("run --on slurm@login -- tool --on me"), "run -- tool --on me");
    }

    #[test]
    fn files_become_stdin() {
        let replaced = |line: &str, files: &[&str]| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            replace(&mut words, &files.iter().map(PathBuf::from).collect::<Vec<_>>()).unwrap();
            words.join(" ")
        };
        assert_eq!(
            replaced("run --name a.yaml a.yaml --wait b.yaml", &["a.yaml", "b.yaml"]),
            "run --name a.yaml - --wait"
        );
        assert_eq!(replaced("run a.yaml --name a.yaml", &["a.yaml"]), "run - --name a.yaml");
    }
}
