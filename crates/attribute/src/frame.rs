//! One frame of a symbolized call path.

/// One function activation of a call path, as the debug information tells it.
///
/// A machine frame yields several of these when calls were inlined into it: innermost first, all
/// with the same module and offset. Whatever is not known is `None`, never an invented value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Demangled function name (C++ with its parameters, Rust without its hash).
    pub function: Option<String>,
    /// Source file as the debug information spells it, joined with its compilation directory.
    pub file: Option<String>,
    /// Line in `file`, from 1.
    pub line: Option<u32>,
    /// Column in `line`, from 1, counted in bytes.
    pub column: Option<u32>,
    /// Path of the module (executable or shared library) holding the code.
    pub module: Option<String>,
    /// The looked-up address as stated in the module (SVMA), in bytes. For a caller this is the
    /// return address less one: see [`lookup_address`].
    pub module_offset: Option<u64>,
    /// Whether this function was inlined into the next frame of the call path.
    pub inlined: bool,
}

/// The address to symbolize for a return address: one byte less.
///
/// A return address belongs to the instruction *after* the call, which may be on another line, in
/// another inlined function or, behind a call that never returns, in another function. The byte
/// before it is always inside the call.
#[must_use]
pub fn lookup_address(return_address: u64) -> u64 {
    return_address.saturating_sub(1)
}

/// The short form of a source path for display: its last component.
///
/// ```
/// assert_eq!(pagewise_attribute::display_file("/usr/include/lemon/network_simplex.h"), "network_simplex.h");
/// ```
#[must_use]
pub fn display_file(file: &str) -> &str {
    match file.trim_end_matches('/').rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_display_form_is_the_last_component() {
        assert_eq!(display_file("/a/b/main.cpp"), "main.cpp");
        assert_eq!(display_file("main.cpp"), "main.cpp");
        assert_eq!(display_file("./x/../y.h"), "y.h");
        assert_eq!(display_file("/"), "/");
        assert_eq!(display_file(""), "");
    }

    #[test]
    fn a_null_return_address_does_not_wrap() {
        assert_eq!(lookup_address(0), 0);
        assert_eq!(lookup_address(0x401000), 0x400fff);
    }
}
