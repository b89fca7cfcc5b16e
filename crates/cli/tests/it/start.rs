//! How the binary starts: each task starts it once more, so a start must stay cheap.

use std::fs;

/// Type of an ELF file that is loaded at a fixed address, at offset 16 of its header.
const ET_EXEC: [u8; 2] = 2u16.to_ne_bytes();

#[test]
fn the_binary_has_a_fixed_address_and_rewrites_no_pointers() {
    let binary = fs::read(env!("CARGO_BIN_EXE_muster")).unwrap();
    assert_eq!(&binary[..4], b"\x7fELF");
    assert_eq!(binary[16..18], ET_EXEC);
}
