//! Source paths without the folder that all of them are in.

use std::collections::HashMap;
use std::sync::Arc;

use pagewise_analyze::Findings;
use pagewise_analyze::ObjectFrame;
use pagewise_analyze::ObjectKind;
use pagewise_analyze::file_io::FileIo;

/// Takes the first of the prefixes that fits off every path of a source or of a mapped file. Whole parts only: `/home/me` is no prefix of
/// `/home/meg/a.c`.
pub fn strip_prefixes(findings: &mut Findings, prefixes: &[String]) {
    if prefixes.is_empty() {
        return;
    }
    let mut frames = Frames {
        prefixes,
        stripped: HashMap::new(),
    };
    for object in &mut findings.objects {
        strip(&mut object.identity.file, prefixes);
        if object.identity.kind == ObjectKind::File {
            strip(&mut object.identity.name, prefixes);
        }
        frames.strip(&mut object.site);
    }
    for path in &mut findings.fault_paths {
        frames.strip(&mut path.frames);
    }
}

/// The same of contexts of input and output, and of the files that they use.
pub fn strip_io_prefixes(io: &mut FileIo, prefixes: &[String]) {
    if prefixes.is_empty() {
        return;
    }
    let mut frames = Frames {
        prefixes,
        stripped: HashMap::new(),
    };
    for context in &mut io.contexts {
        frames.strip(&mut context.frames);
    }
    for file in &mut io.files {
        let rest = file
            .path
            .as_deref()
            .and_then(|path| without(path, prefixes));
        if let Some(rest) = rest.map(str::to_owned) {
            file.path = Some(rest);
        }
    }
}

/// Frames that many call paths share: still shared afterwards.
struct Frames<'a> {
    prefixes: &'a [String],
    /// Each as it was and as it is now.
    stripped: HashMap<Arc<ObjectFrame>, Arc<ObjectFrame>>,
}

impl Frames<'_> {
    fn strip(&mut self, path: &mut [Arc<ObjectFrame>]) {
        for frame in path {
            let known = self.stripped.entry(Arc::clone(frame));
            let new = known.or_insert_with_key(|frame| {
                let file = frame.file.as_deref();
                match file.and_then(|file| without(file, self.prefixes)) {
                    None => Arc::clone(frame),
                    Some(rest) => Arc::new(ObjectFrame {
                        file: Some(rest.to_owned()),
                        ..ObjectFrame::clone(frame)
                    }),
                }
            });
            *frame = Arc::clone(new);
        }
    }
}

fn strip(file: &mut Option<Arc<str>>, prefixes: &[String]) {
    let rest = file.as_deref().and_then(|path| without(path, prefixes));
    if let Some(rest) = rest {
        *file = Some(rest.into());
    }
}

/// What is left of the path; `None`: no prefix fits.
fn without<'path>(path: &'path str, prefixes: &[String]) -> Option<&'path str> {
    prefixes.iter().find_map(|prefix| {
        let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
        rest.strip_prefix('/').filter(|rest| !rest.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_parts_are_stripped() {
        let prefixes = ["/home/me/".to_owned(), "/home".to_owned()];
        for (path, stripped) in [
            ("/home/me/src/a.c", "src/a.c"),
            ("/home/meg/a.c", "meg/a.c"),
            ("/usr/include/x.h", "/usr/include/x.h"),
            ("/home/me", "me"),
            ("/home/", "/home/"),
        ] {
            let mut file = Some(path.into());
            strip(&mut file, &prefixes);
            assert_eq!(file.as_deref(), Some(stripped), "{path}");
        }
    }
}
