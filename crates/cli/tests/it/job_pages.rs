//! Pages of jobs through `muster ui`: who reaches them, what the job and the browser get of each other, websockets, and
//! what is said when there is nothing to reach.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use muster_model::view::JobState;
use serde_json::json;

use crate::home::{Home, PATIENCE};
use crate::page::{Page, PageResponse};
use crate::services::free_ports;

/// Server that returns the head of each request, tries to set cookies beyond its own, and returns what a websocket
/// sends in capitals.
const ECHO: &str = r#"exec perl -MIO::Socket::INET -e '
    $SIG{CHLD} = "IGNORE";
    my $server = IO::Socket::INET->new(
        Listen => 5, LocalAddr => "127.0.0.1", LocalPort => $ENV{PORT}, ReuseAddr => 1) or die $@;
    while (my $client = $server->accept) {
        next if fork;
        my $head = "";
        while (my $line = <$client>) { last if $line eq "\r\n"; $head .= $line }
        if ($head =~ /^upgrade: websocket/mi) {
            syswrite $client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
            while (sysread $client, my $bytes, 100) { syswrite $client, uc $bytes }
        } else {
            print $client "HTTP/1.1 200 OK\r\nSet-Cookie: own=1; Domain=localhost\r\n";
            print $client "Set-Cookie: muster-job-key=stolen\r\nConnection: close\r\n";
            print $client "Content-Length: ", length $head, "\r\n\r\n$head";
        }
        close $client;
        exit;
    }'"#;

/// Running service with one replica and its page.
struct ServedJob {
    home: Home,
    page: Page,
    /// Header with the key of the page.
    key: String,
    job: u64,
    port: u16,
}

/// Origin of a job, opened in a browser.
struct OpenedOrigin {
    host: String,
    /// Header that its own pages send.
    origin: String,
    /// `Cookie` header with its key and another cookie.
    cookie: String,
}

impl ServedJob {
    fn start() -> Self {
        let home = Home::with_gpus(2);
        let port = free_ports();
        let job = home.sh(&format!("--name api --kind service --port {port} --gpus 1"), ECHO);
        home.until("the service is ready", || home.job(job).service.unwrap().ready == 1);
        let page = Page::start(&home);
        let key = page.key();
        Self { home, page, key, job, port }
    }

    /// Asks the page for a link to a port of a job.
    fn link(&self, job: u64, port: u16, path: &str) -> PageResponse {
        let body = json!({ "index": 0, "port": port, "path": path }).to_string();
        let headers = [
            &*self.page.host(),
            &*self.page.origin(),
            &*self.key,
            "Content-Type: application/json",
        ];
        self.page.raw(&format!("POST /page/jobs/{job}/open"), &headers, &body)
    }

    /// Returns host name with port, and path of a new link to the service.
    fn address(&self) -> (String, String) {
        let link = self.link(self.job, self.port, "/lab?token=t&x=1");
        assert_eq!(link.status, 200, "{link:?}");
        let url = link.json()["url"].as_str().unwrap().to_owned();
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        (host.to_owned(), format!("/{path}"))
    }

    fn open(&self) -> OpenedOrigin {
        let (name, path) = self.address();
        let host = format!("Host: {name}");
        let opened = self.page.raw(&format!("GET {path}"), &[&host], "");
        assert_eq!(opened.status, 200, "{opened:?}");
        let (_, rest) = opened.head.split_once("set-cookie: ").unwrap();
        let key = rest.split(';').next().unwrap();
        OpenedOrigin {
            host,
            origin: format!("Origin: http://{name}"),
            cookie: format!("Cookie: a=1; {key}; b=2"),
        }
    }
}

#[test]
fn a_link_opens_the_origin_of_a_job_once() {
    let served = ServedJob::start();
    let (name, path) = served.address();
    let port = served.page.port;
    assert!(name.starts_with(&format!("job-{}-", served.job)), "{name}");
    assert!(name.ends_with(&format!(".localhost:{port}")), "{name}");
    let host = format!("Host: {name}");
    let get = |path: &str| served.page.raw(&format!("GET {path}"), &[&host], "");
    assert_eq!(get("/lab").status, 401, "without the link");
    assert_eq!(get("/.muster/open?link=0").status, 401);
    assert_eq!(get("/.muster/open").status, 401);

    let opened = get(&path);
    assert_eq!(opened.status, 200, "{opened:?}");
    assert!(opened.body.contains("content=\"0;url=/lab?token=t&amp;x=1\""), "{opened:?}");
    assert!(opened.head.contains("; path=/; httponly; samesite=strict"), "{opened:?}");
    let again = get(&path);
    assert_eq!(again.status, 401, "used up");
    assert!(again.body.contains("open it from the page of the job"), "{again:?}");
    let (same, _) = served.address();
    assert_eq!(name, same, "what the job's page stores in the browser stays");
}

#[test]
fn a_job_and_the_browser_get_nothing_of_the_page_from_each_other() {
    let served = ServedJob::start();
    let OpenedOrigin { host, origin, cookie } = served.open();
    let port = served.port;
    let asked = served.page.raw("GET /lab?token=t", &[&host, &origin, &cookie, "Accept: x/y"], "");
    assert_eq!(asked.status, 200, "{asked:?}");
    let got = asked.body.to_lowercase();
    assert!(got.starts_with("get /lab?token=t http/1.1\r\n"), "{got}");
    for line in [
        format!("host: 127.0.0.1:{port}\r\n"),
        format!("origin: http://127.0.0.1:{port}\r\n"),
        "cookie: a=1; b=2\r\n".to_owned(),
        "accept: x/y\r\n".to_owned(),
    ] {
        assert!(got.contains(&line), "{line}: {got}");
    }
    assert!(!got.contains("muster-job-key") && !got.contains("localhost"), "{got}");
    assert!(asked.head.contains("set-cookie: own=1\r\n"), "{asked:?}");
    assert!(!asked.head.contains("stolen") && !asked.head.contains("domain="), "{asked:?}");
    assert!(!asked.head.contains("access-control"), "{asked:?}");

    // Paths of the page are the job's there, and the key of a job is none of the page.
    let jobs = served.page.raw("GET /page/jobs", &[&host, &cookie, &served.key], "");
    assert!(jobs.body.starts_with("GET /page/jobs"), "{jobs:?}");
    let page = served.page.raw("GET /page/jobs", &[&served.page.host(), &cookie], "");
    assert_eq!(page.status, 401, "{page:?}");
    let cross = served.page.raw("GET /page/jobs", &[&served.page.host(), &served.key, &origin], "");
    assert_eq!(cross.status, 403, "the page is another origin: {cross:?}");
}

#[test]
fn requests_from_elsewhere_do_not_reach_a_job() {
    let served = ServedJob::start();
    let OpenedOrigin { host, origin, cookie } = served.open();
    let send = |line: &str, headers: &[&str]| served.page.raw(line, headers, "").status;
    assert_eq!(send("GET /", &[&host]), 401);
    assert_eq!(send("GET /", &[&host, "Cookie: muster-job-key=0"]), 401);
    assert_eq!(send("GET /", &[&host, &cookie, "Origin: http://evil.example"]), 403);
    assert_eq!(send("GET /", &[&host, &cookie, "Origin: null"]), 403);
    assert_eq!(send("GET /", &[&host, &cookie, &served.page.origin()]), 403, "not even the page");
    assert_eq!(send("POST /", &[&host, &cookie]), 403, "no origin");
    assert_eq!(send("POST /", &[&host, &cookie, &origin]), 200);
    let port = served.page.port;
    for other in [format!("job-{}-0.localhost:{port}", served.job), format!(".localhost:{port}")] {
        assert_eq!(send("GET /", &[&format!("Host: {other}"), &cookie]), 404, "{other}");
    }
    let elsewhere = host.replace(&format!(":{port}"), ":1");
    assert_eq!(send("GET /", &[&elsewhere, &cookie]), 403);
    let absolute = format!("GET http://{}/", host.strip_prefix("Host: ").unwrap());
    assert_eq!(send(&absolute, &[&served.page.host(), &cookie]), 403, "a host in the request line");
}

#[test]
fn a_websocket_goes_both_ways_until_its_job_ends() {
    let served = ServedJob::start();
    let OpenedOrigin { host, origin, cookie } = served.open();
    let start = |headers: &[&str]| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, served.page.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let common =
            "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
        write!(stream, "GET /kernel HTTP/1.1\r\n{common}\r\n{}\r\n\r\n", headers.join("\r\n"))
            .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        (stream, String::from_utf8(head).unwrap())
    };
    for refused in [&[&*host, &origin][..], &[&host, &cookie, "Origin: http://evil.example"]] {
        let (_, head) = start(refused);
        assert!(head.starts_with("HTTP/1.1 40"), "{refused:?}: {head}");
    }
    let (mut stream, head) = start(&[&host, &cookie, &origin]);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for word in ["ping", "pong"] {
        stream.write_all(word.as_bytes()).unwrap();
        let mut back = [0; 4];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, word.to_uppercase().as_bytes());
    }
    served.home.words(&format!("cancel {}", served.job)).ok();
    assert_eq!(stream.read(&mut [0; 4]).unwrap_or(0), 0, "its end is told");
}

#[test]
fn only_ports_of_running_jobs_are_opened_and_the_rest_is_told() {
    let served = ServedJob::start();
    let ServedJob { home, page, job, port, .. } = &served;
    let ended = home.sh("--gpus 1", "true");
    home.until_state(ended, JobState::Done);
    let of_others = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let other = of_others.local_addr().unwrap().port();
    for (job, port, path, status, words) in [
        (*job, other, "/", 409, format!("no process of job {job} listens on port {other}")),
        (*job, page.port, "/", 409, "no process of job".to_owned()),
        (*job, 1, "/", 409, "its output says when".to_owned()),
        (ended, *port, "/", 409, format!("job {ended} does not run: it is done")),
        (999, *port, "/", 404, "999".to_owned()),
        (*job, *port, "//evil.example/", 400, "starts with one `/`".to_owned()),
        (*job, *port, "http://evil.example/", 400, "starts with one `/`".to_owned()),
    ] {
        let refused = served.link(job, port, path);
        assert_eq!(refused.status, status, "{job} {port} {path}: {refused:?}");
        assert!(refused.body.contains(&words), "{words}: {refused:?}");
    }
    let line = format!("POST /page/jobs/{job}/open");
    assert_eq!(page.raw(&line, &[&page.host(), &page.origin()], "{}").status, 401, "no key");

    // An open page of a job that ends says so.
    let OpenedOrigin { host, cookie, .. } = served.open();
    home.words(&format!("cancel {job}")).ok();
    home.until_state(*job, JobState::Cancelled);
    let gone = page.raw("GET /", &[&host, &cookie], "");
    assert!(matches!(gone.status, 409 | 502), "{gone:?}");
    assert!(gone.body.contains(&format!("job {job} does not")), "{gone:?}");
    home.words("stop-daemon").ok();
    assert_eq!(served.link(*job, *port, "/").status, 503, "the daemon is away");
}

#[test]
fn the_page_answers_over_both_families_of_addresses() {
    let home = Home::with_gpus(1);
    let page = Page::start(&home);
    // Browsers look for names below localhost there first; without IPv6 no other user can listen there.
    if let Ok(mut stream) = TcpStream::connect((std::net::Ipv6Addr::LOCALHOST, page.port)) {
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
            page.port
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    } else {
        assert!(TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, page.port)).is_err());
    }
}
