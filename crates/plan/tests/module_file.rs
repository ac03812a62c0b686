//! Frames are found again in rebuilt programs, or it is told why not.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use pagewise_plan::Frame;
use pagewise_plan::GlobalSymbol;
use pagewise_plan::ModuleFile;
use pagewise_plan::Unmatched;

fn build(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name).join("callee");
    std::fs::create_dir_all(program.parent().expect("a folder")).expect("made");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/callee.c");
    let status = Command::new("gcc")
        .args(["-O1", "-o"])
        .arg(&program)
        .args(options)
        .arg(source)
        .status();
    assert!(status.expect("gcc runs").success());
    program
}

/// The frame of the call of malloc in `make`.
fn call_in_make(file: &ModuleFile) -> Frame {
    let (start, bytes) = (0..0x10000u64)
        .filter_map(|address| file.frame(address))
        .filter_map(|frame| frame.function.clone().map(|function| (frame, function)))
        .find(|(_, (name, offset))| name == "make" && *offset == 1)
        .map(|(frame, _)| (frame.module_offset - 1, 64))
        .expect("make is there");
    let anonymous = |offset| Frame {
        module: "callee".to_owned(),
        build_id: None,
        function: Some(("make".to_owned(), offset)),
        module_offset: start + offset,
    };
    // The first place in it that follows a call.
    (5..bytes)
        .map(anonymous)
        .find(|frame| file.resolve(frame).is_ok())
        .expect("it calls malloc")
}

#[test]
fn frames_are_found_again_where_only_other_code_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let read = |path: &Path| ModuleFile::read(path).expect("an ELF file");
    let first = read(&build(folder.path(), "first", &[]));
    let frame = call_in_make(&first);
    assert_eq!(first.resolve(&frame), Ok(frame.module_offset));

    let moved = read(&build(folder.path(), "moved", &["-DMOVED"]));
    let found = moved.resolve(&frame).expect("it only moved");
    assert_ne!(found, frame.module_offset);
    let same = moved.frame(found).expect("a frame");
    assert_eq!(same.function, frame.function);

    let rebuilt = read(&build(folder.path(), "rebuilt", &["-DREBUILT"]));
    let refused = rebuilt.resolve(&frame).expect_err("another function");
    assert!(matches!(refused, Unmatched::Rebuilt { .. }), "{refused}");

    let stripped = read(&build(folder.path(), "stripped", &["-s"]));
    let refused = stripped.resolve(&frame).expect_err("no symbols");
    assert!(matches!(refused, Unmatched::NoSymbol { .. }), "{refused}");
    let own = stripped.frame(found).expect("it has a build id");
    assert_eq!(stripped.resolve(&own), Ok(found));
    assert!(matches!(
        first.resolve(&own),
        Err(Unmatched::OtherBuild { .. })
    ));
}

#[test]
fn globals_are_found_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = ModuleFile::read(&build(folder.path(), "first", &[])).expect("an ELF file");
    let table = file.global("table", None, None).expect("there");
    assert_eq!(table.bytes, 100_000);
    // Rebuilt with another size it is the same.
    assert_eq!(file.global("table", Some(7), Some(9)), Ok(table));
    let refused = file.global("tables", None, None).expect_err("not there");
    assert_eq!(
        refused.to_string(),
        "callee has no symbol tables: was it stripped, or renamed?"
    );
}

#[test]
fn of_several_globals_of_a_name_that_of_its_size_and_place_is_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    // Each is static to its file; the tables are equally long.
    let of_file = |function: &str, bytes: u32| {
        format!(
            "static char table[4000], buffer[{bytes}];\nchar *{function}(int i) {{ buffer[i] = 1; return table + i; }}\n"
        )
    };
    let main = "char *first(int), *second(int);\nint main(int count, char **values) { (void)values; return *first(count) + *second(count); }\n";
    let texts = [
        ("first.c", of_file("first", 9000)),
        ("second.c", of_file("second", 5000)),
        ("main.c", main.to_owned()),
    ];
    let program = folder.path().join("twice");
    let mut compile = Command::new("gcc");
    compile.arg("-o").arg(&program);
    for (name, text) in texts {
        std::fs::write(folder.path().join(name), text).expect("written");
        compile.arg(folder.path().join(name));
    }
    assert!(compile.status().expect("gcc runs").success());
    let file = ModuleFile::read(&program).expect("an ELF file");
    let named = |name: &str| -> Vec<GlobalSymbol<'_>> {
        file.globals().filter(|one| one.name == name).collect()
    };
    for buffer in named("buffer") {
        assert_eq!(file.global("buffer", Some(buffer.bytes), None), Ok(buffer));
    }
    let tables = named("table");
    assert_eq!(tables.len(), 2);
    for table in tables {
        let at = Some(table.address);
        assert_eq!(file.global("table", Some(4000), at), Ok(table));
    }
    for (bytes, at) in [(None, None), (Some(4000), None), (Some(4000), Some(1))] {
        let refused = file.global("table", bytes, at).expect_err("which?");
        assert!(
            matches!(refused, Unmatched::Ambiguous { count: 2, .. }),
            "{refused}"
        );
    }
}

#[test]
fn what_is_no_elf_file_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text");
    assert!(ModuleFile::read(&path).is_err());
    assert!(ModuleFile::read(folder.path()).is_err());
    std::fs::write(&path, "text").expect("written");
    assert!(ModuleFile::read(&path).is_err());
}
