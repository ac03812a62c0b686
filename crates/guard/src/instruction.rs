//! The instruction at which a fault happened: how much it accesses; and aligned moves of vectors, which compilers make of
//! what `malloc` promises, rewritten as the unaligned ones of the same length.

/// Longest instruction of x86-64, bytes.
pub(crate) const LONGEST: usize = 15;

/// What was found out about an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decoded {
    /// Mandatory prefix as in VEX: 0 none, 1 66, 2 F3, 3 F2.
    prefix: u8,
    /// Where that is encoded: a byte of a legacy prefix, or the byte with VEX's two bits.
    prefix_at: Option<usize>,
    is_vector_encoding: bool,
    /// 64-bit operands.
    is_wide: bool,
    /// Bytes of a vector register.
    vector: u32,
    /// 0: one byte; 1: behind 0F; 2 and 3: behind 0F 38 and 0F 3A.
    map: u8,
    opcode: u8,
    opcode_at: usize,
    /// The high bits of the registers of an address: index, base.
    index_high: u8,
    base_high: u8,
}

fn decode(code: &[u8]) -> Option<Decoded> {
    let mut found = Decoded {
        prefix: 0,
        prefix_at: None,
        is_vector_encoding: false,
        is_wide: false,
        vector: 16,
        map: 0,
        opcode: 0,
        opcode_at: 0,
        index_high: 0,
        base_high: 0,
    };
    let mut at = 0;
    loop {
        let prefix = match code.get(at)? {
            0x66 => 1,
            0xf3 => 2,
            0xf2 => 3,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 | 0xf0 => {
                at += 1;
                continue;
            }
            _ => break,
        };
        // F2 and F3 count before 66.
        if prefix > found.prefix || found.prefix == 0 {
            (found.prefix, found.prefix_at) = (prefix, Some(at));
        }
        at += 1;
    }
    let byte = |at: usize| code.get(at).copied();
    match byte(at)? {
        0xc5 => {
            let second = byte(at + 1)?;
            found.vex(at + 1, second, 1);
            found.opcode_at = at + 2;
        }
        0xc4 => {
            let (second, third) = (byte(at + 1)?, byte(at + 2)?);
            found.vex(at + 2, third, second & 0x1f);
            found.index_high = !second >> 6 & 1;
            found.base_high = !second >> 5 & 1;
            found.is_wide = third & 0x80 != 0;
            found.opcode_at = at + 3;
        }
        0x62 => {
            let (second, third, fourth) = (byte(at + 1)?, byte(at + 2)?, byte(at + 3)?);
            found.vex(at + 2, third, second & 0x07);
            found.vector = 16 << (fourth >> 5 & 3).min(2);
            found.index_high = !second >> 6 & 1;
            found.base_high = !second >> 5 & 1;
            found.is_wide = third & 0x80 != 0;
            found.opcode_at = at + 4;
        }
        first => {
            if first & 0xf0 == 0x40 {
                found.is_wide = first & 8 != 0;
                found.index_high = first >> 1 & 1;
                found.base_high = first & 1;
                at += 1;
            }
            if byte(at)? == 0x0f {
                at += 1;
                found.map = match byte(at)? {
                    0x38 => 2,
                    0x3a => 3,
                    _ => 1,
                };
                at += usize::from(found.map > 1);
            }
            found.opcode_at = at;
        }
    }
    found.opcode = byte(found.opcode_at)?;
    Some(found)
}

impl Decoded {
    fn vex(&mut self, at: usize, byte: u8, map: u8) {
        self.is_vector_encoding = true;
        self.prefix = byte & 3;
        self.prefix_at = Some(at);
        self.vector = if byte & 4 != 0 { 32 } else { 16 };
        self.map = map;
    }

    fn operand(&self) -> u32 {
        match (self.is_wide, self.prefix) {
            (true, _) => 8,
            (false, 1) => 2,
            _ => 4,
        }
    }
}

/// Bytes that the instruction accesses at a time, of those that are common; `None`: unknown.
pub(crate) fn access_bytes(code: &[u8]) -> Option<u32> {
    let found = decode(code)?;
    match found.map {
        0 => one_byte_opcode(&found, code.get(found.opcode_at + 1).copied()),
        1 => two_byte_opcode(&found),
        2 if found.is_vector_encoding || found.prefix == 1 => match found.opcode {
            0x78 => Some(1),
            0x79 => Some(2),
            0x18 | 0x58 => Some(4),
            0x19 | 0x59 => Some(8),
            0x1a | 0x5a => Some(16),
            // They widen as many elements as there is room for: a half, a quarter or less.
            0x20..=0x35 => None,
            // Of general registers (andn, bzhi, pdep, shlx); movbe without VEX.
            0xf0..=0xf7 if !found.is_vector_encoding => None,
            0xf2..=0xf7 => Some(if found.is_wide { 8 } else { 4 }),
            _ => Some(found.vector),
        },
        _ => None,
    }
}

/// `form`: the byte behind the opcode.
fn one_byte_opcode(found: &Decoded, form: Option<u8>) -> Option<u32> {
    match found.opcode {
        // Arithmetic: the even ones of each row are of a byte.
        opcode @ 0x00..=0x3b if opcode & 7 < 4 => {
            Some(if opcode & 1 == 0 { 1 } else { found.operand() })
        }
        0x63 => Some(4),
        0x69 | 0x6b => Some(found.operand()),
        opcode @ (0x80..=0x8b
        | 0xa4..=0xa7
        | 0xaa..=0xaf
        | 0xc0
        | 0xc1
        | 0xc6
        | 0xc7
        | 0xd0..=0xd3
        | 0xf6
        | 0xf7
        | 0xfe) => Some(if opcode & 1 == 0 { 1 } else { found.operand() }),
        0x8f => Some(8),
        0xff => match form? >> 3 & 7 {
            // inc, dec.
            0 | 1 => Some(found.operand()),
            // call, jmp, push; others are far.
            2 | 4 | 6 => Some(8),
            _ => None,
        },
        _ => None,
    }
}

fn two_byte_opcode(found: &Decoded) -> Option<u32> {
    let scalar = match found.prefix {
        2 => Some(4),
        3 => Some(8),
        _ => None,
    };
    match found.opcode {
        0xb6 | 0xbe | 0xb0 | 0xc0 | 0x90..=0x9f => Some(1),
        0xb7 | 0xbf => Some(2),
        0x40..=0x4f | 0xaf | 0xb1 | 0xc1 | 0xa3 | 0xab | 0xb3 | 0xbb | 0xb8 | 0xbc | 0xbd => {
            Some(found.operand())
        }
        0x12 | 0x13 | 0x16 | 0x17 | 0xd6 => Some(8),
        0x6e => Some(if found.is_wide { 8 } else { 4 }),
        0x7e if found.prefix == 2 => Some(8),
        0x7e => Some(if found.is_wide { 8 } else { 4 }),
        0x10 | 0x11 | 0x2a | 0x2c | 0x2d | 0x51..=0x5f => Some(scalar.unwrap_or(found.vector)),
        0x6f | 0x7f if found.prefix == 0 && !found.is_vector_encoding => Some(8),
        0x14 | 0x15 | 0x28 | 0x29 | 0x2b | 0x60..=0x7f | 0xd0..=0xfe => Some(found.vector),
        _ => None,
    }
}

/// The byte of an aligned vector move that makes it an unaligned one, and its new value. `None`: it is no such move.
pub(crate) fn unaligned_twin(code: &[u8]) -> Option<(usize, u8)> {
    let found = decode(code)?;
    if found.map != 1 {
        return None;
    }
    match (found.opcode, found.prefix) {
        // movaps, movapd to movups, movupd.
        (0x28, 0 | 1) => Some((found.opcode_at, 0x10)),
        (0x29 | 0x2b, 0 | 1) => Some((found.opcode_at, 0x11)),
        // movdqa to movdqu: another prefix.
        (0x6f | 0x7f, 1) => {
            let at = found.prefix_at?;
            let byte = match found.is_vector_encoding {
                true => code.get(at)? & !3 | 2,
                false => 0xf3,
            };
            Some((at, byte))
        }
        _ => None,
    }
}

/// The address that an instruction's memory operand has. `register`: the values of registers by their numbers; 16: of the
/// instruction pointer. `None`: it has none, or one relative to a segment.
pub(crate) fn operand_address(code: &[u8], register: impl Fn(u8) -> usize) -> Option<usize> {
    let found = decode(code)?;
    let mut at = found.opcode_at + 1;
    let mut next = || {
        let byte = code.get(at).copied();
        at += 1;
        byte
    };
    let form = next()?;
    let (mode, low) = (form >> 6, form & 7);
    let mut address = match (mode, low) {
        (3, _) | (0, 5) => return None,
        (_, 4) => {
            let scaled = next()?;
            let (index, base) = (scaled >> 3 & 7 | found.index_high << 3, scaled & 7);
            let mut address = 0usize;
            if index != 4 {
                address = register(index) << (scaled >> 6);
            }
            if base == 5 && mode == 0 {
                let bytes = [next()?, next()?, next()?, next()?];
                return Some(address.wrapping_add(i32::from_le_bytes(bytes) as usize));
            }
            address.wrapping_add(register(base | found.base_high << 3))
        }
        _ => register(low | found.base_high << 3),
    };
    match mode {
        1 => address = address.wrapping_add(next()? as i8 as usize),
        2 => {
            let bytes = [next()?, next()?, next()?, next()?];
            address = address.wrapping_add(i32::from_le_bytes(bytes) as usize);
        }
        _ => {}
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_accesses_are_those_of_the_manual() {
        for (code, bytes) in [
            (&[0x8au8, 0x07][..], Some(1)),                    // mov al, [rdi]
            (&[0x66, 0x89, 0x07], Some(2)),                    // mov [rdi], ax
            (&[0x8b, 0x07], Some(4)),                          // mov eax, [rdi]
            (&[0x48, 0x89, 0x07], Some(8)),                    // mov [rdi], rax
            (&[0x41, 0xc6, 0x00, 0x41], Some(1)),              // mov byte [r8], 65
            (&[0x0f, 0xb6, 0x07], Some(1)),                    // movzx eax, byte [rdi]
            (&[0x48, 0x0f, 0xbf, 0x07], Some(2)),              // movsx rax, word [rdi]
            (&[0x48, 0x63, 0x07], Some(4)),                    // movsxd rax, [rdi]
            (&[0x0f, 0x11, 0x07], Some(16)),                   // movups [rdi], xmm0
            (&[0xf3, 0x0f, 0x10, 0x07], Some(4)),              // movss xmm0, [rdi]
            (&[0xf2, 0x0f, 0x58, 0x07], Some(8)),              // addsd xmm0, [rdi]
            (&[0xc5, 0xfe, 0x6f, 0x07], Some(32)),             // vmovdqu ymm0, [rdi]
            (&[0x62, 0xf1, 0x7f, 0x48, 0x6f, 0x07], Some(64)), // vmovdqu8 zmm0, [rdi]
            (&[0xf3, 0xa4], Some(1)),                          // rep movsb
            (&[0xff, 0x07], Some(4)),                          // inc dword [rdi]
            (&[0x48, 0xff, 0x0f], Some(8)),                    // dec qword [rdi]
            (&[0xff, 0x17], Some(8)),                          // call [rdi]
            (&[0xff, 0x20], Some(8)),                          // jmp [rax]
            (&[0xff, 0x37], Some(8)),                          // push qword [rdi]
            (&[0xff, 0x1f], None),                             // call far [rdi]
            (&[0xc4, 0xe2, 0x78, 0xf5, 0x07], Some(4)),        // bzhi eax, [rdi], eax
            (&[0xc4, 0xe2, 0xf9, 0xf7, 0x07], Some(8)),        // shlx rax, [rdi], rax
            (&[0x66, 0x0f, 0x38, 0x30, 0x07], None),           // pmovzxbw xmm0, [rdi]
            (&[0xc4, 0xe2, 0x7d, 0x35, 0x07], None),           // vpmovzxdq ymm0, [rdi]
            (&[0x0f, 0x05], None),                             // syscall
            (&[], None),
        ] {
            assert_eq!(access_bytes(code), bytes, "{code:x?}");
        }
    }

    #[test]
    fn aligned_moves_have_their_twins() {
        for (code, twin) in [
            (&[0x0fu8, 0x28, 0x07][..], Some((1, 0x10))), // movaps xmm0, [rdi]
            (&[0x66, 0x0f, 0x29, 0x07], Some((2, 0x11))), // movapd [rdi], xmm0
            (&[0x66, 0x0f, 0x6f, 0x07], Some((0, 0xf3))), // movdqa xmm0, [rdi]
            (&[0x66, 0x41, 0x0f, 0x7f, 0x00], Some((0, 0xf3))), // movdqa [r8], xmm0
            (&[0xc5, 0xf9, 0x6f, 0x07], Some((1, 0xfa))), // vmovdqa to vmovdqu
            (&[0xc5, 0xf8, 0x29, 0x07], Some((2, 0x11))), // vmovaps [rdi], xmm0
            (&[0xf3, 0x0f, 0x6f, 0x07], None),            // movdqu already
            (&[0x66, 0x0f, 0xfe, 0x07], None),            // paddd xmm0, [rdi]: has none
        ] {
            assert_eq!(unaligned_twin(code), twin, "{code:x?}");
        }
    }

    #[test]
    fn addresses_of_operands_are_computed() {
        let register = |number: u8| 0x1000 * (usize::from(number) + 1);
        for (code, address) in [
            (&[0x0fu8, 0x28, 0x07][..], Some(0x8000)),       // [rdi]
            (&[0x0f, 0x28, 0x47, 0xf8], Some(0x7ff8)),       // [rdi - 8]
            (&[0x41, 0x0f, 0x29, 0x40, 0x10], Some(0x9010)), // [r8 + 16]
            (&[0x0f, 0x28, 0x04, 0x8b], Some(0x4000 + 0x2000 * 4)), // [rbx + rcx * 4]
            (&[0x0f, 0x28, 0x04, 0x24], Some(0x5000)),       // [rsp]
            (&[0x0f, 0x28, 0xc1], None),                     // a register
            (&[0x0f, 0x28, 0x05, 0, 0, 0, 0], None),         // [rip]
        ] {
            assert_eq!(operand_address(code, register), address, "{code:x?}");
        }
    }
}
