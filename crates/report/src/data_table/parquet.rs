//! Files of Parquet: one group of rows, a page per column, values as they are, no compression and no statistics. That is
//! enough for tables of some thousand rows, which are read whole (ADR 0065). A page must stay below 2 GiB.
//! <https://github.com/apache/parquet-format>; the numbers are those of its `parquet.thrift`.

use super::thrift::{Struct, varint};
use super::{Column, Values};

const MAGIC: &[u8] = b"PAR1";
const WRITER: &str = concat!("muster version ", env!("CARGO_PKG_VERSION"));

/// Types of values in a page, whatever they mean.
const BOOLEAN: usize = 0;
const INT64: usize = 2;
const DOUBLE: usize = 5;
const BYTE_ARRAY: usize = 6;

/// Encodings: values one after the other, and runs of equal definition levels.
const PLAIN: usize = 0;
const RLE: usize = 3;

const OPTIONAL: usize = 1;
const UTF8: usize = 0;
const DATA_PAGE: usize = 0;
const UNCOMPRESSED: usize = 0;

/// Page of a column, and where it is in the file.
struct Chunk<'a> {
    column: &'a Column,
    /// Bytes from the beginning of the file.
    offset: usize,
    /// Bytes of the page with its header.
    length: usize,
}

/// Returns the file with these columns, each with a value or none for every row.
pub(super) fn file(columns: &[Column], rows: usize) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let mut chunks = Vec::with_capacity(columns.len());
    for column in columns {
        let page = page(&column.values, rows);
        chunks.push(Chunk { column, offset: bytes.len(), length: page.len() });
        bytes.extend(page);
    }
    let footer = footer(&chunks, rows);
    let length = (footer.len() as u32).to_le_bytes();
    [&bytes, &footer, &length[..], MAGIC].concat()
}

/// Returns the only page of a column: header, definition levels, values.
fn page(values: &Values, rows: usize) -> Vec<u8> {
    let (levels, plain) = match values {
        Values::Text(values) => encoded(values, |text, bytes| {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }),
        Values::Integers(values) => {
            encoded(values, |value, bytes| bytes.extend(value.to_le_bytes()))
        }
        Values::Doubles(values) => {
            encoded(values, |value, bytes| bytes.extend(value.to_le_bytes()))
        }
        Values::Booleans(values) => (levels(values), bits(values.iter().flatten())),
    };
    let size = levels.len() + plain.len();
    let data = Struct::default().i32(1, rows).i32(2, PLAIN).i32(3, RLE).i32(4, RLE);
    let header = Struct::default().i32(1, DATA_PAGE).i32(2, size).i32(3, size).nested(5, data);
    [header.end(), levels, plain].concat()
}

/// Returns the definition levels of values, and those that are there, one after the other.
fn encoded<T>(values: &[Option<T>], write: impl Fn(&T, &mut Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let mut plain = Vec::new();
    for value in values.iter().flatten() {
        write(value, &mut plain);
    }
    (levels(values), plain)
}

/// Returns for every row whether it has a value, as runs of equal levels after their length in bytes.
fn levels<T>(values: &[Option<T>]) -> Vec<u8> {
    let mut runs = Vec::new();
    for run in values.chunk_by(|one, next| one.is_some() == next.is_some()) {
        runs.extend(varint(run.len() << 1));
        runs.push(u8::from(run[0].is_some()));
    }
    [&(runs.len() as u32).to_le_bytes()[..], &runs].concat()
}

/// Returns truth values as bits, the lowest one of a byte first.
fn bits<'a>(values: impl Iterator<Item = &'a bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, value) in values.enumerate() {
        if index % 8 == 0 {
            bytes.push(0);
        }
        bytes[index / 8] |= u8::from(*value) << (index % 8);
    }
    bytes
}

/// Returns the `FileMetaData` of the format: schema, number of rows, and where the pages are.
fn footer(chunks: &[Chunk<'_>], rows: usize) -> Vec<u8> {
    let root = Struct::default().text(4, "schema").i32(5, chunks.len());
    let elements = chunks.iter().map(|chunk| element(chunk.column));
    let total = chunks.iter().map(|chunk| chunk.length).sum();
    let columns =
        chunks.iter().map(|chunk| Struct::default().i64(2, 0).nested(3, metadata(chunk, rows)));
    let group = Struct::default().struct_list(1, columns).i64(2, total).i64(3, rows);
    Struct::default()
        .i32(1, 1)
        .struct_list(2, std::iter::once(root).chain(elements))
        .i64(3, rows)
        .struct_list(4, std::iter::once(group))
        .text(6, WRITER)
        .end()
}

/// Returns the `SchemaElement` of the format: type and name of a column.
fn element(column: &Column) -> Struct {
    let element =
        Struct::default().i32(1, physical(&column.values)).i32(3, OPTIONAL).text(4, &column.name);
    match column.values {
        // The logical type, and the older one that it replaced.
        Values::Text(_) => {
            element.i32(6, UTF8).nested(10, Struct::default().nested(1, Struct::default()))
        }
        Values::Integers(_) | Values::Doubles(_) | Values::Booleans(_) => element,
    }
}

/// Returns the `ColumnMetaData` of the format: how a page is written, its size and its offset.
fn metadata(chunk: &Chunk<'_>, rows: usize) -> Struct {
    Struct::default()
        .i32(1, physical(&chunk.column.values))
        .i32_list(2, &[PLAIN, RLE])
        .text_list(3, &[&chunk.column.name])
        .i32(4, UNCOMPRESSED)
        .i64(5, rows)
        .i64(6, chunk.length)
        .i64(7, chunk.length)
        .i64(9, chunk.offset)
}

fn physical(values: &Values) -> usize {
    match values {
        Values::Text(_) => BYTE_ARRAY,
        Values::Integers(_) => INT64,
        Values::Doubles(_) => DOUBLE,
        Values::Booleans(_) => BOOLEAN,
    }
}
