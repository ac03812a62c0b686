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

/// A frame pointer that points to no stack.
pub(super) const NO_FRAME_POINTER: u64 = 0x10;

pub(super) fn frame_pointer(native: &UnwindRegsNative) -> u64 {
    native.bp()
}

pub(super) fn set_frame_pointer(native: &mut UnwindRegsNative, value: u64) {
    native.set_bp(value);
}

/// The return address of a function that has not saved it: always on the stack here.
pub(super) fn link_register(_native: &UnwindRegsNative) -> Option<u64> {
    None
}

/// Whether that word is that return address.
pub(super) fn is_return_address(word: u64, address: u64) -> bool {
    word == address
}

/// What a signal handler returns to: `mov $15, %rax; syscall` (`rt_sigreturn`), in the C library.
pub(super) const SIGNAL_RETURN: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// The registers of the code a signal interrupted, from the frame the kernel laid down
/// (`struct rt_sigframe`, Linux `arch/x86/include/asm/sigframe.h`; `struct ucontext` begins at
/// the stack pointer once the handler has returned).
pub(super) fn interrupted(
    native: &UnwindRegsNative,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Option<Registers> {
    // uc_flags, uc_link and uc_stack come before the registers r8 to r15, rdi and rsi.
    const RBP: u64 = 40 + 10 * 8;
    const RSP: u64 = RBP + 5 * 8;
    const RIP: u64 = RSP + 8;
    let mut register = |offset| read(native.sp().checked_add(offset)?);
    Some(Registers {
        ip: register(RIP)?,
        sp: register(RSP)?,
        bp: register(RBP)?,
    })
}

#[cfg(test)]
pub(super) fn test_registers(ip: u64, sp: u64, bp: u64) -> Registers {
    Registers::new(ip, sp, bp)
}
