//! docs/tutorial.md: all of its commands, run in order in one shell as a reader would, succeed.

use std::path::Path;
use std::process::Command;

use crate::home::{Home, HomeRun};

/// The blocks of the page that a reader types.
fn commands() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("```\n").expect("the block is closed").0.to_owned())
        .collect()
}

#[test]
fn all_commands_of_the_tutorial_work() {
    let home = Home::new();
    let commands = commands();
    assert!(commands.len() > 12, "{commands:?}");
    let binary = env!("CARGO_BIN_EXE_muster");
    let script = format!("set -e\nmuster() {{ '{binary}' \"$@\"; }}\n{}", commands.join("\n"));
    let shell = home.command(&["--version"]);
    let mut command = Command::new("/bin/sh");
    let environment = shell.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(["-c", &script]).env_clear().envs(environment).current_dir(home.path(""));
    let run = HomeRun::of(command.output().unwrap()).ok();
    for shown in [
        "hello, I have GPU 0,1",
        "the job exited with 3",
        "3: rank 3 of 4",
        "learning rate 7",
        "10: saved its progress",
        "second is pending",
        "8 of 4 virtual",
        "preempted",
        "#SBATCH --gpus-per-task=1",
    ] {
        assert!(run.stdout.contains(shown), "no `{shown}` in:\n{}\n{}", run.stdout, run.stderr);
    }
}
