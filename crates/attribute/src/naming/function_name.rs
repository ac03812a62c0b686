//! Reading demangled function names: where a function lives and what a call of it is written as.

/// The qualified name of a function without return type, parameters and template arguments:
/// `std::vector::resize` for `void std::vector<int>::resize(unsigned long)`.
pub(crate) fn qualified_name(demangled: &str) -> String {
    let plain = strip_groups(demangled.trim());
    let plain = plain.trim();
    let plain = ["const", "volatile", "&", "&&"]
        .iter()
        .fold(plain, |text, suffix| match text.strip_suffix(suffix) {
            Some(rest) if rest.ends_with([' ', ')']) => rest.trim_end(),
            _ => text,
        });
    // `operator new` and conversions hold a space that ends no return type.
    let operator = find_operator(plain);
    let searched = &plain[..operator.unwrap_or(plain.len())];
    let start = searched.rfind(' ').map_or(0, |space| space + 1);
    plain[start..].trim_start_matches(['*', '&']).to_owned()
}

/// The last component of a qualified name: what a call is written as. `None` for closures and
/// lambdas, which have no name.
pub fn simple_name(demangled: &str) -> Option<String> {
    let qualified = qualified_name(demangled);
    let last = match find_operator(&qualified) {
        Some(operator) => &qualified[operator..],
        None => qualified.rsplit("::").next().unwrap_or(&qualified),
    };
    let named = !last.is_empty() && !last.starts_with(['{', '<', '(', '\'']);
    named.then(|| last.to_owned())
}

/// The qualified name of a variable from its demangled symbol: as of a function, but for what the
/// compiler made (`vtable for X`), which stays as it is.
pub(crate) fn qualified_name_of_symbol(demangled: &str) -> String {
    if demangled.contains(" for ") {
        return demangled.to_owned();
    }
    // Programs write `ns::x` for what is in an unnamed namespace of `ns`.
    qualified_name(demangled).replace("{anonymous}::", "")
}

/// Type and trait of Rust's `<Type as Trait>::method`; the trait is missing in `<Type>::method`.
pub(crate) fn rust_impl(demangled: &str) -> Option<(&str, Option<&str>)> {
    let inner = demangled.strip_prefix('<')?;
    let mut depth = 0_i32;
    let mut separator = None;
    let bytes = inner.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            // The arrow of a function type closes nothing.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' if depth == 0 => {
                return Some(match separator {
                    Some(separator) => (&inner[..separator], Some(&inner[separator + 4..at])),
                    None => (&inner[..at], None),
                });
            }
            b'>' | b')' | b']' => depth -= 1,
            b' ' if depth == 0 && inner[at..].starts_with(" as ") => separator = Some(at),
            _ => {}
        }
    }
    None
}

/// Removes template arguments, parameter lists and `[abi:..]`, `[clone ..]` notes; braces
/// (lambdas) stay, without their insides' groups.
fn strip_groups(name: &str) -> String {
    let name = name.replace("(anonymous namespace)", "{anonymous}");
    let mut plain = String::with_capacity(name.len());
    let mut depth = 0_u32;
    let mut rest = name.as_str();
    while let Some(next) = rest.chars().next() {
        if depth == 0
            && let Some(length) = operator_length(&plain, rest)
        {
            plain.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        match next {
            '<' | '(' | '[' => depth += 1,
            '-' if rest.starts_with("->") => {
                rest = &rest[2..];
                continue;
            }
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(next),
            _ => {}
        }
        rest = &rest[next.len_utf8()..];
    }
    plain
}

/// The length of an operator's symbol at the start of `rest`, if `plain` ends with `operator`.
fn operator_length(plain: &str, rest: &str) -> Option<usize> {
    const SYMBOLS: [&str; 16] = [
        "<<=",
        ">>=",
        "<=>",
        "->*",
        "()",
        "[]",
        "<<",
        ">>",
        "<=",
        ">=",
        "->",
        "<",
        ">",
        " new[]",
        " delete[]",
        "\"\"",
    ];
    let before = plain.strip_suffix("operator")?;
    let is_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol))?;
    (!is_word).then_some(symbol.len())
}

fn find_operator(name: &str) -> Option<usize> {
    let at = name.rfind("operator")?;
    let starts = at == 0 || name[..at].ends_with([' ', ':', '*', '&']);
    let symbol = name[at + "operator".len()..].chars().next();
    let is_operator = symbol.is_some_and(|c| !c.is_alphanumeric() && c != '_' && c != ':');
    (starts && is_operator).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_types_parameters_and_template_arguments_go() {
        for (demangled, expected) in [
            ("main", "main"),
            ("xmalloc(unsigned long)", "xmalloc"),
            (
                "std::vector<int, std::allocator<int> >::resize(unsigned long)",
                "std::vector::resize",
            ),
            (
                "void std::vector<int>::emplace_back<int&>(int&)",
                "std::vector::emplace_back",
            ),
            ("std::vector<int> make<int>(int)", "make"),
            ("T* util::alloc<T>(std::size_t) const", "util::alloc"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long)", "operator new[]"),
            ("void* ns::operator new(unsigned long)", "ns::operator new"),
            ("(anonymous namespace)::make(int)", "{anonymous}::make"),
            ("Foo::operator()(int) const", "Foo::operator()"),
            ("Map::operator[](int&&)", "Map::operator[]"),
            ("bool operator< <int>(A const&, B const&)", "operator<"),
            (
                "std::ostream& operator<< <char>(std::ostream&)",
                "operator<<",
            ),
            ("Foo::operator bool() const", "Foo::operator bool"),
            ("f(int)::table", "f::table"),
            ("get[abi:cxx11](int)", "get"),
            ("work(int) [clone .isra.0]", "work"),
            (
                "main::{lambda(int)#1}::operator()(int) const",
                "main::{lambda#1}::operator()",
            ),
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec::push"),
            ("app::main::{{closure}}", "app::main::{{closure}}"),
        ] {
            assert_eq!(qualified_name(demangled), expected, "{demangled}");
        }
    }

    #[test]
    fn the_simple_name_is_what_a_call_shows() {
        for (demangled, expected) in [
            ("std::vector<int>::vector(unsigned long)", Some("vector")),
            ("operator new(unsigned long)", Some("operator new")),
            (
                "std::map<int, int>::operator[](int const&)",
                Some("operator[]"),
            ),
            (
                "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                Some("extend"),
            ),
            ("app::load::{{closure}}", None),
            ("{lambda(int)#1}", None),
            ("cooperator::run", Some("run")),
            ("operators::add", Some("add")),
            ("", None),
        ] {
            assert_eq!(simple_name(demangled).as_deref(), expected, "{demangled}");
        }
    }

    #[test]
    fn rust_implementations_tell_type_and_trait() {
        assert_eq!(
            rust_impl("<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend"),
            Some(("alloc::vec::Vec<T>", Some("core::iter::Extend<T>")))
        );
        assert_eq!(rust_impl("<app::Grid>::new"), Some(("app::Grid", None)));
        assert_eq!(
            rust_impl("<F as Fn(u8) -> u8>::call"),
            Some(("F", Some("Fn(u8) -> u8")))
        );
        assert_eq!(rust_impl("app::main"), None);
        assert_eq!(rust_impl("<broken"), None);
    }

    #[test]
    fn what_the_compiler_made_keeps_its_name() {
        assert_eq!(qualified_name_of_symbol("vtable for Foo"), "vtable for Foo");
        assert_eq!(qualified_name_of_symbol("main::table"), "main::table");
        assert_eq!(
            qualified_name_of_symbol("a::(anonymous namespace)::x"),
            "a::x"
        );
    }

    #[test]
    fn odd_names_do_not_panic() {
        for odd in [
            "<",
            ">",
            "((",
            "operator",
            "->",
            "a->b",
            "é<ü>",
            "::",
            "{",
            "operator ",
        ] {
            let _ = (qualified_name(odd), simple_name(odd), rust_impl(odd));
        }
    }
}
