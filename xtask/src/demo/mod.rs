//! The recording at the top of the README: types the lines of docs/demo.txt into a real terminal with
//! a release build, keeps what appears as docs/demo.cast (asciicast v2, which asciinema plays), and
//! draws that as docs/demo.svg.

mod svg;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cargo;

/// Size of the terminal, in characters.
const COLUMNS: u16 = 100;
const ROWS: u16 = 24;

/// Longest pause that is shown: longer ones are cut, since a running job is dull to watch.
const LONGEST_PAUSE_SECS: f64 = 4.0;

/// Piece of terminal output, with its time since the start.
pub struct Output {
    seconds: f64,
    text: String,
}

/// Runs `cargo xtask demo`: records the session and draws it.
pub fn record(root: &Path) -> Result<()> {
    let built = Command::new(cargo())
        .args(["build", "--release", "--package", "muster"])
        .current_dir(root)
        .status()?;
    ensure!(built.success(), "the release build failed");
    let lines = std::fs::read_to_string(root.join("docs/demo.txt"))?;
    let temp = tempfile::tempdir()?;
    let typed = temp.path().join("demo.sh");
    std::fs::write(&typed, script(&lines))?;
    let output = temp.path().join("out");
    let timing = temp.path().join("timing");
    // From util-linux: a terminal of its own, and when each piece of output came.
    let mut recorder = Command::new("script");
    recorder
        .args(["--quiet", "--return", "--log-out"])
        .arg(&output)
        .arg("--log-timing")
        .arg(&timing)
        .arg("--command")
        .arg(format!("stty cols {COLUMNS} rows {ROWS}; sh {}", typed.display()))
        .env("MUSTER_HOME", temp.path().join("muster"))
        .env("PATH", format!("{}:/usr/bin:/bin", root.join("target/release").display()))
        .env("TERM", "xterm-256color")
        .current_dir(root);
    ensure!(recorder.status().context("script, of util-linux")?.success(), "a command failed");
    let outputs = read(&std::fs::read(&output)?, &std::fs::read_to_string(&timing)?)?;
    std::fs::write(root.join("docs/demo.cast"), cast(&outputs))?;
    draw(root)
}

/// Runs `cargo xtask demo --draw`: draws docs/demo.cast again, without recording.
pub fn draw(root: &Path) -> Result<()> {
    let cast = std::fs::read_to_string(root.join("docs/demo.cast"))?;
    std::fs::write(root.join("docs/demo.svg"), svg::draw(&parse(&cast)?, COLUMNS, ROWS))?;
    Ok(())
}

/// Returns a shell script that types the lines and runs them.
fn script(lines: &str) -> String {
    let mut script = String::from(
        "prompt() { printf '\\033[32m$\\033[0m '; sleep 0.6; }\n\
         type() { printf '%s' \"$1\" | sed 's/./&\\n/g' | while IFS= read -r c; do printf '%s' \"$c\"; sleep 0.03; done; }\n",
    );
    for line in lines.lines().skip(1).filter(|line| !line.is_empty()) {
        let quoted = line.replace('\'', "'\\''");
        match line.strip_prefix("~ ") {
            Some(seconds) => script.push_str(&format!("sleep {seconds}\n")),
            None if line.starts_with('#') => {
                script.push_str(&format!("prompt; printf '\\033[2m%s\\033[0m\\n' '{quoted}'\n"));
            }
            None => script.push_str(&format!("prompt; type '{quoted}'; echo; {line}\n")),
        }
    }
    script.push_str("prompt\nmuster stop-daemon >/dev/null 2>&1\n");
    script
}

/// Reads a log of script(1): `seconds bytes` per piece, in order.
fn read(output: &[u8], timing: &str) -> Result<Vec<Output>> {
    let start = output.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut rest = &output[start..];
    let mut seconds = 0.0;
    let mut outputs = Vec::new();
    for line in timing.lines() {
        let mut words = line.split_whitespace();
        let (Some(pause), Some(length)) = (words.next(), words.next()) else { continue };
        let pause: f64 = pause.parse()?;
        let length: usize = length.parse()?;
        seconds += pause.min(LONGEST_PAUSE_SECS);
        let (piece, left) = rest.split_at(length.min(rest.len()));
        outputs.push(Output { seconds, text: String::from_utf8_lossy(piece).into_owned() });
        rest = left;
    }
    Ok(outputs)
}

/// Returns the recording as asciicast v2: a header and an event per line.
fn cast(outputs: &[Output]) -> String {
    let header = json!({ "version": 2, "width": COLUMNS, "height": ROWS, "title": "muster" });
    let events = outputs.iter().map(|one| json!([one.seconds, "o", one.text]).to_string());
    std::iter::once(header.to_string()).chain(events).map(|line| line + "\n").collect()
}

fn parse(cast: &str) -> Result<Vec<Output>> {
    let event = |line: &str| -> Result<Output> {
        let (seconds, _, text): (f64, String, String) = serde_json::from_str(line)?;
        Ok(Output { seconds, text })
    };
    cast.lines().skip(1).map(event).collect()
}
