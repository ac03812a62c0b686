//! Columns of a few fixed names, stored as dictionary-encoded text.

/// Declares an enum whose values are stored by name, so that every tool shows them readably.
///
/// The keys are signed because pandas refuses dictionaries with unsigned ones.
macro_rules! kinds {
    (
        $(#[$meta:meta])*
        pub enum $kind:ident { $( $(#[$value_meta:meta])* $value:ident = $name:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $kind { $( $(#[$value_meta])* $value, )* }

        impl $kind {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [$kind] = &[$( $kind::$value ),*];

            /// The name as stored in the trace.
            pub fn as_str(self) -> &'static str {
                match self { $( $kind::$value => $name ),* }
            }

            /// The value with this stored name.
            pub fn from_name(name: &str) -> Option<$kind> {
                match name { $( $name => Some($kind::$value), )* _ => None }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl $crate::cell::Cell for $kind {
            type Builder = Vec<i8>;
            type Column = Vec<$kind>;
            const NULLABLE: bool = false;

            fn data_type() -> arrow_schema::DataType {
                $crate::kind::dictionary_type()
            }
            fn append(self, builder: &mut Self::Builder) {
                builder.push(self as i8);
            }
            fn finish(builder: &mut Self::Builder) -> arrow_array::ArrayRef {
                // One shared array of names: the stream then holds the dictionary only once.
                static NAMES: std::sync::LazyLock<arrow_array::ArrayRef> =
                    std::sync::LazyLock::new(|| $crate::kind::names(&[$( $name ),*]));
                $crate::kind::dictionary(builder, &NAMES)
            }
            fn view(array: Option<&arrow_array::ArrayRef>) -> Result<Self::Column, String> {
                $crate::kind::decode(array, $kind::from_name)
            }
            fn get(column: &Self::Column, row: usize) -> Self {
                column[row]
            }
        }
    };
}
pub(crate) use kinds;

use std::mem::take;
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::ArrayRef;
use arrow_array::DictionaryArray;
use arrow_array::Int8Array;
use arrow_array::StringArray;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_schema::DataType;

use crate::cell::check;
use crate::cell::missing;

pub(crate) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
}

pub(crate) fn names(names: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(names.to_vec()))
}

pub(crate) fn dictionary(keys: &mut Vec<i8>, names: &ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::<Int8Type>::new(
        Int8Array::from(take(keys)),
        names.clone(),
    ))
}

/// Decodes a whole column, so that an unknown name is found before any row is handed out.
pub(crate) fn decode<K: Copy>(
    array: Option<&ArrayRef>,
    from_name: fn(&str) -> Option<K>,
) -> Result<Vec<K>, String> {
    let array = array.ok_or_else(missing)?;
    check(array, &dictionary_type(), false)?;
    let array = array.as_dictionary::<Int8Type>();
    let names = array.values().as_string::<i32>();
    let known: Vec<Option<K>> = names.iter().map(|name| name.and_then(from_name)).collect();
    array
        .keys()
        .values()
        .iter()
        .map(|&key| {
            let position = usize::try_from(key).ok();
            position
                .and_then(|position| known.get(position).copied().flatten())
                .ok_or_else(|| unknown_name(names, position))
        })
        .collect()
}

fn unknown_name(names: &StringArray, position: Option<usize>) -> String {
    match position {
        Some(position) if position < names.len() && names.is_valid(position) => {
            format!("holds the unknown kind `{}`", names.value(position))
        }
        _ => "refers to a name that its dictionary does not have".to_owned(),
    }
}
