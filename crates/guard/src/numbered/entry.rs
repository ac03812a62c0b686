//! Where a call by its number comes in, and how it goes on to the kernel, for each processor.

use std::ffi::c_long;

use super::calls::Arguments;
use super::calls::MOST_NUMBERS;
use super::calls::WHICH;
use super::looked_at;
use super::plain;

/// A jump, so that it is seen as the function that it stands for, which takes any number of arguments: calls of which nothing is
/// looked at go to the kernel at once.
///
/// # Safety
/// As syscall(2).
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        "cmp rdi, {most}",
        "jae 2f",
        "lea rax, [rip + {which}]",
        "cmp byte ptr [rax + rdi], 0",
        "jne {looked_at}",
        "2:",
        "jmp {plain}",
        most = const MOST_NUMBERS,
        which = sym WHICH,
        looked_at = sym looked_at,
        plain = sym plain,
    );
}

/// As on the other processor.
///
/// # Safety
/// As syscall(2).
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        "cmp x0, #{most}",
        "b.hs 2f",
        "adrp x9, {which}",
        "add x9, x9, :lo12:{which}",
        "ldrb w9, [x9, x0]",
        "cbz w9, 2f",
        "b {looked_at}",
        "2:",
        "b {plain}",
        most = const MOST_NUMBERS,
        which = sym WHICH,
        looked_at = sym looked_at,
        plain = sym plain,
    );
}

/// Makes the call. What is between -4095 and -1 is an error.
///
/// # Safety
/// As syscall(2).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn enter_kernel(number: c_long, arguments: &Arguments) -> isize {
    let mut result = number as isize;
    // SAFETY: by our caller; the kernel keeps all registers but these three.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// As on the other processor.
///
/// # Safety
/// As syscall(2).
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) unsafe fn enter_kernel(number: c_long, arguments: &Arguments) -> isize {
    let mut result = arguments[0] as isize;
    // SAFETY: by our caller; the kernel keeps all registers but the first.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}
