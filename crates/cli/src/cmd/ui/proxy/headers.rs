//! Headers of requests to a job and of its responses. The job gets requests for its own address, without the key; the
//! browser gets no cookie for another host and no key that a job has made.

use std::net::SocketAddr;

use axum::http::header::{
    self, CONNECTION, COOKIE, HOST, LOCATION, ORIGIN, REFERER, REFERRER_POLICY, SET_COOKIE, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Cookie with the key of an origin. The job neither gets nor sets it.
pub(super) const KEY_COOKIE: &str = "muster-job-key";

/// Headers that concern one connection (RFC 9110, 7.6.1), besides those that `Connection` names.
const OF_A_CONNECTION: [HeaderName; 7] = [
    CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    UPGRADE,
];

/// Returns the keys among the cookies of a request. A job may have set further ones, for some of its paths.
pub(super) fn keys_of(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let of_key = cookies(headers).filter(|cookie| name_of(cookie) == KEY_COOKIE.as_bytes());
    of_key.filter_map(|cookie| Some(str::from_utf8(cookie).ok()?.split_once('=')?.1.trim()))
}

/// Returns the cookies of a request: bytes, since pages may store any text in them.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let cookies = values.flat_map(|value| value.split(|byte| *byte == b';'));
    cookies.map(<[u8]>::trim_ascii).filter(|cookie| !cookie.is_empty())
}

/// Returns whether a request asks to change to the protocol of websockets.
pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    let says = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|each| each.trim().eq_ignore_ascii_case(word))
    };
    says(CONNECTION, "upgrade") && says(UPGRADE, "websocket")
}

/// Changes the headers of a request of an origin (`http://host`) to those that the job gets.
pub(super) fn to_job(headers: &mut HeaderMap, origin: &str, job: SocketAddr) {
    let is_websocket = is_websocket(headers);
    remove_of_connection(headers);
    if is_websocket {
        set_upgrade(headers);
    }
    let own = format!("http://{job}");
    headers.insert(HOST, text(&job.to_string()));
    // Servers of notebooks accept requests of their own origin only; that it is the page's own was checked before.
    if headers.contains_key(ORIGIN) {
        headers.insert(ORIGIN, text(&own));
    }
    let referer = headers.remove(REFERER);
    let path = referer.as_ref().and_then(|value| value.to_str().ok()?.strip_prefix(origin));
    if let Some(path) = path.filter(|path| path.starts_with('/')) {
        headers.insert(REFERER, text(&format!("{own}{path}")));
    }
    let kept: Vec<&[u8]> =
        cookies(headers).filter(|cookie| name_of(cookie) != KEY_COOKIE.as_bytes()).collect();
    let kept = kept.join(&b"; "[..]);
    headers.remove(COOKIE);
    if !kept.is_empty() {
        headers.insert(COOKIE, bytes(&kept));
    }
}

/// Changes the headers of a job's response to those that the browser gets.
pub(super) fn to_browser(headers: &mut HeaderMap, job: SocketAddr, is_upgraded: bool) {
    remove_of_connection(headers);
    if is_upgraded {
        set_upgrade(headers);
    }
    let set: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().filter_map(cookie).collect();
    headers.remove(SET_COOKIE);
    for each in set {
        headers.append(SET_COOKIE, each);
    }
    // To its own address by another name, such as a redirection to the page for its password.
    let local = [format!("http://{job}/"), format!("http://localhost:{}/", job.port())];
    let within = headers.get(LOCATION).and_then(|value| {
        let target = value.to_str().ok()?;
        local.iter().find_map(|own| target.strip_prefix(own.as_str()))
    });
    if let Some(path) = within.map(|path| format!("/{}", path.trim_start_matches('/'))) {
        headers.insert(LOCATION, text(&path));
    }
    // The name of the origin is for this browser only.
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
}

/// Returns a cookie of a job for its own host only; `None` for one with the name of the key.
fn cookie(value: &HeaderValue) -> Option<HeaderValue> {
    let mut parts = value.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let first = parts.next().filter(|cookie| name_of(cookie) != KEY_COOKIE.as_bytes())?;
    let is_domain = |part: &&[u8]| name_of(part).eq_ignore_ascii_case(b"domain");
    let kept: Vec<&[u8]> =
        std::iter::once(first).chain(parts.filter(|part| !is_domain(part))).collect();
    Some(bytes(&kept.join(&b"; "[..])))
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in OF_A_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

fn set_upgrade(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// Returns a value that was made of addresses, and of values of headers.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).expect("addresses and parts of header values are header values")
}

/// Returns a value that was made of parts of header values.
fn bytes(value: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(value).expect("parts of header values are header values")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN_OF_JOB: &str = "http://job-7-ab.localhost:4000";

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        lines.iter().map(pair).collect()
    }

    fn job() -> SocketAddr {
        "127.0.0.1:8888".parse().unwrap()
    }

    #[test]
    fn a_job_gets_neither_the_key_nor_headers_of_the_connection() {
        let mut headers = map(&[
            ("host", "job-7-ab.localhost:4000"),
            ("cookie", "a=1; muster-job-key=secret; b=2"),
            ("cookie", "muster-job-key=other"),
            ("origin", ORIGIN_OF_JOB),
            ("referer", "http://job-7-ab.localhost:4000/lab?x"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("upgrade", "h2c"),
            ("authorization", "token t"),
        ]);
        to_job(&mut headers, ORIGIN_OF_JOB, job());
        let expected = map(&[
            ("host", "127.0.0.1:8888"),
            ("cookie", "a=1; b=2"),
            ("origin", "http://127.0.0.1:8888"),
            ("referer", "http://127.0.0.1:8888/lab?x"),
            ("authorization", "token t"),
        ]);
        assert_eq!(headers, expected);
        let mut other = map(&[("referer", "http://job-7-ab.localhost:4000.evil.example/")]);
        to_job(&mut other, ORIGIN_OF_JOB, job());
        assert_eq!(other, map(&[("host", "127.0.0.1:8888")]));
    }

    #[test]
    fn only_an_upgrade_to_websockets_is_passed_on() {
        let mut headers = map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")]);
        assert!(is_websocket(&headers));
        to_job(&mut headers, ORIGIN_OF_JOB, job());
        assert!(is_websocket(&headers));
        assert!(!is_websocket(&map(&[("upgrade", "websocket")])));
        assert!(!is_websocket(&map(&[("connection", "upgrade"), ("upgrade", "h2c")])));
    }

    #[test]
    fn cookies_of_a_job_stay_on_its_host_and_are_not_the_key() {
        let mut headers = map(&[
            ("set-cookie", "a=1; Path=/; Domain=localhost; HttpOnly"),
            ("set-cookie", "muster-job-key=mine; Path=/"),
            ("set-cookie", " muster-job-key =mine"),
            ("set-cookie", "b=2;domain=.localhost"),
            ("location", "http://localhost:8888/login"),
            ("transfer-encoding", "chunked"),
        ]);
        to_browser(&mut headers, job(), false);
        let expected = map(&[
            ("set-cookie", "a=1; Path=/; HttpOnly"),
            ("set-cookie", "b=2"),
            ("location", "/login"),
            ("referrer-policy", "same-origin"),
        ]);
        assert_eq!(headers, expected);
    }

    #[test]
    fn a_cookie_of_any_bytes_hides_no_other() {
        let sent = HeaderValue::from_bytes("n=\u{fc}; muster-job-key=k".as_bytes()).unwrap();
        let mut headers = HeaderMap::from_iter([(COOKIE, sent)]);
        assert_eq!(keys_of(&headers).collect::<Vec<_>>(), ["k"]);
        to_job(&mut headers, ORIGIN_OF_JOB, job());
        assert_eq!(headers[COOKIE].as_bytes(), "n=\u{fc}".as_bytes());
        let set = HeaderValue::from_bytes("n=\u{fc}; Domain=localhost".as_bytes()).unwrap();
        assert_eq!(cookie(&set).unwrap().as_bytes(), "n=\u{fc}".as_bytes());
    }

    #[test]
    fn redirections_to_other_sites_stay_what_they_are() {
        for (from, to) in [
            ("http://127.0.0.1:8888/lab?a", "/lab?a"),
            ("http://127.0.0.1:8888//evil.example", "/evil.example"),
            ("http://127.0.0.1:88889/", "http://127.0.0.1:88889/"),
            ("https://other.example/", "https://other.example/"),
            ("/lab", "/lab"),
        ] {
            let mut headers = map(&[("location", from)]);
            to_browser(&mut headers, job(), false);
            assert_eq!(headers.get(LOCATION).unwrap(), to, "{from}");
        }
    }

    #[test]
    fn keys_are_found_among_other_cookies() {
        for (cookie, expected) in [
            ("muster-job-key=k", &["k"][..]),
            ("a=1; muster-job-key=k; b=2", &["k"]),
            ("a=muster-job-key=k", &[]),
            ("muster-job-key=k; muster-job-key=l", &["k", "l"]),
            ("", &[]),
        ] {
            let headers = map(&[("cookie", cookie)]);
            assert_eq!(keys_of(&headers).collect::<Vec<_>>(), expected, "{cookie}");
        }
    }
}
