//! The registers a walk begins with, on x86-64. Mirrored by `aarch64.rs`.

use framehop::UnwindRegsNative;

/// Register values at the moment the stack was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    ip: u64,
    sp: u64,
    bp: u64,
}

impl Registers {
    /// From `rip`, `rsp` and `rbp`.
    #[must_use]
    pub fn new(ip: u64, sp: u64, bp: u64) -> Self {
        Self { ip, sp, bp }
    }

    /// The address of the instruction that ran.
    #[must_use]
    pub fn instruction_pointer(&self) -> u64 {
        self.ip
    }

    /// The address of the first byte of the copied stack.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.sp
    }

    pub(super) fn to_native(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.ip, self.sp, self.bp)
    }
}

#[cfg(test)]
pub(super) fn test_registers(ip: u64, sp: u64, bp: u64) -> Registers {
    Registers::new(ip, sp, bp)
}
