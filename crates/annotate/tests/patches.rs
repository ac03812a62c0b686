//! Patches that are applied: the patched programs compile with the same flags, print the same, and are not patched again.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use pagewise_annotate::Annotated;
use pagewise_annotate::Refusal;
use pagewise_annotate::Source;
use pagewise_annotate::from_plan;
use pagewise_annotate::hints;
use pagewise_annotate::without_source;
use pagewise_plan::Action;
use pagewise_plan::ReadAhead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;
use tempfile::TempDir;
use tempfile::tempdir;

/// Those of the Makefile.
const FLAGS: &[&str] = &["-O2", "-g", "-Wall", "-Wextra", "-Werror"];
const C11: &[&str] = &["-std=c11", "-D_GNU_SOURCE"];
const CPP17: &[&str] = &["-std=c++17"];
const CPP20: &[&str] = &["-std=c++20"];
/// What C was before it had prototypes: its own declarations of what the compiler knows better.
const OLD: &[&str] = &["-std=gnu89", "-fno-builtin"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} is needed: {error}"));
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&said)
    );
    output
}

/// A source before and after, each in a folder of its own.
struct Case {
    folder: TempDir,
    name: String,
    annotated: Annotated,
}

impl Case {
    fn new(name: &str, bytes: &[u8]) -> Self {
        Self::patched(name, bytes, hints)
    }

    fn patched(name: &str, bytes: &[u8], annotate: impl FnOnce(&Source) -> Annotated) -> Self {
        let folder = tempdir().expect("a folder");
        for version in ["before", "after"] {
            let folder = folder.path().join(version);
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join(name), bytes).expect("written");
        }
        let source = Source::read(&folder.path().join("after").join(name)).expect("a source");
        let annotated = annotate(&source);
        let diff = annotated.diff(&source, name);
        let patch = folder.path().join("hints.patch");
        fs::write(&patch, &diff).expect("written");
        run(Command::new("patch")
            .args(["--fuzz=0", "-s", "-p1", "-i"])
            .arg(&patch)
            .current_dir(folder.path().join("after")));
        Self {
            folder,
            name: name.to_owned(),
            annotated,
        }
    }

    fn of_file(path: &Path) -> Self {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        Self::new(name, &fs::read(path).expect("a source"))
    }

    fn path(&self, version: &str) -> PathBuf {
        self.folder.path().join(version).join(&self.name)
    }

    fn text(&self, version: &str) -> String {
        let bytes = fs::read(self.path(version)).expect("a source");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn build(&self, version: &str, options: &[&str]) -> PathBuf {
        let source = self.path(version);
        let program = source.with_extension("out");
        let compiler = if self.name.ends_with(".c") {
            "gcc"
        } else {
            "g++"
        };
        run(Command::new(compiler)
            .args(FLAGS)
            .arg("-I")
            .arg(repository().join("include"))
            // Where the examples look for it.
            .arg("-I")
            .arg(repository().join("examples"))
            .arg("-o")
            .args([&program, &source])
            .args(options));
        program
    }

    /// Both print the same.
    fn runs_the_same(&self, options: &[&str], arguments: &[&str]) {
        let printed = |version: &str| {
            let program = self.build(version, options);
            let output = run(Command::new(program).args(arguments).stdin(Stdio::null()));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert_eq!(printed("before"), printed("after"), "{}", self.name);
    }

    /// A second patch is empty.
    fn is_done(&self) {
        let source = Source::read(&self.path("after")).expect("a source");
        let again = hints(&source).diff(&source, &self.name);
        assert_eq!(String::from_utf8_lossy(&again), "", "{}", self.name);
    }

    /// All is found, named and refused as the comments of the source say.
    fn is_as_marked(&self) {
        let text = self.text("before");
        let lines = || (1..).zip(text.lines());
        let mut named: Vec<(usize, String)> = Vec::new();
        for (line, text) in lines() {
            for marker in ["* named ", "/ named ", ", named "] {
                let names = text.split(marker).skip(1);
                let names = names.map(|rest| rest.split([',', ' ', '\r']).next().unwrap_or(rest));
                named.extend(names.map(|name| (line, name.to_owned())));
            }
        }
        named.sort();
        let found = self.annotated.found.iter();
        let mut found: Vec<(usize, String)> = found
            .filter_map(|found| Some((found.line, found.variable.clone()?)))
            .collect();
        found.sort();
        assert_eq!(found, named, "{}", self.name);
        let is_refused = |text: &str| text.contains("* refused") || text.contains("/ refused");
        let refused: Vec<usize> = lines()
            .filter(|(_, text)| is_refused(text))
            .map(|(line, _)| line)
            .collect();
        let mut told: Vec<usize> = self
            .annotated
            .refusals
            .iter()
            .filter_map(|refusal| refusal.line)
            .collect();
        told.dedup();
        assert_eq!(
            told, refused,
            "{}: {:#?}",
            self.name, self.annotated.refusals
        );
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sources")
        .join(name)
}

fn whole(name: &str, options: &[&str]) -> Case {
    let case = Case::of_file(&source(name));
    case.is_as_marked();
    case.runs_the_same(options, &[]);
    case.is_done();
    case
}

#[test]
fn c() {
    let case = whole("shapes.c", C11);
    let text = case.text("after");
    for expected in [
        "                       goes on */\n#include <sys/mman.h>\n#include \"pagewise.h\"\n",
        "    if (how) { p = malloc(n); pagewise_name(p, \"p\"); } /* named p */\n",
        "pagewise_name((const void *)number, \"number\");\n",
        "    if (posix_memalign(&aligned, 64, n)) return 1; /* named aligned */\n    pagewise_name(aligned, \"aligned\");\n",
        "again: { p = malloc(n); pagewise_name(p, \"p\"); }",
        "    char *c; c = malloc(n); pagewise_name(c, \"c\"); count(c);",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
}

#[test]
fn cpp() {
    let case = whole("shapes.cpp", CPP17);
    let text = case.text("after");
    for expected in [
        "    int *a = new int[n]; // named a\n    pagewise_name(a, \"a\");\n",
        "    pagewise_name(pagewise_data(d), \"d\");\n",
        "    pagewise_name(pagewise_data(v), \"v\");\n",
        "auto job = [&] { w.resize(3 * n); pagewise_name(pagewise_data(w), \"w\"); a[0] = 1; };",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
}

#[test]
fn containers() {
    let case = whole("containers.cpp", CPP20);
    let text = case.text("after");
    for expected in [
        "        { rows[i].resize(2 * n); pagewise_name(pagewise_data(rows[i]), \"rows[]\"); }",
        "    pagewise_name(pagewise_data(*p), \"p\");\n",
        "    if (n > 3) [[likely]] { two.resize(4 * n); pagewise_name(pagewise_data(two), \"two\"); }",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    let outside: Vec<usize> = reasons(&case.annotated, "it is outside of any function")
        .iter()
        .filter_map(|refusal| refusal.line)
        .collect();
    assert_eq!(outside, [21, 22], "{:#?}", case.annotated.refusals);
}

/// The refusals that say something.
fn reasons<'a>(annotated: &'a Annotated, words: &str) -> Vec<&'a Refusal> {
    let refusals = annotated.refusals.iter();
    refusals
        .filter(|refusal| refusal.why.contains(words))
        .collect()
}

#[test]
fn what_the_compiler_may_run_gets_no_call() {
    let text = b"#include <cstdio>\n#include <vector>\n\
                 constexpr int sum(int n) {\n    std::vector<int> v(n);\n    v.resize(2 * n);\n    return (int)v.size();\n}\n\
                 consteval int made() {\n    int *p = new int[3];\n    delete[] p;\n    return 1;\n}\n\
                 static_assert(sum(3) == 6);\n\
                 int main() {\n    constexpr auto job = [](int n) {\n        int *q = new int[n];\n        delete[] q;\n        return n;\n    };\n\
                 \x20   static_assert(job(3) == 3);\n    std::vector<int> w(9);\n    std::printf(\"%d %d\\n\", made(), (int)w.size());\n}\n";
    let case = Case::new("early.cpp", text);
    case.runs_the_same(CPP20, &[]);
    let refused = case.annotated.refusals.iter().map(|refusal| refusal.line);
    assert_eq!(refused.collect::<Vec<_>>(), [4, 5, 9, 16].map(Some));
    let all = reasons(&case.annotated, "which the compiler must be able to run");
    assert_eq!(all.len(), 4, "{:#?}", case.annotated.refusals);
    assert!(case.text("after").contains("\"w\""));
}

/// Without `_GNU_SOURCE` there is no `mremap`, and no header may come before that.
#[test]
fn the_header_comes_behind_what_tells_others_what_to_declare() {
    let code = "int main(void) {\n    char *p = malloc(9);\n    printf(\"%d\\n\", p && (void *)mremap != p);\n    return 0;\n}\n";
    let includes = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/mman.h>";
    let behind_includes = format!("{includes}\n#include \"pagewise.h\"\n");
    let bare = "extern int printf(const char *, ...);\nextern void *malloc(unsigned long), *mremap(void *, unsigned long, unsigned long, int, ...);\n";
    let cases = [
        // A guard around the whole file, an #if in it, and one around the includes only.
        (
            format!("#ifndef A_H\n#define A_H\n#define _GNU_SOURCE\n{includes}\n{code}#endif\n"),
            behind_includes.clone(),
        ),
        (
            format!("#if 1\n#if 1\n# define _GNU_SOURCE 1\n{includes}\n{code}#endif\n#endif\n"),
            behind_includes.clone(),
        ),
        (
            format!(
                "#if 0\n#include <none.h>\n#else\n#define _GNU_SOURCE\n{includes}\n{code}#endif\n"
            ),
            behind_includes.clone(),
        ),
        (
            format!("#define _GNU_SOURCE\n#if 1\n{includes}\n#endif\n{code}"),
            "#endif\n#include \"pagewise.h\"\n".to_owned(),
        ),
        (
            format!("#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n{includes}\n{code}"),
            behind_includes,
        ),
        // No includes at all.
        (
            format!("#ifndef A_H\n#define A_H\n#define _GNU_SOURCE\n{bare}{code}#endif\n"),
            "#define _GNU_SOURCE\n#include \"pagewise.h\"\n".to_owned(),
        ),
        // A backslash makes the next line part of the comment.
        (
            format!("#define _GNU_SOURCE\n{includes} // not the \\\n   end\n{code}"),
            "   end\n#include \"pagewise.h\"\n".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        let case = Case::new("guarded.c", text.as_bytes());
        let after = case.text("after");
        assert!(after.contains(&expected), "no {expected} in {after}");
        case.runs_the_same(&["-std=c11", "-Wno-comment"], &[]);
        case.is_done();
    }
}

#[test]
fn a_header_without_a_place_is_asked_for() {
    let branch = "#define _GNU_SOURCE\n#include <stdlib.h>\nchar *f(void) { char *p = malloc(3); return p; }\n";
    let text = format!("#ifdef FAST\n{branch}#else\n{branch}#endif\n");
    let source = Source::parse(Path::new("a.c"), text.clone().into()).expect("parsed");
    let annotated = hints(&source);
    assert_eq!(annotated.diff(&source, "a.c"), b"");
    assert_eq!(reasons(&annotated, "write it where it belongs").len(), 1);
    assert!(annotated.found.iter().all(|found| found.calls.is_empty()));
    // Where it is written, the rest is patched.
    let text = text.replace("<stdlib.h>", "<stdlib.h>\n#include \"pagewise.h\"");
    let source = Source::parse(Path::new("a.c"), text.into()).expect("parsed");
    let annotated = hints(&source);
    assert_eq!(annotated.refusals, []);
    let diff = String::from_utf8_lossy(&annotated.diff(&source, "a.c")).into_owned();
    assert_eq!(diff.matches("pagewise_name(p").count(), 2, "{diff}");
    assert!(!diff.contains("+#include"), "{diff}");
}

#[test]
fn the_header_is_there_for_each_call_and_never_in_a_comment() {
    let one = "char *p = malloc(3); return p; }\n";
    let includes = "#include <stdlib.h>\n";
    for text in [
        // Included in one branch only, and where another name ends so.
        format!("{includes}#ifdef FAST\n#include \"pagewise.h\"\nchar *f(void) {{ {one}#endif\nchar *g(void) {{ {one}"),
        format!("#define NAME \"mypagewise.h\"\n{includes}char *f(void) {{ {one}"),
        // Comments reach into the line of the code, and follow each other.
        "/* A file.\n   With a comment */ void *malloc(unsigned long);\nvoid *f(void) { void *p = malloc(3); return p; }\n".to_owned(),
        format!("#include <stdlib.h> /* a\n b */ /* c\n d */\nchar *f(void) {{ {one}"),
    ] {
        let text = format!("{text}int main(void) {{ return 0; }}\n");
        let case = Case::new("one.c", text.as_bytes());
        assert!(case.annotated.refusals.is_empty(), "{text}");
        assert_eq!(case.text("after").matches("pagewise_name(p").count(), text.matches("malloc(3)").count());
        case.build("after", C11);
    }
}

#[test]
fn deep_types_and_long_chains_take_no_time() {
    let stars = "*".repeat(100_000);
    let chain = ".a(n)".repeat(2_000);
    let mut names = "struct T0 {};\n".to_owned();
    for level in 1..3_000 {
        names += &format!("using T{level} = std::vector<T{}>;\n", level - 1);
    }
    for (name, text) in [
        ("stars.c", format!("void f(void) {{ int {stars}p; }}\n")),
        ("chain.c", format!("void f(int n) {{ x{chain}; }}\n")),
        ("chain.cpp", format!("void f(int n) {{ x{chain}; }}\n")),
        ("names.cpp", names),
    ] {
        let source = Source::parse(Path::new(name), text.into()).expect("parsed");
        assert_eq!(hints(&source).found, [], "{name}");
    }
}

#[test]
fn a_place_that_is_called_like_a_way_to_allocate_is_none() {
    let text = "#include <cstddef>\n#include <new>\nstruct Arena { char buf[64]; };\nint main() {\n    Arena nothrow_arena;\n\
                \x20   int *p = new (nothrow_arena.buf) int[4];\n    int *q = new (std::nothrow) int[4]; /* named q */\n\
                \x20   int *r = new (std::align_val_t(64), std::nothrow) int[4]; /* named r */\n    return !p || !q || !r;\n}\n";
    let case = Case::new("placed.cpp", text.as_bytes());
    case.is_as_marked();
    case.runs_the_same(CPP17, &[]);
}

#[test]
fn what_a_pragma_governs_wants_braces() {
    let text = b"#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n    char *p = NULL, *q = NULL, *r = NULL;\n\
                 #pragma omp parallel sections\n    {\n#pragma omp section\n        p = malloc(9); /* refused */\n\
                 #pragma omp section\n        q = malloc(9); /* refused */\n    }\n\
                 #pragma omp critical /* why */\n    // and how\n    p = malloc(9); /* refused */\n\
                 #pragma omp critical\n    { q = malloc(9); } /* named q */\n\
                 #pragma omp parallel for\n    for (int i = 0; i < 3; i++) free(malloc(9)); /* refused */\n\
                 #pragma omp barrier\n    r = malloc(9); /* named r */\n\
                 #pragma GCC diagnostic ignored \"-Wunused\"\n    r = malloc(9); /* named r */\n\
                 _Pragma(\"omp critical\") r = malloc(9); /* refused */\n\
                 \x20   printf(\"%d\\n\", p && q && r);\n    return 0;\n}\n";
    let case = Case::new("parallel.c", text);
    case.is_as_marked();
    assert_eq!(reasons(&case.annotated, "put braces around").len(), 4);
    case.runs_the_same(&["-std=c11", "-fopenmp"], &[]);
    case.is_done();
}

#[test]
fn refusals_say_what_to_do_and_each_counts() {
    let text = "#include <stdlib.h>\n#define EACH(i, n) for (int i = 0; i < (n); i++)\n#define WORD(x)\nvoid f(size_t n) {\n    char *rows[9], *p = 0;\n    typeof(p) r = malloc(3);\n\
                \x20   EACH(i, 9) rows[i] = malloc(10);\n    char *two[2] = {malloc(1), malloc(2)};\n    malloc(3);\n\
                \x20   WORD(p) q = malloc(3);\n    char *d =\n#ifdef FOO\n        malloc(3);\n#else\n        calloc(3, 4);\n#endif\n}\n";
    let source = Source::parse(Path::new("a.c"), text.into()).expect("parsed");
    let annotated = hints(&source);
    let told: Vec<(Option<usize>, &str)> = annotated
        .refusals
        .iter()
        .map(|refusal| (refusal.line, refusal.why.as_str()))
        .collect();
    let expected = [
        (
            7,
            "EACH stands before it, and perhaps governs this statement only: put braces around it",
        ),
        (8, "it is in an initializer list: place the call by hand"),
        (8, "it is in an initializer list: place the call by hand"),
        (9, "its result is not kept: keep it in a variable first"),
        (
            10,
            "WORD(...) stands before it, perhaps a macro: place the call by hand",
        ),
        (
            13,
            "a directive (#if) divides its statement: place the call by hand",
        ),
        (
            15,
            "a directive (#if) divides its statement: place the call by hand",
        ),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for ((line, why), (expected_line, expected)) in told.iter().zip(expected) {
        assert_eq!(*line, Some(expected_line), "{why}");
        assert!(why.ends_with(expected), "{why}");
    }
    let diff = String::from_utf8_lossy(&annotated.diff(&source, "a.c")).into_owned();
    assert!(
        diff.contains("pagewise_name((const void *)r, \"r\");"),
        "{diff}"
    );
}

#[test]
fn containers_of_scattered_elements_are_refused_by_line() {
    let text = "#include <deque>\n#include <map>\n#include <vector>\n\
                struct Index { std::map<int, int> places; std::vector<int> all; };\n\
                std::map<int, int> make(const std::deque<int> &from);\n\
                int main() {\n    std::deque<int> queue(1 << 20);\n    std::vector<int> list(9);\n    return queue[0] + list[0];\n}\n";
    let source = Source::parse(Path::new("a.cpp"), text.into()).expect("parsed");
    let annotated = hints(&source);
    let refused: Vec<(Option<usize>, &str)> = annotated
        .refusals
        .iter()
        .map(|refusal| (refusal.line, refusal.why.split(' ').next().unwrap_or("")))
        .collect();
    assert_eq!(refused, [(Some(4), "map"), (Some(7), "deque")]);
    assert_eq!(annotated.found.len(), 1, "{:?}", annotated.found);
}

#[test]
fn behind_a_condition_there_is_memory_or_no_call() {
    let patched = |name: &str, condition: &str| {
        let text = format!(
            "#include <stdlib.h>\n#include <sys/mman.h>\nchar *f(size_t n) {{ char *p; int e;\n    if ({condition}) return p;\n    return 0;\n}}\n"
        );
        let source = Source::parse(Path::new(name), text.into()).expect("parsed");
        let annotated = hints(&source);
        let is_patched = !annotated.diff(&source, name).is_empty();
        assert_ne!(is_patched, !annotated.refusals.is_empty(), "{condition}");
        is_patched
    };
    for condition in [
        "(p = malloc(n)) == NULL",
        "NULL == (p = malloc(n))",
        "!(p = malloc(n))",
        "!((p = malloc(n)) != 0)",
        "(p = mmap(0, n, 3, MAP_ANON, -1, 0)) == MAP_FAILED",
        "(p = mmap(0, n, 3, MAP_ANON, -1, 0)) == (void *)-1",
        "posix_memalign((void **)&p, 64, n)",
        "(e = posix_memalign((void **)&p, 64, n)) != 0",
    ] {
        assert!(patched("a.c", condition), "{condition}");
    }
    for condition in [
        "(p = malloc(n)) != NULL",
        "NULL != (p = malloc(n))",
        "(p = malloc(n))",
        "!!(p = malloc(n))",
        "!((p = malloc(n)) == 0)",
        "(p = malloc(n)) == (char *)n",
        "(p = mmap(0, n, 3, MAP_ANON, -1, 0)) != MAP_FAILED",
        "!posix_memalign((void **)&p, 64, n)",
        "posix_memalign((void **)&p, 64, n) == 0",
    ] {
        assert!(!patched("a.c", condition), "{condition}");
    }
    assert!(!patched("a.cpp", "(p = (char *)malloc(n)) != nullptr"));
    assert!(patched("a.cpp", "(p = (char *)malloc(n)) == nullptr"));
}

#[test]
fn what_is_made_once_gets_no_call_for_each_entry() {
    let text = "int *f(int n) {\n    static int *p = new int[n];\n    thread_local int *q = new int[n];\n    int *r = new int[n];\n    return p ? q : r;\n}\n";
    let source = Source::parse(Path::new("a.cpp"), text.into()).expect("parsed");
    let annotated = hints(&source);
    let refused = annotated.refusals.iter().map(|refusal| refusal.line);
    assert_eq!(refused.collect::<Vec<_>>(), [Some(2), Some(3)]);
    let diff = String::from_utf8_lossy(&annotated.diff(&source, "a.cpp")).into_owned();
    assert!(diff.contains("pagewise_name(r"), "{diff}");
}

#[test]
fn the_header_is_old_c_too() {
    let folder = tempdir().expect("a folder");
    let source = folder.path().join("old.c");
    let text = "#include \"pagewise.h\"\nint main(void) { return (int)pagewise_lock(0, 0); }\n";
    fs::write(&source, text).expect("written");
    for standard in ["-ansi", "-std=c11"] {
        run(Command::new("gcc")
            .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", standard])
            .arg("-I")
            .arg(repository().join("include"))
            .arg(&source));
    }
}

#[test]
fn what_is_named_after_malloc_returns_memory_only_where_a_pointer_takes_it() {
    let text = "typedef struct { int x; } block;\nstruct s *s;\nblock buf_malloc(int);\nvoid f(int n) {\n    int rc; char *p, *rows[3];\n\
                \x20   rc = pool_malloc(&p, n);\n    block b = buf_malloc(9);\n    p = xmalloc(n);\n    char *q = x_calloc(n, 2);\n\
                \x20   unsigned long at = (unsigned long)(char *)xmalloc(n);\n    s->unknown = xmalloc(n);\n    rows[1] = xmalloc(n);\n\
                \x20   unsigned long own = (unsigned long)malloc(n);\n}\n";
    let source = Source::parse(Path::new("a.c"), text.into()).expect("parsed");
    let annotated = hints(&source);
    let refused = annotated.refusals.iter().map(|refusal| refusal.line);
    assert_eq!(
        refused.collect::<Vec<_>>(),
        [Some(6), Some(7)],
        "{:#?}",
        annotated.refusals
    );
    assert!(
        annotated.refusals[0]
            .why
            .contains("declare what it is kept in")
    );
}

/// A plan's rule about a line of `a.cpp`.
fn rule(name: &str, line: usize, function: Option<&str>, action: Action) -> Rule {
    Rule {
        objects: None,
        name: name.to_owned(),
        place: SourcePlace {
            function: function.map(str::to_owned),
            file: Some("a.cpp".to_owned()),
            line: Some(line as u32),
        },
        target: Target::allocation(Vec::new()),
        action,
        why: "a test".to_owned(),
        predicted: None,
    }
}

fn lock(ranges: Vec<Range<u64>>) -> Action {
    Action::Lock {
        keep_bytes: None,
        keep_more: false,
        ranges,
        together: false,
    }
}

#[test]
fn a_plans_calls_compile_in_cpp_too_and_change_no_output() {
    let actions = [
        lock(Vec::new()),
        lock(std::iter::once(0..4096).collect()),
        Action::Stream {
            keep_bytes: Some(4096),
            keep_more: false,
            ahead: ReadAhead::default(),
        },
        Action::Prefetch(ReadAhead::default()),
    ];
    // So that each way to keep memory meets each call.
    for first in 0..actions.len() {
        let annotate = |source: &Source| {
            let found = hints(source).found.into_iter();
            let named = found.filter_map(|found| Some((found.line, found.variable?)));
            let rules = named.zip(actions.iter().cycle().skip(first));
            let rules = rules.map(|((line, name), action)| rule(&name, line, None, action.clone()));
            let rules: Vec<Rule> = rules.collect();
            from_plan(source, &rules.iter().collect::<Vec<_>>())
        };
        let bytes = fs::read(source("shapes.cpp")).expect("a source");
        let case = Case::patched("shapes.cpp", &bytes, annotate);
        case.runs_the_same(CPP17, &[]);
        let text = case.text("after");
        for call in ["pagewise_lock(", "pagewise_lock_part(", "pagewise_stream("] {
            assert!(text.contains(call), "no {call} in {text}");
        }
        let refused = case.annotated.refusals.iter();
        let refused: Vec<&str> = refused.map(|refusal| refusal.why.as_str()).collect();
        let is_known = |why: &&str| why.contains("does not tell its size");
        assert!(refused.iter().all(is_known), "{refused:#?}");
        assert!(
            case.annotated.found.len() >= 16,
            "{:?}",
            case.annotated.found
        );
    }
}

/// What a plan's rules that lock become in a source: the patch and what is refused.
fn locked(path: &str, text: &str, rules: &[(&str, usize)]) -> (String, Vec<String>) {
    let source = Source::parse(Path::new(path), text.into()).expect("parsed");
    let rules: Vec<Rule> = rules
        .iter()
        .map(|(name, line)| {
            rule(
                &format!("{name} ({path}:{line})"),
                *line,
                None,
                lock(Vec::new()),
            )
        })
        .collect();
    let annotated = from_plan(&source, &rules.iter().collect::<Vec<_>>());
    let diff = String::from_utf8_lossy(&annotated.diff(&source, path)).into_owned();
    let refused = annotated.refusals.into_iter();
    (diff, refused.map(|refusal| refusal.why).collect())
}

#[test]
fn of_several_on_a_line_only_that_of_the_rules_name_is_locked() {
    let text = "#include <stdlib.h>\n#define FRESH(n) malloc(n)\nvoid f(size_t n) {\n\
                \x20   char *big = n > 3 ? malloc(n) : NULL; char *small = malloc(64);\n\
                \x20   char *one = malloc(n);\n\
                \x20   char *made = FRESH(n); char *other = malloc(65);\n\
                \x20   char *p = malloc(n); p = malloc(66);\n}\n";
    let (diff, refused) = locked("a.c", text, &[("big", 4)]);
    assert_eq!(diff, "");
    assert!(
        refused[0].contains("malloc: it is one branch of ?:"),
        "{refused:?}"
    );
    let (diff, refused) = locked("a.c", text, &[("small", 4)]);
    assert!(
        diff.contains("pagewise_lock(small, 64);") && refused.is_empty(),
        "{diff} {refused:?}"
    );
    // A single one may have another name by now.
    let (diff, _) = locked("a.c", text, &[("earlier", 5)]);
    assert!(diff.contains("pagewise_lock(one, n);"), "{diff}");
    for (name, line, why) in [
        (
            "none",
            4,
            "not one is called none: give each a line of its own",
        ),
        ("made", 6, "made is given something on this line"),
        ("p", 7, "several allocations on this line are called p"),
    ] {
        let (diff, refused) = locked("a.c", text, &[(name, line)]);
        assert_eq!(diff, "", "{name}");
        assert!(refused[0].contains(why), "{refused:?}");
    }
    let text = "#include <cstdlib>\nstruct S { double *a, *b; S(size_t n) : a(new double[n]) { b = (double *)std::malloc(8); } };\n";
    let (diff, refused) = locked("a.cpp", text, &[("a", 2)]);
    assert_eq!(diff, "");
    assert!(
        refused[0].contains("constructor's initializer list"),
        "{refused:?}"
    );
    let (diff, _) = locked("a.cpp", text, &[("b", 2)]);
    assert!(
        diff.contains("pagewise_lock(b, 8);") || diff.contains("pagewise_data(b)"),
        "{diff}"
    );
}

#[test]
fn a_plan_locks_nothing_that_a_call_does_not_find() {
    let text = "#include <deque>\n#include <unordered_map>\n#include <vector>\nvoid f(int n, std::vector<int> &v) {\n    std::unordered_map<int, int> um;\n    um.reserve(n);\n\
                \x20   std::deque<int> d(n);\n    d.resize(2 * n);\n    std::vector<bool> bits(n);\n    bits.resize(2 * n);\n    v.resize(n);\n}\n";
    let rules = [
        ("um", 6),
        ("d", 7),
        ("d", 8),
        ("bits", 9),
        ("bits", 10),
        ("v", 11),
    ];
    let (diff, refused) = locked("a.cpp", text, &rules);
    assert_eq!(diff.matches("pagewise_lock").count(), 1, "{diff}");
    assert!(
        diff.contains("pagewise_lock(pagewise_data(v), pagewise_bytes(v));"),
        "{diff}"
    );
    let said = |words: &str| refused.iter().filter(|why| why.contains(words)).count();
    assert_eq!(
        (said("blocks of their own"), said("where its bits are")),
        (3, 2),
        "{refused:#?}"
    );
}

#[test]
fn a_rule_without_a_source_is_told_what_to_do() {
    let mut heap = rule("the heap", 1, None, lock(Vec::new()));
    heap.place.file = None;
    assert!(without_source(&heap).contains("build the program with -g"));
    heap.target = Target::Heap {
        module: "a".to_owned(),
    };
    assert!(without_source(&heap).contains("apply the plan to the program in place of a patch"));
}

/// A call does not know of the others: what the rule keeps is for all of them together.
#[test]
fn each_of_several_objects_keeps_its_share() {
    let text = "#include <stdlib.h>\nvoid make(char **columns, size_t n) {\n    for (int i = 0; i < 6; i++)\n        columns[i] = \
                malloc(n);\n}\n";
    let source = Source::parse(Path::new("a.c"), text.into()).expect("parsed");
    let text = |objects, action| {
        let rule = Rule {
            objects,
            ..rule("columns", 4, Some("make"), action)
        };
        let annotated = from_plan(&source, &[&rule]);
        assert!(annotated.refusals.is_empty(), "{:#?}", annotated.refusals);
        String::from_utf8(annotated.diff(&source, "a.c")).expect("text")
    };
    let stream = Action::Stream {
        keep_bytes: Some(6 << 20),
        keep_more: true,
        ahead: ReadAhead::default(),
    };
    let part = Action::Lock {
        keep_bytes: Some(6 << 20),
        keep_more: false,
        ranges: Vec::new(),
        together: false,
    };
    for (objects, kept) in [(Some(6), 1 << 20), (None, 6 << 20)] {
        let call = format!("pagewise_stream(columns[i], n, {kept});");
        let found = text(objects, stream.clone());
        assert!(found.contains(&call), "no {call} in {found}");
        let call = format!("pagewise_lock_part(columns[i], n, 0, {kept});");
        let found = text(objects, part.clone());
        assert!(found.contains(&call), "no {call} in {found}");
    }
}

#[test]
fn which_of_several_objects_are_hot_is_left_to_the_library() {
    let text = "#include <stdlib.h>\nvoid make(void **columns) {\n    for (int i = 0; i < 6; i++)\n        columns[i] = \
                malloc(4096);\n}\n";
    let source = Source::parse(Path::new("a.c"), text.into()).expect("parsed");
    let hot = Action::Lock {
        keep_bytes: None,
        keep_more: false,
        ranges: vec![0..4096, 8192..12288],
        together: true,
    };
    let annotated = from_plan(&source, &[&rule("columns", 4, Some("make"), hot)]);
    let [refusal] = &annotated.refusals[..] else {
        panic!("{:#?}", annotated.refusals);
    };
    assert!(
        refusal.why.contains("leave it to pagewise apply"),
        "{refusal:?}"
    );
    assert_eq!(refusal.line, Some(4));
}

#[test]
fn what_grows_as_it_is_filled_is_refused_with_the_reason() {
    let text = "#include <vector>\nvoid fill(std::vector<int> &all) {\n    for (int i = 0; i < 9; i++)\n        all.push_back(i);\n}\n";
    let source = Source::parse(Path::new("a.cpp"), text.into()).expect("parsed");
    let refused = |line| {
        let rule = rule("all", line, None, lock(Vec::new()));
        from_plan(&source, &[&rule]).refusals[0].why.clone()
    };
    assert!(
        refused(4).contains("push_back fills a container"),
        "{}",
        refused(4)
    );
    assert!(
        refused(2).contains("nothing on this line"),
        "{}",
        refused(2)
    );
}

#[test]
fn a_plan_finds_templates_lambdas_and_what_has_no_namespace() {
    let text = "namespace {\ndouble *make(unsigned long n) {\n    double *p = new double[n];\n    return p;\n}\n}\n\
                template <class T> struct Grid { T *cells; void fill(unsigned long n); };\n\
                template <class T> void Grid<T>::fill(unsigned long n) {\n    cells = new T[n];\n}\n\
                template <class T> T *twin(unsigned long n) {\n    T *q = new T[n];\n    return q;\n}\n\
                void run(unsigned long n) {\n    auto job = [n] {\n        char *r = new char[n];\n        r[0] = 1;\n    };\n    job();\n}\n";
    let source = Source::parse(Path::new("a.cpp"), text.into()).expect("parsed");
    let rule = |line, function: &str| rule("x", line, Some(function), lock(Vec::new()));
    let right = [
        (3, "(anonymous namespace)::make(unsigned long)"),
        (9, "Grid<double>::fill(unsigned long)"),
        (12, "double* twin<double>(unsigned long)"),
        (17, "run(unsigned long)::{lambda()#1}::operator()() const"),
    ];
    for (line, function) in right {
        let rule = rule(line, function);
        let annotated = from_plan(&source, &[&rule]);
        assert_eq!(annotated.refusals, [], "{function}");
        assert_eq!(annotated.found.len(), 1, "{function}");
    }
    let other = rule(12, "double* twain<double>(unsigned long)");
    let refused = &from_plan(&source, &[&other]).refusals[0].why;
    assert!(refused.contains("was in twain"), "{refused}");
}

#[test]
fn old_c_tabs_and_no_last_end_of_line() {
    whole("old.c", OLD);
    let case = whole("tight.c", C11);
    assert!(!case.text("after").ends_with('\n'));
    assert!(
        case.text("after")
            .contains("\t \tpagewise_name(a, \"a\");\n"),
        "{}",
        case.text("after")
    );
}

#[test]
fn what_the_parser_does_not_understand_is_left_alone() {
    whole("broken.c", C11);
    // No source at all, but its name says so.
    for text in [
        "}}}} malloc( (((",
        "int f( { char *p = malloc(3)",
        "\"",
        "#if\n#else",
        "",
    ] {
        let source = Source::parse(Path::new("a.c"), text.into()).expect("parsed");
        assert_eq!(hints(&source).diff(&source, "a.c"), b"", "{text}");
    }
    let deep = format!("int x = {}1{};", "(".repeat(20_000), ")".repeat(20_000));
    let source = Source::parse(Path::new("a.c"), deep.into()).expect("parsed");
    assert_eq!(hints(&source).found, []);
}

#[test]
fn other_ends_of_lines_and_other_characters() {
    let text = fs::read_to_string(source("shapes.c")).expect("a source");
    let case = Case::new("crlf.c", text.replace('\n', "\r\n").as_bytes());
    case.build("after", &["-std=c11", "-D_GNU_SOURCE", "-fsyntax-only"]);
    case.is_done();
    let text = case.text("after");
    assert!(text.contains("pagewise_name(p, \"p\");\r\n"), "{text}");
    assert!(!text.replace("\r\n", "").contains(['\r', '\n']));

    // Latin-1 in a comment and a string, and a byte order mark.
    let text = b"/* gr\xfc\xdfe */\n#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n    \
                 char *gr = malloc(9); /* \xe4 */\n    puts(gr ? \"\xe4\" : \"\");\n    return 0;\n}\n";
    let case = Case::new("latin.c", text);
    case.runs_the_same(C11, &[]);
    assert_eq!(case.annotated.refusals, []);
    let marked = b"\xef\xbb\xbfextern void *malloc(unsigned long);\nint main(void) { char *gr\xc3\xbcn = malloc(3ul); return !gr\xc3\xbcn; }\n";
    let case = Case::new("marked.c", marked);
    case.runs_the_same(C11, &[]);
    assert!(
        case.text("after")
            .contains("pagewise_name(gr\u{fc}n, \"gr\u{fc}n\");")
    );
}

#[test]
fn a_line_of_a_megabyte() {
    let filler = "sum += 1; ".repeat(100_000);
    let text = format!(
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {{ volatile int sum = 0; char *p = malloc(70000); {filler} printf(\"%d\\n\", sum); return !p; }}"
    );
    let case = Case::new("long.c", text.as_bytes());
    assert!(
        case.text("after")
            .contains("char *p = malloc(70000); pagewise_name(p, \"p\"); sum")
    );
    case.is_done();
}

/// An example, its arguments if it prints the same each time, and options to compile it with.
type Run = (
    &'static str,
    Option<&'static [&'static str]>,
    &'static [&'static str],
);

#[test]
fn the_examples() {
    // Small enough to take no time; some measure it, and print what differs each time.
    let runs: &[Run] = &[
        ("hinted.c", Some(&["4"]), C11),
        ("hotcold.c", Some(&["4", "1", "1000"]), C11),
        (
            "lattice.c",
            Some(&["4", "1", "1"]),
            &["-std=c11", "-D_GNU_SOURCE", "-lm"],
        ),
        ("matmul.c", Some(&["64"]), C11),
        ("sweep.c", Some(&["4", "1"]), C11),
        ("churn.c", None, C11),
        ("pattern.c", None, C11),
    ];
    for (name, arguments, options) in runs {
        let case = Case::of_file(&repository().join("examples").join(name));
        match arguments {
            Some(arguments) => case.runs_the_same(options, arguments),
            None => drop(case.build("after", options)),
        }
        assert!(!case.annotated.found.is_empty(), "{name}");
        case.is_done();
    }
}

#[test]
fn the_flow_solver() {
    let case = Case::of_file(&repository().join("examples/mincostflow.cpp"));
    // Compiled once: its library takes the compiler long.
    case.build("after", &["-std=c++17", "-fsyntax-only"]);
    case.is_done();
}
