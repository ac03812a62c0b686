//! The registers a walk begins with, on aarch64. Mirrors `x86_64.rs`.

use framehop::UnwindRegsNative;
use framehop::aarch64::PtrAuthMask;

/// User addresses have at most 48 bits without large virtual addresses; the bits above may hold a
/// pointer authentication code.
const ADDRESS_BITS: PtrAuthMask = PtrAuthMask((1 << 48) - 1);

/// Register values at the moment the stack was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    ip: u64,
    lr: u64,
    sp: u64,
    fp: u64,
}

impl Registers {
    /// From `pc`, `x30`, `sp` and `x29`.
    #[must_use]
    pub fn new(ip: u64, lr: u64, sp: u64, fp: u64) -> Self {
        Self { ip, lr, sp, fp }
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
        UnwindRegsNative::new_with_ptr_auth_mask(ADDRESS_BITS, self.lr, self.sp, self.fp)
    }
}

#[cfg(test)]
pub(super) fn test_registers(ip: u64, sp: u64, fp: u64) -> Registers {
    Registers::new(ip, 0, sp, fp)
}
