//! Source paths without the folder that all of them are in.

use pagewise_analyze::Findings;
use pagewise_analyze::ObjectFrame;
use pagewise_analyze::ObjectKind;

/// Takes the first of the prefixes that fits off every path of a source or of a mapped file. Whole parts only: `/home/me` is no prefix of
/// `/home/meg/a.c`.
pub fn strip_prefixes(findings: &mut Findings, prefixes: &[String]) {
    for object in &mut findings.objects {
        strip(&mut object.identity.file, prefixes);
        if object.identity.kind == ObjectKind::File {
            strip(&mut object.identity.name, prefixes);
        }
        strip_frames(&mut object.site, prefixes);
    }
    for path in &mut findings.fault_paths {
        strip_frames(&mut path.frames, prefixes);
    }
}

fn strip_frames(frames: &mut [ObjectFrame], prefixes: &[String]) {
    for frame in frames {
        strip(&mut frame.file, prefixes);
    }
}

fn strip(file: &mut Option<String>, prefixes: &[String]) {
    let Some(path) = file else { return };
    let rest = prefixes.iter().find_map(|prefix| {
        let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
        rest.strip_prefix('/').filter(|rest| !rest.is_empty())
    });
    if let Some(rest) = rest {
        *file = Some(rest.to_owned());
    }
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
            let mut file = Some(path.to_owned());
            strip(&mut file, &prefixes);
            assert_eq!(file.as_deref(), Some(stripped), "{path}");
        }
    }
}
