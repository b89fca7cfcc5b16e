//! `--on` where it means nothing: nobody shall think that a verb was asked somewhere else than it
//! was.

use crate::home::Home;

#[test]
fn a_verb_that_asks_the_daemon_or_nobody_takes_no_other_place() {
    let home = Home::new();
    for words in
        ["stop-daemon --on slurm@nowhere", "stop-daemon --on slurm", "whatif --on=slurm@nowhere"]
    {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains("asks the daemon of this machine"), "{words}: {}", run.stderr);
    }
    for words in ["compare slurm kubernetes --on slurm", "schema job --on slurm@nowhere"] {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains("--on means nothing to this verb"), "{words}: {}", run.stderr);
    }
    home.words("schema job --on local").ok();
}
