//! Access to a cluster by a kubeconfig, where no cluster is needed: proxies, and programs that give credentials.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Output;
use std::sync::mpsc::{Receiver, channel};

use crate::home::Home;

/// Address at which nothing answers. It is not a loopback address, which no proxy is asked for.
const CLUSTER: &str = "0.0.0.0:1";

/// Starts a proxy that refuses everything; returns its address, and the first line of each request.
fn proxy() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(&stream).lines();
            let first = head.next().unwrap().unwrap();
            while !head.next().unwrap().unwrap().is_empty() {}
            // The client may have gone.
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
            if sender.send(first).is_err() {
                return;
            }
        }
    });
    (address, lines)
}

/// Lists the jobs of a cluster with these lines in the kubeconfig, and these variables.
fn ps(home: &Home, cluster: &str, user: &str, env: &[(&str, &str)]) -> Output {
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, \
         contexts: [{{name: c, context: {{cluster: c, user: c}}}}], \
         clusters: [{{name: c, cluster: {{server: 'https://{CLUSTER}'{cluster}}}}}], \
         users: [{{name: c, user: {{{user}}}}}]}}"
    );
    std::fs::write(home.path("kubeconfig"), text).unwrap();
    let mut command = home.command(&["ps", "--on", "kubernetes"]);
    command.env("KUBECONFIG", home.path("kubeconfig")).envs(env.iter().copied());
    let output = command.output().unwrap();
    assert!(!output.status.success());
    output
}

#[test]
fn a_proxy_of_the_environment_is_asked_unless_the_cluster_is_excluded() {
    let home = Home::new();
    let (proxy, asked) = proxy();
    let env = [("HTTPS_PROXY", proxy.as_str())];
    let told = String::from_utf8(ps(&home, "", "", &env).stderr).unwrap();
    assert!(told.contains("a proxy is that of its `proxy-url`, or HTTPS_PROXY"), "{told}");
    assert_eq!(asked.recv().unwrap(), format!("CONNECT {CLUSTER} HTTP/1.1"));
    while asked.try_recv().is_ok() {}
    let (host, _) = CLUSTER.split_once(':').unwrap();
    ps(&home, "", "", &[env[0], ("NO_PROXY", host)]);
    assert!(asked.try_recv().is_err(), "the proxy was asked");
    // One that the kubeconfig names is for this cluster alone.
    let own = format!(", proxy-url: '{proxy}'");
    ps(&home, &own, "", &[("NO_PROXY", host)]);
    assert_eq!(asked.recv().unwrap(), format!("CONNECT {CLUSTER} HTTP/1.1"));
}

#[test]
fn a_program_that_gives_no_credentials_is_named() {
    let user = "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
                command: sh, args: [-c, 'echo log in first >&2; exit 3']}";
    let output = ps(&Home::new(), "", user, &[]);
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "there are no credentials for the cluster: the program `sh` of the kubeconfig ended \
                    with exit status: 3: log in first";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("kubectl auth whoami"), "{told}");
}
