//! Runs programs on the cluster of a job that runs already, from a shell beside its rank 0.

/// Shell script that sets the environment of the cluster and runs its arguments.
const INSIDE: &str = include_str!("inside.sh");

/// Returns the words that run a program on the cluster, in a shell beside rank 0. `python` is the
/// interpreter of the job. They end with exit code 75 where no head is up.
#[must_use]
pub fn inside(program: &[String]) -> Vec<String> {
    let shell = ["sh", "-c", INSIDE, "sh"].map(str::to_owned);
    shell.into_iter().chain(program.iter().cloned()).collect()
}
