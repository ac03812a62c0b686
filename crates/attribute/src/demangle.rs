//! Demangling symbols of C++ and Rust.

/// The demangled form of a symbol; the symbol itself if it is not mangled.
pub fn demangle(symbol: &str) -> String {
    readable(&addr2line::demangle_auto(symbol.into(), None))
}

/// Writes unnamed namespaces as C++ compilers do in their messages: the demangler leaves the name
/// that the Itanium ABI reserves for them.
pub(crate) fn readable(demangled: &str) -> String {
    demangled.replace("_GLOBAL__N_1", "(anonymous namespace)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_both_languages_and_of_c() {
        for (symbol, expected) in [
            ("main", "main"),
            ("_ZN2ns5tableE", "ns::table"),
            (
                "_ZN2ns12_GLOBAL__N_1L6hiddenE",
                "ns::(anonymous namespace)::hidden",
            ),
            ("_ZN3app4main17h0123456789abcdefE", "app::main"),
            ("_ZZ4mainE5table", "main::table"),
        ] {
            assert_eq!(demangle(symbol), expected);
        }
    }
}
