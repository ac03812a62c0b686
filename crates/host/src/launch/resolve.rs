//! Finds the executable, as execvp(3) and `env` do, but tells "not found" and "not executable" apart.

use crate::error::Error;
use crate::error::Result;
use rustix::fs::Access;
use rustix::fs::AtFlags;
use rustix::fs::CWD;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

/// Where execvp(3) looks without a `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

const NO_INTERPRETER: &str = "its interpreter is missing; install it, or correct the #! line";

/// What stands at a path.
enum Candidate {
    Executable,
    Missing,
    /// A script, but not what runs it. The exec would say so too, but only after everything has been set up.
    NoInterpreter,
    /// A folder on the way may not be entered.
    Hidden,
    Refused(&'static str),
}

/// Path of the executable that `name` stands for.
pub(super) fn program(name: &OsStr, search: Option<&OsStr>) -> Result<PathBuf> {
    let shown = || name.to_string_lossy().into_owned();
    if name.as_bytes().contains(&b'/') {
        return match inspect(Path::new(name)) {
            Candidate::Executable => Ok(name.into()),
            Candidate::Missing => Err(Error::ProgramNotFound {
                program: shown(),
                why: NO_FILE,
            }),
            Candidate::NoInterpreter => Err(Error::ProgramNotFound {
                program: shown(),
                why: NO_INTERPRETER,
            }),
            Candidate::Hidden => {
                let why = "a folder on the way to it may not be entered";
                Err(Error::ProgramNotExecutable {
                    program: shown(),
                    why,
                    source: None,
                })
            }
            Candidate::Refused(why) => Err(Error::ProgramNotExecutable {
                program: shown(),
                why,
                source: None,
            }),
        };
    }
    let search = search.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut refused = None;
    for folder in std::env::split_paths(search).filter(|_| !name.is_empty()) {
        // An empty entry is the current folder.
        let path = if folder.as_os_str().is_empty() {
            Path::new(".").join(name)
        } else {
            folder.join(name)
        };
        match inspect(&path) {
            Candidate::Executable => return Ok(path),
            // execvp(3) stops here too.
            Candidate::NoInterpreter => {
                return Err(Error::ProgramNotFound {
                    program: path.display().to_string(),
                    why: NO_INTERPRETER,
                });
            }
            // As shells do: another user's folder in PATH holds nothing for us.
            Candidate::Missing | Candidate::Hidden => {}
            Candidate::Refused(why) => refused = refused.or(Some((path, why))),
        }
    }
    match refused {
        Some((path, why)) => {
            let program = path.display().to_string();
            Err(Error::ProgramNotExecutable {
                program,
                why,
                source: None,
            })
        }
        None => Err(Error::ProgramNotFound {
            program: shown(),
            why: NOT_IN_PATH,
        }),
    }
}

const NO_FILE: &str = "there is no such file; check the path";
const NOT_IN_PATH: &str =
    "it is in no folder of PATH; check the name, or give its path, as ./program";

fn inspect(path: &Path) -> Candidate {
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Candidate::Hidden,
        Err(_) => Candidate::Missing,
        Ok(data) if data.is_dir() => Candidate::Refused("it is a folder"),
        Ok(data) if !data.is_file() => Candidate::Refused("it is not a file"),
        Ok(_) => match rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) if interpreter_is_missing(path) => Candidate::NoInterpreter,
            Ok(()) => Candidate::Executable,
            Err(_) => Candidate::Refused("it may not be executed; make it executable: chmod +x"),
        },
    }
}

/// Whether this is a script whose `#!` line names a file that does not exist. What cannot be read is left to exec.
fn interpreter_is_missing(path: &Path) -> bool {
    // BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h: longer lines the kernel cuts.
    let mut start = Vec::with_capacity(256);
    let read = std::fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    let Some(line) = read.ok().and_then(|_| start.strip_prefix(b"#!")) else {
        return false;
    };
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return false;
    };
    let words = line[..end].split(|byte| matches!(byte, b' ' | b'\t'));
    let mut words = words.filter(|word| !word.is_empty());
    words
        .next()
        .is_some_and(|name| matches!(Path::new(OsStr::from_bytes(name)).try_exists(), Ok(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn file(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\n").expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    fn code(name: &str, search: &Path) -> u8 {
        program(OsStr::new(name), Some(search.as_os_str()))
            .expect_err("an error")
            .exit_code()
    }

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let here = dir.path();
        file(&here.join("run"), 0o755);
        file(&here.join("text"), 0o644);
        fs::create_dir(here.join("folder")).expect("a folder");
        let found = program(OsStr::new("run"), Some(here.as_os_str())).expect("found");
        assert_eq!(found, here.join("run"));
        assert_eq!(code("text", here), 126);
        assert_eq!(code("folder", here), 126);
        assert_eq!(code("missing", here), 127);
        assert_eq!(code("", here), 127);
        assert_eq!(code("./missing", here), 127);
        assert_eq!(code(&here.join("text").display().to_string(), here), 126);
        assert_eq!(code(&here.join("run/x").display().to_string(), here), 127);
        assert!(program(OsStr::new("sh"), None).is_ok());
    }

    #[test]
    fn a_script_without_its_interpreter_is_not_found_before_anything_runs() {
        let dir = tempfile::tempdir().expect("a folder");
        let here = dir.path();
        for (name, text) in [
            ("run", "#!/no/such/interpreter -x\n"),
            ("spaced", "#! \t/no/such/interpreter\n"),
        ] {
            file(&here.join(name), 0o755);
            fs::write(here.join(name), text).expect("written");
            assert_eq!(code(name, here), 127);
            assert_eq!(code(&here.join(name).display().to_string(), here), 127);
        }
        for text in ["#! /bin/sh -e\n", "#!\n", "#!/no/line/end", "", "\x7fELF"] {
            fs::write(here.join("run"), text).expect("written");
            assert!(
                program(OsStr::new("run"), Some(here.as_os_str())).is_ok(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_executable_later_in_the_path_wins_over_a_plain_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let (first, second) = (dir.path().join("1"), dir.path().join("2"));
        for folder in [&first, &second] {
            fs::create_dir(folder).expect("a folder");
        }
        file(&first.join("run"), 0o644);
        file(&second.join("run"), 0o755);
        let search = std::env::join_paths([&first, &second]).expect("a path");
        assert_eq!(
            program(OsStr::new("run"), Some(&search)).expect("found"),
            second.join("run")
        );
    }
}
