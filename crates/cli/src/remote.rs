//! `--on slurm@HOST`: runs the subcommand on that host over ssh, where Slurm's programs and the
//! file system of the nodes are. This binary is copied there once; nothing else is installed, and
//! no process stays behind.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result};
use clap::Parser;
use muster_model::payload::shell_word;

use crate::app::App;
use crate::cmd::run::texts;
use crate::cmd::{Cli, CliCommand};
use crate::exit::{FAILURE, Failure};
use crate::source::SourceText;

/// Variable that replaces `ssh`, with its first arguments: `ssh -F my.config`.
const SSH: &str = "MUSTER_SSH";
/// Folder of this program on the host, below the user's home. For `verify` it must be on a file
/// system that the nodes mount.
const FOLDER: &str = ".local/share/muster/bin";
/// Days without use after which a build is removed when another is copied. Older builds are kept
/// that long because the pre-flight of a pending job calls its build by file name.
const UNUSED_DAYS: u32 = 90;
/// Line that precedes the requested output, after any greeting of the shell.
const MARK: &str = "muster-asks";
/// Exit code of ssh for its own failures.
const UNREACHABLE: i32 = 255;

/// Runs the subcommand on the host with the streams of this process; returns its exit code.
pub fn run(app: &App, host: &str, command: &CliCommand) -> Result<u8> {
    let (files, cures, needs_terminal) = match command {
        CliCommand::Run(args) => (args.files(), args.cures(), false),
        CliCommand::Attach(_) => (&[][..], &[][..], true),
        _ => (&[][..], &[][..], false),
    };
    let texts =
        files.iter().map(|file| texts::read(app, file, cures)).collect::<Result<Vec<_>>>()?;
    send(app, host, files, &texts, needs_terminal)
}

/// Runs the subcommand of this process on the host, with these texts in place of all of its job files;
/// returns its exit code.
pub fn send(
    app: &App,
    host: &str,
    files: &[PathBuf],
    texts: &[SourceText],
    needs_terminal: bool,
) -> Result<u8> {
    // 1. Take the same arguments, but send job files as text on stdin: the host does not have them.
    let spoken =
        std::env::args_os().skip(1).map(OsString::into_string).collect::<Result<Vec<_>, _>>();
    let spoken =
        spoken.map_err(|word| Failure::usage(format!("{} is not UTF-8 text", word.display())))?;
    let mut words = object_conditions(spoken.into_iter());
    let text = match files {
        [] => None,
        files => {
            replace(&mut words, files)?;
            let texts: Vec<&str> = texts.iter().map(|text| text.source.as_str()).collect();
            Some(texts.join("\n---\n"))
        }
    };

    // 2. Install this program on the host.
    let program = install(app, host)?;
    let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    let line = format!("exec env MUSTER_ON=slurm ~/{program} {}", quoted.join(" "));

    // 3. Run the subcommand, on a terminal if this process has one.
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
                // If the process does not read it, it has ended; its exit code says why.
                let _ = stdin.write_all(text.as_bytes());
            }
            child.wait()?
        }
    };
    // The host was reached a moment ago, so 255 may be the code of a job; if it is that of ssh, ssh
    // has printed why.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE))
}

fn unreachable(host: &str) -> Failure {
    Failure::new(format!("cannot reach {host} over ssh"))
        .hint(format!("check that `ssh {host} true` works; {SSH} sets another ssh command"))
}

/// Returns the command line without the options that chose the host: `--on`, and `--site` of `--on auto`.
fn object_conditions(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut own = Vec::new();
    let mut is_where = false;
    let mut is_command = false;
    for word in words {
        match word.as_str() {
            _ if is_command => own.push(word),
            _ if is_where => is_where = false,
            "--on" | "--site" => is_where = true,
            _ if word.starts_with("--on=") || word.starts_with("--site=") => {}
            _ => {
                is_command = word == "--";
                own.push(word);
            }
        }
    }
    own
}

/// Replaces files by `-` for stdin. The value of an option may equal a file's name, so each
/// candidate is tried and the result parsed.
fn replace(words: &mut Vec<String>, files: &[PathBuf]) -> Result<()> {
    let mut places = Vec::new();
    for (nth, file) in files.iter().enumerate() {
        let is_it = |at: &usize| {
            let mut tried = words.clone();
            tried[*at] = "-".to_owned();
            let tried = Cli::try_parse_from(std::iter::once("muster".to_owned()).chain(tried));
            let Ok(Cli { command: CliCommand::Run(args), .. }) = tried else { return false };
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

/// Returns the command that runs a line on the host; the host is its last word.
fn ssh(host: &str) -> Vec<String> {
    let named = std::env::var(SSH).unwrap_or_default();
    let mut words: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        words.push("ssh".to_owned());
    }
    words.push(host.to_owned());
    words
}

/// Copies this program to the host unless it is there already; returns its path below the home.
fn install(app: &App, host: &str) -> Result<String> {
    // 1. Derive the file name from a hash of the content, so that several builds can coexist.
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut bytes = Vec::new();
    File::open(&own)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .context("cannot read this program")?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    let path = format!("{FOLDER}/muster-{:016x}", hasher.finish());

    // 2. Check whether it is there already.
    // The shell may print a greeting first, so the answer follows a mark.
    let asked =
        format!("echo {MARK}; uname -sm; test -x ~/{path} && {{ touch ~/{path}; echo there; }}");
    let answer = output_of(host, &asked, &[])?;
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
            "{host} is `{theirs}`, but this program is built for `{ours}`"
        ))
        .hint(format!("install muster there and run `ssh {host} muster …`"))
        .into());
    }

    // 3. Copy it, and rename it into place, so that a partial copy is never run.
    app.ui.status(&format!("copying muster to {host}:~/{path}"));
    let line = format!(
        "mkdir -p ~/{FOLDER} && cat > ~/{path}.$$ && chmod 755 ~/{path}.$$ && mv ~/{path}.$$ ~/{path} && \
         {{ find ~/{FOLDER} -name 'muster-*' -mtime +{UNUSED_DAYS} -exec rm -f {{}} + || :; }}"
    );
    output_of(host, &line, &bytes)?;
    Ok(path)
}

/// Runs a line on the host with `input` on stdin and returns what it prints.
fn output_of(host: &str, line: &str, input: &[u8]) -> Result<String> {
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
        // A line without input ends with a test, which may fail.
        _ if input.is_empty() || output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        _ => Err(Failure::new(format!("cannot copy this program to {host}"))
            .hint("your home directory there must be writable and have free space")
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(line: &str) -> String {
        object_conditions(line.split(' ').map(str::to_owned)).join(" ")
    }

    #[test]
    fn where_it_runs_is_not_said_twice() {
        assert_eq!(own("ps --on slurm@login -a"), "ps -a");
        assert_eq!(own("--on=slurm@login run job.yaml"), "run job.yaml");
        assert_eq!(own("run --on auto --site site.yaml job.yaml"), "run job.yaml");
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
