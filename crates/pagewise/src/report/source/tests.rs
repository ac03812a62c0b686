use super::*;

fn meta(recorded_ns: u64) -> Meta {
    let mut meta = Meta::default();
    meta.clock.start_realtime_ns = Some(recorded_ns);
    meta
}

fn doubts_of(source: &Path, module: &Path, meta: &Meta) -> Vec<String> {
    doubts(
        source,
        &BTreeSet::from([module.display().to_string()]),
        meta,
    )
}

#[test]
fn a_source_that_changed_later_is_doubted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, module) = (folder.path().join("a.c"), folder.path().join("a.out"));
    fs::write(&source, "int main;").expect("written");
    fs::write(&module, "no ELF file").expect("written");
    let built = modified_ns(&source).expect("a time");
    assert_eq!(doubts_of(&source, &module, &meta(u64::MAX)), [""; 0]);
    let doubts = doubts_of(&source, &module, &meta(built - 1));
    assert!(
        doubts[0].contains("changed after the recording"),
        "{doubts:?}"
    );
}

#[test]
fn a_program_that_was_rebuilt_or_deleted_is_told_by_its_build_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("a.c");
    fs::write(&source, "int main;").expect("written");
    let module = std::env::current_exe().expect("this program");
    let path = module.display().to_string();
    let mut meta = meta(u64::MAX);
    let own = build_id(&module).expect("our linker writes one");
    meta.build_ids.insert(path.clone(), own);
    let about_build = |doubts: Vec<String>| doubts.iter().any(|doubt| doubt.contains("rebuilt"));
    assert!(!about_build(doubts_of(&source, &module, &meta)));
    meta.build_ids.insert(path, "00ff".to_owned());
    assert!(about_build(doubts_of(&source, &module, &meta)));
    let doubts = doubts_of(&source, &folder.path().join("gone"), &meta);
    assert!(doubts[0].contains("is gone"), "{doubts:?}");
}

#[test]
fn a_source_is_found_where_it_ends_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("src/deep/a.c");
    fs::create_dir_all(source.parent().expect("a parent")).expect("made");
    fs::write(&source, "int main;").expect("written");
    let recorded_in = folder.path().display().to_string();
    let found = |file: &str| find(file, &recorded_in);
    assert_eq!(found(&source.display().to_string()), Some(source.clone()));
    assert_eq!(found("/elsewhere/build/src/deep/a.c"), Some(source));
    assert_eq!(found("/elsewhere/build/src/deep/b.c"), None);
}

#[test]
fn what_is_no_source_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let huge = folder.path().join("huge.c");
    let file = fs::File::create(&huge).expect("created");
    file.set_len(LARGEST + 1).expect("made sparse");
    assert!(read_text(&huge).is_err_and(|why| why.contains("no source")));
    assert!(read_text(folder.path()).is_err());
}
