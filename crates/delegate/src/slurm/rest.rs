//! Client of slurmrestd for the jobs of the queue, in the format of `squeue --json`, and for nodes.
//! Each query has its own connection, a deadline and a size limit. It only reads, and rejects an
//! answer that may come from another cluster: in such an answer submitted jobs would look lost, and
//! would be resubmitted.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::header::{ACCEPT, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::geteuid;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use muster_slurm::job::{self, NativeJob};
use muster_slurm::json::{self, JsonError, number, text};
use muster_slurm::node::{self, NativeNode};

/// Port of an address without one, as in Slurm's examples (slurmrestd(8)).
const PORT: &str = "6820";

/// Timeout of one query: twice Slurm's `MessageTimeout`, for which slurmrestd itself waits for the
/// controller. Slurm's programs are used after it.
const DEADLINE: Duration = Duration::from_secs(20);

/// Maximum size of an answer: some 50,000 jobs of 5 KiB.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Slurm's error code for an unknown job, `ESLURM_INVALID_JOB_ID`.
const INVALID_JOB_ID: u64 = 2017;

/// Path of the cluster's name in the answers of later versions.
const CLUSTER: &str = "/meta/slurm/cluster";

/// Paths of the server's description of its API, tried in order.
const OPENAPI: [&str; 2] = ["/openapi/v3", "/openapi"];

/// Reason why slurmrestd is not queried, or gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// The setting is malformed.
    #[error("`{0}` is not its address; expected unix:/path/to/socket or http://host:port")]
    Address(String),
    /// The token cannot be sent in a header.
    #[error("SLURM_JWT contains no token")]
    Token,
    /// The answers would be for another user, who may see other jobs.
    #[error("it would answer for {asked}, but Slurm's programs for {own}")]
    OtherUser {
        /// User for whom it would answer.
        asked: String,
        /// User who runs this program.
        own: String,
    },
    /// Nothing listens there, or the connection broke.
    #[error("cannot reach {address}: {source}")]
    Unreached {
        /// Address at which slurmrestd was queried.
        address: String,
        /// Error of the connection.
        source: io::Error,
    },
    /// The deadline has passed.
    #[error("{address} did not answer within {secs}s")]
    Timeout {
        /// Address at which slurmrestd was queried.
        address: String,
        /// Deadline of the query in seconds.
        secs: u64,
    },
    /// The server refused the query.
    #[error("it refused with {status}: {message}")]
    Refused {
        /// HTTP status of the answer.
        status: u16,
        /// Message of the server.
        message: String,
    },
    /// Not a slurmrestd, or one with an unknown format.
    #[error("it answered with {0}")]
    Unexpected(String),
    /// The server belongs to another cluster.
    #[error("it belongs to the cluster {other}, not to {own}")]
    OtherCluster {
        /// Cluster of the server.
        other: String,
        /// Cluster of Slurm's programs.
        own: String,
    },
}

/// Token, which is never printed.
#[derive(Clone)]
struct Token(HeaderValue);

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token")
    }
}

/// Address on which slurmrestd listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Socket(PathBuf),
    /// Host name with the port.
    Host(String),
}

impl Address {
    fn read(setting: &str) -> Option<Self> {
        if let Some(path) = setting.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return path.starts_with('/').then(|| Address::Socket(path.into()));
        }
        let host = setting.strip_prefix("http://").unwrap_or(setting).trim_end_matches('/');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_plain) {
            return None;
        }
        // An IPv6 address is in brackets.
        let port =
            host.rsplit(']').next().and_then(|rest| rest.split_once(':')).map(|(_, port)| port);
        match port {
            Some(port) => port.parse::<u16>().ok().map(|_| Address::Host(host.to_owned())),
            None => Some(Address::Host(format!("{host}:{PORT}"))),
        }
    }

    fn text(&self) -> String {
        match self {
            Address::Socket(path) => format!("unix:{}", path.display()),
            Address::Host(host) => format!("http://{host}"),
        }
    }
}

/// Paths of the newest API version of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Routes {
    jobs: String,
    /// Path of one job, without its number.
    job: String,
    nodes: String,
}

/// Client of one slurmrestd, for one user.
#[derive(Clone, Debug)]
pub struct RestClient {
    address: Address,
    user: HeaderValue,
    uid: u32,
    token: Option<Token>,
    deadline: Duration,
    routes: OnceCell<Routes>,
    /// Cluster that the server named in an earlier answer; some versions name it only in answers
    /// with jobs.
    cluster: OnceCell<String>,
}

/// Jobs, with the text of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsReply {
    /// Text as [`job::from_json`] reads it.
    pub text: String,
    /// Jobs in the text.
    pub rows: Vec<NativeJob>,
}

impl RestClient {
    /// Creates a client for an address, `unix:/path/to/socket` or `http://host:port`. `own` is the
    /// user who runs this, `asked` the user of the token where known; without a token only a socket
    /// whose server runs as `own` is accepted.
    ///
    /// # Errors
    /// When the address is malformed, or the answers would be for another user.
    pub fn new(
        setting: &str,
        own: &str,
        asked: Option<&str>,
        token: Option<&str>,
    ) -> Result<Self, RestError> {
        let address =
            Address::read(setting.trim()).ok_or_else(|| RestError::Address(setting.to_owned()))?;
        if let Some(asked) = asked.filter(|asked| *asked != own) {
            return Err(RestError::OtherUser { asked: asked.to_owned(), own: own.to_owned() });
        }
        let header = |text: &str| HeaderValue::from_str(text.trim()).map_err(|_| RestError::Token);
        let token =
            token.filter(|token| !token.trim().is_empty()).map(header).transpose()?.map(Token);
        if let (Address::Host(_), None) = (&address, &token) {
            return Err(RestError::Token);
        }
        Ok(Self {
            address,
            user: header(own)?,
            uid: geteuid().as_raw(),
            token,
            deadline: DEADLINE,
            routes: OnceCell::new(),
            cluster: OnceCell::new(),
        })
    }

    /// Returns all jobs of this cluster's controller, or one with all its elements. `None` where an
    /// answer without jobs does not name the cluster.
    ///
    /// # Errors
    /// When it cannot be reached, refuses, or its answer is not certainly the queue of this
    /// cluster.
    pub async fn jobs(
        &self,
        cluster: &str,
        job: Option<u64>,
    ) -> Result<Option<JobsReply>, RestError> {
        let routes = self.routes.get_or_try_init(|| self.ask_routes()).await?;
        let path = match job {
            Some(number) => format!("{}{number}", routes.job),
            None => routes.jobs.clone(),
        };
        let (status, body) = self.get(&path).await?;
        let Some(value) = value_of(status, &body)? else { return Ok(None) };
        // 1. Check the cluster: later versions name it in the answer, all of them in each job.
        let jobs = value.get("jobs").and_then(Value::as_array).into_iter().flatten();
        let mut clusters: Vec<String> = jobs.map(|job| text(job, "/cluster")).collect();
        clusters.push(text(&value, CLUSTER));
        clusters.retain(|name| !name.is_empty());
        self.is_of(cluster, &clusters)?;
        // 2. Check that each job has its identifying fields.
        let rows = job::from_json(&value).map_err(|error| list_error(status, &error))?;
        let is_named = |user: &str| user.bytes().any(|byte| !byte.is_ascii_digit());
        let is_whole =
            |row: &NativeJob| row.id > 0 && is_named(&row.user) && !row.state.text().is_empty();
        if !rows.iter().all(is_whole) {
            return Err(unexpected("jobs without number, owner or state"));
        }
        if clusters.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8(body.into()).map_err(|_| unexpected("no UTF-8"))?;
        Ok(Some(JobsReply { text, rows }))
    }

    /// Returns all nodes of this cluster. `None` where neither this answer nor an earlier one names
    /// the cluster.
    ///
    /// # Errors
    /// As [`RestClient::jobs`].
    pub async fn nodes(&self, cluster: &str) -> Result<Option<Vec<NativeNode>>, RestError> {
        let routes = self.routes.get_or_try_init(|| self.ask_routes()).await?;
        let (status, body) = self.get(&routes.nodes).await?;
        let Some(value) = value_of(status, &body)? else { return Ok(None) };
        let named = text(&value, CLUSTER);
        let clusters = if named.is_empty() { Vec::new() } else { vec![named] };
        self.is_of(cluster, &clusters)?;
        let nodes = node::from_json(&value).map_err(|error| list_error(status, &error))?;
        let is_whole =
            |node: &NativeNode| !node.name.is_empty() && !node.state.is_empty() && node.cpus > 0;
        if nodes.iter().all(is_whole) {
            Ok(self.cluster.get().map(|_| nodes))
        } else {
            Err(unexpected("nodes without name, state or processors"))
        }
    }

    /// Records that an answer belongs to this cluster; it is an error when one of these names is
    /// another cluster's.
    fn is_of(&self, cluster: &str, named: &[String]) -> Result<(), RestError> {
        if let Some(other) = named.iter().find(|name| !name.eq_ignore_ascii_case(cluster)) {
            return Err(RestError::OtherCluster { other: other.clone(), own: cluster.to_owned() });
        }
        if !named.is_empty() {
            // An earlier answer is sufficient.
            let _ = self.cluster.set(cluster.to_owned());
        }
        Ok(())
    }

    /// Reads the API versions of the server.
    async fn ask_routes(&self) -> Result<Routes, RestError> {
        let mut last = None;
        for path in OPENAPI {
            let (status, body) = self.get(path).await?;
            if status == StatusCode::OK {
                let document: Value =
                    serde_json::from_slice(&body).map_err(|_| unexpected("no JSON"))?;
                let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
                let newest = newest(paths.map(|(path, _)| path.as_str()));
                return newest.ok_or_else(|| unexpected("an API that lists no jobs"));
            }
            last = Some(refused(status, &body));
            if status != StatusCode::NOT_FOUND {
                break;
            }
        }
        Err(last.expect("there is a path to ask"))
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), RestError> {
        let secs = self.deadline.as_secs();
        let late = |_| RestError::Timeout { address: self.address.text(), secs };
        timeout(self.deadline, self.connect_and_get(path)).await.map_err(late)?
    }

    async fn connect_and_get(&self, path: &str) -> Result<(StatusCode, Bytes), RestError> {
        match &self.address {
            Address::Socket(socket) => {
                let stream =
                    UnixStream::connect(socket).await.map_err(|error| self.unreached(error))?;
                if self.token.is_none() {
                    // Without a token slurmrestd answers for the user who runs it.
                    let server = stream.peer_cred().map_err(|error| self.unreached(error))?.uid();
                    if server != self.uid {
                        let asked = format!("uid {server}");
                        let own = format!("uid {}", self.uid);
                        return Err(RestError::OtherUser { asked, own });
                    }
                }
                self.exchange(stream, "localhost", path).await
            }
            Address::Host(host) => {
                let stream =
                    TcpStream::connect(host).await.map_err(|error| self.unreached(error))?;
                self.exchange(stream, host, path).await
            }
        }
    }

    /// Sends one query on one connection.
    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host: &str,
        path: &str,
    ) -> Result<(StatusCode, Bytes), RestError> {
        let broke = |error: hyper::Error| {
            if error.is_parse() {
                unexpected("no HTTP")
            } else {
                self.unreached(io::Error::other(error))
            }
        };
        // 1. Send the query.
        let mut request = Request::builder()
            .uri(path)
            .header(HOST, host)
            .header(ACCEPT, "application/json")
            .header("X-SLURM-USER-NAME", &self.user);
        if let Some(Token(token)) = &self.token {
            request = request.header("X-SLURM-USER-TOKEN", token);
        }
        let request =
            request.body(Empty::<Bytes>::new()).map_err(|_| unexpected("an invalid path"))?;
        // 2. Read the head of the answer.
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broke)?;
        // The task ends with the answer's body, or when the answer is dropped.
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(broke)?;
        // 3. Read the body.
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                unexpected("more than the size limit")
            } else {
                self.unreached(io::Error::other(error))
            }
        })?;
        Ok((status, body.to_bytes()))
    }

    fn unreached(&self, source: io::Error) -> RestError {
        RestError::Unreached { address: self.address.text(), source }
    }
}

/// Returns the paths of the highest version that lists jobs: `/slurm/v0.0.38/jobs`, in later
/// versions with a slash at the end.
fn newest<'a>(paths: impl Iterator<Item = &'a str>) -> Option<Routes> {
    let version = |path: &'a str| {
        let (version, rest) = path.strip_prefix("/slurm/v")?.split_once('/')?;
        let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
        matches!(rest, "jobs" | "jobs/").then_some((numbers?, path))
    };
    let (_, jobs) = paths.filter_map(version).max()?;
    let above = jobs.trim_end_matches('/').strip_suffix("jobs").expect("the path ends so");
    let nodes = format!("{above}nodes{}", if jobs.ends_with('/') { "/" } else { "" });
    Some(Routes { jobs: jobs.to_owned(), job: format!("{above}job/"), nodes })
}

/// Parses an answer; `None` where the controller does not have the job.
fn value_of(status: StatusCode, body: &[u8]) -> Result<Option<Value>, RestError> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return match status {
            StatusCode::OK => Err(unexpected("no JSON")),
            _ => Err(refused(status, body)),
        };
    };
    if number(&value, "/errors/0/error_number") == Some(INVALID_JOB_ID) {
        return Ok(None);
    }
    if status == StatusCode::OK && json::failure(&value).is_none() {
        Ok(Some(value))
    } else {
        Err(refused(status, body))
    }
}

/// Returns the error of a refusal: Slurm's own message, else the first line.
fn refused(status: StatusCode, body: &[u8]) -> RestError {
    let value = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let message = match json::failure(&value) {
        Some(said) => said,
        None => {
            let text = String::from_utf8_lossy(body);
            text.lines().next().unwrap_or_default().chars().take(200).collect()
        }
    };
    RestError::Refused { status: status.as_u16(), message }
}

/// Returns the error for an answer without a list.
fn list_error(status: StatusCode, error: &JsonError) -> RestError {
    match error {
        JsonError::Failed(message) => {
            RestError::Refused { status: status.as_u16(), message: message.clone() }
        }
        JsonError::NoList(what) => unexpected(&format!("no list of {what}")),
    }
}

fn unexpected(what: &str) -> RestError {
    RestError::Unexpected(what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    const JOB: &str = r#"{"job_id": 7, "user_name": "ada", "job_state": "RUNNING", "cluster": "lab", "name": "x"}"#;

    /// Fake slurmrestd on a socket, which returns the entry of `answers` for a path and records the
    /// queries.
    struct FakeRestd {
        dir: tempfile::TempDir,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl FakeRestd {
        fn new(answers: Vec<(&'static str, String)>) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let asked = Arc::default();
            let listener = UnixListener::bind(dir.path().join("rest")).unwrap();
            let kept: Arc<Mutex<Vec<String>>> = Arc::clone(&asked);
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        head.push(char::from(stream.read_u8().await.unwrap()));
                    }
                    let path = head.split(' ').nth(1).unwrap().to_owned();
                    kept.lock().unwrap().push(head);
                    let said = answers
                        .iter()
                        .find(|(known, _)| *known == path)
                        .map(|(_, said)| said.as_str());
                    let said =
                        said.unwrap_or("HTTP/1.1 404 NOT FOUND\r\nContent-Length: 4\r\n\r\nnone");
                    let _ = stream.write_all(said.as_bytes()).await;
                    if said.is_empty() {
                        // The connection stays open without an answer.
                        let _ = stream.read_u8().await;
                    }
                }
            });
            Self { dir, asked }
        }

        /// Returns a server of 22.05 with this list of jobs.
        fn of(jobs: String) -> Self {
            Self::new(vec![
                ("/openapi/v3", paths(&["/slurm/v0.0.38/jobs"])),
                ("/slurm/v0.0.38/jobs", jobs),
            ])
        }

        fn rest(&self, token: Option<&str>) -> RestClient {
            RestClient::new(&format!("unix:{}/rest", self.dir.path().display()), "ada", None, token)
                .unwrap()
        }

        async fn jobs(&self) -> Result<Option<JobsReply>, RestError> {
            self.rest(Some("key")).jobs("lab", None).await
        }

        fn paths(&self) -> Vec<String> {
            let asked = self.asked.lock().unwrap();
            asked.iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect()
        }
    }

    fn http_answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn list(jobs: &[&str]) -> String {
        http_answer("200 OK", &format!(r#"{{"errors": [], "jobs": [{}]}}"#, jobs.join(",")))
    }

    fn paths(paths: &[&str]) -> String {
        let paths: serde_json::Map<String, Value> =
            paths.iter().map(|path| ((*path).to_owned(), Value::Null)).collect();
        http_answer("200 OK", &serde_json::json!({ "paths": paths }).to_string())
    }

    fn message<T: fmt::Debug>(answer: Result<T, RestError>) -> String {
        answer.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn the_newest_version_that_the_server_names_is_asked_as_the_user() {
        let all = [
            "/slurm/v0.0.9/jobs",
            "/slurm/v0.0.40/jobs/",
            "/slurm/v0.0.38/jobs",
            "/slurm/v0.0.41/nodes/",
        ];
        let server = FakeRestd::new(vec![
            ("/openapi", paths(&all)),
            ("/slurm/v0.0.40/jobs/", list(&[JOB])),
            ("/slurm/v0.0.40/job/7", list(&[JOB])),
        ]);
        let rest = server.rest(Some("key"));
        let jobs = rest.jobs("lab", None).await.unwrap().unwrap();
        assert_eq!((jobs.rows[0].id, jobs.rows[0].user.as_str()), (7, "ada"));
        assert_eq!(job::from_json(&serde_json::from_str(&jobs.text).unwrap()), Ok(jobs.rows));
        assert!(rest.jobs("lab", Some(7)).await.unwrap().is_some());
        let asked = ["/openapi/v3", "/openapi", "/slurm/v0.0.40/jobs/", "/slurm/v0.0.40/job/7"];
        assert_eq!(server.paths(), asked, "the versions are asked for once");
        let head = server.asked.lock().unwrap()[2].to_lowercase();
        assert!(head.contains("x-slurm-user-name: ada\r\nx-slurm-user-token: key\r\n"), "{head}");
        assert!(!format!("{rest:?}").contains("key"), "a token is not shown");
    }

    #[tokio::test]
    async fn without_a_token_only_ones_own_server_is_believed() {
        let server = FakeRestd::of(list(&[JOB]));
        assert!(server.rest(None).jobs("lab", None).await.unwrap().is_some());
        assert!(!server.asked.lock().unwrap()[1].to_lowercase().contains("token"));
        let somebody = RestClient { uid: server.rest(None).uid + 1, ..server.rest(None) };
        assert!(matches!(somebody.jobs("lab", None).await, Err(RestError::OtherUser { .. })));
        assert_eq!(server.paths().len(), 2, "no query was sent to another user's server");
        assert!(matches!(
            RestClient::new("http://here", "ada", None, Some(" ")),
            Err(RestError::Token)
        ));
        let other = RestClient::new("unix:/run/rest", "ada", Some("root"), Some("key"));
        assert_eq!(message(other), "it would answer for root, but Slurm's programs for ada");
    }

    #[tokio::test]
    async fn what_may_be_of_another_cluster_is_not_believed() {
        let other = FakeRestd::of(list(&[JOB, &JOB.replace("lab", "attic")])).jobs().await;
        assert_eq!(message(other), "it belongs to the cluster attic, not to lab");
        assert_eq!(
            FakeRestd::of(list(&[])).jobs().await.unwrap(),
            None,
            "no job names the cluster"
        );
        let named = r#"{"meta": {"slurm": {"cluster": "lab"}}, "jobs": []}"#;
        let named = FakeRestd::of(http_answer("200 OK", named)).jobs().await.unwrap();
        assert_eq!(named.unwrap().rows, []);
        let unknown = r#"{"errors": [{"error_number": 2017, "error": "Invalid job id specified"}], "jobs": []}"#;
        assert_eq!(
            FakeRestd::of(http_answer("500 INTERNAL ERROR", unknown)).jobs().await.unwrap(),
            None
        );
    }

    #[tokio::test]
    async fn nodes_are_believed_of_who_has_said_which_cluster_it_is_of() {
        let node = r#"{"nodes": [{"name": "node1", "state": "idle", "cpus": 64}]}"#;
        let server = FakeRestd::new(vec![
            ("/openapi/v3", paths(&["/slurm/v0.0.38/jobs", "/slurm/v0.0.38/nodes"])),
            ("/slurm/v0.0.38/jobs", list(&[JOB])),
            ("/slurm/v0.0.38/nodes", http_answer("200 OK", node)),
        ]);
        let rest = server.rest(None);
        assert_eq!(rest.nodes("lab").await.unwrap(), None);
        rest.jobs("lab", None).await.unwrap();
        assert_eq!(rest.nodes("lab").await.unwrap().unwrap()[0].name, "node1");
        let wrong = r#"{"meta": {"slurm": {"cluster": "attic"}}, "nodes": []}"#;
        let wrong = vec![
            ("/openapi/v3", paths(&["/slurm/v0.0.40/jobs/"])),
            ("/slurm/v0.0.40/nodes/", http_answer("200 OK", wrong)),
        ];
        let wrong = FakeRestd::new(wrong).rest(None).nodes("lab").await;
        assert_eq!(message(wrong), "it belongs to the cluster attic, not to lab");
        let half = vec![
            ("/openapi/v3", paths(&["/slurm/v0.0.38/jobs"])),
            ("/slurm/v0.0.38/nodes", http_answer("200 OK", r#"{"nodes": [{"name": "node1"}]}"#)),
        ];
        let half = FakeRestd::new(half).rest(None).nodes("lab").await;
        assert_eq!(message(half), "it answered with nodes without name, state or processors");
    }

    #[tokio::test]
    async fn what_is_no_list_of_whole_jobs_is_an_error_that_says_so() {
        let failed = r#"{"errors": [{"error_number": 5004, "error": "Unable to contact slurm controller"}], "jobs": []}"#;
        for (answer, expected) in [
            (
                http_answer("401 UNAUTHORIZED", "Authentication failure"),
                "it refused with 401: Authentication failure",
            ),
            (
                http_answer("500 INTERNAL ERROR", failed),
                "it refused with 500: Unable to contact slurm controller",
            ),
            (
                http_answer("200 OK", failed),
                "it refused with 200: Unable to contact slurm controller",
            ),
            (http_answer("200 OK", "<html>"), "it answered with no JSON"),
            (http_answer("200 OK", r#"{"nodes": []}"#), "it answered with no list of jobs"),
            (list(&[JOB, "{}"]), "it answered with jobs without number, owner or state"),
            (
                list(&[&JOB.replace("ada", "1000")]),
                "it answered with jobs without number, owner or state",
            ),
            ("SSH-2.0-OpenSSH\r\n".to_owned(), "it answered with no HTTP"),
        ] {
            assert_eq!(message(FakeRestd::of(answer.clone()).jobs().await), expected, "{answer}");
        }
        let cut = http_answer("200 OK", "{}").replace(": 2", ": 9");
        assert!(
            message(FakeRestd::of(cut).jobs().await).contains("cannot reach unix:"),
            "a truncated answer is an error"
        );
        let without = FakeRestd::new(vec![(
            "/openapi/v3",
            paths(&["/slurm/v0.0.38/nodes", "/slurm/vx/jobs"]),
        )]);
        assert_eq!(message(without.jobs().await), "it answered with an API that lists no jobs");
        assert_eq!(message(FakeRestd::new(vec![]).jobs().await), "it refused with 404: none");
    }

    #[tokio::test]
    async fn who_is_not_there_or_says_nothing_is_left() {
        let server = FakeRestd::of(String::new());
        let rest = RestClient { deadline: Duration::from_millis(50), ..server.rest(None) };
        assert!(matches!(rest.jobs("lab", None).await, Err(RestError::Timeout { .. })));
        std::fs::remove_file(server.dir.path().join("rest")).unwrap();
        assert!(matches!(server.jobs().await, Err(RestError::Unreached { .. })));
    }

    #[test]
    fn addresses_as_slurm_writes_them() {
        let check = |setting: &str, expected: Option<&str>| {
            assert_eq!(
                Address::read(setting).map(|address| address.text()).as_deref(),
                expected,
                "{setting}"
            );
        };
        check("unix:/run/slurmrestd.socket", Some("unix:/run/slurmrestd.socket"));
        check("unix:///run/slurmrestd.socket", Some("unix:/run/slurmrestd.socket"));
        check("http://head1:16820/", Some("http://head1:16820"));
        check("http://head1", Some("http://head1:6820"));
        check("head1:6820", Some("http://head1:6820"));
        check("http://[::1]:6820", Some("http://[::1]:6820"));
        check("http://[::1]", Some("http://[::1]:6820"));
        check("https://head1", None);
        check("unix:rest", None);
        check("head1:port", None);
        check("http://", None);
    }
}
