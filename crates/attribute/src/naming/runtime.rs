//! Which frames belong to the allocator or a language runtime rather than to the user's program.

use super::function_name::{qualified_name, rust_impl};
use crate::frame::{Frame, display_file};

/// Starts of the names of libraries that only allocate on behalf of others. The C++ and Rust
/// runtimes, those of Fortran and OpenMP, and the common allocators.
const LIBRARIES: &[&str] = &[
    "libpagewise_runtime",
    "libpagewise_guard",
    "libc.so",
    "libc-2.",
    "libm.so",
    "libdl.so",
    "libpthread.so",
    "libpthread-2.",
    "librt.so",
    "ld-linux",
    "ld-2.",
    "ld-musl",
    "ld.so",
    "ld64.so",
    "libc.musl",
    "libstdc++.so",
    "libc++.so",
    "libc++abi.so",
    "libgcc_s.so",
    "libunwind.so",
    "libgomp.so",
    "libomp.so",
    "libiomp5.so",
    "libgfortran.so",
    "libquadmath.so",
    "libflang",
    "libFortran",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libhoard",
    "libasan.so",
    "libtsan.so",
    "libtbbmalloc",
    "libstd-",
    "[vdso]",
];

/// Starts of the names of programs and libraries that run programs in other languages. What they call was not written by who wrote
/// them.
const INTERPRETERS: &[&str] = &[
    "libpython",
    "python",
    "libruby",
    "ruby",
    "libperl",
    "perl",
    "libR.so",
    "liblua",
    "lua",
    "libjvm.so",
    "node",
    "libnode",
];

/// Parts of the paths of runtimes' sources.
const SOURCES: &[&str] = &[
    "/include/c++/",
    "/c++/v1/",
    "/libcxx/",
    "/libcxxabi/",
    "/libstdc++-v3/",
    "/libgomp/",
    "/libgfortran/",
    "/lib/rustlib/src/rust/library/",
    // Dependencies of Rust's standard library (hashbrown), as its builds remap them.
    "/rust/deps/",
];

/// C functions that allocate, for programs with the C library linked in.
const C_FUNCTIONS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "mmap",
    "mmap64",
    "mremap",
    "shmat",
    "brk",
    "sbrk",
    "_int_malloc",
    "_int_realloc",
    "_mid_memalign",
    "sysmalloc",
    "alloc_perturb",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
];

const CPP_NAMESPACES: &[&str] = &["std::", "__gnu_cxx::", "__cxxabiv1::", "__cxxabi"];

/// Modules of Rust's `alloc` and `core`, which tell them from namespaces of those names in C++.
const RUST_PATHS: &[&str] = &[
    "alloc::alloc",
    "alloc::borrow",
    "alloc::boxed",
    "alloc::collections",
    "alloc::ffi",
    "alloc::fmt",
    "alloc::raw_vec",
    "alloc::rc",
    "alloc::slice",
    "alloc::str",
    "alloc::string",
    "alloc::sync",
    "alloc::vec",
    "core::alloc",
    "core::array",
    "core::cell",
    "core::clone",
    "core::convert",
    "core::fmt",
    "core::intrinsics",
    "core::iter",
    "core::mem",
    "core::num",
    "core::ops",
    "core::option",
    "core::ptr",
    "core::result",
    "core::slice",
    "core::str",
    "hashbrown::",
    "__rustc::",
];

/// Whether a frame belongs to the allocator or a language runtime.
///
/// Other libraries, their headers included, belong to the program: a vector made in a header-only
/// library is that library's vector.
#[must_use]
pub fn is_runtime(frame: &Frame) -> bool {
    is_runtime_code(
        frame.function.as_deref(),
        frame.file.as_deref(),
        frame.module.as_deref(),
    )
}

/// The same of a function by its name, source file and module.
#[must_use]
pub fn is_runtime_code(function: Option<&str>, file: Option<&str>, module: Option<&str>) -> bool {
    module.is_some_and(is_runtime_library)
        || file.is_some_and(is_runtime_source)
        || function.is_some_and(is_mark)
        || function
            .zip(file)
            .is_some_and(|(function, file)| is_go_library(function, file))
        || function.is_some_and(|name| {
            // A specialization of a standard template in the user's own file is the user's.
            file.is_none() && is_runtime_namespace(name) || is_allocation_function(name)
        })
}

/// Whether a frame is an interpreter's own: its lines say nothing of whose memory it is.
pub(super) fn is_interpreter(frame: &Frame) -> bool {
    frame.module.as_deref().is_some_and(|module| {
        let name = display_file(module);
        // `python3.12`, `node`, `libpython3.13t.so.1.0`: not `node_exporter`.
        let is_version = |rest: &str| {
            let version = rest.split(".so").next().unwrap_or_default();
            let version = version.trim_end_matches(['d', 'm', 't']);
            version
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        let is_it = |interpreter: &&str| name.strip_prefix(*interpreter).is_some_and(is_version);
        INTERPRETERS.iter().any(is_it)
    })
}

fn is_runtime_library(module: &str) -> bool {
    let name = display_file(module);
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

fn is_runtime_source(file: &str) -> bool {
    SOURCES.iter().any(|part| file.contains(part))
        || is_c_library_header(file)
        || (file.starts_with("/rustc/") && file.contains("/library/"))
}

/// Of Go's own packages (`os.(*File).Read` in `/usr/local/go/src/os/file.go`): they lie below `src` in Go's folder, and the first part of
/// their names has no dot, unlike that of packages from elsewhere.
fn is_go_library(function: &str, file: &str) -> bool {
    let name = function.split(['(', '[']).next().unwrap_or_default();
    let last_part = name.rfind('/').map_or(0, |slash| slash + 1);
    let Some(dot) = name[last_part..].find('.') else {
        return false;
    };
    let package = &name[..last_part + dot];
    let is_go = file.ends_with(".go") || file.ends_with(".s");
    let root = file
        .rsplit_once('/')
        .and_then(|(folder, _)| folder.strip_suffix(package)?.strip_suffix("/src/"));
    let is_own = root.is_some_and(|root| display_file(root).contains("go"));
    is_go
        && is_own
        && !package
            .split('/')
            .next()
            .is_some_and(|part| part.contains('.'))
}

/// What `pagewise.h` puts into the program itself: who has marked something is the function that calls it.
fn is_mark(function: &str) -> bool {
    function == "pagewise_handover"
}

/// Inner headers of the C library (`/usr/include/x86_64-linux-gnu/bits/stdio2.h`). Other libraries
/// have folders of that name too.
fn is_c_library_header(file: &str) -> bool {
    file.split_once("/bits/").is_some_and(|(folder, _)| {
        folder.ends_with("/include") || (folder.contains("/include/") && folder.contains("-linux-"))
    })
}

fn is_runtime_namespace(function: &str) -> bool {
    if let Some((self_type, trait_name)) = rust_impl(function) {
        // An implementation belongs to its type; one for every type (`<T as ..>`) or for a
        // primitive one to its trait.
        return if self_type.contains("::") {
            starts_in_runtime(self_type.trim_start_matches(['&', '[', '*']))
        } else {
            trait_name.is_some_and(starts_in_runtime)
        };
    }
    starts_in_runtime(&qualified_name(function))
}

/// Whether a function by its name only allocates for its callers (`xmalloc`, `g_malloc0`, `x264_malloc`): for code without debug
/// information, whose source does not tell.
#[must_use]
pub fn is_allocator_by_name(function: &str) -> bool {
    const WORDS: &[&str] = &[
        "malloc",
        "calloc",
        "realloc",
        "memalign",
        "aligned_alloc",
        "strdup",
        "memdup",
    ];
    let name = qualified_name(function).to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word)) || name.ends_with("_alloc") || name == "alloc"
}

fn starts_in_runtime(path: &str) -> bool {
    let path = path.trim_start_matches("mut ").trim_start_matches("dyn ");
    CPP_NAMESPACES
        .iter()
        .chain(RUST_PATHS)
        .any(|prefix| path.starts_with(prefix))
}

fn is_allocation_function(function: &str) -> bool {
    let name = qualified_name(function);
    name.starts_with("operator new") || is_c_allocation(&name)
}

fn is_c_allocation(name: &str) -> bool {
    let bare = name
        .strip_prefix("__libc_")
        .or_else(|| name.strip_prefix("__"))
        .unwrap_or(name);
    C_FUNCTIONS.contains(&name) || C_FUNCTIONS.contains(&bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: Option<&str>, file: Option<&str>, function: Option<&str>) -> Frame {
        Frame {
            module: module.map(str::to_owned),
            file: file.map(str::to_owned),
            function: function.map(str::to_owned),
            ..Frame::default()
        }
    }

    #[test]
    fn interpreters_are_known_by_their_modules() {
        for (module, expected) in [
            ("/usr/bin/python3.11", true),
            ("/opt/lib/libpython3.12.so.1.0", true),
            ("/usr/bin/node", true),
            ("/usr/lib/R/lib/libR.so", true),
            ("/opt/lib/libpython3.13t.so.1.0", true),
            ("/opt/nodelist", false),
            ("/opt/node_exporter", false),
            ("/opt/ruby_parser.so", false),
            ("/opt/pythonic/solver", false),
            (
                "/opt/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
                false,
            ),
        ] {
            let frame = frame(Some(module), None, None);
            assert_eq!(is_interpreter(&frame), expected, "{module}");
        }
    }

    #[test]
    fn gos_own_packages_are_told_from_those_of_others() {
        for (function, file, expected) in [
            ("os.(*File).Read", "/usr/local/go/src/os/file.go", true),
            (
                "internal/poll.(*FD).Read",
                "/usr/lib/go-1.19/src/internal/poll/fd_unix.go",
                true,
            ),
            (
                "internal/runtime/syscall/linux.Syscall6",
                "/usr/local/go/src/internal/runtime/syscall/linux/asm_linux_amd64.s",
                true,
            ),
            (
                "slices.SortFunc[go.shape.*example.org/a.T]",
                "/usr/local/go/src/slices/sort.go",
                true,
            ),
            ("main.scan", "/home/me/scan.go", false),
            (
                "github.com/me/os.Read",
                "/home/me/go/src/github.com/me/os/file.go",
                false,
            ),
            ("os.read", "/home/me/os/read.go", false),
            ("os.read", "/usr/local/go/src/os/read.c", false),
            ("read", "/usr/local/go/src/read.go", false),
        ] {
            assert_eq!(is_go_library(function, file), expected, "{function} {file}");
        }
    }

    #[test]
    fn runtime_libraries_are_told_by_name() {
        for module in [
            "/opt/pagewise/libpagewise_runtime.so",
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
            "/usr/lib/libstdc++.so.6.0.30",
            "/usr/lib/libgomp.so.1",
            "libgfortran.so.5",
        ] {
            assert!(
                is_runtime(&frame(Some(module), None, Some("f"))),
                "{module}"
            );
        }
        for module in [
            "/usr/lib/libcairo.so.2",
            "/usr/lib/libcrypto.so.3",
            "/home/a/main",
        ] {
            assert!(
                !is_runtime(&frame(Some(module), None, Some("f"))),
                "{module}"
            );
        }
    }

    #[test]
    fn wrappers_are_told_by_name() {
        for name in [
            "xmalloc",
            "g_malloc0",
            "x264_malloc",
            "av_realloc_f",
            "my_alloc",
            "g_strdup",
        ] {
            assert!(is_allocator_by_name(name), "{name}");
        }
        for name in [
            "main",
            "reprice",
            "x264_encoder_open",
            "allocate_grid",
            "alloc_page",
        ] {
            assert!(!is_allocator_by_name(name), "{name}");
        }
    }

    #[test]
    fn standard_headers_are_the_runtime_and_other_libraries_are_not() {
        for file in [
            "/usr/include/c++/12/bits/stl_vector.h",
            "/usr/include/x86_64-linux-gnu/c++/12/bits/c++allocator.h",
            "/usr/include/c++/12/ext/new_allocator.h",
            "/usr/include/x86_64-linux-gnu/bits/stdio2.h",
            "/usr/include/bits/stdlib.h",
            "/usr/lib/llvm-14/include/c++/v1/vector",
            "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/alloc/src/raw_vec.rs",
            "/rust/deps/hashbrown-0.15.2/src/raw/mod.rs",
        ] {
            assert!(
                is_runtime(&frame(Some("/home/a/main"), Some(file), None)),
                "{file}"
            );
        }
        for file in [
            "/usr/include/lemon/network_simplex.h",
            "/usr/include/lemon/bits/vector_map.h",
            "/home/a/include/bits.h",
            "/home/a/src/bits/alloc.cpp",
        ] {
            assert!(
                !is_runtime(&frame(Some("/home/a/main"), Some(file), Some("x"))),
                "{file}"
            );
        }
    }

    #[test]
    fn functions_tell_where_there_is_no_file() {
        for function in [
            "operator new(unsigned long)",
            "std::vector<int, std::allocator<int> >::vector(unsigned long)",
            "void std::vector<int>::_M_realloc_insert<int>(int&&)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long)",
            "alloc::vec::Vec<T>::push",
            "<alloc::vec::Vec<T> as core::iter::traits::collect::Extend<T>>::extend",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "__rustc::__rust_alloc",
            "__libc_malloc",
            "malloc",
        ] {
            assert!(is_runtime(&frame(None, None, Some(function))), "{function}");
        }
        for function in [
            "main",
            "std::vector<int> make<int>(int)",
            "<app::Grid as core::iter::Iterator>::next",
            "core::Engine::run()",
            "alloc::Pool::take()",
            "my_malloc",
            "stdx::run()",
        ] {
            assert!(
                !is_runtime(&frame(None, None, Some(function))),
                "{function}"
            );
        }
    }

    #[test]
    fn a_users_specialization_of_a_standard_template_is_the_users() {
        let file = Some("/home/a/main.cpp");
        let hash = frame(
            None,
            file,
            Some("std::hash<Key>::operator()(Key const&) const"),
        );
        assert!(!is_runtime(&hash));
        // Overloads of the allocation functions are the allocator wherever they live.
        assert!(is_runtime(&frame(
            None,
            file,
            Some("operator new(unsigned long)")
        )));
    }

    #[test]
    fn an_unknown_frame_is_not_the_runtime() {
        assert!(!is_runtime(&Frame::default()));
    }
}
