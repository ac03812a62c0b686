//! Compiles the BPF programs with clang: warnings are errors.
use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // libbpf-sys (links = "bpf") hands its headers to direct dependents only.
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are");
    let architecture =
        env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target's processor");
    for program in ["swap", "calibrate", "access", "stack_ids"] {
        compile(program, &headers, &architecture, &out);
    }
}

fn compile(program: &str, headers: &str, architecture: &str, out: &std::path::Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let target = if architecture == "aarch64" {
        "arm64"
    } else {
        "x86"
    };
    let status = Command::new(&clang)
        .args([
            "-g",
            "-O2",
            "-target",
            "bpf",
            "-mcpu=v3",
            "-fno-stack-protector",
        ])
        // BPF_PROG declares a context that most programs have no use for.
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .args(["-isystem", headers, "-Isrc/bpf"])
        .arg(format!("-D__TARGET_ARCH_{target}"))
        .arg("-c")
        .arg(format!("src/bpf/{program}.bpf.c"))
        .arg("-o")
        .arg(out.join(format!("{program}.bpf.o")))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} failed on src/bpf/{program}.bpf.c ({status})"),
        Err(error) => {
            panic!("cannot run {clang}: {error}; install it (apt-get install clang) or set CLANG")
        }
    }
}
