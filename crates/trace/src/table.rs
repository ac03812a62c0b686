//! One declaration per table drives its row type, schema, builder, encodings and decoder.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::RecordBatch;
use arrow_schema::DataType;
use arrow_schema::Field;
use arrow_schema::Schema;
use arrow_schema::SchemaRef;

/// How a column is encoded in the closed (Parquet) table, before zstd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Differences to the previous value (`DELTA_BINARY_PACKED`): times, addresses, counters.
    Delta,
    /// Few distinct values, or text.
    Dictionary,
}

/// What a table says about one of its columns.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: &'static str,
    pub data_type: DataType,
    pub nullable: bool,
    pub encoding: Encoding,
}

/// What is wrong with which column.
#[derive(Debug)]
pub struct ColumnError {
    pub column: &'static str,
    pub detail: String,
}

impl std::fmt::Display for ColumnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column `{}` {}", self.column, self.detail)
    }
}

/// The part of a row type that the `table!` macro writes; not for use outside this crate.
pub trait Codec: Sized + 'static {
    type Builders: Default;
    type Columns;

    /// A later row replaces the earlier ones with the same key; `None`: rows only add up.
    const KEY: Option<fn(&Self) -> u32>;

    fn columns() -> Vec<Column>;
    fn append(self, builders: &mut Self::Builders);
    fn finish(builders: &mut Self::Builders) -> Vec<ArrayRef>;
    /// Finds and checks the columns by name; unknown ones are ignored.
    fn view(batch: &RecordBatch) -> Result<Self::Columns, ColumnError>;
    fn get(columns: &Self::Columns, row: usize) -> Self;
}

/// A row of one of the trace's tables: a plain struct whose fields are the table's columns.
///
/// Implemented by the row types of this crate only.
pub trait Row: Codec {
    /// The table's name, which is also the stem of its file names.
    const TABLE: &'static str;
}

/// The Arrow schema of a table.
pub(crate) fn schema<T: Codec>() -> SchemaRef {
    let fields = T::columns()
        .into_iter()
        .map(|column| Field::new(column.name, column.data_type, column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

macro_rules! table {
    (
        $(#[$meta:meta])*
        pub struct $row:ident in $table:literal {
            $( $(#[$field_meta:meta])* $field:ident: $type:ty => $encoding:ident, )*
        }
        $( key $key:ident )?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $row {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $crate::table::Row for $row {
            const TABLE: &'static str = $table;
        }

        const _: () = {
            use arrow_array::ArrayRef;
            use arrow_array::RecordBatch;
            use $crate::cell::Cell;
            use $crate::table::Codec;
            use $crate::table::Column;
            use $crate::table::ColumnError;
            use $crate::table::Encoding;

            #[derive(Default)]
            pub struct Builders { $( $field: <$type as Cell>::Builder, )* }
            pub struct Columns { $( $field: <$type as Cell>::Column, )* }

            impl Codec for $row {
                type Builders = Builders;
                type Columns = Columns;

                const KEY: Option<fn(&Self) -> u32> = $crate::table::key![$( $row, $key )?];

                fn columns() -> Vec<Column> {
                    vec![$( Column {
                        name: stringify!($field),
                        data_type: <$type as Cell>::data_type(),
                        nullable: <$type as Cell>::NULLABLE,
                        encoding: Encoding::$encoding,
                    } ),*]
                }
                fn append(self, builders: &mut Builders) {
                    $( Cell::append(self.$field, &mut builders.$field); )*
                }
                fn finish(builders: &mut Builders) -> Vec<ArrayRef> {
                    vec![$( <$type as Cell>::finish(&mut builders.$field) ),*]
                }
                fn view(batch: &RecordBatch) -> Result<Columns, ColumnError> {
                    Ok(Columns { $(
                        $field: <$type as Cell>::view(batch.column_by_name(stringify!($field)))
                            .map_err(|detail| ColumnError { column: stringify!($field), detail })?,
                    )* })
                }
                fn get(columns: &Columns, row: usize) -> Self {
                    $row { $( $field: <$type as Cell>::get(&columns.$field, row), )* }
                }
            }
        };
    };
}
pub(crate) use table;

macro_rules! key {
    () => {
        None
    };
    ($row:ident, $key:ident) => {
        Some(|row: &$row| row.$key)
    };
}
pub(crate) use key;

/// The rows that count in a table with a key: the last of each, in the order of first appearance.
pub(crate) fn last_of_each<T>(rows: Vec<T>, key: fn(&T) -> u32) -> Vec<T> {
    let mut positions = HashMap::new();
    let mut last: Vec<T> = Vec::with_capacity(rows.len());
    for row in rows {
        let position = *positions.entry(key(&row)).or_insert(last.len());
        match last.get_mut(position) {
            Some(earlier) => *earlier = row,
            None => last.push(row),
        }
    }
    last
}
