//! Looks up the addresses of nodes by their names, no more than a name server answers in bounded time. What
//! is left out, or not answered, is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use muster_doctor::ray::HostProcess;
use muster_model::hostlist;

/// Most names that are looked up: a job of Slurm may have 100,000, and every process names some.
const MOST_NAMES: usize = 256;

/// Names that one thread looks up, one after the other.
const NAMES_OF_A_THREAD: usize = 16;

/// Longest wait for all the answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the names of nodes in the node lists of Slurm's jobs, as far as they are looked up: of each list
/// the first names, among which is the head.
pub fn of_jobs(processes: &[HostProcess]) -> BTreeSet<String> {
    let lists: BTreeSet<&String> = processes
        .iter()
        .filter_map(|one| one.environment.as_ref()?.get("SLURM_JOB_NODELIST"))
        .take(MOST_NAMES)
        .collect();
    let of_each = (MOST_NAMES / lists.len().max(1)).max(1);
    let expanded = lists.into_iter().filter_map(|list| hostlist::expand(list).ok());
    expanded.flat_map(|names| names.into_iter().take(of_each)).collect()
}

/// Returns the addresses of those names that resolve in time.
pub fn resolved(names: BTreeSet<String>) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let (answer, answers) = mpsc::channel();
    for part in Vec::from_iter(names).chunks(NAMES_OF_A_THREAD) {
        let part = part.to_vec();
        let answer = answer.clone();
        // A name server that is silent holds its thread, and nothing else.
        std::thread::spawn(move || {
            for name in part {
                let addresses = addresses(&name);
                if answer.send((name, addresses)).is_err() {
                    return;
                }
            }
        });
    }
    drop(answer);
    let deadline = Instant::now() + PATIENCE;
    let next = || {
        let left = deadline.saturating_duration_since(Instant::now());
        answers.recv_timeout(left).ok()
    };
    std::iter::from_fn(next).filter(|(_, addresses)| !addresses.is_empty()).collect()
}

fn addresses(name: &str) -> BTreeSet<IpAddr> {
    let found = (name, 0).to_socket_addrs().into_iter().flatten();
    found.map(|address| address.ip()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_list(list: &str) -> HostProcess {
        let variable = ("SLURM_JOB_NODELIST".to_owned(), list.to_owned());
        HostProcess { environment: Some(BTreeMap::from([variable])), ..HostProcess::default() }
    }

    #[test]
    fn names_are_counted_before_they_are_looked_up() {
        let many = of_jobs(&[of_list("n[1-90000]"), of_list("m[01-03]"), of_list("n[1-90000]")]);
        assert_eq!(many.len(), MOST_NAMES / 2 + 3);
        assert!(many.contains("n1") && many.contains("m03"), "{many:?}");
        assert!(of_jobs(&[of_list("n[1-"), HostProcess::default()]).is_empty());
    }

    #[test]
    fn a_name_without_an_address_is_unknown() {
        let names = ["localhost", "no name has spaces"].map(str::to_owned);
        let found = resolved(BTreeSet::from(names));
        assert_eq!(found.keys().collect::<Vec<_>>(), ["localhost"]);
        assert!(found["localhost"].iter().all(IpAddr::is_loopback));
    }
}
