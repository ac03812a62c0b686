//! The command as a user has it: with its preloaded libraries beside it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const LIBRARIES: [&str; 2] = ["libpagewise_runtime.so", "libpagewise_guard.so"];

/// The command in a folder of its own. Built once a test executable; cargo's own lock keeps several apart.
pub(crate) fn pagewise() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(install)
}

fn install() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_pagewise"));
    let target = built
        .ancestors()
        .nth(2)
        .expect("the executable lies in target/PROFILE");
    // Apart from the workspace, as the Makefile does: a workspace build would leak features into it.
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", "preload"])
        .args([
            "-p",
            "pagewise-runtime",
            "-p",
            "pagewise-guard",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the preloaded libraries do not build");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    fs::create_dir_all(&folder).expect("a folder");
    for library in LIBRARIES {
        link(&target.join("preload").join(library), &folder.join(library));
    }
    let command = folder.join("pagewise");
    link(built, &command);
    command
}

/// A hard link, as the command finds its library by the path it was started by. Left alone if it is there already:
/// another test may be running it.
fn link(from: &Path, to: &Path) {
    let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let source = fs::metadata(from).expect("it was built");
    if fs::metadata(to).is_ok_and(|there| same(&source, &there)) {
        return;
    }
    let _ = fs::remove_file(to);
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).expect("copied");
    }
}
