//! Which rules the recognized call paths begin with.

use std::collections::HashMap;
use std::path::PathBuf;

use pagewise_abi::plan::PlanAction;
use pagewise_abi::plan::PlanFrame;
use pagewise_abi::plan::PlanReadahead;
use pagewise_abi::plan::PlanView;
use pagewise_collect::io_record::Wish;
use pagewise_trace::StackFrame;

/// Paths by their numbers.
pub(super) struct Contexts<'plan> {
    view: PlanView<'plan>,
    /// The file of each module of the plan.
    modules: Vec<Option<String>>,
    rules_of: HashMap<u32, u64>,
}

impl<'plan> Contexts<'plan> {
    /// `files`: what is mapped in the processes, by name.
    pub(super) fn new(
        view: PlanView<'plan>,
        files: &std::collections::BTreeMap<String, PathBuf>,
    ) -> Self {
        let path_of = |index| {
            let name = String::from_utf8_lossy(view.module(index).name).into_owned();
            files.get(&name).map(|path| path.display().to_string())
        };
        Self {
            modules: (0..view.modules()).map(path_of).collect(),
            view,
            rules_of: HashMap::new(),
        }
    }

    /// The rules that a path begins with, a bit each; `None`: it is not known.
    pub(super) fn rules(&self, path: u32) -> Option<u64> {
        self.rules_of.get(&path).copied()
    }

    /// A new path: its frames, innermost first. Returns what is wished of its calls.
    pub(super) fn learn(&mut self, path: u32, frames: &[StackFrame]) -> Wish {
        let frames = frames.iter().filter_map(|frame| {
            let module = frame.module.as_ref()?;
            let is_it = |known: &Option<String>| known.as_ref() == Some(module);
            Some(PlanFrame {
                module: self.modules.iter().position(is_it)? as u32,
                address: frame.module_offset?,
            })
        });
        let frames: Vec<PlanFrame> = frames.collect();
        let matches = |&index: &usize| {
            let rule = self.view.rule(index);
            rule.frames as usize <= frames.len()
                && self
                    .view
                    .frames(&rule)
                    .eq(frames.iter().copied().take(rule.frames as usize))
        };
        let rules = (0..self.view.rules()).filter(matches);
        let rules: Vec<usize> = rules.collect();
        let bits = rules.iter().fold(0, |bits, index| bits | 1u64 << index);
        self.rules_of.insert(path, bits);
        match rules.iter().any(|&index| self.is_urgent(index)) {
            _ if bits == 0 => Wish::Nothing,
            true => Wish::AtOnce,
            false => Wish::ByVolume,
        }
    }

    /// Of short calls, the next one may come soon, and differ.
    fn is_urgent(&self, index: usize) -> bool {
        let rule = self.view.rule(index);
        let is_random = self.view.readahead(&rule) == Some(PlanReadahead::Random);
        self.view.action(&rule) == PlanAction::IoWillNeed || is_random
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_abi::plan as wire;

    fn frame(depth: u16, module: &str, offset: u64) -> StackFrame {
        StackFrame {
            stack: 1,
            depth,
            address: 0x7000 + offset,
            module: Some(module.to_owned()),
            module_offset: Some(offset),
            truncated: false,
        }
    }

    fn plan() -> Vec<u8> {
        let rule = |first_frame, frames, action: wire::PlanAction| wire::PlanRule {
            action: action as u32,
            first_frame,
            frames,
            ..wire::PlanRule::default()
        };
        let at = |address| PlanFrame { module: 0, address };
        let parts = wire::PlanParts {
            sizes: wire::PlanSizes {
                limit_bytes: 0,
                lock_bytes: 0,
                fresh: 0,
            },
            modules: &[wire::PlanModule {
                name: b"scan",
                build_id: b"",
            }],
            frames: &[at(0x100), at(0x100), at(0x200)],
            ranges: &[],
            rules: &[
                rule(0, 1, wire::PlanAction::IoDrop),
                rule(1, 2, wire::PlanAction::IoWillNeed),
            ],
            patterns: &[],
            headway: &[],
        };
        let mut bytes = Vec::new();
        parts.encode(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    #[test]
    fn frames_of_modules_that_no_rule_names_do_not_count() {
        let bytes = plan();
        let view = PlanView::decode(&bytes).expect("well formed");
        let files = [("scan".to_owned(), PathBuf::from("/usr/bin/scan"))];
        let mut contexts = Contexts::new(view, &files.into());
        let inner = frame(0, "/lib/libc.so.6", 0x5);
        let scan = |depth, offset| frame(depth, "/usr/bin/scan", offset);
        let mut wish = |path, frames: &[StackFrame]| {
            let wish = contexts.learn(path, frames);
            (wish, contexts.rules(path))
        };
        assert_eq!(
            wish(1, &[inner.clone(), scan(1, 0x100), scan(2, 0x900)]),
            (Wish::ByVolume, Some(0b01))
        );
        assert_eq!(
            wish(
                2,
                &[inner.clone(), scan(1, 0x100), inner.clone(), scan(3, 0x200)]
            ),
            (Wish::AtOnce, Some(0b11))
        );
        assert_eq!(
            wish(3, std::slice::from_ref(&inner)),
            (Wish::Nothing, Some(0))
        );
        // Another file of that name.
        let other = frame(0, "/tmp/scan", 0x100);
        assert_eq!(wish(4, &[other]), (Wish::Nothing, Some(0)));
        assert_eq!(contexts.rules(5), None);
    }
}
