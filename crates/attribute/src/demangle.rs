//! Demangling symbols of C++, Rust and Fortran.

/// The demangled form of a symbol; the symbol itself if it is not mangled.
pub fn demangle(symbol: &str) -> String {
    // All manglings begin so. The demangler also takes encodings of types, and names of C are some: `a` is one of `char`.
    match symbol.starts_with('_') {
        true => readable(&addr2line::demangle_auto(symbol.into(), None)),
        false => symbol.to_owned(),
    }
}

/// Writes unnamed namespaces as C++ compilers do in their messages: the demangler leaves the name
/// that the Itanium ABI reserves for them. And what is in a module of Fortran as in other languages.
pub(crate) fn readable(demangled: &str) -> String {
    match in_fortran_module(demangled) {
        Some((module, name)) => format!("{module}::{name}"),
        None => demangled.replace("_GLOBAL__N_1", "(anonymous namespace)"),
    }
}

/// Module and name of gfortran's symbols: `__fields_MOD_prepare` (gcc/fortran/trans-decl.cc, `gfc_sym_mangled_identifier`).
fn in_fortran_module(symbol: &str) -> Option<(&str, &str)> {
    let (module, name) = symbol.strip_prefix("__")?.split_once("_MOD_")?;
    let is_small = |part: &str| {
        let mut letters = part.bytes();
        letters.all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (!name.is_empty() && !module.is_empty() && is_small(module)).then_some((module, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_each_language() {
        for (symbol, expected) in [
            ("main", "main"),
            ("a", "a"),
            ("d", "d"),
            ("Pi", "Pi"),
            ("_ZN2ns5tableE", "ns::table"),
            (
                "_ZN2ns12_GLOBAL__N_1L6hiddenE",
                "ns::(anonymous namespace)::hidden",
            ),
            ("_ZN3app4main17h0123456789abcdefE", "app::main"),
            ("_ZZ4mainE5table", "main::table"),
            ("__fields_MOD_prepare", "fields::prepare"),
            ("__fields_MOD_", "__fields_MOD_"),
            ("__FIELDS_MOD_x", "__FIELDS_MOD_x"),
        ] {
            assert_eq!(demangle(symbol), expected);
        }
    }
}
