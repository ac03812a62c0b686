//! Unwind tables (`.eh_frame`, Linux Standard Base 5, chapter 10; DWARF 5, section 6.4): how the caller's registers are
//! found at one address of code. Read in place, without allocating; what a compiler does not make is refused.

/// Where the canonical frame address is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Stack,
    Frame,
    /// The word at so many bytes from the frame pointer holds it (functions that align their stack).
    AtFrame,
}

/// How to get from a frame to its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `cfa = base + offset` (or `*(base + offset)`), the return address and the frame pointer at so many bytes from it.
    Frame {
        base: Base,
        offset: i32,
        /// `None`: still in its register.
        return_address: Option<i32>,
        /// `None`: still in its register.
        frame_pointer: Option<i32>,
    },
    /// A signal's frame: the registers are in the kernel's record at the stack pointer.
    Signal,
    /// Nobody called this.
    End,
}

/// Numbers of registers in unwind tables (the processors' ABI supplements).
#[cfg(target_arch = "x86_64")]
mod register {
    pub(super) const FRAME: u64 = 6;
    pub(super) const STACK: u64 = 7;
    pub(super) const RETURN: u64 = 16;
}
#[cfg(target_arch = "aarch64")]
mod register {
    pub(super) const FRAME: u64 = 29;
    pub(super) const STACK: u64 = 31;
    pub(super) const RETURN: u64 = 30;
}

/// Pushed and popped states; compilers nest one or two.
const DEEPEST: usize = 8;

/// Reads forward. All tables lie in the module's own read-only segment.
#[derive(Clone, Copy)]
struct Reader {
    at: usize,
    end: usize,
}

impl Reader {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let next = self.at.checked_add(N).filter(|&next| next <= self.end)?;
        // SAFETY: within a table of a loaded module, whose bounds the table itself states.
        let bytes = unsafe { (self.at as *const [u8; N]).read_unaligned() };
        self.at = next;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    fn signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0u32);
        loop {
            let byte = self.u8()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                if byte & 0x40 != 0 && shift < 64 {
                    value |= -1 << shift;
                }
                return Some(value);
            }
        }
    }

    /// A pointer in one of the encodings of `DW_EH_PE`; `data`: what some of them are relative to.
    fn pointer(&mut self, encoding: u8, data: usize) -> Option<usize> {
        if encoding == OMITTED {
            return None;
        }
        let here = self.at;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => u64::from_le_bytes(self.bytes()?) as usize,
            0x01 => self.unsigned()? as usize,
            0x02 => self.u16()?.into(),
            0x03 => self.u32()? as usize,
            0x09 => self.signed()? as usize,
            0x0a => self.u16()? as i16 as usize,
            0x0b => self.u32()? as i32 as usize,
            _ => return None,
        };
        let base = match encoding & 0x70 {
            0x00 => 0,
            0x10 => here,
            0x30 => data,
            _ => return None,
        };
        // An indirect pointer is a personality routine's, which is only skipped.
        Some(base.wrapping_add(value))
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.at = self
            .at
            .checked_add(usize::try_from(bytes).ok()?)
            .filter(|&next| next <= self.end)?;
        Some(())
    }
}

const OMITTED: u8 = 0xff;
/// The only form of the index's table that linkers make: pairs of i32, relative to the index.
const PAIRS: u8 = 0x3b;

/// What the entries of one compilation have in common.
struct Common {
    code_factor: u64,
    data_factor: i64,
    return_register: u64,
    pointers: u8,
    has_augmentation: bool,
    is_signal: bool,
    program: Reader,
}

/// The rule at an address of code, by the index of its module. `None`: there is none, or it is one that is not understood.
///
/// # Safety
/// `index` must be the `.eh_frame_hdr` of a module that is loaded, and stays so meanwhile.
pub(crate) unsafe fn rule(index: usize, address: usize) -> Option<Rule> {
    let entry = find_entry(index, address)?;
    let mut reader = open(entry)?;
    let here = reader.at;
    let distance = reader.u32()? as usize;
    let common = common(here.checked_sub(distance).filter(|_| distance != 0)?)?;
    let begin = reader.pointer(common.pointers, 0)?;
    let bytes = reader.pointer(common.pointers & 0x0f, 0)?;
    if !(begin..begin.checked_add(bytes)?).contains(&address) {
        return None;
    }
    if common.has_augmentation {
        let length = reader.unsigned()?;
        reader.skip(length)?;
    }
    if common.is_signal {
        return Some(Rule::Signal);
    }
    let mut machine = Machine::new(&common);
    machine.run(common.program, usize::MAX)?;
    machine.initial = machine.row;
    machine.run(reader, address - begin)?;
    machine.rule()
}

/// Binary search in the index: the last entry that begins at or before the address.
fn find_entry(index: usize, address: usize) -> Option<usize> {
    let mut reader = Reader {
        at: index,
        end: usize::MAX,
    };
    let [version, frames, count, table] = reader.bytes()?;
    if version != 1 || table != PAIRS {
        return None;
    }
    reader.pointer(frames, index)?;
    let count = reader.pointer(count, index)?;
    let pair = |number: usize| {
        let mut reader = Reader {
            at: reader.at + number * 8,
            end: usize::MAX,
        };
        let mut next = || Some(index.wrapping_add(reader.u32()? as i32 as usize));
        Some((next()?, next()?))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if pair(middle)?.0 <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(pair(low.checked_sub(1)?)?.1)
}

/// A reader of an entry's contents, behind its length.
fn open(entry: usize) -> Option<Reader> {
    let mut reader = Reader {
        at: entry,
        end: usize::MAX,
    };
    let length = reader.u32()?;
    // 0: the end of all; all ones: an entry of more than 4 GiB.
    if length == 0 || length == u32::MAX {
        return None;
    }
    reader.end = reader.at.checked_add(length as usize)?;
    Some(reader)
}

fn common(entry: usize) -> Option<Common> {
    let mut reader = open(entry)?;
    if reader.u32()? != 0 || !matches!(reader.u8()?, 1 | 3) {
        return None;
    }
    let mut letters = [0u8; 8];
    let mut length = 0;
    loop {
        match reader.u8()? {
            0 => break,
            letter => *letters.get_mut(length)? = letter,
        }
        length += 1;
    }
    let mut common = Common {
        code_factor: reader.unsigned()?,
        data_factor: reader.signed()?,
        return_register: reader.unsigned()?,
        pointers: 0,
        has_augmentation: letters[0] == b'z',
        is_signal: false,
        program: reader,
    };
    if common.has_augmentation {
        let bytes = reader.unsigned()?;
        let mut inside = reader;
        reader.skip(bytes)?;
        for letter in &letters[1..length] {
            match letter {
                b'R' => common.pointers = inside.u8()?,
                b'P' => {
                    let encoding = inside.u8()?;
                    inside.pointer(encoding, 0)?;
                }
                b'L' => {
                    inside.u8()?;
                }
                b'S' => common.is_signal = true,
                b'B' => {} // signed return addresses (aarch64): the bits are above the address
                _ => return None,
            }
        }
    } else if length > 0 {
        return None;
    }
    common.program = reader;
    Some(common)
}

/// Where a register of the caller's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where it was.
    Same,
    /// In memory, so many bytes from the frame's address.
    At(i64),
    /// Nowhere.
    Undefined,
    /// Something else.
    Unknown,
}

#[derive(Clone, Copy)]
enum Address {
    Register(u64, i64),
    AtFrame(i64),
    Unknown,
}

/// The rules of one address of code.
#[derive(Clone, Copy)]
struct Row {
    address: Address,
    frame: Place,
    return_address: Place,
}

/// Runs the instructions of an entry up to an address.
struct Machine<'common> {
    common: &'common Common,
    row: Row,
    initial: Row,
    kept: [Row; DEEPEST],
    depth: usize,
}

impl<'common> Machine<'common> {
    fn new(common: &'common Common) -> Self {
        let row = Row {
            address: Address::Unknown,
            frame: Place::Same,
            return_address: Place::Same,
        };
        Self {
            common,
            row,
            initial: row,
            kept: [row; DEEPEST],
            depth: 0,
        }
    }

    fn place(&mut self, register: u64) -> Option<&mut Place> {
        if register == self.common.return_register {
            Some(&mut self.row.return_address)
        } else {
            (register == register::FRAME).then_some(&mut self.row.frame)
        }
    }

    fn set(&mut self, register: u64, value: Place) {
        if let Some(place) = self.place(register) {
            *place = value;
        }
    }

    fn restore(&mut self, register: u64) {
        let (frame, return_address) = (self.initial.frame, self.initial.return_address);
        if register == self.common.return_register {
            self.row.return_address = return_address;
        } else if register == register::FRAME {
            self.row.frame = frame;
        }
    }

    /// Instructions up to the first that is about code beyond `offset`.
    fn run(&mut self, mut reader: Reader, offset: usize) -> Option<()> {
        let mut at = 0usize;
        let data = |value: u64, factor: i64| (value as i64).wrapping_mul(factor);
        let factor = self.common.data_factor;
        while reader.at < reader.end {
            let byte = reader.u8()?;
            let low = u64::from(byte & 0x3f);
            let mut step = None;
            match (byte >> 6, byte & 0x3f) {
                (1, _) => step = Some(low),
                (2, _) => {
                    let value = data(reader.unsigned()?, factor);
                    self.set(low, Place::At(value));
                }
                (3, _) => self.restore(low),
                (_, 0x00) => {}
                (_, 0x02) => step = Some(reader.u8()?.into()),
                (_, 0x03) => step = Some(reader.u16()?.into()),
                (_, 0x04) => step = Some(reader.u32()?.into()),
                (_, 0x05) => {
                    let register = reader.unsigned()?;
                    let value = data(reader.unsigned()?, factor);
                    self.set(register, Place::At(value));
                }
                (_, 0x06) => {
                    let register = reader.unsigned()?;
                    self.restore(register);
                }
                (_, 0x07) => {
                    let register = reader.unsigned()?;
                    self.set(register, Place::Undefined);
                }
                (_, 0x08) => {
                    let register = reader.unsigned()?;
                    self.set(register, Place::Same);
                }
                (_, 0x09) => {
                    let register = reader.unsigned()?;
                    reader.unsigned()?;
                    self.set(register, Place::Unknown);
                }
                (_, 0x0a) => {
                    *self.kept.get_mut(self.depth)? = self.row;
                    self.depth += 1;
                }
                (_, 0x0b) => {
                    self.depth = self.depth.checked_sub(1)?;
                    self.row = self.kept[self.depth];
                }
                (_, 0x0c) => {
                    let register = reader.unsigned()?;
                    self.row.address = Address::Register(register, reader.unsigned()? as i64);
                }
                (_, 0x0d) => {
                    let register = reader.unsigned()?;
                    let Address::Register(_, offset) = self.row.address else {
                        return None;
                    };
                    self.row.address = Address::Register(register, offset);
                }
                (_, 0x0e) => {
                    let value = reader.unsigned()? as i64;
                    self.change_offset(value)?;
                }
                (_, 0x0f) => {
                    let length = reader.unsigned()?;
                    let inside = reader;
                    reader.skip(length)?;
                    self.row.address = expression(Reader {
                        end: reader.at,
                        ..inside
                    });
                }
                (_, 0x10 | 0x16) => {
                    let register = reader.unsigned()?;
                    let length = reader.unsigned()?;
                    reader.skip(length)?;
                    self.set(register, Place::Unknown);
                }
                (_, 0x11) => {
                    let register = reader.unsigned()?;
                    let value = reader.signed()?.wrapping_mul(factor);
                    self.set(register, Place::At(value));
                }
                (_, 0x12) => {
                    let register = reader.unsigned()?;
                    let offset = reader.signed()?.wrapping_mul(factor);
                    self.row.address = Address::Register(register, offset);
                }
                (_, 0x13) => {
                    let value = reader.signed()?.wrapping_mul(factor);
                    self.change_offset(value)?;
                }
                (_, 0x2d) => {} // GNU_window_save, here: the return address is signed or not
                (_, 0x2e) => {
                    reader.unsigned()?; // GNU_args_size
                }
                _ => return None,
            }
            if let Some(step) = step {
                at = at.checked_add((step * self.common.code_factor) as usize)?;
                if at > offset {
                    return Some(());
                }
            }
        }
        Some(())
    }

    fn change_offset(&mut self, offset: i64) -> Option<()> {
        let Address::Register(register, _) = self.row.address else {
            return None;
        };
        self.row.address = Address::Register(register, offset);
        Some(())
    }

    fn rule(&self) -> Option<Rule> {
        let place = |place: Place| match place {
            Place::Same => Some(None),
            Place::At(offset) => Some(Some(i32::try_from(offset).ok()?)),
            Place::Undefined | Place::Unknown => None,
        };
        if self.row.return_address == Place::Undefined {
            return Some(Rule::End);
        }
        let (base, offset) = match self.row.address {
            Address::Register(register::STACK, offset) => (Base::Stack, offset),
            Address::Register(register::FRAME, offset) => (Base::Frame, offset),
            Address::AtFrame(offset) => (Base::AtFrame, offset),
            Address::Register(..) | Address::Unknown => return None,
        };
        debug_assert_eq!(self.common.return_register, register::RETURN);
        Some(Rule::Frame {
            base,
            offset: i32::try_from(offset).ok()?,
            return_address: place(self.row.return_address)?,
            frame_pointer: place(self.row.frame)?,
        })
    }
}

/// `*(frame pointer + n)`, which functions that align their stack have; nothing else occurs in code that calls.
fn expression(mut reader: Reader) -> Address {
    const BREG: u8 = 0x70;
    const DEREF: u8 = 0x06;
    let mut read = || {
        let register = u64::from(reader.u8()?.checked_sub(BREG)?);
        let offset = reader.signed()?;
        let is_simple =
            register == register::FRAME && reader.u8()? == DEREF && reader.at == reader.end;
        is_simple.then_some(offset)
    };
    read().map_or(Address::Unknown, Address::AtFrame)
}
