//! Converts text to checked models and diagnostics: job documents, queue files, cluster files,
//! facts and site files, rows of traces, and the quantities in them. This crate reads no file, no
//! clock and no environment; texts and sites are arguments.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

pub mod access;
mod advice;
mod cluster;
mod cluster_writer;
mod diagnostic;
mod env_file;
mod field;
mod job;
mod names;
mod partition;
pub mod quantity;
mod queues;
mod queues_writer;
pub mod recipe;
mod schema;
mod site;
mod source;
mod suggest;
mod trace;
mod yaml;

pub use advice::{
    FactsFile, LineError, fact_meant_by, parse_fact_value, parse_facts, parse_facts_line,
    parse_site, site_field,
};
pub use cluster::{Cluster, parse_cluster};
pub use cluster_writer::{ClusterNotes, Unwritable, write_cluster};
pub use diagnostic::{Colour, Diagnostic, Diagnostics};
pub use env_file::{EnvFileError, read_env_file};
pub use job::sweep::{BadTable, read_table};
pub use job::{CheckedJob, ParsedJob, check, check_all, parse, parse_with_notices};
pub use names::{check_name, expand_names};
pub use partition::{ClusterPartition, PartitionError, ServiceNodes, partition};
pub use quantity::EarliestStart;
pub use queues::{QueueFile, QueueNotices, parse_queue_file, parse_queues};
pub use queues_writer::{UnwritableQueues, write_queues};
pub use schema::{cluster_schema, facts_schema, queues_schema, recipe_schema, schema, site_schema};
pub use site::SubmissionSite;
pub use suggest::{did_you_mean, nearest};
pub use trace::openb;
pub use trace::{
    DuplicateIds, JobEnd, RowError, TRACE_HEADER, TraceFormat, TraceJob, TraceReader, TraceRefusal,
    write_trace_job,
};
