//! Wrappers: functions of the C library that are called as they are, once their buffers were looked at.

/// Tells if `bytes` from `buffer` on are not all of one live object; buffers elsewhere are none of ours. The path of an error begins
/// at the callers of the function that this is in, or of the one whose registers are told.
macro_rules! check {
    ($name:expr, $buffer:expr, $bytes:expr, $access:ident) => {
        $crate::wrap::check!(
            $name,
            $buffer,
            $bytes,
            $access,
            ::pagewise_interpose::capture()
        )
    };
    ($name:expr, $buffer:expr, $bytes:expr, $access:ident, $registers:expr) => {
        let (buffer, bytes): (usize, usize) = ($buffer as usize, $bytes);
        if bytes != 0 && $crate::heap::is_suspect(buffer, bytes) {
            $crate::report::argument(
                $name,
                buffer,
                bytes,
                ::pagewise_abi::guard::Access::$access,
                $registers,
            );
        }
    };
}

/// The C library's own functions of some names, in a module `real`, and `prepare`.
macro_rules! own {
    ($(fn $name:ident($($type:ty),*) -> $result:ty;)+) => {
        /// The C library's own.
        #[allow(non_upper_case_globals, reason = "the C library's names")]
        mod real {
            use super::*;
            $(
                // SAFETY: the C library's type for the function of this name.
                pub(super) static $name: ::pagewise_interpose::Symbol<unsafe extern "C" fn($($type),*) -> $result> = unsafe {
                    ::pagewise_interpose::Symbol::new(match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without zeros"),
                    })
                };
            )+
        }

        /// Looks all of them up, while that may take a lock.
        pub(crate) fn prepare() {
            $(real::$name.look_up();)+
        }
    };
}

/// Functions that are called as they are once their buffers were looked at.
macro_rules! wrappers {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $failed:expr, $check:block)+) => {
        $(
            /// # Safety
            /// As the C library's function of this name.
            $(#[$meta])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                $check
                let Some(real) = real::$name.look_up() else {
                    return $failed;
                };
                // SAFETY: the same call as our caller's.
                unsafe { real($($argument),*) }
            }
        )+

        $crate::wrap::own! { $(fn $name($($type),*) -> $result;)+ }
    };
}

pub(crate) use check;
pub(crate) use own;
pub(crate) use wrappers;
