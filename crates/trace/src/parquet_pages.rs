//! Looks at the sizes that a Parquet file claims before its decoder believes them.
//!
//! The decoder reserves memory for as many bytes and values as a page's header states. Memory that cannot be had ends
//! the process, which no [`guard`](crate::guard) can prevent; so unlikely sizes are refused here. What is left to claim
//! is 256 MiB a page, and 2 GiB for the texts of one column in one batch (Arrow's own limit).

use std::io;
use std::io::Read;

use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::reader::Length;

use crate::checksum::CheckedFile;
use crate::thrift;

/// Ours have about 1 MiB, those of other writers up to some tens.
const MOST_PAGE_BYTES: i64 = 256 << 20;
/// The best compressed table we saw, of quite regular events, has four rows to a byte.
const MOST_ROWS_PER_BYTE: u64 = 4096;

/// Refuses a file that claims more than it can hold.
pub(crate) fn check(
    file: &CheckedFile,
    metadata: &ParquetMetaData,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), ParquetError> {
    let length = file.len();
    let mut rows: u64 = 0;
    let mut bytes: u64 = 0;
    for group in metadata.row_groups() {
        let group_rows = unsigned(group.num_rows(), "rows")?;
        rows = rows.saturating_add(group_rows);
        for column in group.columns() {
            if !is_known(column.column_path().string().as_str()) {
                continue;
            }
            let values = unsigned(column.num_values(), "values")?;
            if values != group_rows {
                return wrong(format!(
                    "a column has {values} values for {group_rows} rows"
                ));
            }
            // Columns that overlap could make a small file take for ever.
            let chunk = Chunk::of(column, length)?;
            bytes = bytes.saturating_add(chunk.length);
            if bytes > length {
                return wrong("its columns are longer than the file".to_owned());
            }
            check_pages(file, chunk, values)?;
        }
    }
    if rows > length.saturating_mul(MOST_ROWS_PER_BYTE) {
        return wrong(format!("its {length} bytes claim to hold {rows} rows"));
    }
    if metadata.file_metadata().num_rows() != i64::try_from(rows).unwrap_or(-1) {
        return wrong("its parts have not as many rows as the whole".to_owned());
    }
    Ok(())
}

fn wrong<T>(text: String) -> Result<T, ParquetError> {
    Err(ParquetError::General(text))
}

fn unsigned(value: i64, what: &str) -> Result<u64, ParquetError> {
    u64::try_from(value).or_else(|_| wrong(format!("it claims to have {value} {what}")))
}

/// A column's part of a row group.
struct Chunk {
    start: u64,
    length: u64,
}

impl Chunk {
    /// Not by `byte_range`, which panics where these are negative.
    fn of(column: &ColumnChunkMetaData, file_length: u64) -> Result<Self, ParquetError> {
        let first_page = column.dictionary_page_offset();
        let start = unsigned(
            first_page.unwrap_or(column.data_page_offset()),
            "as an offset",
        )?;
        let length = unsigned(column.compressed_size(), "bytes")?;
        match start.checked_add(length) {
            Some(end) if end <= file_length => Ok(Self { start, length }),
            _ => wrong(format!("a column lies beyond byte {file_length}")),
        }
    }
}

fn check_pages(file: &CheckedFile, chunk: Chunk, values: u64) -> Result<(), ParquetError> {
    let mut at = chunk.start;
    let end = chunk.start + chunk.length;
    let mut seen: u64 = 0;
    // As the decoder does, which reads no page once it has all values.
    while at < end && seen < values {
        let mut input = Counted {
            inner: file.get_read(at)?.take(end - at),
            bytes: 0,
        };
        let header = thrift::PageHeader::read(&mut input).map_err(|error| {
            ParquetError::General(format!("the header of its page at byte {at}: {error}"))
        })?;
        check_page(&header, values, at)?;
        if !header.is_dictionary {
            seen = seen.saturating_add(header.values.max(0) as u64);
        }
        // Both are small: the header was read, and the page has a limit.
        at += input.bytes + header.compressed_bytes as u64;
    }
    Ok(())
}

fn check_page(header: &thrift::PageHeader, values: u64, at: u64) -> Result<(), ParquetError> {
    for bytes in [header.compressed_bytes, header.uncompressed_bytes] {
        if !(0..=MOST_PAGE_BYTES).contains(&bytes) {
            return wrong(format!(
                "its page at byte {at} claims to have {bytes} bytes"
            ));
        }
    }
    let most = if header.is_dictionary {
        header.uncompressed_bytes as u64
    } else {
        values
    };
    match u64::try_from(header.values) {
        Ok(values) if values <= most => Ok(()),
        _ => wrong(format!(
            "its page at byte {at} claims to have {} values",
            header.values
        )),
    }
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(uncompressed_bytes: i64, values: i64, is_dictionary: bool) -> Result<(), String> {
        let header = thrift::PageHeader {
            uncompressed_bytes,
            compressed_bytes: 100,
            values,
            is_dictionary,
        };
        check_page(&header, 1_000, 4).map_err(|error| error.to_string())
    }

    #[test]
    fn only_likely_sizes_pass() {
        assert_eq!(page(4_000, 1_000, false), Ok(()));
        assert_eq!(
            page(4_000, 2_000, true),
            Ok(()),
            "a dictionary's values are no rows"
        );
        assert!(
            page(i64::from(i32::MAX), 1_000, false)
                .unwrap_err()
                .contains("page at byte 4")
        );
        assert!(page(-1, 1_000, false).is_err());
        assert!(
            page(4_000, 1_001, false)
                .unwrap_err()
                .contains("1001 values")
        );
        assert!(page(4_000, -1, false).is_err());
        assert!(page(4_000, 4_001, true).is_err());
    }
}
