//! Origins of jobs: for each port of a job a host name that cannot be guessed, one-time links that open it in a browser,
//! and the keys of the browsers that used one. They end with this process.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use muster_model::JobId;

use super::access::{is_same, secret};

/// Most ports with an origin; with one more, the one that was opened longest ago ends.
const MAX_ORIGINS: usize = 64;
/// Most unused links, and most browsers, of an origin.
const MAX_SECRETS: usize = 8;
/// Time in which a link is to be used: the page follows it at once.
const LINK_LIFE: Duration = Duration::from_secs(60);
/// Time for which an address is not looked up again: a page of a notebook is a hundred requests.
const FOUND_LIFE: Duration = Duration::from_secs(2);
/// Random digits of a host name, of 4 bits each; a label of DNS has at most 63 characters.
const NAME_DIGITS: usize = 32;

/// Port of an element of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobPort {
    /// Number of the job.
    pub(super) job: JobId,
    /// Index of the element or replica; `None` for a job with one element.
    pub(super) index: Option<u32>,
    /// Port that a process of the element listens on.
    pub(super) port: u16,
}

/// All origins of one process.
#[derive(Debug, Default)]
pub(super) struct JobOrigins {
    origins: Mutex<VecDeque<Origin>>,
}

#[derive(Debug)]
struct Origin {
    /// First label of the host name.
    name: String,
    of: JobPort,
    links: VecDeque<OriginLink>,
    keys: VecDeque<String>,
    /// Address of the port, and when it was found to be the job's.
    found: Option<(SocketAddr, Instant)>,
}

#[derive(Debug)]
struct OriginLink {
    secret: String,
    made: Instant,
    /// Path and query that it leads to.
    path: String,
}

impl JobOrigins {
    /// Makes a link to a path of a job's port. Returns the name of its origin and the secret of the link.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new_link(&self, of: JobPort, path: String) -> Result<(String, String)> {
        let link = OriginLink { secret: secret()?, made: Instant::now(), path };
        let told = link.secret.clone();
        let mut origins = self.origins();
        let known = origins.iter().position(|origin| origin.of == of);
        let mut origin = match known.and_then(|at| origins.remove(at)) {
            Some(origin) => origin,
            None => Origin::new(of)?,
        };
        push_within(&mut origin.links, link);
        let name = origin.name.clone();
        if origins.len() == MAX_ORIGINS {
            origins.pop_front();
        }
        origins.push_back(origin);
        Ok((name, told))
    }

    /// Uses up a link of an origin. Returns a new key, and the path that the link leads to; `None` when the link is not
    /// valid.
    ///
    /// # Errors
    /// The system has no random numbers; the link stays valid.
    pub(super) fn open(&self, name: &str, link: &str) -> Result<Option<(String, String)>> {
        let key = secret()?;
        let mut origins = self.origins();
        let Some(origin) = origins.iter_mut().find(|origin| origin.name == name) else {
            return Ok(None);
        };
        origin.links.retain(|known| known.made.elapsed() < LINK_LIFE);
        let found = origin.links.iter().position(|known| is_same(&known.secret, link));
        let Some(link) = found.and_then(|at| origin.links.remove(at)) else { return Ok(None) };
        push_within(&mut origin.keys, key.clone());
        Ok(Some((key, link.path)))
    }

    /// Returns the address of the port behind an origin, if it was found to be the job's a moment ago.
    pub(super) fn found(&self, name: &str) -> Option<SocketAddr> {
        let origins = self.origins();
        let (address, at) = origins.iter().find(|origin| origin.name == name)?.found?;
        (at.elapsed() < FOUND_LIFE).then_some(address)
    }

    /// Remembers the address of the port behind an origin.
    pub(super) fn set_found(&self, name: &str, address: SocketAddr) {
        if let Some(origin) = self.origins().iter_mut().find(|origin| origin.name == name) {
            origin.found = Some((address, Instant::now()));
        }
    }

    /// Returns the port behind an origin; `None` for a name that is none.
    pub(super) fn port(&self, name: &str) -> Option<JobPort> {
        self.origins().iter().find(|origin| origin.name == name).map(|origin| origin.of)
    }

    /// Returns whether a key opens an origin.
    pub(super) fn admits(&self, name: &str, key: &str) -> bool {
        let origins = self.origins();
        let origin = origins.iter().find(|origin| origin.name == name);
        origin.is_some_and(|origin| origin.keys.iter().any(|valid| is_same(valid, key)))
    }

    fn origins(&self) -> std::sync::MutexGuard<'_, VecDeque<Origin>> {
        // Links and keys are replaced as a whole, so they are valid after a panic, too.
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Origin {
    fn new(of: JobPort) -> Result<Self> {
        let name = format!("job-{}-{}", of.job, &secret()?[..NAME_DIGITS]);
        Ok(Self { name, of, links: VecDeque::new(), keys: VecDeque::new(), found: None })
    }
}

fn push_within<T>(queue: &mut VecDeque<T>, one: T) {
    if queue.len() == MAX_SECRETS {
        queue.pop_front();
    }
    queue.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(job: u64, port: u16) -> JobPort {
        JobPort { job: JobId(job), index: None, port }
    }

    #[test]
    fn a_link_opens_the_origin_of_its_port_once() {
        let origins = JobOrigins::default();
        let (name, link) = origins.new_link(port(7, 8888), "/lab".to_owned()).unwrap();
        assert!(name.starts_with("job-7-") && name.len() <= 63, "{name}");
        assert_eq!(origins.port(&name), Some(port(7, 8888)));
        assert_eq!(origins.open(&name, &link[1..]).unwrap(), None);
        assert_eq!(origins.open("job-7", &link).unwrap(), None);
        let (key, path) = origins.open(&name, &link).unwrap().unwrap();
        assert_eq!(path, "/lab");
        assert_eq!(origins.open(&name, &link).unwrap(), None, "used up");
        assert!(origins.admits(&name, &key));
        assert!(!origins.admits(&name, &link) && !origins.admits(&name, ""));
    }

    #[test]
    fn keys_and_links_of_one_origin_do_not_open_another() {
        let origins = JobOrigins::default();
        let (lab, lab_link) = origins.new_link(port(7, 8888), "/".to_owned()).unwrap();
        let (board, board_link) = origins.new_link(port(7, 6006), "/".to_owned()).unwrap();
        let (again, _) = origins.new_link(port(7, 8888), "/x".to_owned()).unwrap();
        assert_eq!(lab, again, "one origin for a port: what its page stores in the browser stays");
        assert_ne!(lab, board);
        assert_eq!(origins.open(&board, &lab_link).unwrap(), None);
        let (key, _) = origins.open(&board, &board_link).unwrap().unwrap();
        assert!(origins.admits(&board, &key) && !origins.admits(&lab, &key));
    }

    #[test]
    fn the_origin_that_was_opened_longest_ago_ends_when_there_are_many() {
        let origins = JobOrigins::default();
        let first = origins.new_link(port(1, 1), "/".to_owned()).unwrap().0;
        for job in 2..=MAX_ORIGINS as u64 + 1 {
            origins.new_link(port(job, 1), "/".to_owned()).unwrap();
        }
        assert_eq!(origins.port(&first), None);
    }
}
