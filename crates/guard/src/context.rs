//! What the kernel passes a handler of the thread that it interrupted, and the instruction that this was at, for each processor.

use libc::ucontext_t;
use pagewise_abi::guard::Access;
use pagewise_interpose::Registers;

#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
pub(crate) use processor::access_bytes;
pub(crate) use processor::access_of;
pub(crate) use processor::instruction;
pub(crate) use processor::registers_of;
pub(crate) use processor::repaired;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::ffi::c_int;

    use super::*;
    use crate::repair;

    /// Where the thread goes on.
    pub(crate) fn instruction(context: &mut ucontext_t) -> &mut i64 {
        &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
    }

    pub(crate) fn registers_of(context: &ucontext_t) -> Registers {
        let value = |number: c_int| context.uc_mcontext.gregs[number as usize] as usize;
        Registers {
            instruction: value(libc::REG_RIP),
            stack: value(libc::REG_RSP),
            frame: value(libc::REG_RBP),
        }
    }

    /// Bit 1 of the processor's error code: it was a write.
    pub(crate) fn access_of(context: &ucontext_t) -> Access {
        match context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 {
            0 => Access::Read,
            _ => Access::Write,
        }
    }

    /// Bytes that the instruction at an address accesses, where that is known.
    pub(crate) fn access_bytes(instruction: usize) -> Option<u32> {
        crate::instruction::access_bytes(&repair::code_at(instruction))
    }

    /// Whether the instruction that faulted was rewritten and is to be run again.
    pub(crate) fn repaired(context: &ucontext_t) -> bool {
        repair::repair(context)
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::*;

    /// As on the other processor.
    pub(crate) fn instruction(context: &mut ucontext_t) -> &mut u64 {
        &mut context.uc_mcontext.pc
    }

    pub(crate) fn registers_of(context: &ucontext_t) -> Registers {
        Registers {
            instruction: context.uc_mcontext.pc as usize,
            stack: context.uc_mcontext.sp as usize,
            frame: context.uc_mcontext.regs[29] as usize,
        }
    }

    /// Bit 6 of the syndrome, which the kernel adds to the context (`struct esr_context`, `asm/sigcontext.h`). An emulator may
    /// not: then it is told as a read.
    pub(crate) fn access_of(context: &ucontext_t) -> Access {
        const ESR_MAGIC: u32 = 0x4553_5201;
        const RECORDS: usize = (std::mem::offset_of!(libc::mcontext_t, pstate) + size_of::<u64>())
            .next_multiple_of(16);
        const BYTES: usize = 4096;
        const HEAD: usize = 2 * size_of::<u32>();
        let begin = (&raw const context.uc_mcontext).cast::<u8>();
        let mut at = RECORDS;
        while at + HEAD + size_of::<u64>() <= RECORDS + BYTES {
            // SAFETY: records of the kernel's, each with its length, in the context's reserved part of so many bytes.
            let (magic, bytes, syndrome) = unsafe {
                let record = begin.add(at).cast::<u32>();
                let syndrome = record.add(2).cast::<u64>().read_unaligned();
                (*record, *record.add(1) as usize, syndrome)
            };
            match magic {
                ESR_MAGIC if syndrome & 1 << 6 != 0 => return Access::Write,
                ESR_MAGIC | 0 => break,
                _ => at += bytes.max(HEAD),
            }
        }
        Access::Read
    }

    /// Instructions of this processor are not looked at.
    pub(crate) fn access_bytes(_instruction: usize) -> Option<u32> {
        None
    }

    /// This processor asks for no alignment of vectors.
    pub(crate) fn repaired(_context: &ucontext_t) -> bool {
        false
    }
}
