//! The namer on call paths made by hand, over sources in a temporary folder.

use super::*;
use std::fs;
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn frame(function: &str, file: Option<&str>, line: u32) -> Frame {
    Frame {
        function: Some(function.to_owned()),
        file: file.map(str::to_owned),
        line: file.map(|_| line),
        module: Some("/nonexistent/program".to_owned()),
        module_offset: Some(0x1000),
        ..Frame::default()
    }
}

fn runtime(function: &str) -> Frame {
    Frame {
        function: Some(function.to_owned()),
        module: Some("/opt/libpagewise_runtime.so".to_owned()),
        ..Frame::default()
    }
}

#[test]
fn the_first_own_line_is_the_site() {
    let folder = Folder::new();
    let file = folder.write(
        "main.cpp",
        "\nint main() {\n  std::vector<double> x(n);\n}\n",
    );
    let stl = Some("/usr/include/c++/12/bits/stl_vector.h");
    let frames = [
        runtime("malloc"),
        frame("operator new(unsigned long)", None, 0),
        frame("std::vector<double>::vector(unsigned long)", stl, 554),
        frame("main", Some(&file), 3),
        frame("__libc_start_main", None, 0),
    ];
    let site = Namer::new().name(&frames);
    assert_eq!(site.name.as_deref(), Some("x"));
    assert_eq!(
        (site.file.as_deref(), site.line),
        (Some(file.as_str()), Some(3))
    );
    assert_eq!(
        (site.function.as_deref(), site.frame_index),
        (Some("main"), 3)
    );
    assert_eq!(site.display(), "x (main.cpp:3)");
}

#[test]
fn an_interpreters_line_is_no_extensions_site() {
    let folder = Folder::new();
    let file = folder.write("methodobject.c", "\n  result = meth(self);\n");
    let of_python = |function: &str| Frame {
        module: Some("/opt/lib/libpython3.11.so.1.0".to_owned()),
        ..frame(function, Some(&file), 2)
    };
    let extension = |function: &str| Frame {
        module: Some("/opt/_multiarray_umath.cpython-311-x86_64-linux-gnu.so".to_owned()),
        ..frame(function, None, 0)
    };
    let arrays = [
        runtime("malloc"),
        extension("default_malloc"),
        extension("PyArray_NewFromDescr"),
        of_python("cfunction_call"),
    ];
    let site = Namer::new().name(&arrays);
    assert_eq!((site.name, site.line), (None, None));
    assert_eq!(site.function.as_deref(), Some("PyArray_NewFromDescr"));
    // Its own memory is.
    let own = [runtime("malloc"), of_python("cfunction_call")];
    assert_eq!(Namer::new().name(&own).name.as_deref(), Some("result"));
}

#[test]
fn wrappers_yield_to_their_callers_as_long_as_those_have_names() {
    let folder = Folder::new();
    let text = "\
void *inner(size_t n) { return malloc(n); }
void *outer(size_t n) { void *p = inner(n); return p; }
int main(void) {
  char *text = outer(9);
  consume(outer(9));
}
";
    let file = folder.write("a.c", text);
    let path = |line| {
        [
            runtime("malloc"),
            frame("inner", Some(&file), 1),
            frame("outer", Some(&file), 2),
            frame("main", Some(&file), line),
        ]
    };
    let mut namer = Namer::new();
    let named = namer.name(&path(4));
    assert_eq!(
        (named.name.as_deref(), named.frame_index),
        (Some("text"), 3)
    );
    // The caller has no name for it: the best there is stays.
    let nameless = namer.name(&path(5));
    assert_eq!(
        (nameless.name.as_deref(), nameless.frame_index),
        (Some("p"), 2)
    );
    // A wrapper called from code without source.
    let cut = namer.name(&path(4)[..2]);
    assert_eq!((cut.name, cut.line, cut.frame_index), (None, Some(1), 1));
}

#[test]
fn an_out_parameter_is_named_by_the_caller() {
    let folder = Folder::new();
    let text = "\
int make(int n, double **out) { *out = malloc(n); return 0; }
int main(void) {
  double *cells; int other = 1, rc = make(other, &cells);
}
";
    let file = folder.write("a.c", text);
    let frames = [
        runtime("malloc"),
        frame("make", Some(&file), 1),
        frame("main", Some(&file), 3),
    ];
    let site = Namer::new().name(&frames);
    assert_eq!((site.name.as_deref(), site.frame_index), (Some("cells"), 2));
    let alone = Namer::new().name(&frames[..2]);
    assert_eq!(alone.name.as_deref(), Some("*out"));
}

#[test]
fn libraries_without_source_are_passed_over_for_the_users_line() {
    let folder = Folder::new();
    let file = folder.write("a.c", "int main(void) {\n  db *handle = open_db();\n}\n");
    let library = Frame {
        function: Some("open_db".to_owned()),
        module: Some("/usr/lib/libdb.so".to_owned()),
        ..Frame::default()
    };
    let site = Namer::new().name(&[runtime("malloc"), library, frame("main", Some(&file), 2)]);
    assert_eq!(site.name.as_deref(), Some("handle"));
}

#[test]
fn without_debug_information_the_function_is_what_is_known() {
    let frames = [
        runtime("malloc"),
        frame("load_table", None, 0),
        frame("main", None, 0),
    ];
    let site = Namer::new().name(&frames);
    assert_eq!(site.name, None);
    assert_eq!(
        (site.function.as_deref(), site.frame_index),
        (Some("load_table"), 1)
    );
    assert_eq!(site.display(), "load_table");
}

#[test]
fn paths_of_nothing_known_are_survived() {
    let mut namer = Namer::new();
    assert_eq!(namer.name(&[]), Site::default());
    assert_eq!(namer.name(&[]).display(), "unknown");
    assert_eq!(
        namer
            .name(&[Frame::default(), Frame::default()])
            .frame_index,
        0
    );
    // All of it is the runtime's: the outermost says most.
    let site = namer.name(&[runtime("malloc"), runtime("start_thread")]);
    assert_eq!(
        (site.frame_index, site.function.as_deref()),
        (1, Some("start_thread"))
    );
}

#[test]
fn missing_and_foreign_sources_leave_file_and_line() {
    let folder = Folder::new();
    let ada = folder.write("solve.adb", "      X := new Grid (1 .. N);\n");
    for file in ["/nonexistent/main.cpp", &ada] {
        let site = Namer::new().name(&[runtime("malloc"), frame("main", Some(file), 1)]);
        assert_eq!((site.name, site.line), (None, Some(1)));
        assert_eq!(site.file.as_deref(), Some(file));
    }
}

#[test]
fn lines_that_cannot_allocate_are_distrusted() {
    let folder = Folder::new();
    let file = folder.write("a.c", "int main(void) {\n  int n = 1;\n\n  n++;\n}\n");
    for line in [0, 2, 3, 4, 5, 999] {
        let site = Namer::new().name(&[runtime("malloc"), frame("main", Some(&file), line)]);
        assert_eq!(site.name, None, "line {line}");
    }
}

#[test]
fn a_newer_source_is_believed_only_where_the_function_still_is() {
    let folder = Folder::new();
    let program = folder.write("program", "the build");
    let text = "void other(void) {\n  int *b = malloc(9);\n}\nint main(void) {\n  int *a = malloc(9);\n}\n";
    let file = folder.write("a.c", text);
    let at = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let date = |path: &str, seconds| {
        fs::File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(at(seconds))
            .unwrap();
    };
    let name = |line| {
        let frame = Frame {
            module: Some(program.clone()),
            ..frame("main", Some(&file), line)
        };
        Namer::new().name(&[runtime("malloc"), frame]).name
    };
    date(&program, 1000);
    date(&file, 2000);
    assert_eq!(name(5).as_deref(), Some("a"));
    assert_eq!(name(2), None);
    // An older source is the one that was built.
    date(&file, 500);
    assert_eq!(name(2).as_deref(), Some("b"));
}

#[test]
fn a_line_is_read_once() {
    let folder = Folder::new();
    let file = folder.write("a.c", "int main(void) {\n  int *a = malloc(9);\n}\n");
    let frames = [runtime("malloc"), frame("main", Some(&file), 2)];
    let mut namer = Namer::new();
    let first = namer.name(&frames);
    fs::remove_file(&file).unwrap();
    assert_eq!(namer.name(&frames), first);
    assert_eq!(namer.lines.len(), 1);
}
