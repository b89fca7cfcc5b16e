//! Rejected trees, and the ids of a valid one: example rows.

use muster_model::{QueueTree, Span};

use super::trees::tree;
use crate::Policy;

fn check(tree: QueueTree, expected: &str) {
    let got = Policy::new(tree).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
    assert_eq!(got, expected);
}

#[test]
fn trees_with_children_that_exceed_their_parent_are_rejected() {
    check(tree("p quota 8\n a quota 4\n b quota 4\n"), "ok");
    check(
        tree("p quota 8\n a quota 4\n b quota 5\n"),
        "the queues under `p` have quotas of 9 h100 in all, but it has 8",
    );
    check(
        tree("p quota 8\n a\n  b quota 5\n  c quota 5\n"),
        "the queues under `p` have quotas of 10 h100 in all, but it has 8",
    );
    check(tree("p quota 8\n a quota-a100 9\n"), "ok");
}

#[test]
fn contradictory_settings_are_rejected() {
    check(tree(""), "the tree has no queue");
    check(tree("p\n a\n a\n"), "queue `p/a` is defined twice");
    check(tree("p\n a\nq\n a\n"), "ok");
    check(tree("p borrow 1\n"), "queue `p` has a borrow limit but no quota");
    check(tree("p lend 1\n"), "queue `p` has a lend limit but no quota");
    check(tree("p weight 0\n"), "queue `p` has weight 0; the minimum is 1");
    check(
        tree("p priority 3..2\n"),
        "queue `p` admits priorities from 3 to 2: the lowest is above the highest",
    );
    check(tree("a/b\n"), "queue name `a/b` is empty or has a `/`");
    check(QueueTree { half_life: Span(0), ..tree("p\n") }, "the half-life is 0");
    check(
        QueueTree { default_queue: "q".into(), ..tree("p\n") },
        "default queue `q` is not in the tree",
    );
    check(
        QueueTree { default_queue: "".into(), ..tree("p\n") },
        "default queue `` is not in the tree",
    );
    check(
        QueueTree { default_queue: "p".into(), ..tree("p\n a\n") },
        "default queue `p` has child queues; name one of them as the default",
    );
    let nested = |depth: usize| {
        tree(&(0..depth).map(|level| format!("{}q\n", " ".repeat(level))).collect::<String>())
    };
    check(nested(32), "ok");
    check(nested(33), &format!("queue `{}` is nested more than 32 deep", vec!["q"; 33].join("/")));
}

#[test]
fn ids_are_dense_and_found_by_name() {
    let mut policy = Policy::new(tree("p\n b quota-a100 1\n a quota 1\nq\n")).unwrap();
    let names: Vec<_> =
        ["p/b", "p/a", "q"].map(|name| policy.queues().leaf(&name.into()).unwrap().0).into();
    assert_eq!(names, [0, 1, 2]);
    assert_eq!(policy.queues().leaf(&"p".into()), None);
    assert_eq!(policy.queues().leaf_name(policy.queues().default_leaf()).as_str(), "p/b");
    assert_eq!(policy.models().len(), 2);
    let first = policy.intern_model(&"h200".into());
    let again = policy.intern_model(&"h200".into());
    assert_eq!((first, first.0), (again, 2));
    assert_eq!(policy.models().name(first).as_str(), "h200");
    let ada = policy.intern_user(&"ada".into());
    assert_eq!(policy.intern_user(&"ada".into()), ada);
    assert_eq!(policy.user_name(ada).as_str(), "ada");
}
