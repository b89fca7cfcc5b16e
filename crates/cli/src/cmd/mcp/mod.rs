//! `muster mcp`: a server of the Model Context Protocol on stdin and stdout. Every tool is a command of this binary, run in a
//! process of its own, so that an assistant sees what a person would, everywhere that `--on` reaches.

mod command;
mod tools;

use anyhow::Result;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};

use self::command::ToolCommand;
use self::tools::{TOOLS, ToolKind};
use crate::app::App;
use crate::exit::Failure;

/// Text that tells an assistant what the server is for.
const INSTRUCTIONS: &str = "Muster schedules GPU jobs. Begin with list_jobs; explain_job says why a job waits and when it will start; \
     job_logs has its output; advise recommends a control plane. Jobs are named by number or by name.";

/// Offer Muster to an assistant, by the Model Context Protocol
///
/// Speaks the protocol on standard input and output; the assistant starts it. Its tools list, show and explain jobs, read
/// their output, list queues, nodes and usage, check a job file, and advise. They change nothing unless --allow-changes is
/// given, which adds tools that submit, cancel, hold, release and requeue jobs of the user that runs it.
#[derive(Debug, clap::Args)]
pub struct McpArgs {
    /// Also offer tools that submit, cancel, hold, release and requeue jobs
    #[arg(long)]
    allow_changes: bool,
}

/// Runs `muster mcp`; returns its exit code.
pub async fn run(app: &App, args: McpArgs) -> Result<u8> {
    let server = Server { command: ToolCommand::new(&app.global)?, allows: args.allow_changes };
    let failed = |error: String| Failure::new(format!("the connection failed: {error}"));
    let service =
        server.serve(rmcp::transport::stdio()).await.map_err(|error| failed(error.to_string()))?;
    service.waiting().await.map_err(|error| failed(error.to_string()))?;
    Ok(0)
}

/// Server of one assistant.
struct Server {
    command: ToolCommand,
    /// True if tools may change something.
    allows: bool,
}

impl Server {
    fn offered(&self) -> impl Iterator<Item = &'static ToolKind> {
        TOOLS.iter().filter(|tool| self.allows || !tool.changes)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("muster", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let describe = |tool: &ToolKind| {
            let mut described = Tool::new(tool.name, tool.description, tool.schema());
            described.annotations = Some(ToolAnnotations::from_raw(
                None,
                Some(!tool.changes),
                Some(tool.changes),
                Some(!tool.changes),
                Some(false),
            ));
            described
        };
        Ok(ListToolsResult::with_all_items(self.offered().map(describe).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.offered().find(|tool| tool.name == request.name) else {
            let known = TOOLS.iter().any(|tool| tool.name == request.name);
            let message = if known {
                format!("{} changes something; start the server with --allow-changes", request.name)
            } else {
                format!("there is no tool {}", request.name)
            };
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let call = tool.call(&arguments).map_err(|error| ErrorData::invalid_params(error, None))?;
        // A command that fails says why; the assistant may then ask otherwise.
        let result = match self.command.run(&call).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
        };
        Ok(result.into())
    }
}
