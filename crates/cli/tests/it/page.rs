//! `muster ui` of a test, and requests to it as any program of the machine could send them: bytes on a
//! connection, so that every header is the test's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;

use serde_json::Value;

use crate::home::{Home, PATIENCE};

/// Running `muster ui`; it ends with this value.
pub struct Page {
    child: Child,
    /// Link that it printed.
    pub link: String,
    /// Port that it listens on.
    pub port: u16,
}

/// Response to a request.
#[derive(Debug)]
pub struct PageResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl PageResponse {
    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Page {
    /// Starts `muster ui` and reads its link.
    pub fn start(home: &Home) -> Self {
        let mut child = home.spawn(&["ui", "--no-browser"]);
        let mut link = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut link).unwrap();
        let link = link.trim().to_owned();
        let port = port_of(&link);
        Self { child, link, port }
    }

    /// Returns the secret of the link.
    pub fn secret(&self) -> &str {
        self.link.split_once("#open=").unwrap().1
    }

    /// Sends a request with these header lines, as they are.
    pub fn raw(&self, line: &str, headers: &[&str], body: &str) -> PageResponse {
        let mut stream = self.send(line, headers, body);
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        PageResponse {
            status: status.unwrap_or_else(|| panic!("no status: {text}")),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    /// Sends a request and returns the connection, to read its response as it comes.
    pub fn send(&self, line: &str, headers: &[&str], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Returns the `Host` header that is valid.
    pub fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}", self.port)
    }

    /// Returns the `Origin` header of the page itself.
    pub fn origin(&self) -> String {
        format!("Origin: http://127.0.0.1:{}", self.port)
    }

    /// Sends what the page sends to use its link.
    pub fn open(&self, secret: &str) -> PageResponse {
        let body = format!("{{\"link\":\"{secret}\"}}");
        let headers = [&*self.host(), &*self.origin(), "Content-Type: application/json"];
        self.raw("POST /page/open", &headers, &body)
    }

    /// Opens the page with the link, and returns the header with the key.
    pub fn key(&self) -> String {
        let opened = self.open(self.secret());
        assert_eq!(opened.status, 200, "{opened:?}");
        format!("x-muster-page: {}", opened.json()["key"].as_str().unwrap())
    }

    /// Reads a path with a key.
    pub fn get(&self, path: &str, key: &str) -> PageResponse {
        self.raw(&format!("GET {path}"), &[&self.host(), key], "")
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the port of a link.
pub fn port_of(link: &str) -> u16 {
    let rest = link.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{link}"));
    rest.split_once('/').unwrap().0.parse().unwrap()
}
