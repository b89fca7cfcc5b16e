//! Services and notebooks with real processes: replicas that listen, die, restart, are scaled and
//! cancelled; notebooks that are stopped when idle.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

use muster_model::Outcome;
use muster_model::view::{JobState, ServiceView};

use crate::home::{Home, kill};

/// Server that records its replica, and listens on the given port.
const SERVER: &str = r#"echo $$ > pid.$MUSTER_REPLICA
exec perl -MIO::Socket::INET -e '
    my $server = IO::Socket::INET->new(
        Listen => 5, LocalAddr => "127.0.0.1", LocalPort => $ENV{PORT}, ReuseAddr => 1) or die $@;
    while (my $client = $server->accept) { close $client }'"#;

/// Returns the first of three free ports below the kernel's ephemeral range. They are reserved for
/// this test process until it ends, by an abstract socket name shared by all tests on this machine,
/// since a service binds its port only later.
pub fn free_ports() -> u16 {
    static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let mut claims = CLAIMS.lock().unwrap();
    let claim = |port: u16| {
        let name = SocketAddr::from_abstract_name(format!("muster-test-port-{port}")).unwrap();
        let claim = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| claim)
    };
    // Start at a port derived from the process id, so that few attempts are needed.
    let start = 10_000 + (std::process::id() % 3_000) as u16 * 3;
    for port in (start..19_998).chain(10_000..start).step_by(3) {
        if let Some(three) = (port..port + 3).map(claim).collect::<Option<Vec<_>>>() {
            claims.extend(three);
            return port;
        }
    }
    panic!("no three ports are free");
}

fn service(home: &Home, job: u64) -> ServiceView {
    home.job(job).service.unwrap()
}

#[test]
fn replicas_listen_die_alone_come_back_and_are_scaled() {
    let home = Home::with_gpus(4);
    let port = free_ports();
    let options = format!("--name api --kind service --replicas 2 --port {port} --gpus 1");
    let job = home.sh(&options, SERVER);
    home.until("both are ready", || service(&home, job).ready == 2);
    for port in [port, port + 1] {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
    let listed = home.words("ps").ok().stdout;
    assert!(listed.contains("2 of 2 ready"), "{listed}");
    // One replica is killed: it restarts on its port, and the other is not affected.
    kill(home.read("pid.1").trim().parse().unwrap());
    home.until("it is back", || {
        home.job(job).elements[1].attempt == 2 && service(&home, job).ready == 2
    });
    let view = home.job(job);
    assert_eq!((view.state, view.elements[0].attempt), (JobState::Running, 1));
    let shown = home.words(&format!("show {job}")).ok().stdout;
    assert!(shown.contains(&format!("{job}[1]: rank 0 ended by signal 9")), "{shown}");
    assert!(shown.contains(&format!("replica 0 listens on port {port}")), "{shown}");
    // Scale up, then down.
    let said = home.words("scale api 1..3").ok().stdout;
    assert_eq!(said, format!("{job}: scaled to 1..3\n"));
    home.until("the third is ready", || service(&home, job).ready == 3);
    TcpStream::connect((Ipv4Addr::LOCALHOST, port + 2)).unwrap();
    home.words("scale api 1").ok();
    home.until("one is left", || service(&home, job).active == 1);
    assert_eq!(home.job(job).elements.len(), 1);
    let refused = home.words("scale api 0").code(2).stderr;
    assert!(refused.contains("at least one replica"), "{refused}");
    // Only cancelling ends a service.
    home.words("cancel api").ok();
    home.until_state(job, JobState::Cancelled);
}

#[test]
fn a_replica_whose_port_is_taken_says_so_and_starts_when_it_is_free() {
    let home = Home::with_gpus(1);
    let port = free_ports();
    let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let job = home.sh(&format!("--kind service --port {port}"), SERVER);
    let last_end = || home.job(job).elements[0].last_end.clone();
    home.until("it is refused", || last_end().is_some());
    let why = last_end().unwrap().to_string();
    assert!(why.contains(&format!("cannot hold port {port}")), "{why}");
    drop(stranger);
    home.until("it is ready", || service(&home, job).ready == 1);
}

#[test]
fn readiness_and_replicas_outlive_a_daemon_that_is_killed() {
    let home = Home::with_gpus(2);
    let port = free_ports();
    let job = home.sh(&format!("--kind service --replicas 2 --port {port}"), SERVER);
    home.until("both are ready", || service(&home, job).ready == 2);
    home.kill_daemon();
    home.start_daemon(Some(2));
    home.until("both are ready again", || service(&home, job).ready == 2);
    assert!(home.job(job).elements.iter().all(|replica| replica.attempt == 1));
}

#[test]
fn only_services_are_scaled() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1", &gate);
    let refused = home.words(&format!("scale {job} 2")).code(1).stderr;
    assert!(refused.contains("is not a service") && refused.contains("hint: "), "{refused}");
    home.open("go");
    home.words(&format!("wait {job}")).ok();
}

#[test]
fn a_notebook_in_which_nothing_happens_is_stopped_and_one_that_works_is_not() {
    let home = Home::with_gpus(3);
    let notebook = "--kind notebook --idle 1s --gpus 1";
    // This notebook is busy until told to stop, which shows only in its CPU time.
    let busy = home.sh(
        notebook,
        &format!("while [ ! -e {} ]; do :; done; exec sleep 1000", home.path("rest").display()),
    );
    home.until_state(busy, JobState::Running);
    // Two idle notebooks, one after the other: each takes longer than the idle limit of the busy
    // one.
    for _ in 0..2 {
        let idle = home.sh(notebook, "sleep 1000");
        home.words(&format!("wait {idle}")).ok();
        let view = home.job(idle);
        assert_eq!(view.state, JobState::Done);
        assert!(
            matches!(view.elements[0].outcome, Some(Outcome::Idle { .. })),
            "{:?}",
            view.elements[0].outcome
        );
    }
    assert_eq!(home.job(busy).state, JobState::Running);
    home.open("rest");
    home.words(&format!("wait {busy}")).ok();
    let listed = home.words("ps -a").ok().stdout;
    assert_eq!(listed.matches("stopped after 1s without activity").count(), 3, "{listed}");
}
