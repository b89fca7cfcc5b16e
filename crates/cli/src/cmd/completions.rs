//! `muster completions`: what clap knows of verbs and options, and jobs by number and name, which
//! the program is asked for while a person types.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::args::Cli;

/// Verbs whose free words are jobs.
const OF_JOBS: [&str; 12] = [
    "show",
    "logs",
    "attach",
    "explain",
    "verify",
    "wait",
    "cancel",
    "hold",
    "release",
    "requeue",
    "scale",
    "checkpoint",
];
/// Those that also take jobs that have ended.
const OF_ENDED: [&str; 5] = ["show", "logs", "explain", "wait", "requeue"];

pub const EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  muster completions bash > ~/.local/share/bash-completion/completions/muster
  mkdir -p ~/.zfunc && muster completions zsh > ~/.zfunc/_muster
  echo 'fpath+=~/.zfunc; autoload -Uz compinit && compinit' >> ~/.zshrc
  mkdir -p ~/.config/fish/completions
  muster completions fish > ~/.config/fish/completions/muster.fish";

/// Print a completion script for a shell
///
/// Completes verbs, options and, in bash, zsh and fish, your jobs by number and name. Where
/// ~/.zshrc calls `compinit` already, `fpath+=~/.zfunc` alone belongs there, before it. A shell
/// that is started anew has it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "muster", &mut script);
    let script = String::from_utf8(script)?;
    app.ui.bytes(with_jobs(args.shell, script).as_bytes())?;
    Ok(0)
}

/// Adds jobs to a script.
fn with_jobs(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + &bash(),
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + &fish(),
        _ => script,
    }
}

/// What is registered last wins: the function of clap is called, and jobs are added to what it
/// found.
fn bash() -> String {
    format!(
        r#"
_muster_with_jobs() {{
    _muster "$@"
    local word verb=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$word" in
            --) return 0 ;;
            -*) ;;
            *) [[ -z $verb ]] && verb=$word ;;
        esac
    done
    local cur="${{COMP_WORDS[COMP_CWORD]}}" all=""
    [[ $cur == -* || ${{COMP_WORDS[COMP_CWORD-1]}} == -* ]] && return 0
    case "$verb" in
        {ended}) all=--all ;;
        {jobs}) ;;
        *) return 0 ;;
    esac
    COMPREPLY=($(compgen -W "$("${{COMP_WORDS[0]}}" __names $all 2>/dev/null)" -- "$cur"))
}}
complete -F _muster_with_jobs -o nosort muster 2>/dev/null || complete -F _muster_with_jobs muster
"#,
        ended = OF_ENDED.join("|"),
        jobs = OF_JOBS.join("|"),
    )
}

/// Where clap completes any word for a job, jobs are completed.
fn zsh(script: &str) -> String {
    let is_job = |line: &str| {
        let line = line.trim_start();
        [":job -- ", "*::jobs -- "]
            .iter()
            .any(|start| line.trim_start_matches('\'').starts_with(start))
    };
    let lines = script.lines().map(|line| match is_job(line) {
        true => line.replacen(":_default'", ":_muster_jobs'", 1),
        false => line.to_owned(),
    });
    let mut script: Vec<String> = lines.collect();
    let function = format!(
        r#"_muster_jobs() {{
    local -a jobs all
    [[ $curcontext == *:muster-command-({ended}):* ]] && all=(--all)
    jobs=(${{(f)"$(muster __names $all 2>/dev/null)"}})
    compadd -a jobs
}}
"#,
        ended = OF_ENDED.join("|"),
    );
    // Behind the line that names what is completed, which must be the first.
    script.insert(1.min(script.len()), function);
    script.join("\n") + "\n"
}

fn fish() -> String {
    let verb = |verb: &&str| {
        let all = if OF_ENDED.contains(verb) { " --all" } else { "" };
        format!(
            "complete -c muster -n \"__fish_seen_subcommand_from {verb}\" -f -a \"(muster __names{all} 2>/dev/null)\"\n"
        )
    };
    OF_JOBS.iter().map(verb).collect()
}
