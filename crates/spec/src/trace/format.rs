//! The trace formats, with their names for users, and detection of the format of a text. Rows are
//! not read here.

use super::csv::CsvLayout;
use super::{helios, muster, openb, philly, slurm};

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Muster's own CSV table.
    Csv,
    /// Standard Workload Format 2.2 of the Parallel Workloads Archive.
    Swf,
    /// The table that simulators made of the Philly trace.
    Philly,
    /// The job log of the Philly trace as it was published.
    PhillyJson,
    /// A cluster of the Helios traces.
    Helios,
    /// A cluster of the Acme traces.
    Acme,
    /// A pod list of the openb trace (Alibaba, cluster-trace-gpu-v2023).
    Openb,
    /// Output of `sacct --parsable2`.
    Sacct,
    /// Output of `sacct --json`.
    SacctJson,
    /// Output of `kubectl get pods,jobs -o json`.
    Kubernetes,
}

/// Texts by which a list in JSON is recognised: the first one in the text decides.
const MARKS: [(&str, TraceFormat); 5] = [
    ("\"apiVersion\"", TraceFormat::Kubernetes),
    ("\"attempts\"", TraceFormat::PhillyJson),
    ("\"submitted_time\"", TraceFormat::PhillyJson),
    ("\"jobs\"", TraceFormat::SacctJson),
    ("\"Slurm\"", TraceFormat::SacctJson),
];

impl TraceFormat {
    /// Every format, with its name for users.
    pub const ALL: [(&str, TraceFormat); 10] = [
        ("csv", TraceFormat::Csv),
        ("swf", TraceFormat::Swf),
        ("philly", TraceFormat::Philly),
        ("philly-json", TraceFormat::PhillyJson),
        ("helios", TraceFormat::Helios),
        ("acme", TraceFormat::Acme),
        ("openb", TraceFormat::Openb),
        ("sacct", TraceFormat::Sacct),
        ("sacct-json", TraceFormat::SacctJson),
        ("kubernetes", TraceFormat::Kubernetes),
    ];

    /// Returns true if jobs name their tasks. In other formats they name only their processors or
    /// GPUs in all, and perhaps the number of nodes.
    #[must_use]
    pub fn names_tasks(self) -> bool {
        matches!(self, TraceFormat::Csv | TraceFormat::Openb | TraceFormat::Kubernetes)
    }

    /// Returns the format of the first lines of a text; `None` if there is none. A table that has
    /// some of the required columns of a format is taken for it, so that reading it reports the
    /// missing one.
    #[must_use]
    pub fn detect(head: &[&str]) -> Option<Self> {
        let mut lines = head.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let first = lines.clone().next()?;
        if first.starts_with(['{', '[']) {
            let text = head.join("\n");
            let found = MARKS.iter().filter_map(|(mark, format)| Some((text.find(mark)?, *format)));
            return found.min_by_key(|(at, _)| *at).map(|(_, format)| format);
        }
        let words = first.split_ascii_whitespace();
        if first.starts_with(';')
            || words.take(18).filter(|word| word.parse::<f64>().is_ok()).count() == 18
        {
            return Some(Self::Swf);
        }
        let header = lines.find(|line| !line.starts_with('#'))?;
        let tables = Self::ALL.iter().filter_map(|(_, format)| Some((*format, format.layout()?)));
        let fits = tables.filter_map(|(format, layout)| {
            let header: Vec<&str> =
                header.split(char::from(layout.separator)).map(str::trim).collect();
            let present =
                |names: &[&str]| names.iter().filter(|name| header.contains(name)).count();
            let needed = present(layout.needed);
            let known = present(layout.columns);
            let percent = needed * 100 / layout.needed.len();
            // One column may have its name by chance.
            (needed > 0 && known > 1).then_some(((percent, needed, known), format))
        });
        fits.max_by_key(|(fit, _)| *fit).map(|(_, format)| format)
    }

    /// Returns the name for users.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("?", |(name, _)| name)
    }

    /// Returns the layout of its table; `None` if it is no table.
    pub(super) fn layout(self) -> Option<CsvLayout> {
        match self {
            Self::Csv => Some(muster::TABLE),
            Self::Philly => Some(philly::TABLE),
            Self::Helios => Some(helios::HELIOS),
            Self::Acme => Some(helios::ACME),
            Self::Openb => Some(openb::TABLE),
            Self::Sacct => Some(slurm::TABLE),
            Self::Swf | Self::PhillyJson | Self::SacctJson | Self::Kubernetes => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceReader;

    #[test]
    fn first_lines_tell_the_format() {
        let check = |head: &str, expected| {
            let head: Vec<&str> = head.lines().collect();
            assert_eq!(TraceFormat::detect(&head).map(TraceFormat::name), expected, "{head:?}");
        };
        check("; Version: 2.2\n", Some("swf"));
        check("\n 1 0 0 1 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1 {7} q", Some("swf"));
        check("# made by\nid,submit,runtime", Some("csv"));
        check("timestamp,duration,num_gpus,gpu_time,cluster", Some("philly"));
        check("[\n{\"status\": \"Pass\", \"vc\": \"a\", \"attempts\": []", Some("philly-json"));
        let helios = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue";
        check(helios, Some("helios"));
        check(&helios.replace("gpu_num,", ""), Some("helios"));
        check(&helios.replace("vc", "type"), Some("acme"));
        check(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time",
            Some("openb"),
        );
        check("JobID|State|Submit|Elapsed", Some("sacct"));
        check("{\"meta\": {\"Slurm\": {}}, \"jobs\": [", Some("sacct-json"));
        check("{\n  \"apiVersion\": \"v1\",\n  \"items\": [", Some("kubernetes"));
        check("1 2 3", None);
        check("a,b,submit", None);
        check("id,user,queue", None);
        check("{\"a\": 1}", None);
        check("", None);
    }

    #[test]
    fn a_missing_column_is_named_in_every_table() {
        for (name, format) in TraceFormat::ALL {
            let Some(layout) = format.layout() else { continue };
            // Without `type` it is the table of Helios, and nothing is missing.
            let is_other = |column: &str| (name, column) == ("acme", "type");
            for missing in layout.needed.iter().filter(|column| !is_other(column)) {
                let separator = char::from(layout.separator).to_string();
                let columns = layout.columns.iter().copied().filter(|column| column != missing);
                let header = columns.collect::<Vec<_>>().join(&separator);
                assert_eq!(TraceFormat::detect(&[&header]), Some(format), "{name}: {header}");
                let refusal = TraceReader::new(format).read(&header, &mut |_| {}).unwrap_err();
                assert_eq!(refusal.message, format!("the header has no column `{missing}`"));
            }
        }
    }
}
