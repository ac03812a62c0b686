//! Where a command writes: a file that gets its name once it is complete, a device or pipe, or standard output.

use std::fs;
use std::fs::File;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use pagewise_export::ExportError;
use pagewise_host::shell_word;
use pagewise_report::html::HtmlError;
use pagewise_trace::TraceError;

use crate::failure::Failure;
use crate::output::tell;

/// Where something goes.
pub(crate) enum Target {
    StandardOutput,
    /// Something that is not replaced but written into: a device, a named pipe.
    Existing(PathBuf),
    /// A file that gets its name once it is complete.
    File(PathBuf),
}

/// What is written, for messages.
pub(crate) struct Contents {
    /// What it is called.
    pub(crate) name: String,
    /// Whether a terminal can show it.
    pub(crate) is_text: bool,
    /// How to name another file, for example `-o`.
    pub(crate) option: &'static str,
}

/// Why something could not be written.
pub(crate) enum WriteError {
    /// The recording cannot be read.
    Trace(TraceError),
    /// The output takes no more.
    Output(io::Error),
    /// Something else, in words.
    Other(String),
}

impl From<ExportError> for WriteError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Trace(error) => Self::Trace(error),
            ExportError::Output(error) => Self::Output(error),
            error => Self::Other(error.to_string()),
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<HtmlError> for WriteError {
    fn from(error: HtmlError) -> Self {
        match error {
            HtmlError::Trace(error) => Self::Trace(error),
            HtmlError::Output(error) => Self::Output(error),
            error => Self::Other(error.to_string()),
        }
    }
}

impl WriteError {
    /// The reader of a pipe has left, which is no failure of ours.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    fn failure(self, name: &str, option: &str) -> Failure {
        match self {
            Self::Trace(error) => error.into(),
            Self::Output(error) => {
                let full = matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                );
                let advice = match full {
                    true => format!("; free some space, or write elsewhere with {option}"),
                    false => String::new(),
                };
                Failure::new(format!("cannot write {name}: {error}{advice}"))
            }
            Self::Other(message) => Failure::new(message),
        }
    }
}

impl Target {
    pub(crate) fn choose(path: &Path, contents: &Contents, force: bool) -> Result<Self, Failure> {
        let option = contents.option;
        if path == Path::new("-") {
            if !contents.is_text && io::stdout().is_terminal() {
                return Err(Failure::new(format!(
                    "{} is not for terminals: name a file with {option}, or pipe it somewhere",
                    contents.name
                )));
            }
            return Ok(Self::StandardOutput);
        }
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Failure::new(format!(
                "{} names a folder: name a file with {option}",
                path.display()
            )));
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(Failure::new(format!(
                "{} is a folder: name a file with {option}",
                path.display()
            ))),
            Ok(found) if !found.is_file() => Ok(Self::Existing(path.to_owned())),
            Ok(_) if !force => Err(Failure::new(format!(
                "{} exists already: use -f to overwrite it, or {option} to write another file",
                path.display()
            ))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                require_folder(path, option)?;
                Ok(Self::File(path.to_owned()))
            }
            _ => Ok(Self::File(path.to_owned())),
        }
    }

    /// Writes what `contents` gives out.
    pub(crate) fn write<E: Into<WriteError>>(
        &self,
        option: &str,
        contents: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
    ) -> Result<(), Failure> {
        let (mut out, name): (Box<dyn Write + Send>, String) = match self {
            Self::StandardOutput => (Box::new(io::stdout()), "standard output".to_owned()),
            Self::Existing(path) => {
                let name = path.display().to_string();
                let out = File::options().write(true).open(path);
                let out = out.map_err(|error| WriteError::Output(error).failure(&name, option))?;
                (Box::new(out), name)
            }
            Self::File(path) => {
                let name = path.display().to_string();
                let bytes = write_file(path, |out| contents(out).map_err(Into::into))
                    .map_err(|error| error.failure(&name, option))?;
                tell!("pagewise: wrote {name} ({})", pagewise_report::bytes(bytes));
                return Ok(());
            }
        };
        match contents(&mut *out).map_err(Into::into) {
            Err(error) if error.is_broken_pipe() => Ok(()),
            result => result.map_err(|error| error.failure(&name, option)),
        }
    }
}

/// What comes of long work must not be lost as nobody made the folder.
fn require_folder(path: &Path, option: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    match folder {
        Some(folder) if folder.ancestors().any(is_no_folder) => Err(Failure::new(format!(
            "cannot write {}: {} is a file, or lies below one; name another file with {option}",
            path.display(),
            folder.display()
        ))),
        Some(folder) if !folder.is_dir() => Err(Failure::new(format!(
            "cannot write {}: there is no folder {}; type: mkdir -p {}, or name another file with {option}",
            path.display(),
            folder.display(),
            shell_word(&folder.to_string_lossy())
        ))),
        _ => Ok(()),
    }
}

/// Something is there, and nothing can be made in it.
fn is_no_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok() && !path.is_dir()
}

/// Writes beside the file and renames it at the end, so that nothing incomplete bears its name. Returns its length.
fn write_file(
    path: &Path,
    contents: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), WriteError>,
) -> Result<u64, WriteError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let unfinished = PathBuf::from(name);
    let written = (|| {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .open(&unfinished)
            .map_err(WriteError::Output)?;
        contents(&mut file)?;
        let bytes = file.metadata().map_err(WriteError::Output)?.len();
        fs::rename(&unfinished, path).map_err(WriteError::Output)?;
        Ok(bytes)
    })();
    if written.is_err() {
        // The first error is the one that matters.
        let _ = fs::remove_file(&unfinished);
    }
    written
}
