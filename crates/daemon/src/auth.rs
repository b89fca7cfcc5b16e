//! Who asks, by what the kernel says of the other end of the socket; and what they may do. No
//! password, no token, nothing that a client could claim.

use std::ffi::CString;
use std::io;
use std::sync::Arc;

use muster_model::view::JobView;
use muster_model::{Identity, JobSpec, UserName};
use muster_spec::access::Submitter;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use rustix::process::geteuid;
use tokio::net::UnixStream;

use crate::failure::Failure;

/// Members of this group, when it exists, may act on everybody's jobs of a shared daemon.
pub const ADMIN_GROUP: &str = "muster-admin";

/// Whom the daemon serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The user who started it, and nobody else.
    Personal,
    /// Every user of the machine; each job runs as its submitter.
    System,
}

impl Mode {
    /// The word that views print.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Mode::Personal => "personal",
            Mode::System => "system",
        }
    }
}

/// The numbers of the process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
}

/// Tells who is at the other end. The kernel does; tests put others in its place.
pub trait Peers: Send + Sync {
    /// The peer of a connection.
    ///
    /// # Errors
    /// When it is not known; the connection is then dropped.
    fn peer(&self, stream: &UnixStream) -> io::Result<Peer>;

    /// The name that goes with the numbers, and whether they are an admin's. May ask the user
    /// database.
    fn resolve(&self, peer: Peer) -> (UserName, bool);

    /// The unix groups of a user, by name: what queues may name. May ask the group database.
    fn groups(&self, user: &UserName, gid: u32) -> Arc<[Arc<str>]>;
}

/// The kernel and the user database.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelPeers;

impl Peers for KernelPeers {
    fn peer(&self, stream: &UnixStream) -> io::Result<Peer> {
        let credentials = stream.peer_cred()?;
        Ok(Peer { uid: credentials.uid(), gid: credentials.gid() })
    }

    fn resolve(&self, peer: Peer) -> (UserName, bool) {
        let user = User::from_uid(Uid::from_raw(peer.uid)).ok().flatten();
        // No account can have a name with `#`, so a number never passes for somebody of that name.
        let name = user.as_ref().map_or_else(|| format!("#{}", peer.uid), |user| user.name.clone());
        let admin =
            peer.uid == 0 || in_admin_group(&name, user.map_or(peer.gid, |user| user.gid.as_raw()));
        (name.into(), admin)
    }

    fn groups(&self, user: &UserName, gid: u32) -> Arc<[Arc<str>]> {
        // By the database, as for admins: the groups that a process has may be older, or fewer.
        let ids = CString::new(user.as_str())
            .ok()
            .and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok());
        let group = |id: Gid| Group::from_gid(id).ok().flatten().map(|group| Arc::from(group.name));
        ids.unwrap_or_default().into_iter().filter_map(group).collect()
    }
}

/// By the group database, not by the peer's present groups: those are whatever the process was
/// started with.
fn in_admin_group(name: &str, gid: u32) -> bool {
    match Group::from_name(ADMIN_GROUP) {
        Ok(Some(group)) => {
            group.gid == Gid::from_raw(gid) || group.mem.iter().any(|member| member == name)
        }
        Ok(None) | Err(_) => false,
    }
}

/// Whose a job is. Name and number together: each alone is given away again once an account was
/// deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    user: UserName,
    /// Jobs that ended under earlier versions may have none.
    uid: Option<u32>,
}

impl Owner {
    /// The owner of a job in memory.
    pub(crate) fn of_job(spec: &JobSpec) -> Self {
        Self { user: spec.user.clone(), uid: spec.uid }
    }

    /// The owner of a job that was looked at.
    pub(crate) fn of_view(view: &JobView) -> Self {
        Self { user: view.user.clone(), uid: view.uid }
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose jobs are theirs.
    pub identity: Identity,
    /// May act on everybody's.
    pub admin: bool,
    /// Unix groups, by name; of an admin none, since nothing is asked of one.
    pub groups: Arc<[Arc<str>]>,
}

impl Caller {
    /// The caller behind a connection, when this daemon serves them at all.
    pub(crate) fn admit(peers: &dyn Peers, peer: Peer, mode: Mode) -> Result<Self, Failure> {
        let owner = geteuid().as_raw();
        if mode == Mode::Personal && peer.uid != owner {
            return Err(Failure::Forbidden("this daemon serves another user only".to_owned()));
        }
        let (user, admin) = peers.resolve(peer);
        // Nobody else gets here in a personal daemon: its owner runs it.
        let admin = admin || mode == Mode::Personal;
        let gid = primary_group(peer);
        let groups = if admin { Arc::default() } else { peers.groups(&user, gid) };
        Ok(Self { identity: Identity { user, uid: peer.uid, gid }, admin, groups })
    }

    /// As queues name them.
    pub(crate) fn submitter(&self) -> Submitter<'_> {
        Submitter { user: &self.identity.user, groups: &self.groups }
    }

    /// Whether they may act on, and see the insides of, what belongs to `owner`.
    pub(crate) fn may_touch(&self, owner: &Owner) -> bool {
        self.admin || self.is(owner)
    }

    /// True when name and number are theirs.
    pub(crate) fn is(&self, owner: &Owner) -> bool {
        self.identity.user == owner.user && owner.uid.is_none_or(|uid| uid == self.identity.uid)
    }

    /// The owner's name as this caller is shown it: `ann#1001` for one who had the caller's own
    /// name before.
    pub(crate) fn name_of(&self, owner: &Owner) -> UserName {
        match owner.uid {
            Some(uid) if self.identity.user == owner.user && !self.is(owner) => {
                format!("{}#{uid}", owner.user).into()
            }
            _ => owner.user.clone(),
        }
    }

    /// Whether they may change what concerns everybody.
    pub(crate) fn require_admin(&self, what: &str) -> Result<(), Failure> {
        match self.admin {
            true => Ok(()),
            false => Err(Failure::Forbidden(format!(
                "only root and members of {ADMIN_GROUP} may {what}"
            ))),
        }
    }
}

/// The group that the user database gives a user, as a login would; the peer's own where there is
/// no entry.
fn primary_group(peer: Peer) -> u32 {
    let user = User::from_uid(Uid::from_raw(peer.uid)).ok().flatten();
    user.map_or(peer.gid, |user| user.gid.as_raw())
}
