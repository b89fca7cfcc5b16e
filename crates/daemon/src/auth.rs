//! Authentication and authorisation: the kernel identifies the peer of the unix socket. There are
//! no passwords, tokens or other claims by the client.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use muster_model::ForeignProcess;
use muster_model::view::JobView;
use muster_model::{Identity, JobSpec, UserName};
use muster_spec::access::Submitter;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use rustix::process::geteuid;
use tokio::net::UnixStream;

use crate::failure::ApiFailure;

/// Unix group whose members, if it exists, may act on every user's jobs in a shared daemon.
pub const ADMIN_GROUP: &str = "muster-admin";

/// Users that the daemon serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonMode {
    /// Only the user who started it.
    Personal,
    /// Every user of the machine; each job runs as its submitter.
    System,
}

impl DaemonMode {
    /// Returns the word in tables and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DaemonMode::Personal => "personal",
            DaemonMode::System => "system",
        }
    }
}

/// Credentials of the process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User id of the process.
    pub uid: u32,
    /// Primary group id of the process.
    pub gid: u32,
}

/// Source of the identity of peers: the kernel, or a replacement in tests.
pub trait Peers: Send + Sync {
    /// Returns the peer of a connection.
    ///
    /// # Errors
    /// When it is unknown; the connection is then closed.
    fn peer(&self, stream: &UnixStream) -> io::Result<Peer>;

    /// Returns the user's name, and whether the user is an administrator. May query the user
    /// database.
    fn resolve(&self, peer: Peer) -> (UserName, bool);

    /// Returns the names of the user's Unix groups, which queues refer to. May query the group
    /// database.
    fn groups(&self, user: &UserName, gid: u32) -> Arc<[Arc<str>]>;
}

/// Peer identities from the kernel and the user database.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelPeers;

impl Peers for KernelPeers {
    fn peer(&self, stream: &UnixStream) -> io::Result<Peer> {
        let credentials = stream.peer_cred()?;
        Ok(Peer { uid: credentials.uid(), gid: credentials.gid() })
    }

    fn resolve(&self, peer: Peer) -> (UserName, bool) {
        let user = account(peer.uid);
        let name = name_of(user.as_ref(), peer.uid);
        let gid = user.map_or(peer.gid, |user| user.gid.as_raw());
        let admin = peer.uid == 0 || in_admin_group(name.as_str(), gid);
        (name, admin)
    }

    fn groups(&self, user: &UserName, gid: u32) -> Arc<[Arc<str>]> {
        // From the database, as for administrators: the groups of the process may be outdated or
        // fewer.
        let ids = CString::new(user.as_str())
            .ok()
            .and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok());
        let group = |id: Gid| Group::from_gid(id).ok().flatten().map(|group| Arc::from(group.name));
        ids.unwrap_or_default().into_iter().filter_map(group).collect()
    }
}

fn account(uid: u32) -> Option<User> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten()
}

/// Returns the home folder of a user; `None` if there is no such account.
pub(crate) fn home(uid: u32) -> Option<PathBuf> {
    account(uid).map(|user| user.dir)
}

/// Returns the name under which a user's jobs are kept. Does not query the group database, which
/// takes longer than the rest of a short command where a group is not in /etc/group.
#[must_use]
pub fn user_name(uid: u32) -> UserName {
    name_of(account(uid).as_ref(), uid)
}

fn name_of(user: Option<&User>, uid: u32) -> UserName {
    // No account name may contain `#`, so the number cannot be confused with a name.
    user.map_or_else(|| format!("#{uid}"), |user| user.name.clone()).into()
}

/// Checks the group database, not the peer's present groups, which may be outdated.
fn in_admin_group(name: &str, gid: u32) -> bool {
    match Group::from_name(ADMIN_GROUP) {
        Ok(Some(group)) => {
            group.gid == Gid::from_raw(gid) || group.mem.iter().any(|member| member == name)
        }
        Ok(None) | Err(_) => false,
    }
}

/// Owner of a job. Name and number are compared together, since each alone is reused after an
/// account is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerAccount {
    user: UserName,
    /// Missing for jobs that ended under earlier versions.
    uid: Option<u32>,
}

impl OwnerAccount {
    /// Returns the owner of a job in memory.
    pub(crate) fn of_job(spec: &JobSpec) -> Self {
        Self { user: spec.user.clone(), uid: spec.uid }
    }

    /// Returns the owner of a job from its view.
    pub(crate) fn of_view(view: &JobView) -> Self {
        Self { user: view.user.clone(), uid: view.uid }
    }
}

/// User that sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User and group ids of the caller.
    pub identity: Identity,
    /// True when the caller may act on every user's jobs.
    pub admin: bool,
    /// Names of the caller's Unix groups; empty for an administrator, who needs no grant.
    pub groups: Arc<[Arc<str>]>,
}

impl Caller {
    /// Identifies the caller of a connection; fails when this daemon does not serve the user.
    pub(crate) fn admit(
        peers: &dyn Peers,
        peer: Peer,
        mode: DaemonMode,
    ) -> Result<Self, ApiFailure> {
        let owner = geteuid().as_raw();
        if mode == DaemonMode::Personal && peer.uid != owner {
            return Err(ApiFailure::Forbidden("this daemon serves another user only".to_owned()));
        }
        let (user, admin) = peers.resolve(peer);
        // In a personal daemon only its owner gets here, and is its administrator.
        let admin = admin || mode == DaemonMode::Personal;
        let gid = primary_group(peer);
        let groups = if admin { Arc::default() } else { peers.groups(&user, gid) };
        Ok(Self { identity: Identity { user, uid: peer.uid, gid }, admin, groups })
    }

    /// Returns the caller in the form that queue grants are checked with.
    pub(crate) fn submitter(&self) -> Submitter<'_> {
        Submitter { user: &self.identity.user, groups: &self.groups }
    }

    /// Returns true when the caller may act on the owner's jobs and see their private parts.
    pub(crate) fn may_touch(&self, owner: &OwnerAccount) -> bool {
        self.admin || self.is_owner(owner)
    }

    /// Removes the processes of other users, unless the caller is an administrator.
    pub(crate) fn hide_processes_of_others(&self, processes: &mut Vec<ForeignProcess>) {
        processes.retain(|process| self.admin || self.identity.user.as_str() == process.user);
    }

    /// Returns true when name and number are the caller's.
    pub(crate) fn is_owner(&self, owner: &OwnerAccount) -> bool {
        self.identity.user == owner.user && owner.uid.is_none_or(|uid| uid == self.identity.uid)
    }

    /// Returns the owner's name as shown to this caller: `ann#1001` for an earlier user with the
    /// caller's own name.
    pub(crate) fn name_of(&self, owner: &OwnerAccount) -> UserName {
        match owner.uid {
            Some(uid) if self.identity.user == owner.user && !self.is_owner(owner) => {
                format!("{}#{uid}", owner.user).into()
            }
            _ => owner.user.clone(),
        }
    }

    /// Rejects callers that are not administrators.
    pub(crate) fn require_admin(&self, what: &str) -> Result<(), ApiFailure> {
        if self.admin {
            return Ok(());
        }
        Err(ApiFailure::Forbidden(format!("only root and members of {ADMIN_GROUP} may {what}")))
    }
}

/// Returns the user's primary group from the user database, as a login does; the peer's own when
/// the user has no entry.
fn primary_group(peer: Peer) -> u32 {
    let user = User::from_uid(Uid::from_raw(peer.uid)).ok().flatten();
    user.map_or(peer.gid, |user| user.gid.as_raw())
}
