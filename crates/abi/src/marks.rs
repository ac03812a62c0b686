//! What the preloaded library says to the recorder's programs in the kernel, on behalf of `pagewise.h`: by a system call that the
//! kernel refuses and the programs see. `bpf/record.h` has the same numbers.

/// In the environment: somebody hears marks. Set by the recorder.
pub const VARIABLE: &str = "PAGEWISE_MARKS";
/// The first argument of `prctl`, which no kernel knows.
pub const OPTION: u32 = 0x5067_7773;
/// The second: work with this token, the third argument, is handed over here.
pub const HANDED_OVER: u64 = 1;
/// The second: from here on this thread works on behalf of who had this token; 0: for itself.
pub const ON_BEHALF: u64 = 2;
/// A token's bits. 0 is none.
pub const TOKEN_BITS: u64 = (1 << 61) - 1;
