//! Links `muster` to a fixed address (docs/adr/0037). Each start of a program that may be loaded
//! anywhere first rewrites its 84,000 pointers to itself, and each task starts this one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-no-pie");
}
