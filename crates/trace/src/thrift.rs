//! The sizes in a Parquet page's header: as much of Thrift's compact protocol as that takes.
//!
//! After `thrift-compact-protocol.md` of Apache Thrift and `parquet.thrift` of Apache Parquet. The library keeps its
//! own reader of these headers to itself.

use std::io;
use std::io::Read;

/// What a page claims.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) uncompressed_bytes: i64,
    pub(crate) compressed_bytes: i64,
    pub(crate) values: i64,
    pub(crate) is_dictionary: bool,
}

/// Headers nest three deep.
const DEEPEST: u32 = 8;
/// A header holds no longer text or list: of statistics the values of one row.
const LONGEST: u64 = 1 << 20;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

// `PageHeader`, and the `num_values` of `DataPageHeader`, `DictionaryPageHeader` and `DataPageHeaderV2`.
const UNCOMPRESSED_PAGE_SIZE: i16 = 2;
const COMPRESSED_PAGE_SIZE: i16 = 3;
const DATA_PAGE_HEADER: i16 = 5;
const DICTIONARY_PAGE_HEADER: i16 = 7;
const DATA_PAGE_HEADER_V2: i16 = 8;
const NUM_VALUES: i16 = 1;

impl PageHeader {
    pub(crate) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut header = Self::default();
        fields(input, DEEPEST, |input, id, kind| {
            match (id, kind) {
                (UNCOMPRESSED_PAGE_SIZE, I32) => header.uncompressed_bytes = zigzag(input)?,
                (COMPRESSED_PAGE_SIZE, I32) => header.compressed_bytes = zigzag(input)?,
                (DATA_PAGE_HEADER | DICTIONARY_PAGE_HEADER | DATA_PAGE_HEADER_V2, STRUCT) => {
                    header.is_dictionary = id == DICTIONARY_PAGE_HEADER;
                    fields(input, DEEPEST - 1, |input, id, kind| match (id, kind) {
                        (NUM_VALUES, I32) => {
                            header.values = zigzag(input)?;
                            Ok(())
                        }
                        _ => skip(input, kind, DEEPEST - 2),
                    })?;
                }
                _ => skip(input, kind, DEEPEST - 1)?,
            }
            Ok(())
        })?;
        Ok(header)
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Calls `field` with the number and type of each field of a struct; it must read the value.
fn fields<R: Read>(
    input: &mut R,
    depth: u32,
    mut field: impl FnMut(&mut R, i16, u8) -> io::Result<()>,
) -> io::Result<()> {
    if depth == 0 {
        return Err(invalid("nested too deep"));
    }
    let mut last: i16 = 0;
    loop {
        let head = byte(input)?;
        if head == 0 {
            return Ok(());
        }
        let id = match head >> 4 {
            0 => zigzag(input)?,
            delta => i64::from(last) + i64::from(delta),
        };
        last = i16::try_from(id).map_err(|_| invalid("a field's number is out of range"))?;
        field(input, last, head & 0x0f)?;
    }
}

fn skip<R: Read>(input: &mut R, kind: u8, depth: u32) -> io::Result<()> {
    match kind {
        TRUE | FALSE => Ok(()),
        I8 => byte(input).map(drop),
        I16 | I32 | I64 => varint(input).map(drop),
        DOUBLE => pass(input, 8),
        BINARY => {
            let length = varint(input)?;
            pass(input, length)
        }
        LIST | SET => {
            let head = byte(input)?;
            let count = match head >> 4 {
                15 => varint(input)?,
                short => short.into(),
            };
            if count > LONGEST || depth == 0 {
                return Err(invalid("a list is too long"));
            }
            (0..count).try_for_each(|_| skip_element(input, head & 0x0f, depth - 1))
        }
        STRUCT => fields(input, depth, |input, _, kind| skip(input, kind, depth - 1)),
        // Maps are in no header.
        _ => Err(invalid("a field has a type that is not expected")),
    }
}

/// Unlike as a field, a truth value in a list has a byte of its own.
fn skip_element<R: Read>(input: &mut R, kind: u8, depth: u32) -> io::Result<()> {
    match kind {
        TRUE | FALSE => byte(input).map(drop),
        _ => skip(input, kind, depth),
    }
}

fn pass<R: Read>(input: &mut R, bytes: u64) -> io::Result<()> {
    if bytes > LONGEST {
        return Err(invalid("a text is too long"));
    }
    let passed = io::copy(&mut input.take(bytes), &mut io::sink())?;
    if passed == bytes {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn byte(input: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    input.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn varint(input: &mut impl Read) -> io::Result<u64> {
    let mut value: u64 = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(input)?;
        value |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(invalid("a number is too long"))
}

fn zigzag(input: &mut impl Read) -> io::Result<i64> {
    let value = varint(input)?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type 0, 300 and 200 bytes, a checksum, and a data page of 77 values in encoding 8.
    const HEADER: &[u8] = &[
        0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0x90, 0x03, 0x15, 0x02, // fields 1 to 4
        0x1c, 0x15, 0x9a, 0x01, 0x15, 0x10, 0x00, // field 5
        0x00,
    ];

    #[test]
    fn sizes_are_found() {
        let mut input = HEADER;
        let expected = PageHeader {
            uncompressed_bytes: 300,
            compressed_bytes: 200,
            values: 77,
            is_dictionary: false,
        };
        assert_eq!(PageHeader::read(&mut input).unwrap(), expected);
        assert!(input.is_empty());
    }

    #[test]
    fn every_cut_is_noticed() {
        for cut in 0..HEADER.len() {
            assert!(PageHeader::read(&mut &HEADER[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn neither_depth_nor_length_can_exhaust_us() {
        let deep = [0x1c; 100_000];
        assert!(PageHeader::read(&mut &deep[..]).is_err());
        let long_text = [0x18, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(PageHeader::read(&mut &long_text[..]).is_err());
        // A list of 2^35 truth values.
        let long_list = [0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(PageHeader::read(&mut &long_list[..]).is_err());
        let long_number = [
            0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ];
        assert!(PageHeader::read(&mut &long_number[..]).is_err());
    }
}
