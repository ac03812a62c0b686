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

/// A frame pointer that points to no stack.
pub(super) const NO_FRAME_POINTER: u64 = 0x10;

pub(super) fn frame_pointer(native: &UnwindRegsNative) -> u64 {
    native.fp()
}

pub(super) fn set_frame_pointer(native: &mut UnwindRegsNative, value: u64) {
    native.set_fp(value);
}

/// The return address of a function that has not saved it.
pub(super) fn link_register(native: &UnwindRegsNative) -> Option<u64> {
    Some(native.lr())
}

/// Whether that word is that return address, its authentication code aside.
pub(super) fn is_return_address(word: u64, address: u64) -> bool {
    ADDRESS_BITS.strip_ptr_auth(word) == address
}

/// What a signal handler returns to: `mov x8, #139; svc #0` (`rt_sigreturn`).
pub(super) const SIGNAL_RETURN: &[u8] = &[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];

/// The registers of the code a signal interrupted. The trampoline is in the vdso here, which is
/// no file: the walk ends before this could be asked.
pub(super) fn interrupted(
    _native: &UnwindRegsNative,
    _read: impl FnMut(u64) -> Option<u64>,
) -> Option<Registers> {
    None
}

#[cfg(test)]
pub(super) fn test_registers(ip: u64, sp: u64, fp: u64) -> Registers {
    Registers::new(ip, 0, sp, fp)
}
