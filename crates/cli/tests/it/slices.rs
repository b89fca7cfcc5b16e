//! MIG slices as devices of their own, beside whole GPUs of the same machine: from the declaration
//! to the environment of a process.

use crate::home::Home;

#[test]
fn a_job_gets_the_slice_that_it_names_and_sees_only_that() {
    let home = Home::new();
    let declared = "2:a100,2:a100-1g.10gb,1:a100-2g.20gb";
    let first = home.words(&format!("run --virtual-gpus {declared} --wait -- true")).ok();
    assert!(
        first.stderr.contains("with 5 virtual GPUs (2 a100, 2 a100-1g.10gb, 1 a100-2g.20gb)"),
        "{}",
        first.stderr
    );
    home.words("run --virtual-gpus 5:a100 -- true").code(2);
    let jobs = "
name: whole
gpus: 2
gpu: a100
run: echo $CUDA_VISIBLE_DEVICES
---
name: any-of-several
gpus: 1
gpu: [a100-2g.20gb, a100-1g.10gb]
run: echo $CUDA_VISIBLE_DEVICES
---
name: named
gpus: 2
gpu: a100-1g.10gb
run: echo $CUDA_VISIBLE_DEVICES
---
name: part-of-a-slice
gpus: 0.5
gpu: a100-1g.10gb
run: echo $CUDA_VISIBLE_DEVICES $MUSTER_GPU_SHARE
";
    home.with_stdin(&["run", "--wait", "-"], jobs).ok();
    for (name, seen) in [
        ("whole", "0,1\n"),
        ("any-of-several", "4\n"),
        ("named", "2,3\n"),
        ("part-of-a-slice", "2 500\n"),
    ] {
        assert_eq!(home.words(&format!("logs {name}")).ok().stdout, seen, "{name}");
    }
    // A job with more slices of a model than a node has is refused with the numbers.
    let refused = home
        .with_stdin(&["run", "-"], "name: x\ngpus: 3\ngpu: a100-1g.10gb\nrun: 'true'\n")
        .code(2);
    assert!(refused.stderr.contains("the most of one model on a node is 2"), "{}", refused.stderr);
    // The declaration is remembered, and the inventory writes it as in a cluster file.
    let inventory = home.words(&format!("inventory --virtual-gpus {declared}")).ok();
    assert!(
        inventory.stdout.contains("gpus: {a100: 2, a100-1g.10gb: 2, a100-2g.20gb: 1}"),
        "{}",
        inventory.stdout
    );
}
