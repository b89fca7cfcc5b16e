//! Server of the page: checks of every request, and the routes. Whoever reaches the port is a stranger
//! until a request carries a key ([`super::access::Access`]).

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::assets::ASSETS;
use super::only::only;
use super::refusal::Refusal;
use super::state::PageState;
use super::{forward, proxy, texts, whatif};

/// Header that carries the key. Only scripts of the page's own origin can set it.
const KEY: HeaderName = HeaderName::from_static("x-muster-page");

/// Longest body of a request; actions are small.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// Headers of every response. The page loads only what this server has, is in no frame, and cannot
/// turn text into markup or code.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Returns the router of the page, with all checks.
pub(super) fn router(state: PageState) -> Router {
    let data =
        forward::router().merge(texts::router()).merge(whatif::router()).merge(proxy::router());
    let data = data.route_layer(from_fn_with_state(state.clone(), require_key));
    let files = ASSETS.iter().fold(Router::new(), |router, asset| {
        let file = || async { ([(header::CONTENT_TYPE, asset.kind)], asset.text) };
        router.route(asset.path, get(file))
    });
    files
        .merge(data)
        .route("/page/open", post(open))
        .fallback(|| async { Refusal::not_found("no such path") })
        .method_not_allowed_fallback(|| async {
            Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "invalid_request",
                "this path requires another method",
            )
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(state.clone(), check_origin))
        // Outermost: a request to the origin of a job reaches nothing of the page.
        .layer(from_fn_with_state(state.clone(), proxy::dispatch))
        .with_state(state)
}

/// Refuses requests that did not come from the page: those for another host, which a name that was
/// bound to this address leads here, and those of pages of other origins.
async fn check_origin(State(state): State<PageState>, request: Request, next: Next) -> Response {
    let answer = match origin_of(&state, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    with_headers(answer)
}

fn origin_of(state: &PageState, request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let host = only(headers, &header::HOST)
        // A host in the request line, as to a proxy, would count in place of the header.
        .filter(|_| request.uri().authority().is_none())
        .filter(|host| state.hosts.iter().any(|known| known == host))
        .ok_or_else(|| Refusal::foreign("this page is on 127.0.0.1 only, at its own port"))?;
    let is_own = |origin: &str| origin.strip_prefix("http://") == Some(host);
    match only(headers, &header::ORIGIN) {
        Some(origin) if is_own(origin) => Ok(()),
        None if !headers.contains_key(header::ORIGIN) && request.method() == Method::GET => Ok(()),
        _ => Err(Refusal::foreign("the request comes from another page")),
    }
}

async fn require_key(State(state): State<PageState>, request: Request, next: Next) -> Response {
    match only(request.headers(), &KEY) {
        Some(key) if state.access.admits(key) => next.run(request).await,
        _ => Refusal::no_access("this browser has no access to the page").into_response(),
    }
}

fn with_headers(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Request of a browser that has a link.
#[derive(Deserialize)]
struct OpenRequest {
    /// Secret of the link.
    link: String,
}

/// Key for that browser.
#[derive(Serialize)]
struct OpenResponse {
    key: String,
}

async fn open(
    State(state): State<PageState>,
    Json(request): Json<OpenRequest>,
) -> Result<Json<OpenResponse>, Refusal> {
    match state.access.open(&request.link)? {
        Some(key) => Ok(Json(OpenResponse { key })),
        None => Err(Refusal::no_access("this link has been used, or a newer one replaced it")),
    }
}
