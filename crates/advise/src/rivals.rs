//! Contexts whose calls a rule cannot tell from another's, as all that is the program's own in their call paths is the same: SQLite scans and
//! looks up by the same line of the program. What is said for the one would be done to the other.

use pagewise_abi::pattern;
use pagewise_analyze::file_io::Advice;
use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::IoContext;
use pagewise_analyze::file_io::Use;
use pagewise_plan::Action;
use pagewise_plan::Frame;
use pagewise_plan::IoAction;

use crate::contexts::ContextPath;
use crate::io::action;
use crate::io::is_out_of_reach;

/// Of a context without a rule, so much must have been used again while it was cached for that to matter.
const LEAST_USED_AGAIN: u64 = 1 << 20;
const MEBIBYTE: u64 = 1 << 20;

/// What there is to know of a context to tell it from others.
pub(crate) struct Party<'a> {
    /// What its rule would do; `None`: it has none.
    pub(crate) action: Option<Action>,
    /// Used again while it was still in the page cache; of what is to be kept, used again at all.
    used_again_bytes: u64,
    /// As far as they are known.
    pub(crate) paths: Vec<&'a [Frame]>,
    /// Paths of its files; `None`: not all are known.
    files: Option<Vec<&'a str>>,
}

/// What becomes of a rule beside the other contexts that have its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It does so with all of them.
    All(Action),
    /// It does so with its own files, by this pattern.
    Files(Action, String),
    /// It would do harm to the context of that index, and cannot leave it out.
    Harms(usize),
}

/// Of all contexts in turn; of those that have no part in it, an empty one.
pub(crate) fn parties<'a>(io: &'a FileIo, told: &'a [Vec<ContextPath>]) -> Vec<Party<'a>> {
    let contexts = io.contexts.iter().zip(told);
    contexts
        .map(|(context, paths)| party(io, context, paths))
        .collect()
}

fn party<'a>(io: &'a FileIo, context: &IoContext, paths: &'a [ContextPath]) -> Party<'a> {
    // Hints mean nothing to what is in memory or goes past the page cache.
    let cached = context
        .bytes
        .saturating_sub(context.direct_bytes)
        .saturating_sub(context.in_memory_bytes);
    let takes_part = matches!(context.does, Use::Read | Use::Write) && cached > 0;
    let known = paths.iter().filter_map(|path| path.path.as_deref().ok());
    let files = context.files.iter();
    let files = files.map(|&(file, _)| io.files.get(file)?.path.as_deref());
    let reuse = context.reuse.map(|reuse| match context.advice {
        Advice::Keep | Advice::KeepResident => reuse.again_bytes,
        // Where the page cache was not seen, all of it may have been there still.
        _ => reuse.again_cached_bytes.unwrap_or(reuse.again_bytes),
    });
    Party {
        action: action(context.does, context.advice).map(|action| match is_out_of_reach(context) {
            true => Action::Nothing,
            false => with_what_is_reckoned(action, context),
        }),
        used_again_bytes: reuse.unwrap_or(0),
        paths: known.filter(|_| takes_part).collect(),
        files: files.collect(),
    }
}

/// What a rule that drops will miss, as far as that was seen.
fn with_what_is_reckoned(action: Action, context: &IoContext) -> Action {
    let again = context.reuse.and_then(|reuse| reuse.again_cached_share());
    match action {
        Action::Io(IoAction::Drop { readahead, .. }) => Action::Io(IoAction::Drop {
            readahead,
            again_percent: (100.0 * again.unwrap_or(0.0)).ceil().clamp(0.0, 100.0) as u8,
        }),
        other => other,
    }
}

/// What is to be kept stays by itself where others' pages go: then nothing is done. Else as much is kept of a context's files as is read again of them (bytes,
/// of each context in turn), and no more than half of the memory.
pub(crate) fn keep_what_has_no_room(
    parties: &mut [Party<'_>],
    again_bytes: &[u64],
    memory_bytes: Option<u64>,
) {
    let is_drop = |party: &Party<'_>| party.action.as_ref().is_some_and(is_drop);
    let leaves_room = parties.iter().any(is_drop);
    for (party, again) in parties.iter_mut().zip(again_bytes) {
        let Some(Action::Io(IoAction::Keep { keep_bytes })) = &mut party.action else {
            continue;
        };
        let most = (*again).min(memory_bytes.unwrap_or(u64::MAX) / 2) / MEBIBYTE * MEBIBYTE;
        *keep_bytes = Some(most);
        if leaves_room || most == 0 {
            party.action = Some(Action::Nothing);
        }
    }
}

/// The contexts that have no rule as it would harm another one, by index.
pub(crate) fn harmful(parties: &[Party<'_>]) -> Vec<usize> {
    let does_harm = |at: &usize| {
        let party = &parties[*at];
        let acting = party.action.as_ref().filter(|&own| *own != Action::Nothing);
        acting.is_some_and(|own| {
            let mut paths = party.paths.iter();
            paths.any(|path| matches!(fit(parties, *at, path, own), Fit::Harms(_)))
        })
    };
    (0..parties.len()).filter(does_harm).collect()
}

/// What becomes of the rule of a context about one of its paths.
pub(crate) fn fit(parties: &[Party<'_>], at: usize, path: &[Frame], own: &Action) -> Fit {
    let others = parties.iter().enumerate();
    let others = others.filter(|(other, party)| *other != at && party.is_meant_by(path));
    let mut agreed = own.clone();
    let mut rivals = Vec::new();
    for (number, other) in others {
        match other.agrees_to(&agreed) {
            Some(action) => agreed = action,
            None => rivals.push(number),
        }
    }
    let Some(&first) = rivals.first() else {
        return Fit::All(agreed);
    };
    let of_rivals = rivals.iter().map(|&rival| parties[rival].files.as_deref());
    let of_rivals: Option<Vec<&[&str]>> = of_rivals.collect();
    let own_files = parties[at].files.as_deref();
    let pattern = own_files
        .zip(of_rivals)
        .and_then(|(own, others)| pattern_of(own, &others.concat()));
    match pattern {
        Some(pattern) => Fit::Files(own.clone(), pattern),
        None => Fit::Harms(first),
    }
}

impl Party<'_> {
    /// Whether a rule about that path is about calls of this context. One of a longer path has a rule of its own, if it has any.
    fn is_meant_by(&self, path: &[Frame]) -> bool {
        let is_meant =
            |own: &&[Frame]| *own == path || self.action.is_none() && own.starts_with(path);
        self.paths.iter().any(is_meant)
    }

    /// What may be done to its calls if somebody else's are to have that action; `None`: nothing that would be right for both.
    fn agrees_to(&self, wanted: &Action) -> Option<Action> {
        let is_left_alone = self.action == Some(Action::Nothing);
        match (&self.action, wanted) {
            (Some(own), _) if !is_left_alone => common(wanted, own),
            _ if self.used_again_bytes >= LEAST_USED_AGAIN && is_drop(wanted) => None,
            // What is read once is not kept, whoever reads it.
            (_, Action::Io(IoAction::Keep { .. })) | (None, _) => Some(wanted.clone()),
            // How the kernel reads ahead for it is right as it is.
            (Some(_), &Action::Io(IoAction::Drop { again_percent, .. })) => {
                Some(Action::Io(IoAction::Drop {
                    readahead: None,
                    again_percent,
                }))
            }
            (Some(own), _) => common(wanted, own),
        }
    }
}

fn is_drop(action: &Action) -> bool {
    matches!(
        action,
        Action::Io(IoAction::Drop { .. } | IoAction::DontCache { .. })
    )
}

/// What two rules have in common.
fn common(one: &Action, other: &Action) -> Option<Action> {
    match (one, other) {
        _ if one == other => Some(one.clone()),
        (
            Action::Io(IoAction::Drop {
                readahead,
                again_percent,
            }),
            Action::Io(IoAction::Drop {
                readahead: other_readahead,
                again_percent: other_percent,
            }),
        ) => Some(Action::Io(IoAction::Drop {
            readahead: readahead.filter(|_| readahead == other_readahead),
            again_percent: *again_percent.max(other_percent),
        })),
        (
            Action::Io(IoAction::Keep { keep_bytes }),
            Action::Io(IoAction::Keep { keep_bytes: also }),
        ) => {
            // One budget for both.
            let both = keep_bytes.zip(*also).map(|(one, other)| one.max(other));
            Some(Action::Io(IoAction::Keep { keep_bytes: both }))
        }
        (
            Action::Io(IoAction::WillNeed { burst_bytes }),
            Action::Io(IoAction::WillNeed { burst_bytes: also }),
        ) => Some(Action::Io(IoAction::WillNeed {
            burst_bytes: *burst_bytes.min(also),
        })),
        _ => None,
    }
}

/// A pattern that means all of these files and none of those, as wide as that goes; `None`: there is none.
fn pattern_of(files: &[&str], others: &[&str]) -> Option<String> {
    let names: Vec<&str> = files.iter().map(|path| name(path)).collect();
    let candidates = [ending(&names), around(&names), around(files)];
    let is_meant =
        |pattern: &str, path: &&&str| pattern::is_meant(pattern.as_bytes(), path.as_bytes());
    candidates.into_iter().flatten().find(|pattern| {
        files.iter().all(|path| is_meant(pattern, &path))
            && !others.iter().any(|path| is_meant(pattern, &path))
    })
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `*.db`
fn ending(names: &[&str]) -> Option<String> {
    let of_name = |name: &str| {
        let (before, ending) = name.rsplit_once('.')?;
        (!before.is_empty()).then(|| ending.to_owned())
    };
    let ending = of_name(names.first()?)?;
    let is_same = |name: &&str| of_name(name).as_ref() == Some(&ending);
    names.iter().all(is_same).then(|| format!("*.{ending}"))
}

/// What all begin with, and what all end with.
fn around(texts: &[&str]) -> Option<String> {
    let (first, rest) = texts.split_first()?;
    let same = |a: &mut dyn Iterator<Item = char>, b: &mut dyn Iterator<Item = char>| {
        a.zip(b).take_while(|(a, b)| a == b).count()
    };
    let letters = first.chars().count();
    let before = rest
        .iter()
        .map(|text| same(&mut first.chars(), &mut text.chars()));
    let before = before.min().unwrap_or(letters);
    if rest.iter().all(|text| text == first) {
        return Some((*first).to_owned());
    }
    let behind = rest
        .iter()
        .map(|text| same(&mut first.chars().rev(), &mut text.chars().rev()));
    let shortest = texts.iter().map(|text| text.chars().count()).min();
    let behind = behind.min()?.min(shortest?.saturating_sub(before));
    let begin: String = first.chars().take(before).collect();
    let end: String = first.chars().skip(letters - behind).collect();
    Some(format!("{begin}*{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_plan::Readahead;

    fn path(offset: u64) -> Vec<Frame> {
        vec![Frame {
            module: "shop".to_owned(),
            build_id: None,
            function: None,
            module_offset: offset,
        }]
    }

    fn party<'a>(
        action: Option<Action>,
        used_again_bytes: u64,
        paths: &'a [Vec<Frame>],
        files: &[&'a str],
    ) -> Party<'a> {
        Party {
            action,
            used_again_bytes,
            paths: paths.iter().map(Vec::as_slice).collect(),
            files: Some(files.to_vec()),
        }
    }

    fn drops(readahead: Option<Readahead>) -> Action {
        Action::Io(IoAction::Drop {
            readahead,
            again_percent: 0,
        })
    }

    fn random() -> Action {
        Action::Io(IoAction::Readahead(Readahead::Random))
    }

    const MUCH: u64 = 64 << 20;

    #[test]
    fn what_would_harm_another_is_left_or_bound_to_its_files() {
        let paths = [path(1)];
        let scan = || party(Some(drops(None)), 0, &paths, &["/db/shop.db"]);
        let fit_of_scan = |other: Party<'_>| fit(&[scan(), other], 0, &paths[0], &drops(None));
        for same_file in [
            party(Some(random()), MUCH, &paths, &["/db/shop.db"]),
            party(Some(Action::Nothing), MUCH, &paths, &["/db/shop.db"]),
            party(None, MUCH, &paths, &["/db/shop.db", "/db/index.db"]),
        ] {
            assert_eq!(fit_of_scan(same_file), Fit::Harms(1));
        }
        let elsewhere = party(None, MUCH, &paths, &["/db/index.idx"]);
        let bound = Fit::Files(drops(None), "*.db".to_owned());
        assert_eq!(fit_of_scan(elsewhere), bound);
        let mut unknown = party(None, MUCH, &paths, &[]);
        unknown.files = None;
        assert_eq!(fit_of_scan(unknown), Fit::Harms(1));
    }

    #[test]
    fn what_is_read_again_is_kept_where_nobody_leaves_room() {
        let keep = |keep_bytes| Action::Io(IoAction::Keep { keep_bytes });
        let paths = [path(1)];
        let elsewhere = [path(2)];
        let of = |others: Option<Action>, again| {
            let mut parties = [
                party(Some(keep(None)), MUCH, &paths, &["/db/shop.db"]),
                party(others, 0, &elsewhere, &["/backup"]),
            ];
            keep_what_has_no_room(&mut parties, &[again, 0], Some(64 << 20));
            parties[0].action.clone()
        };
        assert_eq!(of(None, 20 << 20), Some(keep(Some(20 << 20))));
        assert_eq!(of(None, MUCH), Some(keep(Some(32 << 20))), "half of all");
        assert_eq!(of(None, 4096), Some(Action::Nothing));
        assert_eq!(of(Some(drops(None)), MUCH), Some(Action::Nothing));
        // To who reads once nothing is done by it.
        let other = party(Some(Action::Nothing), MUCH, &paths, &["/db/shop.db"]);
        let own = party(Some(keep(None)), MUCH, &paths, &["/db/shop.db"]);
        let fit = fit(&[own, other], 0, &paths[0], &keep(Some(1 << 20)));
        assert_eq!(fit, Fit::All(keep(Some(1 << 20))));
    }

    #[test]
    fn who_suffers_nothing_is_no_rival() {
        let paths = [path(1)];
        let elsewhere = [path(2)];
        let scan = || party(Some(drops(None)), 0, &paths, &["/db/shop.db"]);
        let fit_of_scan = |other: Party<'_>| fit(&[scan(), other], 0, &paths[0], &drops(None));
        for other in [
            party(None, 8192, &paths, &["/db/shop.db"]),
            party(Some(random()), MUCH, &elsewhere, &["/db/shop.db"]),
            party(Some(drops(None)), 0, &paths, &["/db/shop.db"]),
        ] {
            assert_eq!(fit_of_scan(other), Fit::All(drops(None)));
        }
        // Both drop: how the kernel reads ahead is left to it.
        let other = party(Some(drops(Some(Readahead::Random))), 0, &paths, &[]);
        assert_eq!(fit_of_scan(other), Fit::All(drops(None)));
        // What is to be left alone, as no hint helps it, loses nothing by being dropped; but the kernel reads ahead for it.
        let sequential = drops(Some(Readahead::Sequential));
        let others = || party(Some(Action::Nothing), 0, &paths, &["/db/shop.db"]);
        let reads = party(Some(sequential.clone()), 0, &paths, &["/db/shop.db"]);
        let fitted = fit(&[reads, others()], 0, &paths[0], &sequential);
        assert_eq!(fitted, Fit::All(drops(None)));
        let looks_up = party(Some(random()), MUCH, &paths, &["/db/shop.db"]);
        let fitted = fit(&[looks_up, others()], 0, &paths[0], &random());
        assert_eq!(fitted, Fit::Harms(1));
        // Dropping would harm it; how the kernel reads ahead of another's few calls does not.
        let few = party(None, MUCH, &paths, &["/db/shop.db"]);
        let looks_up = party(Some(random()), MUCH, &paths, &["/db/shop.db"]);
        let fitted = fit(&[looks_up, few], 0, &paths[0], &random());
        assert_eq!(fitted, Fit::All(random()));
    }

    #[test]
    fn a_longer_path_with_a_rule_of_its_own_is_no_rival_and_one_without_is() {
        let paths = [path(1)];
        let longer = [[path(1), path(7)].concat()];
        let scan = || party(Some(drops(None)), 0, &paths, &["/db/shop.db"]);
        let fit_beside = |action| {
            let other = party(action, MUCH, &longer, &["/db/shop.db"]);
            fit(&[scan(), other], 0, &paths[0], &drops(None))
        };
        assert_eq!(fit_beside(Some(random())), Fit::All(drops(None)));
        assert_eq!(fit_beside(None), Fit::Harms(1));
    }

    #[test]
    fn patterns_are_as_wide_as_they_may_be() {
        for (files, others, expected) in [
            (&["/a/x.db"][..], &["/a/y.idx"][..], Some("*.db")),
            (&["/a/x.db"], &["/a/y.db"], Some("x.db")),
            (&["/a/x.db"], &["/b/x.db"], Some("/a/x.db")),
            (&["/a/x.db"], &["/a/x.db"], None),
            (&["/a/t-1.db", "/a/t-22.db"], &["/a/log.db"], Some("t-*.db")),
            (&["/a/1", "/a/2"], &["/b/1"], Some("/a/*")),
            (&["/a/1", "/b/2"], &["/b/1"], None),
            (&["/a/aa", "/a/aaa"], &["/a/b"], Some("aa*")),
            (&["/a/.db"], &["/a/x.db"], Some(".db")),
        ] {
            let found = pattern_of(files, others);
            assert_eq!(found.as_deref(), expected, "{files:?} {others:?}");
        }
    }
}
