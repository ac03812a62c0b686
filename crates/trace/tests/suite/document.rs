//! `docs/trace-format.md` lists the columns that are written.

use std::fs::File;

use crate::common::closed;
use crate::common::new_dir;
use arrow_schema::DataType;
use arrow_schema::Field;
use pagewise_trace::AllocationKind;
use pagewise_trace::EventKind;
use pagewise_trace::PageState;
use pagewise_trace::StallKind;
use pagewise_trace::TABLE_NAMES;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const DOCUMENT: &str = include_str!("../../../../docs/trace-format.md");

/// The type as the document writes it.
fn type_name(field: &Field) -> String {
    let name = match field.data_type() {
        DataType::UInt16 => "u16",
        DataType::UInt32 => "u32",
        DataType::UInt64 => "u64",
        DataType::Boolean => "bool",
        DataType::Utf8 => "text",
        DataType::Dictionary(_, _) => "kind",
        other => panic!("the document has no name for {other}"),
    };
    format!("{name}{}", if field.is_nullable() { "?" } else { "" })
}

/// The first two cells of the rows of the table under a heading.
fn documented(table: &str) -> Vec<(String, String)> {
    let heading = format!("### {table}\n");
    let (_, section) = DOCUMENT.split_once(&heading).expect(&heading);
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (column, rest) = row.split_once("` | ").unwrap();
        (
            column.to_owned(),
            rest.split(" | ").next().unwrap().to_owned(),
        )
    })
    .collect()
}

#[test]
fn every_column_is_documented_with_its_type() {
    let (_parent, dir) = new_dir();
    closed(&dir, 1);
    for table in TABLE_NAMES {
        let file = File::open(dir.join(format!("{table}.parquet"))).unwrap();
        let schema = ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .schema()
            .clone();
        let fields = schema.fields().iter();
        let written: Vec<_> = fields.map(|f| (f.name().clone(), type_name(f))).collect();
        assert_eq!(documented(table), written, "{table}");
    }
}

#[test]
fn every_kind_is_documented() {
    let events = EventKind::ALL.iter().map(|kind| kind.as_str());
    let stalls = StallKind::ALL.iter().map(|kind| kind.as_str());
    let states = PageState::ALL.iter().map(|kind| kind.as_str());
    let events = events.chain(stalls).chain(states);
    for name in events.chain(AllocationKind::ALL.iter().map(|kind| kind.as_str())) {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
}
