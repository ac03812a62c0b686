//! What the command line understands.

use clap::Parser;
use pagewise_replay::Sweep;

use crate::cli::Cli;
use crate::cli::Command;

fn parse(arguments: &[&str]) -> Result<super::SimulateArguments, String> {
    let all = ["pagewise", "simulate", "t"].iter().chain(arguments);
    match Cli::try_parse_from(all)
        .map_err(|error| error.to_string())?
        .command
    {
        Command::Simulate(arguments) => Ok(*arguments),
        _ => Err("another command".to_owned()),
    }
}

#[test]
fn lists_are_split_at_commas() {
    let arguments = parse(&["--policy", "clock,s3-fifo", "--memory", "5%,512M,2500p"]).unwrap();
    assert_eq!((arguments.policy.len(), arguments.memory.len()), (2, 3));
}

#[test]
fn an_unknown_policy_is_answered_with_the_nearest() {
    let error = parse(&["--policy", "clok"]).unwrap_err();
    assert!(error.contains("did you mean `clock`?"), "{error}");
}

#[test]
fn a_sweep_goes_in_steps_of_1_2_5() {
    let ratios = |text: &str| text.parse::<Sweep>().map(|sweep| sweep.ratios);
    assert_eq!(
        ratios("write/read=1..100").unwrap(),
        [1, 2, 5, 10, 20, 50, 100]
    );
    assert_eq!(ratios("write/read=3..30").unwrap(), [3, 5, 10, 20, 30]);
    assert_eq!(ratios("write/read=7..7").unwrap(), [7]);
    for wrong in [
        "1..100",
        "write/read=0..5",
        "write/read=5..1",
        "write/read=a..b",
        "write/read=5",
    ] {
        assert!(ratios(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn storage_that_is_no_storage_is_refused() {
    for wrong in ["file", "disk=hdd", "file=ufs3.1,level=most"] {
        assert!(parse(&["--storage", wrong]).is_err(), "{wrong}");
    }
    let arguments = parse(&["--storage", "swap=emram,level=max"]).unwrap();
    assert_eq!(arguments.storage.file, "ufs3.1");
}
