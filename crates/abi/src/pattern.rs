//! Patterns of file names: `*` is any text, `?` any letter.

/// Whether a file is meant: by its name, or, if the pattern has a slash in it, by its whole path.
pub fn is_meant(pattern: &[u8], path: &[u8]) -> bool {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    if pattern.contains(&b'/') {
        return matches(pattern, path);
    }
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    matches(pattern, name)
}

/// Goes back to the last star only: at worst the product of the lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&letter) if letter == b'?' || letter == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    at = place + 1;
                    from = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&letter| letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_their_folders_unless_the_pattern_has_some() {
        for (pattern, path, meant) in [
            ("*.sst", "/var/db/000012.sst", true),
            ("*.sst", "/var/db.sst/LOG", false),
            ("0000??.sst", "/var/db/000012.sst", true),
            ("/var/*.sst", "/var/db/000012.sst", true),
            ("db/*", "/var/db/000012.sst", false),
            ("a*b*c", "/a-b-b-cc-c", true),
            ("a*b*c", "/a-b-b-cc-d", false),
            ("hot", "/x/hot (deleted)", true),
            ("*", "/x/", true),
        ] {
            assert_eq!(
                is_meant(pattern.as_bytes(), path.as_bytes()),
                meant,
                "{pattern} {path}"
            );
        }
    }
}
