//! Conformance tests for the daemon of this machine.

use std::path::PathBuf;

use crate::conform::{JobPlace, conformance};
use crate::home::Home;

impl JobPlace for Home {
    fn call(&self, words: &[&str]) -> (i32, String, String) {
        let run = self.muster(words);
        (run.code, run.stdout, run.stderr)
    }

    fn folder(&self) -> PathBuf {
        self.path("home")
    }

    fn all_of_it(&self) -> &'static str {
        "nodes: 1\ngpus: 8"
    }

    fn until(&self, what: &str, holds: &mut dyn FnMut() -> bool) {
        let holds = std::cell::RefCell::new(holds);
        Home::until(self, what, || (holds.borrow_mut())());
    }
}

conformance!(Home::with_gpus(8));
