//! What reports have in common about input and output: advice in words.

use pagewise_analyze::file_io::Advice;
use pagewise_analyze::file_io::WhyNothing;

use crate::units::bytes;

/// The word for it in JSON, and its size in bytes if it has one; `None`: nothing is advised.
pub(crate) fn advice_name(advice: Advice) -> (Option<&'static str>, Option<u64>) {
    match advice {
        Advice::SequentialDropBehind => (Some("sequential_drop_behind"), None),
        Advice::RandomDropBehind => (Some("random_drop_behind"), None),
        Advice::Sequential => (Some("sequential"), None),
        Advice::Random => (Some("random"), None),
        Advice::RandomWithBursts(bytes) => (Some("random_with_bursts"), Some(bytes)),
        Advice::DropBehind => (Some("drop_behind"), None),
        Advice::DropWritten => (Some("drop_written"), None),
        Advice::Keep => (Some("keep"), None),
        Advice::KeepResident => (Some("keep_resident"), None),
        Advice::Nothing(_) => (None, None),
    }
}

/// What to do, as a sentence; `None`: there is nothing to say.
pub(crate) fn advice_words(advice: Advice) -> Option<String> {
    Some(match advice {
        Advice::SequentialDropBehind => {
            "POSIX_FADV_SEQUENTIAL once, and POSIX_FADV_DONTNEED on each aligned 2 MiB behind"
                .to_owned()
        }
        Advice::RandomDropBehind => {
            "POSIX_FADV_RANDOM once, and POSIX_FADV_DONTNEED on each aligned 2 MiB behind: most of what is read ahead is gone before it is used"
                .to_owned()
        }
        Advice::Sequential => "POSIX_FADV_SEQUENTIAL before the first read".to_owned(),
        Advice::Random => "POSIX_FADV_RANDOM before the first read".to_owned(),
        Advice::RandomWithBursts(size) => format!(
            "POSIX_FADV_RANDOM once, and POSIX_FADV_WILLNEED for the {} of each burst before it",
            bytes(size)
        ),
        Advice::DropBehind => "POSIX_FADV_DONTNEED after use, on whole aligned 2 MiB".to_owned(),
        Advice::DropWritten => {
            "sync_file_range and POSIX_FADV_DONTNEED on each aligned 2 MiB written".to_owned()
        }
        Advice::Keep => {
            "no hint: it is read again, and stays in memory if others leave room".to_owned()
        }
        Advice::KeepResident => {
            "keep it in the page cache (a plan does), or have others leave room: it is read again, and has left by then"
                .to_owned()
        }
        Advice::Nothing(WhyNothing::Direct) => "none: it bypasses the page cache".to_owned(),
        Advice::Nothing(WhyNothing::InMemory) => "none: its files are in memory".to_owned(),
        Advice::Nothing(WhyNothing::FewBytes | WhyNothing::NoUse) => return None,
    })
}
