//! Structures of Thrift in its compact protocol, as far as the metadata of Parquet needs them: numbers that are not
//! negative, text, lists and structures. Written only, never read.
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Structure of which the fields are written in the order of their ids, at most 15 apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    /// Id of the last field.
    last: u8,
}

impl Struct {
    pub(super) fn i32(self, id: u8, value: usize) -> Self {
        self.field(id, I32, &zigzag(value))
    }

    pub(super) fn i64(self, id: u8, value: usize) -> Self {
        self.field(id, I64, &zigzag(value))
    }

    pub(super) fn text(self, id: u8, value: &str) -> Self {
        self.field(id, BINARY, &text(value))
    }

    pub(super) fn nested(self, id: u8, value: Struct) -> Self {
        self.field(id, STRUCT, &value.end())
    }

    pub(super) fn i32_list(self, id: u8, values: &[usize]) -> Self {
        self.list(id, I32, values.iter().map(|value| zigzag(*value)).collect())
    }

    pub(super) fn text_list(self, id: u8, values: &[&str]) -> Self {
        self.list(id, BINARY, values.iter().map(|value| text(value)).collect())
    }

    pub(super) fn struct_list(self, id: u8, values: impl Iterator<Item = Struct>) -> Self {
        self.list(id, STRUCT, values.map(Struct::end).collect())
    }

    /// Returns the bytes of the complete structure.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn list(self, id: u8, kind: u8, elements: Vec<Vec<u8>>) -> Self {
        let mut bytes = match u8::try_from(elements.len()) {
            Ok(few @ ..15) => vec![few << 4 | kind],
            _ => [vec![0xf0 | kind], varint(elements.len())].concat(),
        };
        bytes.extend(elements.concat());
        self.field(id, LIST, &bytes)
    }

    fn field(mut self, id: u8, kind: u8, value: &[u8]) -> Self {
        self.bytes.push((id - self.last) << 4 | kind);
        self.bytes.extend_from_slice(value);
        self.last = id;
        self
    }
}

fn text(value: &str) -> Vec<u8> {
    [&varint(value.len()), value.as_bytes()].concat()
}

/// Returns a number that is not negative as a signed one.
fn zigzag(value: usize) -> Vec<u8> {
    varint(value << 1)
}

/// Returns a number in groups of seven bits, the lowest first; the highest bit of a byte says that another follows.
pub(super) fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 & 0x7f | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_bytes_as_they_need() {
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(127), [127]);
        assert_eq!(varint(300), [0xac, 2]);
        assert_eq!(Struct::default().i32(1, 1).i64(4, 64).end(), [0x15, 2, 0x36, 0x80, 1, 0]);
    }

    #[test]
    fn a_list_of_15_has_its_length_in_a_byte_of_its_own() {
        let of = |length: usize| Struct::default().i32_list(2, &vec![0; length]).end();
        assert_eq!(of(14)[..3], [0x29, 0xe5, 0]);
        assert_eq!(of(15)[..4], [0x29, 0xf5, 15, 0]);
        let nested = Struct::default().nested(1, Struct::default()).text_list(2, &["é"]).end();
        assert_eq!(nested, [0x1c, 0, 0x19, 0x18, 2, 0xc3, 0xa9, 0]);
    }
}
