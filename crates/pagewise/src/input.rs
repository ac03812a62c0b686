//! Standard input of a program that is run more than once: each run is to find it as the first did.

use std::fs::File;
use std::io::IsTerminal;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::fd::AsFd;

/// Where standard input stood: a file is wound back, from a pipe nothing comes again.
pub(crate) struct Input(Option<(File, u64)>);

impl Input {
    pub(crate) fn at_start() -> Self {
        let file = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .ok()
            .map(File::from);
        Self(file.and_then(|mut file| {
            let place = file.stream_position().ok()?;
            Some((file, place))
        }))
    }

    pub(crate) fn rewind(&self) {
        if let Some((file, place)) = &self.0 {
            // Where that fails it could not be asked for its place either.
            let _ = (&*file).seek(SeekFrom::Start(*place));
        }
    }

    /// Whether what one run reads is gone for the next. Who sits at a terminal sees that a program asks again.
    pub(crate) fn is_read_once(&self) -> bool {
        self.0.is_none() && !std::io::stdin().is_terminal()
    }
}
