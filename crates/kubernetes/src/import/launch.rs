//! Launchers in the command of a task (torchrun, accelerate, deepspeed, mpirun, servers of models), as far
//! as the words show them. It reads no shell beyond words, quotes and separators: what it cannot read is unknown.

use super::draft::ProgramDraft;

/// Names by which programs start torchrun.
const TORCHRUN: [&str; 2] = ["torchrun", "torch.distributed.run"];

/// Launcher of processes, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundLauncher {
    pub(super) name: &'static str,
    words: Vec<String>,
}

impl FoundLauncher {
    /// Returns the value of an option, `--name=value` or `--name value`; `-` and `_` are the same.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let plain = |word: &str| word.trim_start_matches('-').replace('_', "-");
        self.words.iter().enumerate().find_map(|(index, word)| {
            if !word.starts_with('-') {
                return None;
            }
            match word.split_once('=') {
                Some((option, value)) => (plain(option) == name).then_some(value),
                None if plain(word) == name => self.words.get(index + 1).map(String::as_str),
                None => None,
            }
        })
    }

    /// Returns true if an option is given, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.option(name).is_some()
            || self.words.iter().any(|word| word.trim_start_matches('-').replace('_', "-") == name)
    }

    /// Returns the nodes that it waits for; the fewest of a range. `None` if not a number.
    pub(super) fn nodes(&self) -> Option<u64> {
        let option = match self.name {
            "accelerate" => "num-machines",
            "deepspeed" => "num-nodes",
            _ => "nnodes",
        };
        self.option(option)?.split(':').next()?.parse().ok()
    }

    /// Returns the processes that it starts in each task, of which each has this many GPUs; `default` is
    /// that of torchrun's environment. `None` if the words do not say it.
    pub(super) fn processes(&self, gpus: u64, default: Option<u64>) -> Option<u64> {
        match self.name {
            "torchrun" => match self.option("nproc-per-node") {
                Some("gpu" | "auto") => Some(gpus.max(1)),
                Some(count) => count.parse().ok(),
                None => default.or(Some(1)),
            },
            "deepspeed" => {
                self.option("num-gpus").map_or(Some(gpus.max(1)), |count| count.parse().ok())
            }
            "accelerate" => {
                let all: u64 = self.option("num-processes")?.parse().ok()?;
                let machines =
                    self.option("num-machines").map_or(Some(1), |count| count.parse().ok())?;
                (machines > 0 && all.is_multiple_of(machines)).then(|| all / machines)
            }
            _ => None,
        }
    }

    /// Returns the number of GPUs over which a server of models splits one; `None` if the words do not say it.
    pub(super) fn model_parts(&self) -> Option<u64> {
        if !matches!(self.name, "vllm" | "sglang") {
            return None;
        }
        let number = |names: [&str; 3]| {
            let given = names.iter().find_map(|name| self.option(name));
            given.map_or(Some(1), |text| text.parse::<u64>().ok())
        };
        let tensor = number(["tensor-parallel-size", "tp-size", "tp"])?;
        let pipeline = number(["pipeline-parallel-size", "pp-size", "pp"])?;
        tensor.checked_mul(pipeline)
    }

    /// Returns true if it says where its processes meet.
    pub(super) fn has_rendezvous(&self) -> bool {
        ["rdzv-endpoint", "master-addr", "main-process-ip", "hostfile", "dist-init-addr"]
            .iter()
            .any(|name| self.has(name))
    }
}

/// Returns the first launcher of a program.
pub(super) fn launcher(run: &ProgramDraft) -> Option<FoundLauncher> {
    match run {
        ProgramDraft::Words(words) => {
            let text = words.iter().any(|word| word.contains([' ', '\n']));
            let nested = text.then(|| {
                words.iter().flat_map(|word| commands(word)).find_map(|words| of_words(&words))
            });
            of_words(words).or(nested.flatten())
        }
        ProgramDraft::Text(text) => commands(text).iter().find_map(|words| of_words(words)),
    }
}

fn of_words(words: &[String]) -> Option<FoundLauncher> {
    words.iter().enumerate().find_map(|(index, word)| {
        let base = word.rsplit('/').next().unwrap_or(word);
        let name = match base {
            _ if TORCHRUN.contains(&base) => "torchrun",
            "accelerate" => "accelerate",
            "deepspeed" => "deepspeed",
            "mpirun" | "mpiexec" => "mpirun",
            "vllm" if words.get(index + 1).is_some_and(|word| word == "serve") => "vllm",
            "vllm.entrypoints.openai.api_server" => "vllm",
            "sglang.launch_server" => "sglang",
            _ => return None,
        };
        Some(FoundLauncher { name, words: words[index + 1..].to_vec() })
    })
}

/// Splits a text for a shell into commands of words.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let end_word = |word: &mut String, commands: &mut Vec<Vec<String>>| {
        if !word.is_empty() {
            commands.last_mut().expect("there is always a last command").push(std::mem::take(word));
        }
    };
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.push(letter),
            (None, '"' | '\'') => quote = Some(letter),
            (None, '\n' | ';' | '|' | '&') => {
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            (None, _) if letter.is_whitespace() => end_word(&mut word, &mut commands),
            (None, _) => word.push(letter),
        }
    }
    end_word(&mut word, &mut commands);
    commands.retain(|words| words.first().is_some_and(|first| !first.starts_with('#')));
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(Option<u64>, Option<u64>, bool)>) {
        let found = launcher(&ProgramDraft::Text(text.to_owned()));
        let found = found.map(|one| (one.nodes(), one.processes(8, None), one.has_rendezvous()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn launchers_are_found_with_their_numbers() {
        check("python train.py", None);
        check("# torchrun --nnodes=2\npython train.py", None);
        check("torchrun --nnodes=2 --nproc_per_node 8 train.py", Some((Some(2), Some(8), false)));
        check(
            "set -e\nexec torchrun \\\n  --nnodes 1:4 --rdzv-endpoint=$MASTER_ADDR:29500 a.py",
            Some((Some(1), Some(1), true)),
        );
        check(
            "python -m torch.distributed.run --nproc-per-node=gpu a.py",
            Some((None, Some(8), false)),
        );
        check(
            "accelerate launch --num_machines 2 --num_processes 16 --main_process_ip x a.py",
            Some((Some(2), Some(8), true)),
        );
        check("cd /x && deepspeed --num_gpus 4 a.py", Some((None, Some(4), false)));
    }

    #[test]
    fn words_are_read_as_well_as_texts() {
        let words = ["/bin/bash", "-lc", "torchrun --nnodes=3 a.py"].map(str::to_owned).to_vec();
        assert_eq!(launcher(&ProgramDraft::Words(words)).unwrap().nodes(), Some(3));
        let words = ["torchrun", "--nnodes", "2", "a.py"].map(str::to_owned).to_vec();
        assert_eq!(launcher(&ProgramDraft::Words(words)).unwrap().nodes(), Some(2));
    }
}
