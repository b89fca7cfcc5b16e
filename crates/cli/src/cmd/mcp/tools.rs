//! The tools that an assistant may use: a closed list, each with its parameters and the command that it runs.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Tool of the server.
pub(super) struct ToolKind {
    /// Name in the protocol.
    pub(super) name: &'static str,
    /// Use of the tool, for the assistant.
    pub(super) description: &'static str,
    /// True if it changes something.
    pub(super) changes: bool,
    /// Words of the command before its parameters.
    words: &'static [&'static str],
    parameters: &'static [Parameter],
}

/// Parameter of a tool.
struct Parameter {
    name: &'static str,
    description: &'static str,
    is_required: bool,
    place: ParameterPlace,
}

/// Place of a value in the command.
enum ParameterPlace {
    /// Word of its own, which cannot be an option.
    Word,
    /// Value of an option.
    Option(&'static str),
    /// Option without a value, for `true`.
    Flag(&'static str),
    /// Text on the standard input of the command.
    Input,
}

/// Command of a tool with its values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolCall {
    /// Words of the command.
    pub(super) arguments: Vec<String>,
    /// Text for its standard input; mostly empty.
    pub(super) input: String,
}

const JOB: Parameter = Parameter {
    name: "job",
    description: "Number or name of the job; an element of an array as 12[7]",
    is_required: true,
    place: ParameterPlace::Word,
};

const JOB_FILE: Parameter = Parameter {
    name: "job_file",
    description: "Text of a Muster job file in YAML, such as `name: train\\ngpus: 8\\ntime: 2h\\nrun: python train.py`",
    is_required: true,
    place: ParameterPlace::Input,
};

/// Returns a parameter that may be left out.
const fn option(name: &'static str, option: &'static str, description: &'static str) -> Parameter {
    Parameter { name, description, is_required: false, place: ParameterPlace::Option(option) }
}

/// All tools, in the order in which they are listed.
pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "list_jobs",
        description: "Lists jobs with their states, GPUs, reasons for waiting and expected starts.",
        changes: false,
        words: &["ps"],
        parameters: &[
            Parameter {
                name: "ended",
                description: "True to list jobs that have ended, too",
                is_required: false,
                place: ParameterPlace::Flag("--all"),
            },
            option("user", "--user", "Only jobs of this user"),
            option("queue", "--queue", "Only jobs of this queue and those below it"),
            option(
                "state",
                "--state",
                "Only jobs in this state: pending, running, done, failed, …",
            ),
            option("name", "--name", "Only jobs whose name matches; * matches any characters"),
            option("limit", "--limit", "Most rows"),
        ],
    },
    ToolKind {
        name: "show_job",
        description: "Shows one job in full: resources, places, attempts, outcome, last lines of a failure.",
        changes: false,
        words: &["show"],
        parameters: &[JOB],
    },
    ToolKind {
        name: "explain_job",
        description: "Says why a job waits, when it is expected to start, and what would start it now.",
        changes: false,
        words: &["explain"],
        parameters: &[JOB],
    },
    ToolKind {
        name: "job_logs",
        description: "Reads the output of a job.",
        changes: false,
        words: &["logs"],
        parameters: &[
            JOB,
            option("lines", "--tail", "Only this many last lines of each task"),
            option("rank", "--rank", "Only this rank"),
            option("grep", "--grep", "Only lines that match this regular expression"),
            option("since", "--since", "Only what was written since then: 10m, 2h"),
        ],
    },
    ToolKind {
        name: "list_queues",
        description: "Lists queues with quota, borrowing, use and waiting jobs.",
        changes: false,
        words: &["queues"],
        parameters: &[],
    },
    ToolKind {
        name: "list_nodes",
        description: "Lists nodes with their GPUs, what holds them, and what is out of service.",
        changes: false,
        words: &["nodes"],
        parameters: &[],
    },
    ToolKind {
        name: "usage",
        description: "Sums GPU-hours by user and queue: held, and lost in failures and restarts.",
        changes: false,
        words: &["usage"],
        parameters: &[
            option("since", "--since", "Start of the period: 30d, or 2026-08-01"),
            option("by", "--by", "user, queue, job, or several with commas"),
        ],
    },
    ToolKind {
        name: "check_job",
        description: "Says what would happen if a job file were submitted: errors, or its expected start. Submits nothing.",
        changes: false,
        words: &["run", "--dry-run", "-"],
        parameters: &[JOB_FILE],
    },
    ToolKind {
        name: "advise",
        description: "Recommends a control plane (Slurm, Kubernetes, k3s, Ray, none) for a workload, with reasons and what would change the answer.",
        changes: false,
        words: &["advise", "--facts", "-"],
        parameters: &[Parameter {
            name: "facts",
            description: "YAML mapping: nodes (number); tightly-coupled, bare-metal, long-lived-services, multi-tenant, python-native-pipeline, edge-or-dev (true or false)",
            is_required: true,
            place: ParameterPlace::Input,
        }],
    },
    ToolKind {
        name: "submit_job",
        description: "Submits a job file. Check it with check_job first.",
        changes: true,
        words: &["run", "-"],
        parameters: &[JOB_FILE],
    },
    ToolKind {
        name: "cancel_job",
        description: "Cancels a job; its processes are ended.",
        changes: true,
        words: &["cancel"],
        parameters: &[JOB],
    },
    ToolKind {
        name: "hold_job",
        description: "Keeps a waiting job from starting.",
        changes: true,
        words: &["hold"],
        parameters: &[JOB],
    },
    ToolKind {
        name: "release_job",
        description: "Undoes a hold.",
        changes: true,
        words: &["release"],
        parameters: &[JOB],
    },
    ToolKind {
        name: "requeue_job",
        description: "Stops a running job and queues it again.",
        changes: true,
        words: &["requeue"],
        parameters: &[JOB],
    },
];

impl ToolKind {
    /// Returns the JSON Schema of the parameters.
    pub(super) fn schema(&self) -> JsonObject {
        let kind = |parameter: &Parameter| match parameter.place {
            ParameterPlace::Flag(_) => {
                json!({ "type": "boolean", "description": parameter.description })
            }
            ParameterPlace::Word | ParameterPlace::Option(_) => {
                json!({ "type": ["string", "integer"], "description": parameter.description })
            }
            ParameterPlace::Input => {
                json!({ "type": "string", "description": parameter.description })
            }
        };
        let properties: JsonObject = self
            .parameters
            .iter()
            .map(|parameter| (parameter.name.to_owned(), kind(parameter)))
            .collect();
        let required: Vec<&str> = self
            .parameters
            .iter()
            .filter(|parameter| parameter.is_required)
            .map(|parameter| parameter.name)
            .collect();
        JsonObject::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), Value::Object(properties)),
            ("required".to_owned(), json!(required)),
            ("additionalProperties".to_owned(), json!(false)),
        ])
    }

    /// Returns the command for these values.
    ///
    /// # Errors
    /// One line on the first value that is missing, unknown or of another kind.
    pub(super) fn call(&self, values: &JsonObject) -> Result<ToolCall, String> {
        let known = |name: &String| self.parameters.iter().any(|one| one.name == name);
        if let Some(name) = values.keys().find(|name| !known(name)) {
            return Err(format!("{} has no parameter `{name}`", self.name));
        }
        let mut call = ToolCall {
            arguments: self.words.iter().map(|word| (*word).to_owned()).collect(),
            input: String::new(),
        };
        for parameter in self.parameters {
            let name = parameter.name;
            let Some(value) = values.get(name).filter(|value| !value.is_null()) else {
                if parameter.is_required {
                    return Err(format!("{} needs `{name}`", self.name));
                }
                continue;
            };
            let text = match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            match (&parameter.place, text) {
                (ParameterPlace::Word, Some(word)) if word.starts_with('-') => {
                    return Err(format!("`{name}` begins with a dash: {word}"));
                }
                (ParameterPlace::Word, Some(word)) => call.arguments.push(word),
                (ParameterPlace::Option(option), Some(text)) => {
                    call.arguments.push(format!("{option}={text}"));
                }
                (ParameterPlace::Input, Some(text)) => call.input = text,
                (ParameterPlace::Flag(flag), None) if value.is_boolean() => {
                    call.arguments.extend((*value == true).then(|| (*flag).to_owned()));
                }
                _ => return Err(format!("`{name}` has a value of another kind: {value}")),
            }
        }
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str, values: &Value) -> Result<Vec<String>, String> {
        let tool = TOOLS.iter().find(|one| one.name == tool).unwrap();
        tool.call(values.as_object().unwrap()).map(|call| call.arguments)
    }

    #[test]
    fn values_reach_the_command_and_never_as_options() {
        assert_eq!(
            call("list_jobs", &json!({"ended": true, "limit": 5})).unwrap(),
            ["ps", "--all", "--limit=5"]
        );
        assert_eq!(
            call("list_jobs", &json!({"user": "--watch", "ended": false})).unwrap(),
            ["ps", "--user=--watch"]
        );
        assert_eq!(call("show_job", &json!({"job": 12})).unwrap(), ["show", "12"]);
        for (tool, values, expected) in [
            ("show_job", json!({"job": "--json"}), "`job` begins with a dash: --json"),
            ("show_job", json!({}), "show_job needs `job`"),
            ("show_job", json!({"job": null}), "show_job needs `job`"),
            ("show_job", json!({"job": 1, "jobs": 2}), "show_job has no parameter `jobs`"),
            ("show_job", json!({"job": [1]}), "`job` has a value of another kind: [1]"),
            ("list_jobs", json!({"ended": "yes"}), "`ended` has a value of another kind: \"yes\""),
        ] {
            assert_eq!(call(tool, &values).unwrap_err(), expected);
        }
    }

    #[test]
    fn every_tool_is_a_command_of_this_binary() {
        use clap::Parser;
        for tool in TOOLS {
            let required = tool.parameters.iter().filter(|one| one.is_required);
            let values = required.map(|one| (one.name.to_owned(), json!("1"))).collect();
            let call = tool.call(&values).unwrap();
            let words = ["muster".to_owned()].into_iter().chain(call.arguments);
            crate::cmd::Cli::try_parse_from(words)
                .unwrap_or_else(|error| panic!("{}: {error}", tool.name));
        }
    }
}
