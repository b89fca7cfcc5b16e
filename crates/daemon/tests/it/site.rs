//! Test fixture: a daemon with replaceable surroundings (backend, clock, store, peers).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_api::types::{SubmitRequest, SubmitResponse};
use muster_api::{Client, ClientError};
use muster_backends::fake::{FakeBackend, FakeWorld};
use muster_daemon::DaemonMode;
use muster_daemon::auth::{Peer, Peers};
use muster_daemon::clock::Clock;
use muster_daemon::embed::{Core, POLL_EVERY, Parts};
use muster_daemon::store::{
    NoticeTry, Retention, SqliteStore, StateStore, StoredReport, TimedEvent,
};
use muster_model::unit::{Bytes, CpuMilli, Span, Time};
use muster_model::view::{JobState, JobView, MeasuredUse};
use muster_model::{AttemptId, Device, JobId, NodeSpec, Payload, PayloadId, QueueTree, UserName};
use muster_runtime::{JournalBatch, Loaded, Receipt, Runtime, SavedState, Store, StoreError};
use muster_spec::QueueNotices;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// Longest wait for a condition, longer than any takes on a correct daemon, even on a loaded
/// machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// User that owns the daemon of most tests.
pub const ANN: u32 = 1001;
/// User other than the owner.
pub const BOB: u32 = 1002;
/// User that got Ann's name after her account was deleted.
pub const ANN_ANEW: u32 = 1003;
/// User that administers the machine.
pub const ROOT: u32 = 0;

/// Everything that outlives the daemon.
pub struct TestSite {
    pub dir: tempfile::TempDir,
    pub world: FakeWorld,
    pub clock: Arc<JumpingClock>,
    pub switch: Arc<FaultSwitch>,
    pub mode: DaemonMode,
    pub retention: Retention,
    pub default_time: Option<Span>,
    /// Program that sends notices.
    pub notice_program: Vec<OsString>,
    /// Time between two polls of loads and times.
    pub poll_every: Duration,
    /// True when the world takes a step whenever a state is waited for. A world that progresses by
    /// itself would run into every time limit at once.
    pub is_stepped: bool,
    pub core: Option<Core>,
}

impl TestSite {
    /// Starts a daemon with eight GPUs, tasks that progress by themselves, and one user.
    pub async fn start() -> Self {
        let mut site = Self::new(|world| world.eager());
        site.boot().await;
        site
    }

    /// Starts a daemon with eight GPUs, tasks that progress while a state is waited for, and one
    /// user.
    pub async fn stepped() -> Self {
        let mut site = Self::new(|world| world);
        site.is_stepped = true;
        site.boot().await;
        site
    }

    /// Makes the fixture without a daemon, with a world changed by `shape`.
    pub fn new(shape: impl FnOnce(FakeWorld) -> FakeWorld) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = shape(FakeWorld::new(vec![node("n1", 8)], dir.path().join("logs")));
        Self {
            dir,
            world,
            clock: Arc::new(JumpingClock::default()),
            switch: Arc::new(FaultSwitch::default()),
            mode: DaemonMode::Personal,
            retention: Retention::default(),
            default_time: None,
            notice_program: Vec::new(),
            poll_every: POLL_EVERY,
            is_stepped: false,
            core: None,
        }
    }

    /// Starts the daemon on the present state.
    pub async fn boot(&mut self) {
        self.try_boot().await.unwrap();
    }

    pub async fn try_boot(&mut self) -> Result<(), StoreError> {
        *self.switch.fault.lock().unwrap() = StoreFault::None;
        self.switch.is_dead.store(false, Ordering::SeqCst);
        let inner = SqliteStore::open(self.dir.path())?;
        let reader = inner.reader()?;
        let revision = inner.revision()?;
        let store = FaultyStore { inner, switch: self.switch.clone() };
        // The tests walk the whole journal, so no snapshot may cut it short.
        let runtime = Runtime::open(store, QueueTree::single())?.with_snapshot_after(usize::MAX);
        let (reports_in, reports) = mpsc::unbounded_channel();
        self.clock.not_before(runtime.last());
        let core = Core::start(Parts {
            runtime,
            reader,
            revision,
            backend: Arc::new(FakeBackend::new(self.world.clone(), reports_in)),
            reports,
            clock: self.clock.clone(),
            mode: self.mode,
            host: "test".to_owned(),
            state_dir: self.dir.path().to_owned(),
            virtual_gpus: 8,
            queues: None,
            queues_file: None,
            socket: None,
            default_time: self.default_time,
            retention: self.retention,
            notice_program: self.notice_program.clone(),
            poll_every: self.poll_every,
            warnings: Vec::new(),
        })?;
        let users: &[u32] =
            if self.mode == DaemonMode::System { &[ANN, BOB, ANN_ANEW, ROOT] } else { &[ANN] };
        for uid in users {
            let socket = self.socket(*uid);
            let _absent = std::fs::remove_file(&socket);
            core.spawn_listener(UnixListener::bind(&socket).unwrap(), Arc::new(FixedPeers(*uid)));
        }
        self.core = Some(core);
        Ok(())
    }

    /// Shuts the daemon down in order.
    pub fn stop(&mut self) {
        assert!(self.core.take().unwrap().shut_down(), "the dispatcher panicked");
    }

    pub async fn restart(&mut self) {
        self.stop();
        self.boot().await;
    }

    fn socket(&self, uid: u32) -> PathBuf {
        self.dir.path().join(format!("{uid}.sock"))
    }

    /// Returns a client of this user.
    pub fn client_of(&self, uid: u32) -> Client {
        Client::new(self.socket(uid))
    }

    /// Returns a client of the daemon's owner.
    pub fn client(&self) -> Client {
        self.client_of(ANN)
    }

    /// Submits a text; returns the job numbers.
    pub async fn submit(&self, text: &str) -> Vec<JobId> {
        let answer = self.client().submit(&request(text)).await.unwrap();
        answer.jobs.iter().map(|job| job.job).collect()
    }

    /// Waits until a job is in a state.
    pub async fn reach(&self, job: JobId, state: JobState) -> JobView {
        let client = self.client();
        until(async || {
            let view = client.job(job, None).await.ok()?.job;
            if view.state == state {
                return Some(view);
            }
            if self.is_stepped {
                self.world.step();
            }
            None
        })
        .await
    }
}

/// Polls a condition until it holds.
pub async fn until<T>(mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "the condition did not come to hold");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Makes a submission with a new key.
pub fn request(text: &str) -> SubmitRequest {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    SubmitRequest {
        key: format!("key-{}", NEXT.fetch_add(1, Ordering::SeqCst)),
        source: text.to_owned(),
        file: Some("job.yaml".to_owned()),
        overrides: serde_json::Map::new(),
        notify_file: None,
        env: BTreeMap::from([("SECRET".to_owned(), "hunter2".to_owned())]),
        env_files: BTreeMap::new(),
        workdir: "/tmp".to_owned(),
        umask: 0o022,
        interactive: false,
        dry_run: false,
    }
}

/// Returns the error of a call that must be rejected.
pub fn refused<T>(answer: Result<T, ClientError>) -> muster_api::types::ErrorBody {
    match answer {
        Err(ClientError::Api(body)) => body,
        Err(other) => panic!("refused by no daemon: {other:?}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// Returns the job numbers of a response.
pub fn ids(answer: &SubmitResponse) -> Vec<JobId> {
    answer.jobs.iter().map(|job| job.job).collect()
}

pub fn node(name: &str, gpus: usize) -> NodeSpec {
    let device = Device::declared("h100", Bytes(80 << 30));
    NodeSpec {
        devices: vec![device; gpus],
        ..NodeSpec::plain(name, CpuMilli(64_000), Bytes(512 << 30))
    }
}

/// Peer source that identifies every peer of a socket as one user.
struct FixedPeers(u32);

impl Peers for FixedPeers {
    fn peer(&self, _: &UnixStream) -> io::Result<Peer> {
        // A personal daemon serves the user that runs it.
        let uid = if self.0 == ANN { rustix::process::geteuid().as_raw() } else { self.0 };
        Ok(Peer { uid, gid: self.0 })
    }

    fn resolve(&self, peer: Peer) -> (UserName, bool) {
        match self.0 {
            ANN | ANN_ANEW => ("ann".into(), false),
            BOB => ("bob".into(), false),
            _ => ("root".into(), peer.uid == 0),
        }
    }

    fn groups(&self, user: &UserName, _: u32) -> Arc<[Arc<str>]> {
        if user.as_str() == "bob" { ["labs".into()].into() } else { Arc::default() }
    }
}

/// Clock with the real time plus an offset that tests change.
pub struct JumpingClock {
    born: Instant,
    offset_ms: AtomicI64,
}

impl Default for JumpingClock {
    fn default() -> Self {
        Self { born: Instant::now(), offset_ms: AtomicI64::new(1_700_000_000_000) }
    }
}

impl JumpingClock {
    /// Moves the clock, forward or back.
    pub fn jump(&self, secs: i64) {
        self.offset_ms.fetch_add(secs * 1000, Ordering::SeqCst);
    }

    /// Sets the clock not before an instant, as a daemon's clock does at start.
    fn not_before(&self, last: Time) {
        let behind = last.since(self.now());
        self.offset_ms.fetch_add(i64::try_from(behind.0).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Time {
        let elapsed = i64::try_from(self.born.elapsed().as_millis()).unwrap();
        Time((self.offset_ms.load(Ordering::SeqCst) + elapsed).max(0).unsigned_abs())
    }
}

/// Fault of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreFault {
    #[default]
    None,
    /// Every write fails, as on a full disk.
    Full,
    /// The process is killed at the append that follows after this many others, before it is
    /// durable.
    CrashBefore(u32),
    /// The process is killed at that append, just after it is durable.
    CrashAfter(u32),
}

/// Switch that injects faults into a store.
#[derive(Default)]
pub struct FaultSwitch {
    pub fault: Mutex<StoreFault>,
    /// True when the process counts as killed for the store.
    pub is_dead: AtomicBool,
}

impl FaultSwitch {
    pub fn set(&self, fault: StoreFault) {
        *self.fault.lock().unwrap() = fault;
    }

    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.is_dead() { Err(StoreError::Io("the process is dead".to_owned())) } else { Ok(()) }
    }

    /// Counts an append down; returns the fault of this one.
    fn tick(&self) -> StoreFault {
        let mut fault = self.fault.lock().unwrap();
        let (now, later) = match *fault {
            StoreFault::CrashBefore(left) if left > 0 => {
                (StoreFault::None, StoreFault::CrashBefore(left - 1))
            }
            StoreFault::CrashAfter(left) if left > 0 => {
                (StoreFault::None, StoreFault::CrashAfter(left - 1))
            }
            fault => (fault, fault),
        };
        *fault = later;
        now
    }
}

/// Store with injected faults.
struct FaultyStore {
    inner: SqliteStore,
    switch: Arc<FaultSwitch>,
}

impl Store for FaultyStore {
    fn append(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        self.switch.alive()?;
        let dead = || {
            self.switch.is_dead.store(true, Ordering::SeqCst);
            Err(StoreError::Io("the process just died".to_owned()))
        };
        match self.switch.tick() {
            StoreFault::None => self.inner.append(batch),
            StoreFault::Full => Err(StoreError::Full("as the test wants it".to_owned())),
            StoreFault::CrashBefore(_) => dead(),
            StoreFault::CrashAfter(_) => {
                self.inner.append(batch)?;
                dead()
            }
        }
    }

    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.switch.alive()?;
        self.inner.load()
    }

    fn save(&mut self, state: &SavedState) -> Result<(), StoreError> {
        self.switch.alive()?;
        self.inner.save(state)
    }

    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.switch.alive()?;
        self.inner.receipt(user, key)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.switch.alive()?;
        match *self.switch.fault.lock().unwrap() {
            StoreFault::Full => Err(StoreError::Full("as the test wants it".to_owned())),
            _ => self.inner.probe(),
        }
    }
}

impl StateStore for FaultyStore {
    fn payload(&self, id: PayloadId) -> Result<Option<Payload>, StoreError> {
        self.switch.alive()?;
        self.inner.payload(id)
    }

    fn write_reports(&mut self, reports: &[StoredReport]) -> Result<(), StoreError> {
        self.switch.alive()?;
        self.inner.write_reports(reports)
    }

    fn write_timed_notices(&mut self, at: Time, events: &[TimedEvent]) -> Result<(), StoreError> {
        self.switch.alive()?;
        self.inner.write_timed_notices(at, events)
    }

    fn write_notice_tries(&mut self, at: Time, tries: &[NoticeTry]) -> Result<(), StoreError> {
        self.switch.alive()?;
        self.inner.write_notice_tries(at, tries)
    }

    fn write_queue_notices(&mut self, notices: &QueueNotices) -> Result<(), StoreError> {
        self.switch.alive()?;
        self.inner.write_queue_notices(notices)
    }

    fn write_gpu_use(&mut self, sums: &[(AttemptId, MeasuredUse)]) -> Result<(), StoreError> {
        self.switch.alive()?;
        self.inner.write_gpu_use(sums)
    }

    fn expired(&self, now: Time, retention: &Retention) -> Result<Vec<JobId>, StoreError> {
        self.switch.alive()?;
        self.inner.expired(now, retention)
    }

    fn prune(
        &mut self,
        now: Time,
        retention: &Retention,
        jobs: &[JobId],
    ) -> Result<(), StoreError> {
        self.switch.alive()?;
        self.inner.prune(now, retention, jobs)
    }
}
