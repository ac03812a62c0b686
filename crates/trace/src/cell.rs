//! How one value of a row is stored in an Arrow column, written once per Rust type.

use std::mem::take;
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::ArrayRef;
use arrow_array::BooleanArray;
use arrow_array::PrimitiveArray;
use arrow_array::StringArray;
use arrow_array::builder::BooleanBuilder;
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::types::UInt16Type;
use arrow_array::types::UInt32Type;
use arrow_array::types::UInt64Type;
use arrow_schema::DataType;

/// A Rust type that fills one column.
///
/// Decoding has two steps so that all checks run once per batch: [`Cell::view`] checks a whole
/// column, after which [`Cell::get`] cannot fail for a row below the column's length.
pub(crate) trait Cell: Sized {
    type Builder: Default;
    type Column;
    const NULLABLE: bool;

    fn data_type() -> DataType;
    fn append(self, builder: &mut Self::Builder);
    /// Takes what was appended, leaving the builder empty.
    fn finish(builder: &mut Self::Builder) -> ArrayRef;
    /// `None`: the file has no such column. The error says what is wrong with the column.
    fn view(array: Option<&ArrayRef>) -> Result<Self::Column, String>;
    fn get(column: &Self::Column, row: usize) -> Self;
}

pub(crate) fn missing() -> String {
    "is missing".to_owned()
}

/// Checks the type, and that a column without `?` holds no nulls.
pub(crate) fn check(array: &ArrayRef, expected: &DataType, nullable: bool) -> Result<(), String> {
    if array.data_type() != expected {
        return Err(format!("has type {}, not {expected}", array.data_type()));
    }
    if !nullable && array.null_count() > 0 {
        return Err(format!(
            "holds {} nulls where none may be",
            array.null_count()
        ));
    }
    Ok(())
}

macro_rules! integer_cell {
    ($($native:ty => $arrow:ty),*) => {$(
        impl Cell for $native {
            // A plain vector: an array takes it over without copying.
            type Builder = Vec<$native>;
            type Column = PrimitiveArray<$arrow>;
            const NULLABLE: bool = false;

            fn data_type() -> DataType {
                <$arrow>::DATA_TYPE
            }
            fn append(self, builder: &mut Self::Builder) {
                builder.push(self);
            }
            fn finish(builder: &mut Self::Builder) -> ArrayRef {
                let capacity = builder.len();
                let values = std::mem::replace(builder, Vec::with_capacity(capacity));
                Arc::new(Self::Column::from(values))
            }
            fn view(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
                let array = array.ok_or_else(missing)?;
                check(array, &Self::data_type(), false)?;
                Ok(array.as_primitive::<$arrow>().clone())
            }
            fn get(column: &Self::Column, row: usize) -> Self {
                column.value(row)
            }
        }

        impl Cell for Option<$native> {
            type Builder = PrimitiveBuilder<$arrow>;
            type Column = Option<PrimitiveArray<$arrow>>;
            const NULLABLE: bool = true;

            fn data_type() -> DataType {
                <$arrow>::DATA_TYPE
            }
            fn append(self, builder: &mut Self::Builder) {
                builder.append_option(self);
            }
            fn finish(builder: &mut Self::Builder) -> ArrayRef {
                Arc::new(builder.finish())
            }
            fn view(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
                let Some(array) = array else { return Ok(None) };
                check(array, &Self::data_type(), true)?;
                Ok(Some(array.as_primitive::<$arrow>().clone()))
            }
            fn get(column: &Self::Column, row: usize) -> Self {
                let column = column.as_ref()?;
                column.is_valid(row).then(|| column.value(row))
            }
        }
    )*};
}

integer_cell!(u16 => UInt16Type, u32 => UInt32Type, u64 => UInt64Type);

impl Cell for bool {
    type Builder = BooleanBuilder;
    type Column = BooleanArray;
    const NULLABLE: bool = false;

    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.finish())
    }
    fn view(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
        let array = array.ok_or_else(missing)?;
        check(array, &DataType::Boolean, false)?;
        Ok(array.as_boolean().clone())
    }
    fn get(column: &Self::Column, row: usize) -> Self {
        column.value(row)
    }
}

impl Cell for Option<bool> {
    type Builder = BooleanBuilder;
    type Column = Option<BooleanArray>;
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_option(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.finish())
    }
    fn view(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
        let Some(array) = array else { return Ok(None) };
        check(array, &DataType::Boolean, true)?;
        Ok(Some(array.as_boolean().clone()))
    }
    fn get(column: &Self::Column, row: usize) -> Self {
        let column = column.as_ref()?;
        column.is_valid(row).then(|| column.value(row))
    }
}

impl Cell for String {
    type Builder = StringBuilder;
    type Column = StringArray;
    const NULLABLE: bool = false;

    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(take(builder).finish())
    }
    fn view(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
        let array = array.ok_or_else(missing)?;
        check(array, &DataType::Utf8, false)?;
        Ok(array.as_string::<i32>().clone())
    }
    fn get(column: &Self::Column, row: usize) -> Self {
        column.value(row).to_owned()
    }
}

impl Cell for Option<String> {
    type Builder = StringBuilder;
    type Column = Option<StringArray>;
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_option(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(take(builder).finish())
    }
    fn view(array: Option<&ArrayRef>) -> Result<Self::Column, String> {
        let Some(array) = array else { return Ok(None) };
        check(array, &DataType::Utf8, true)?;
        Ok(Some(array.as_string::<i32>().clone()))
    }
    fn get(column: &Self::Column, row: usize) -> Self {
        let column = column.as_ref()?;
        column.is_valid(row).then(|| column.value(row).to_owned())
    }
}
