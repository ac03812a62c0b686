//! Intel's counters. AMD's processors count walks, and not how long they take.

/// Raw configurations (event, umask << 8, cmask << 24) that count cycles with a page walk under way, of loads and of stores, by what
/// `/proc/cpuinfo` says. Errors: why there are none.
pub(super) fn walk_cycles(cpuinfo: &str) -> Result<Vec<u64>, String> {
    let field = |name: &str| {
        let line = cpuinfo
            .lines()
            .find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':')
            .map(|(_, value)| value.trim().to_owned())
    };
    let vendor = field("vendor_id").unwrap_or_default();
    if vendor != "GenuineIntel" {
        return Err(format!(
            "{} counts no cycles of page walks",
            if vendor.is_empty() { "it" } else { &vendor }
        ));
    }
    let number = |name| field(name).and_then(|text| text.parse::<u32>().ok());
    let (Some(6), Some(model)) = (number("cpu family"), number("model")) else {
        return Err("its counters are not known here".to_owned());
    };
    // Intel's perfmon event lists: DTLB_LOAD_MISSES and DTLB_STORE_MISSES, WALK_DURATION up to Broadwell, then WALK_ACTIVE.
    match model {
        // Haswell, Broadwell
        0x3c | 0x3f | 0x45 | 0x46 | 0x3d | 0x47 | 0x4f | 0x56 => Ok(vec![0x1008, 0x1049]),
        // Skylake and Cascade Lake to Comet Lake; Ice Lake, Tiger Lake, Rocket Lake
        0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0xa5 | 0xa6 | 0x6a | 0x6c | 0x7d | 0x7e | 0x8c
        | 0x8d | 0xa7 => Ok(vec![0x0100_1008, 0x0100_1049]),
        // Sapphire Rapids, Emerald Rapids, Granite Rapids
        0x8f | 0xcf | 0xad | 0xae => Ok(vec![0x0100_1012, 0x0100_1013]),
        _ => Err(format!(
            "the counters of Intel's model {model:#x} are not known here"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_vendor_and_model() {
        let intel = |model: u32| {
            format!(
                "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: Xeon\n"
            )
        };
        assert_eq!(walk_cycles(&intel(63)), Ok(vec![0x1008, 0x1049]));
        assert_eq!(walk_cycles(&intel(207)), Ok(vec![0x0100_1012, 0x0100_1013]));
        assert_eq!(
            walk_cycles(&intel(1)),
            Err("the counters of Intel's model 0x1 are not known here".to_owned())
        );
        let amd = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n";
        assert_eq!(
            walk_cycles(amd),
            Err("AuthenticAMD counts no cycles of page walks".to_owned())
        );
        assert_eq!(
            walk_cycles(""),
            Err("it counts no cycles of page walks".to_owned())
        );
    }
}
