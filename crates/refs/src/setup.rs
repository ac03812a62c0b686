//! The decoder of a format.

use crate::block::Cut;
use crate::decode::Decoder;
use crate::decode::LineDecoder;
use crate::decode::Lines;
use crate::decode::Records;
use crate::format::Classify;
use crate::format::DEFAULT_PAGE_BYTES;
use crate::format::Format;
use crate::format::Options;
use crate::format::SECTOR_BYTES;
use crate::formats::address::Address;
use crate::formats::arc::Arc;
use crate::formats::csv::Csv;
use crate::formats::lackey;
use crate::formats::lirs::Lirs;
use crate::formats::memtrace::Memtrace;
use crate::formats::oracle_general;
use crate::formats::vscsi;

/// How files and anonymous memory are told apart; `None` where the format does not leave it open.
pub(crate) fn classification(format: Format, head: &[u8], options: &Options) -> Option<Classify> {
    match format {
        Format::Lackey => Some(options.classify.unwrap_or_else(|| by_content(head))),
        Format::Memtrace => Some(Classify::Paper),
        _ => None,
    }
}

/// Where its files are cut, and what decodes them. An error says what does not fit.
pub(crate) fn decoder(
    format: Format,
    head: &[u8],
    options: &Options,
) -> Result<(Cut, Box<dyn Decoder>), String> {
    let shift = page_shift(options.page_bytes)?;
    let page_shift = shift.unwrap_or(DEFAULT_PAGE_BYTES.ilog2());
    check(format, options)?;
    Ok(match format {
        Format::Pagewise => {
            return Err("a recording of pagewise is a folder, and this is a file".to_owned());
        }
        Format::Lirs => lines(Lirs),
        Format::Arc => lines(Arc {
            blocks_shift: shift.map_or(0, |shift| shift - SECTOR_BYTES.ilog2()),
        }),
        Format::Address => lines(Address { page_shift }),
        Format::Memtrace => lines(Memtrace { page_shift }),
        Format::Lackey => match classification(format, head, options) {
            Some(Classify::Syscalls) => lines(lackey::BySyscalls::new(page_shift)),
            _ => lines(lackey::ByKind { page_shift }),
        },
        Format::Csv => lines(Csv::new(head, options.columns, shift)?),
        Format::OracleGeneral => (
            Cut::Records(oracle_general::RECORD_BYTES),
            Box::new(Records(oracle_general::decode)),
        ),
        Format::Vscsi => {
            let bytes = vscsi::record_bytes(head)
                .ok_or("neither version 1 nor version 2 of vscsi: use another --format")?;
            (Cut::Records(bytes), vscsi::decoder(bytes, shift))
        }
    })
}

fn lines(decoder: impl LineDecoder + 'static) -> (Cut, Box<dyn Decoder>) {
    (Cut::Lines, Box::new(Lines(decoder)))
}

/// By system calls if the log has them.
fn by_content(head: &[u8]) -> Classify {
    if head.split(|byte| *byte == b'\n').any(lackey::is_call) {
        Classify::Syscalls
    } else {
        Classify::Paper
    }
}

fn page_shift(bytes: Option<u64>) -> Result<Option<u32>, String> {
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    if bytes.is_power_of_two() && (SECTOR_BYTES..=1 << 30).contains(&bytes) {
        return Ok(Some(bytes.ilog2()));
    }
    Err("a page has 512, 1024, 2048, 4096, ... bytes, at most 1G: give --page-size so".to_owned())
}

/// Refuses options that would be without effect.
fn check(format: Format, options: &Options) -> Result<(), String> {
    let refuse = |option: &str, why: &str| Err(format!("{why}: leave out {option}"));
    if options.classify == Some(Classify::Syscalls) && format != Format::Lackey {
        return refuse(
            "--classify",
            &format!("traces of the format {format} hold no system calls"),
        );
    }
    if options.columns.is_some() && format != Format::Csv {
        return refuse(
            "--columns",
            &format!("traces of the format {format} have no columns to name"),
        );
    }
    if options.page_bytes.is_some() && matches!(format, Format::Lirs | Format::OracleGeneral) {
        return refuse(
            "--page-size",
            &format!("traces of the format {format} tell pages, not where they lie"),
        );
    }
    Ok(())
}
