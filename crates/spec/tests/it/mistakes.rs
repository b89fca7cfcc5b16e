//! Diagnostics as people see them: one row per mistake, with the text that is printed.

use crate::support::complaint;

#[test]
fn a_model_that_no_node_has() {
    let source = "name: fsdp\nnodes: 2\ngpus: 8\ngpu: h1000\ntime: 12h\nrun: torchrun train.py\n";
    insta::assert_snapshot!(complaint(source), @r"
    error: `gpu` names a model that no node has
     --> train.yaml:4:6
      |
    4 | gpu: h1000
      |      ^^^^^ this cluster has h100 (16) and a100 (8)
      |
    hint: did you mean `h100`? `muster nodes` lists them
    ");
}
