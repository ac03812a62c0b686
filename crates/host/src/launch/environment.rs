//! The environment of the program.

use crate::error::Error;
use crate::error::Result;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::path::PathBuf;

const LD_PRELOAD: &str = "LD_PRELOAD";

/// Variables, sorted by name.
pub(super) struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    pub(super) fn inherited() -> Self {
        Environment {
            variables: std::env::vars_os().collect(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
    }

    pub(super) fn change(&mut self, name: &OsStr, value: Option<&OsStr>) -> Result<()> {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            let text = name.to_string_lossy().into_owned();
            return Err(Error::Argument {
                text,
                why: "it cannot name a variable",
            });
        }
        match value {
            Some(value) => self.variables.insert(name.to_owned(), value.to_owned()),
            None => self.variables.remove(name),
        };
        Ok(())
    }

    /// Puts libraries before those that are there.
    pub(super) fn preload(&mut self, libraries: &[PathBuf]) -> Result<()> {
        if libraries.is_empty() {
            return Ok(());
        }
        let mut paths = Vec::new();
        for library in libraries {
            paths.push(absolute(library)?.into_os_string());
        }
        let before = self.variables.get(OsStr::new(LD_PRELOAD));
        paths.extend(before.filter(|value| !value.is_empty()).cloned());
        self.variables
            .insert(LD_PRELOAD.into(), paths.join(OsStr::new(":")));
        Ok(())
    }

    /// `NAME=value` strings for execve(2).
    pub(super) fn strings(&self) -> Result<Vec<CString>> {
        let strings = self.variables.iter().map(|(name, value)| {
            let mut bytes = name.clone().into_vec();
            bytes.push(b'=');
            bytes.extend_from_slice(value.as_bytes());
            c_string(bytes)
        });
        strings.collect()
    }
}

/// The program may change its folder before it starts another, so the path must be absolute; and the
/// loader splits the list at spaces and colons.
fn absolute(library: &Path) -> Result<PathBuf> {
    let path = library
        .canonicalize()
        .map_err(|e| Error::file("find the library", library, e))?;
    let separator = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    if path.as_os_str().as_bytes().iter().any(separator) {
        return Err(Error::Argument {
            text: path.display().to_string(),
            why: "LD_PRELOAD cannot hold a path with spaces or colons; install pagewise elsewhere",
        });
    }
    Ok(path)
}

/// For the kernel.
pub(super) fn c_string(bytes: Vec<u8>) -> Result<CString> {
    CString::new(bytes).map_err(|error| Error::Argument {
        text: String::from_utf8_lossy(&error.into_vec()).into_owned(),
        why: "it has a zero byte in it",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
        Environment {
            variables: variables.iter().map(owned).collect(),
        }
    }

    #[test]
    fn libraries_come_before_those_that_are_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().canonicalize().expect("a path");
        let library = dir.join("lib.so");
        std::fs::write(&library, "").expect("a file");
        let mut environment = of(&[("LD_PRELOAD", "/a.so")]);
        environment
            .preload(std::slice::from_ref(&library))
            .expect("set");
        let expected = format!("{}:/a.so", library.display());
        assert_eq!(environment.get("LD_PRELOAD"), Some(OsStr::new(&expected)));

        let spaced = dir.join("my lib.so");
        std::fs::write(&spaced, "").expect("a file");
        assert!(environment.preload(&[spaced]).is_err());
        assert!(
            environment
                .preload(&["/nonexistent/lib.so".into()])
                .is_err()
        );
    }

    #[test]
    fn variables_change_and_go() {
        let mut environment = of(&[("A", "1"), ("B", "2")]);
        environment.change(OsStr::new("A"), None).expect("removed");
        environment
            .change(OsStr::new("B"), Some(OsStr::new("x=y")))
            .expect("set");
        let strings = environment.strings().expect("strings");
        assert_eq!(strings, [CString::new("B=x=y").expect("a string")]);
        assert!(environment.change(OsStr::new("C=D"), None).is_err());
        environment
            .change(OsStr::new("Z"), Some(OsStr::from_bytes(b"a\0b")))
            .expect("set");
        assert!(environment.strings().is_err(), "a zero byte");
    }
}
