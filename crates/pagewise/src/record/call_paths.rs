//! Stacks as copied by the preloaded library, unwound and numbered: equal call paths are stored once.

use std::collections::HashMap;
use std::sync::Arc;

use pagewise_abi as abi;
use pagewise_attribute::ElfCache;
use pagewise_attribute::Mapping;
use pagewise_attribute::ModuleTable;
use pagewise_attribute::unwind::CallPath;
use pagewise_attribute::unwind::ProcessUnwinder;
use pagewise_attribute::unwind::UnwindCache;
use pagewise_attribute::unwind::arch::Registers;
use pagewise_trace::StackFrame;

/// Equal in this, equal in names: modules may lie elsewhere in each process.
type Key = Vec<(Option<Arc<str>>, u64)>;

#[derive(Default)]
pub(super) struct CallPaths {
    elf: ElfCache,
    unwind: UnwindCache,
    processes: HashMap<u32, Process>,
    numbers: HashMap<Key, u32>,
}

struct Process {
    modules: Arc<ModuleTable>,
    unwinder: ProcessUnwinder,
}

impl CallPaths {
    /// This is mapped in that process from now on.
    pub(super) fn set_mappings(&mut self, pid: u32, mappings: &[Mapping]) {
        let modules = Arc::new(ModuleTable::new(mappings, &mut self.elf));
        let unwinder = ProcessUnwinder::new(Arc::clone(&modules));
        self.processes.insert(pid, Process { modules, unwinder });
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// The number of an allocation's call path, and its rows if it is new. `None`: that process's modules are unknown.
    pub(super) fn number(
        &mut self,
        pid: u32,
        allocation: &abi::Allocation<'_>,
    ) -> Option<(u32, Vec<StackFrame>)> {
        let process = self.processes.get_mut(&pid)?;
        let [instruction, stack, frame] = allocation.registers;
        let registers = Registers::new(instruction, stack, frame);
        let path = process
            .unwinder
            .walk(&registers, allocation.stack, &mut self.unwind);
        let addresses: Vec<u64> = std::iter::once(instruction)
            .chain(path.return_addresses.iter().copied())
            .collect();
        let key: Key = addresses
            .iter()
            .map(|&address| place(&process.modules, address))
            .collect();
        if let Some(&number) = self.numbers.get(&key) {
            return Some((number, Vec::new()));
        }
        let number = self.numbers.len() as u32;
        let rows = rows(number, &addresses, &key, &path);
        self.numbers.insert(key, number);
        Some((number, rows))
    }
}

fn place(modules: &ModuleTable, address: u64) -> (Option<Arc<str>>, u64) {
    match modules.find(address) {
        Some(module) => (Some(Arc::clone(&module.path)), module.svma(address)),
        None => (None, address),
    }
}

fn rows(stack: u32, addresses: &[u64], key: &Key, path: &CallPath) -> Vec<StackFrame> {
    let frames = addresses.iter().zip(key).enumerate();
    frames
        .map(|(depth, (&address, (module, offset)))| StackFrame {
            stack,
            depth: depth as u16,
            address,
            module: module.as_deref().map(str::to_owned),
            module_offset: module.is_some().then_some(*offset),
            truncated: path.is_truncated(),
        })
        .collect()
}
