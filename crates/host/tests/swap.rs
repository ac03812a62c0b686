//! Swap files and zram, for real. Small and short: the machine may be measuring something else.

mod common;

use common::folder;
use common::is_swap;
use common::root_or_skip;
use pagewise_host::Error;
use pagewise_host::Restorer;
use pagewise_host::SwapRequest;
use pagewise_host::TemporarySwap;
use pagewise_host::swap::SwapKind;
use pagewise_host::swap::active_areas;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::MutexGuard;

/// Priorities and free space are of the machine: another test must not change them meanwhile.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed with the lock has said so.
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

const BYTES: u64 = 1 << 20;

fn file(path: &Path) -> SwapRequest {
    SwapRequest::File {
        path: Some(path.to_owned()),
    }
}

/// Files in the folder: a failure may leave none.
fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

#[test]
fn a_swap_file_comes_and_goes() {
    let _alone = alone();
    if !root_or_skip("a_swap_file_comes_and_goes") {
        return;
    }
    let (_dir, folder) = folder();
    let path = folder.join("swap file");
    let mut restorer = Restorer::without_keeper();
    let swap = TemporarySwap::set_up(&file(&path), BYTES, &mut restorer).expect("swap");
    assert_eq!(swap.kind, SwapKind::File { path: path.clone() });

    let areas = active_areas().expect("/proc/swaps");
    let ours = areas.iter().find(|area| area.path == path).expect("active");
    // The header page is extra; blocks smaller than a page may cost a page or two of alignment.
    assert!(ours.size_bytes <= BYTES && ours.size_bytes >= BYTES - 8 * pagewise_host::page_bytes());
    assert!(swap.free_bytes <= Some(ours.size_bytes) && swap.free_bytes > Some(0));
    assert!(
        areas
            .iter()
            .all(|area| area.path == path || area.priority < ours.priority)
    );
    let data = fs::metadata(&path).expect("a file");
    assert_eq!(data.permissions().mode() & 0o777, 0o600);

    assert!(restorer.undo_all().is_empty());
    assert!(!is_swap(&path) && !path.exists());
}

#[test]
fn dropping_the_restorer_switches_off_a_file_without_a_name() {
    let _alone = alone();
    if !root_or_skip("dropping_the_restorer_switches_off_a_file_without_a_name") {
        return;
    }
    let mut restorer = Restorer::without_keeper();
    let request = SwapRequest::File { path: None };
    let swap = TemporarySwap::set_up(&request, BYTES, &mut restorer).expect("swap");
    let SwapKind::File { path } = swap.kind else {
        panic!("a file, not {swap:?}")
    };
    assert!(is_swap(&path) && path.starts_with("/var/tmp"));
    drop(restorer);
    assert!(!is_swap(&path) && !path.exists());
}

#[test]
fn a_file_of_the_user_is_left_alone() {
    let _alone = alone();
    if !root_or_skip("a_file_of_the_user_is_left_alone") {
        return;
    }
    let (_dir, folder) = folder();
    let path = folder.join("precious");
    fs::write(&path, "data").expect("a file");
    let link = folder.join("link");
    std::os::unix::fs::symlink("nowhere", &link).expect("a link");
    for taken in [&path, &link] {
        let mut restorer = Restorer::without_keeper();
        let error = TemporarySwap::set_up(&file(taken), BYTES, &mut restorer).expect_err("taken");
        assert!(matches!(error, Error::SwapFileExists { .. }), "{error:?}");
        assert!(restorer.is_empty());
    }
    assert_eq!(fs::read_to_string(&path).expect("text"), "data");
    assert!(link.symlink_metadata().is_ok());
}

#[test]
fn refusals_explain_themselves_and_leave_nothing() {
    let _alone = alone();
    if !root_or_skip("refusals_explain_themselves_and_leave_nothing") {
        return;
    }
    let (_dir, folder) = folder();
    let mut restorer = Restorer::without_keeper();
    let mut refused = |path: &Path, bytes| {
        let error = TemporarySwap::set_up(&file(path), bytes, &mut restorer).expect_err("refused");
        assert!(restorer.is_empty(), "{error}");
        error
    };
    let error = refused(&folder.join("huge"), 8 << 40);
    assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
    let error = refused(&folder.join("tiny"), 4096);
    assert!(matches!(error, Error::SwapTooSmall { .. }), "{error:?}");
    let error = refused(&folder.join("missing/swap"), BYTES);
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(files(&folder).is_empty());

    let Ok(shm) = tempfile::tempdir_in("/dev/shm") else {
        println!("tmpfs: skipped: no /dev/shm");
        return;
    };
    let error = refused(&shm.path().join("swap"), BYTES);
    assert!(matches!(error, Error::SwapRefused { .. }), "{error:?}");
    assert!(error.to_string().contains("tmpfs"), "{error}");
    assert!(files(shm.path()).is_empty());
}

#[test]
fn none_and_existing_change_nothing() {
    let _alone = alone();
    let mut restorer = Restorer::without_keeper();
    let none = TemporarySwap::set_up(&SwapRequest::None, BYTES, &mut restorer).expect("nothing");
    assert_eq!((none.kind, none.free_bytes), (SwapKind::None, None));
    // Whether this machine has swap is not for us to say.
    match TemporarySwap::set_up(&SwapRequest::Existing, BYTES, &mut restorer) {
        Ok(swap) => assert!(swap.kind == SwapKind::Existing && swap.free_bytes.is_some()),
        Err(error) => assert!(matches!(error, Error::NoExistingSwap), "{error:?}"),
    }
    assert!(restorer.is_empty());
}

#[test]
fn zram_comes_and_goes_with_its_algorithm() {
    let _alone = alone();
    const TEST: &str = "zram_comes_and_goes_with_its_algorithm";
    if !root_or_skip(TEST) {
        return;
    }
    let read = |name: &str| fs::read_to_string(format!("/sys/block/zram0/{name}")).ok();
    if read("disksize").as_deref() != Some("0\n") {
        println!("{TEST}: skipped: /dev/zram0 is in use or missing");
        return;
    }
    let before = read("comp_algorithm");
    let zram_before: Vec<PathBuf> = files(Path::new("/dev"))
        .into_iter()
        .filter(|p| p.to_string_lossy().contains("zram"))
        .collect();
    let offered = before.clone().unwrap_or_default();
    let mut restorer = Restorer::without_keeper();
    let unknown = SwapRequest::Zram {
        algorithm: Some("no-such".into()),
    };
    let error = TemporarySwap::set_up(&unknown, BYTES, &mut restorer).expect_err("unknown");
    let Error::UnknownAlgorithm { known, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(
        known.iter().all(|name| offered.contains(name.as_str())),
        "{error}"
    );

    let other = known.last().cloned();
    let request = SwapRequest::Zram {
        algorithm: other.clone(),
    };
    let swap = TemporarySwap::set_up(&request, BYTES, &mut restorer).expect("swap");
    let SwapKind::Zram { device, algorithm } = &swap.kind else {
        panic!("{swap:?}")
    };
    assert!(is_swap(device));
    assert_eq!(Some(algorithm), other.as_ref());

    // With that one taken, another device is used or added, and goes again.
    let mark = restorer.mark();
    let more = SwapRequest::Zram { algorithm: None };
    let second = TemporarySwap::set_up(&more, BYTES, &mut restorer).expect("swap");
    let SwapKind::Zram { device: added, .. } = &second.kind else {
        panic!("{second:?}")
    };
    assert!(added != device && is_swap(added));
    let was_there = zram_before.contains(added);
    assert!(restorer.undo_to(mark).is_empty());
    assert!(!is_swap(added) && added.exists() == was_there);
    assert!(is_swap(device), "the first one stays");
    assert!(restorer.undo_all().is_empty());
    assert!(!is_swap(device));
    assert_eq!(read("disksize").as_deref(), Some("0\n"));
    assert_eq!(read("comp_algorithm"), before);
}
