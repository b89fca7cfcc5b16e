//! Pages of jobs, such as notebooks, in the user's browser. Each port of a job has an origin of its own, a host name below
//! `localhost`, so that code of a job reaches neither the page nor another job (ADR 0064). No route of the page is
//! reachable through it.

mod exchange;
mod headers;
mod target;

use axum::extract::{Path, Query, Request, State};
use axum::http::header::{self, HeaderValue, ORIGIN};
use axum::http::uri::PathAndQuery;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use muster_model::JobId;
use serde::{Deserialize, Serialize};

use super::forward::job_number;
use super::job_origins::JobPort;
use super::only::only;
use super::refusal::Refusal;
use super::state::PageState;

pub(super) use target::is_own;

/// Path of an origin that uses up a link. The only path that the job does not get.
const OPEN: &str = "/.muster/open";
/// Longest path that a link leads to.
const MAX_PATH: usize = 4096;

/// Returns the router of the page for it: making links.
pub(super) fn router() -> Router<PageState> {
    Router::new().route("/page/jobs/{id}/open", post(link))
}

/// Port of a job that a user opens.
#[derive(Deserialize)]
struct LinkRequest {
    /// Index of the element or replica; `None` for a job with one element.
    index: Option<u32>,
    port: u16,
    /// Path and query there.
    path: String,
}

/// Address that opens it once, in the browser that asked.
#[derive(Serialize)]
struct LinkResponse {
    url: String,
}

async fn link(
    State(state): State<PageState>,
    Path(id): Path<String>,
    Json(request): Json<LinkRequest>,
) -> Result<Json<LinkResponse>, Refusal> {
    let LinkRequest { index, port, path } = request;
    let path = checked_path(&path)
        .ok_or_else(|| Refusal::invalid("the path of a link starts with one `/`"))?;
    let of = JobPort { job: JobId(job_number(&id)?), index, port };
    target::address(&state, of).await?;
    let (name, secret) = state.origins.new_link(of, path)?;
    let url = format!("http://{name}.localhost:{}{OPEN}?link={secret}", state.port);
    Ok(Json(LinkResponse { url }))
}

/// Returns a path of the same origin that can stand in an attribute; `None` for another text.
fn checked_path(path: &str) -> Option<String> {
    let parsed: PathAndQuery = path.parse().ok()?;
    let is_within = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\");
    if !is_within || path.len() > MAX_PATH || !parsed.as_str().is_ascii() {
        return None;
    }
    let escaped = |c: char| match c {
        '"' => "%22".to_owned(),
        '\'' => "%27".to_owned(),
        '<' => "%3C".to_owned(),
        '>' => "%3E".to_owned(),
        '\\' => "%5C".to_owned(),
        other => other.to_string(),
    };
    Some(parsed.as_str().chars().map(escaped).collect())
}

/// Answers requests to origins of jobs; all others go on to the page.
pub(super) async fn dispatch(
    State(state): State<PageState>,
    request: Request,
    next: Next,
) -> Response {
    let suffix = format!(".localhost:{}", state.port);
    let host = only(request.headers(), &header::HOST);
    // A host in the request line, as to a proxy, would count in place of the header.
    let host = host.filter(|_| request.uri().authority().is_none());
    let name = host.and_then(|host| host.strip_suffix(&suffix)).map(str::to_owned);
    match name {
        Some(name) => answer(&state, &name, request).await.unwrap_or_else(Refusal::into_text),
        None => next.run(request).await,
    }
}

async fn answer(state: &PageState, name: &str, request: Request) -> Result<Response, Refusal> {
    let of = state.origins.port(name).ok_or_else(|| {
        Refusal::not_found("this page has ended").hint("open it again from the page of its job")
    })?;
    let origin = format!("http://{name}.localhost:{}", state.port);
    check_origin(&origin, &request)?;
    if request.uri().path() == OPEN {
        return open(state, name, &request);
    }
    if !headers::keys_of(request.headers()).any(|key| state.origins.admits(name, key)) {
        return Err(no_access("this browser has no access to the page of this job"));
    }
    let address = match state.origins.found(name) {
        Some(address) => address,
        None => {
            let address = target::address(state, of).await?;
            state.origins.set_found(name, address);
            address
        }
    };
    exchange::pass_on(state, of, address, &origin, request).await
}

fn no_access(message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "no_access", message)
        .hint("open it from the page of the job in `muster ui`")
}

/// Refuses requests of pages of other origins. A browser sends them without the key, which this does not rely on.
fn check_origin(own: &str, request: &Request) -> Result<(), Refusal> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match only(request.headers(), &ORIGIN) {
        Some(origin) if origin == own => Ok(()),
        None if !request.headers().contains_key(ORIGIN) && is_read => Ok(()),
        _ => Err(Refusal::foreign("the request comes from another page")),
    }
}

#[derive(Deserialize)]
struct OpenQuery {
    link: String,
}

/// Uses up a link: sets the key of the origin, and leads to the path of the link.
fn open(state: &PageState, name: &str, request: &Request) -> Result<Response, Refusal> {
    let used = || no_access("this link has been used, or is older than a minute");
    let Query(query) = Query::<OpenQuery>::try_from_uri(request.uri()).map_err(|_| used())?;
    let (key, path) = state.origins.open(name, &query.link)?.ok_or_else(used)?;
    // The key is for requests of this origin's own pages only (`Strict`). A redirection would still be one of the page,
    // so a page of this origin leads on.
    let cookie = format!("{}={key}; Path=/; HttpOnly; SameSite=Strict", headers::KEY_COOKIE);
    let target = path.replace('&', "&amp;");
    let text = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Muster</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={target}\"><a href=\"{target}\">Open</a>\n"
    );
    let cookie = HeaderValue::from_str(&cookie).expect("names and hexadecimal digits are a header");
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::checked_path;

    #[test]
    fn a_link_leads_to_a_path_of_its_own_origin() {
        for (path, expected) in [
            ("/", Some("/")),
            ("/lab?token=a&b=c", Some("/lab?token=a&b=c")),
            ("/a'b", Some("/a%27b")),
            ("", None),
            ("lab", None),
            ("//evil.example/", None),
            ("/\\evil.example/", None),
            ("http://evil.example/", None),
            ("/a b", None),
            ("/a\nb", None),
        ] {
            assert_eq!(checked_path(path).as_deref(), expected, "{path:?}");
        }
        for text in ["/\"><script>", "/?q=\"><script>"] {
            assert!(
                checked_path(text).is_none_or(|path| !path.contains(['"', '<', '>'])),
                "{text}"
            );
        }
        assert_eq!(checked_path(&format!("/{}", "a".repeat(5000))), None);
    }
}
