//! Symbolizing code with its debug information elsewhere, in part, or not at all.

mod common;

use common::{Limits, build, folder, record, run, share_debug_information, source};
use pagewise_attribute::{ElfImage, Frame, Namer, Symbolizer, display_file};
use std::path::Path;
use std::process::Command;

/// The line of `stacks.c` that makes the nested allocation.
const THIRD_LINE: u32 = 27;

/// The frames of the nested allocation of `stacks.c`, as far as they are the program's.
fn nested_frames(folder: &Path, program: &Path) -> Vec<Frame> {
    let recording = record(folder, program, &Limits::default());
    let nested = recording
        .allocations
        .iter()
        .find(|allocation| allocation.bytes == 100_001);
    let frames = recording.frames(&nested.unwrap().path, &mut Symbolizer::new());
    frames
        .into_iter()
        .filter(|frame| frame.module.as_deref() == program.to_str())
        .collect()
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames
        .iter()
        .map(|frame| frame.function.as_deref().unwrap_or("?"))
        .collect()
}

fn line_of<'a>(frames: &'a [Frame], function: &str) -> Option<(&'a str, u32)> {
    let frame = frames
        .iter()
        .find(|frame| frame.function.as_deref() == Some(function))?;
    Some((display_file(frame.file.as_deref()?), frame.line?))
}

fn objcopy(arguments: &[&str]) {
    run(Command::new("objcopy").args(arguments));
}

const OPTIONS: &str = "-O2 -pthread -fno-optimize-sibling-calls";
const CHAIN: [&str; 6] = ["allocate", "third", "second", "first", "main", "_start"];

#[test]
fn with_debug_information_every_frame_has_its_line() {
    let folder = folder();
    let program = build(
        folder.path(),
        "gcc",
        &format!("{OPTIONS} -g"),
        &source("stacks.c"),
    );
    let frames = nested_frames(folder.path(), &program);
    assert_eq!(names(&frames), CHAIN);
    assert_eq!(line_of(&frames, "third"), Some(("stacks.c", THIRD_LINE)));
    let text = std::fs::read_to_string(source("stacks.c")).unwrap();
    let line = text.lines().nth(THIRD_LINE as usize - 1).unwrap();
    assert!(line.contains("allocate(100001)"), "{line}");
}

#[test]
fn without_debug_information_functions_are_known() {
    let folder = folder();
    let program = build(folder.path(), "gcc", OPTIONS, &source("stacks.c"));
    let frames = nested_frames(folder.path(), &program);
    assert_eq!(names(&frames), CHAIN);
    assert!(
        frames
            .iter()
            .all(|frame| frame.file.is_none() && frame.line.is_none())
    );
    let site = Namer::new().name(&frames);
    assert_eq!(
        (site.name, site.function.as_deref()),
        (None, Some("allocate"))
    );
    let offset = frames[1].module_offset.unwrap();
    let mut symbolizer = Symbolizer::new();
    let (name, distance) = symbolizer
        .symbol(program.to_str().unwrap(), offset)
        .unwrap();
    assert_eq!(name, "third");
    assert!((1..64).contains(&distance), "{distance}");
}

#[test]
fn a_stripped_program_leaves_module_and_offset() {
    let folder = folder();
    let program = build(
        folder.path(),
        "gcc",
        &format!("{OPTIONS} -s"),
        &source("stacks.c"),
    );
    let frames = nested_frames(folder.path(), &program);
    assert_eq!(frames.len(), CHAIN.len());
    assert!(
        frames
            .iter()
            .all(|frame| frame.function.is_none() && frame.file.is_none())
    );
    assert!(frames.iter().all(|frame| frame.module_offset.is_some()));
}

#[test]
fn separate_debug_information_is_found_by_its_link() {
    for build_id in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let folder = folder();
        let options = format!("{OPTIONS} -g {build_id}");
        let program = build(folder.path(), "gcc", &options, &source("stacks.c"));
        let (binary, debug) = (
            program.to_str().unwrap(),
            format!("{}.debug", program.display()),
        );
        objcopy(&["--only-keep-debug", binary, &debug]);
        objcopy(&[
            "--strip-all",
            &format!("--add-gnu-debuglink={debug}"),
            binary,
        ]);
        let frames = nested_frames(folder.path(), &program);
        assert_eq!(
            line_of(&frames, "third"),
            Some(("stacks.c", THIRD_LINE)),
            "{build_id}"
        );
        // A file that is not the one linked to is not believed.
        let text = std::fs::read(&debug).unwrap();
        std::fs::write(&debug, [&text[..], b"changed"].concat()).unwrap();
        let frames = nested_frames(folder.path(), &program);
        let found = line_of(&frames, "third").is_some();
        assert_eq!(found, build_id == "-Wl,--build-id", "{build_id}");
    }
}

#[test]
fn compressed_debug_information_is_read() {
    let folder = folder();
    let program = build(
        folder.path(),
        "gcc",
        &format!("{OPTIONS} -g -gz"),
        &source("stacks.c"),
    );
    let frames = nested_frames(folder.path(), &program);
    assert_eq!(line_of(&frames, "third"), Some(("stacks.c", THIRD_LINE)));
}

#[test]
fn what_dwz_shares_between_programs_is_read() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let folder = folder();
        let options = format!("-O2 -g {version}");
        let program = build(folder.path(), "gcc", &options, &source("names.c"));
        let named = || -> Vec<Frame> {
            let recording = record(folder.path(), &program, &Limits::default());
            let mut symbolizer = Symbolizer::new();
            let paths = recording
                .allocations
                .iter()
                .map(|allocation| &allocation.path);
            paths
                .flat_map(|path| recording.frames(path, &mut symbolizer))
                .collect()
        };
        let before = named();
        assert!(
            before
                .iter()
                .any(|frame| frame.inlined && frame.line.is_some())
        );
        share_debug_information(&program);
        let after = named();
        let what = |frames: &[Frame]| -> Vec<(Option<String>, Option<u32>)> {
            let own = frames
                .iter()
                .filter(|frame| frame.module.as_deref() == program.to_str());
            own.map(|frame| (frame.function.clone(), frame.line))
                .collect()
        };
        assert_eq!(what(&after), what(&before), "{version}");
    }
}

#[test]
fn inlined_functions_are_frames_of_their_own() {
    let folder = folder();
    let program = build(folder.path(), "gcc", "-O2 -g", &source("names.c"));
    let recording = record(folder.path(), &program, &Limits::default());
    let mut symbolizer = Symbolizer::new();
    let inlined = recording.allocations.iter().any(|allocation| {
        let frames = recording.frames(&allocation.path, &mut symbolizer);
        frames.windows(2).any(|pair| {
            pair[0].function.as_deref() == Some("xmalloc")
                && pair[0].inlined
                && pair[0].module_offset == pair[1].module_offset
        })
    });
    assert!(inlined);
}

#[test]
fn the_build_id_is_the_one_the_linker_wrote() {
    let folder = folder();
    let options = format!("{OPTIONS} -Wl,--build-id=0x0123456789abcdef");
    let program = build(folder.path(), "gcc", &options, &source("stacks.c"));
    let image = ElfImage::read(&program).unwrap();
    assert_eq!(
        image.build_id.as_deref(),
        Some(&0x0123_4567_89ab_cdef_u64.to_be_bytes()[..])
    );
    let options = format!("{OPTIONS} -Wl,--build-id=none");
    let program = build(folder.path(), "gcc", &options, &source("stacks.c"));
    assert_eq!(ElfImage::read(&program).unwrap().build_id, None);
}

#[test]
fn declarations_name_what_missing_sources_cannot() {
    let folder = folder();
    let copy = folder.path().join("moved.cpp");
    let text = "#include <vector>\nvoid keep(void *);\nint main(int n, char **) {\n  std::vector<double> series(n * 100000);\n  keep(series.data());\n}\nvoid keep(void *p) { __asm__ volatile(\"\" : : \"r\"(p) : \"memory\"); }\n";
    for options in [
        "-O0 -g",
        "-O2 -g",
        "-O2 -g -gsplit-dwarf",
        "-O0 -gdwarf-4 -gsplit-dwarf",
    ] {
        std::fs::write(&copy, text).unwrap();
        let program = build(folder.path(), "g++", options, &copy);
        let recording = record(folder.path(), &program, &Limits::default());
        std::fs::remove_file(&copy).unwrap();
        let (mut namer, mut symbolizer) = (Namer::new(), Symbolizer::new());
        let sites: Vec<_> = recording
            .allocations
            .iter()
            .map(|allocation| namer.name(&recording.frames(&allocation.path, &mut symbolizer)))
            .collect();
        let found = sites.iter().find(|site| site.line == Some(4));
        assert_eq!(found.unwrap().name.as_deref(), Some("series"), "{options}");
    }
}

#[test]
fn packaged_split_debug_information_is_read() {
    let folder = folder();
    let options = "-O0 -gdwarf-4 -gsplit-dwarf -pthread";
    let program = build(folder.path(), "gcc", options, &source("stacks.c"));
    run(Command::new("dwp")
        .arg("-e")
        .arg(&program)
        .current_dir(folder.path()));
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "dwo") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert!(program.with_extension("dwp").exists());
    let frames = nested_frames(folder.path(), &program);
    assert_eq!(line_of(&frames, "third"), Some(("stacks.c", THIRD_LINE)));
}

#[test]
fn damaged_files_are_survived() {
    let folder = folder();
    let program = build(
        folder.path(),
        "gcc",
        &format!("{OPTIONS} -g"),
        &source("stacks.c"),
    );
    let whole = std::fs::read(&program).unwrap();
    let damaged = folder.path().join("damaged");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..200 {
            // A fixed sequence (xorshift64), so that a failure can be repeated.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state % bytes.len() as u64) as usize;
            bytes[at] ^= (state >> 40) as u8;
        }
        bytes.truncate(whole.len() - round * whole.len() / 80);
        std::fs::write(&damaged, bytes).unwrap();
        let path = damaged.to_str().unwrap();
        let mut symbolizer = Symbolizer::new();
        for svma in (0x1000..0x2000).step_by(0x80) {
            assert!(!symbolizer.frames(path, svma).is_empty());
        }
        let _ = ElfImage::read(&damaged);
        let _ = pagewise_attribute::globals(&damaged, 1);
    }
}
