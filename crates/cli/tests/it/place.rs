//! `--on` with subcommands that it does not apply to: an error, so that it is not ignored silently.

use crate::home::Home;

#[test]
fn on_is_rejected_by_subcommands_that_it_does_not_apply_to() {
    let home = Home::new();
    for words in
        ["stop-daemon --on slurm@nowhere", "stop-daemon --on slurm", "whatif --on=slurm@nowhere"]
    {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains("uses the daemon of this machine"), "{words}: {}", run.stderr);
    }
    for words in ["compare slurm kubernetes --on slurm", "schema job --on slurm@nowhere"] {
        let run = home.words(words).code(2);
        assert!(
            run.stderr.contains("--on does not apply to this command"),
            "{words}: {}",
            run.stderr
        );
    }
    home.words("schema job --on local").ok();
}
