//! Instructions of the program that met an alignment they ask for and our objects do not have, rewritten in place.

use std::ffi::c_int;

use libc::ucontext_t;

use crate::careful;
use crate::heap;
use crate::instruction;
use crate::page;
use crate::sandbox;
use crate::system;

/// Rewrites an aligned move of a vector that met one of our objects, whose alignment its size does not ask for.
pub(crate) fn repair(context: &ucontext_t) -> bool {
    let instruction = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    let code = code_at(instruction);
    let Some((at, byte)) = instruction::unaligned_twin(&code) else {
        return false;
    };
    let address = instruction::operand_address(&code, |number| register(context, number));
    let is_ours = address.is_some_and(|address| heap::look(address).is_some());
    is_ours && write_code(instruction + at, byte)
}

/// Writes a byte of the program's code, which nobody runs half-written: it is one byte. A copy of the page becomes the process's
/// own, the file stays as it is.
fn write_code(address: usize, byte: u8) -> bool {
    // What a program compiles for itself may be writable.
    careful::write(address, byte)
        || !sandbox::is_in() && write_by_kernel(address, byte)
        || write_unprotected(address, byte)
}

/// The kernel writes where code is not writable.
fn write_by_kernel(address: usize, byte: u8) -> bool {
    use libc::c_long;
    // SAFETY: the path is a C string, the buffer a byte; the descriptor is closed once.
    unsafe {
        let file = libc::syscall(
            libc::SYS_openat,
            c_long::from(libc::AT_FDCWD),
            c"/proc/self/mem".as_ptr(),
            c_long::from(libc::O_RDWR | libc::O_CLOEXEC),
        );
        if file < 0 {
            return false;
        }
        let written = libc::syscall(
            libc::SYS_pwrite64,
            file,
            &raw const byte,
            1 as c_long,
            address,
        );
        libc::syscall(libc::SYS_close, file);
        written == 1
    }
}

/// Where the kernel does not (a sandbox, no `/proc`), the page is writable for a moment.
fn write_unprotected(address: usize, byte: u8) -> bool {
    let page = page::floor(address);
    let is_written =
        system::protect_code(page, page::bytes(), true) && careful::write(address, byte);
    is_written && system::protect_code(page, page::bytes(), false)
}

/// The bytes of an instruction, as far as they can be read; the rest is zeros.
pub(crate) fn code_at(address: usize) -> [u8; instruction::LONGEST] {
    let mut code = [0u8; instruction::LONGEST];
    let bytes = careful::read(&mut code, address);
    code[bytes..].fill(0);
    code
}

/// A register by its number in instructions.
fn register(context: &ucontext_t, number: u8) -> usize {
    const PLACES: [c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    let place = PLACES[usize::from(number & 15)];
    context.uc_mcontext.gregs[place as usize] as usize
}
