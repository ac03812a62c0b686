//! Which variable of a statement is which: `allocate (a(n), b(n))` of Fortran asks for memory twice on one line, and its debug information
//! gives all calls the same column, that of its end.
//!
//! A copy of the procedure in one that calls it has calls of its own: statements are told apart by their callers, too.
//!
//! It asks in turn, and compilers leave the calls in that order (gfortran 12 from `-O0` to `-O3`: what leaves the way in between is an error's). So
//! where as many calls were seen as there are variables, each is that of its place.

use super::Site;
use super::syntax::Grammar;
use crate::frame::Frame;
use std::collections::{BTreeSet, HashMap};

/// Which statement it is.
type Statement = (Site, String, Vec<Caller>);

/// Function and line of a frame further out.
type Caller = (Option<String>, Option<u32>);

/// A site with a name for several, and its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTurn {
    /// Its name is that of one variable once it is told which.
    pub site: Site,
    /// The file that holds the code of the call.
    module: String,
    /// Where the call returns to in it.
    address: u64,
    callers: Vec<Caller>,
}

impl InTurn {
    /// If a site is one of several of its statement, and it is known which call it is. `path`: the frames that it was named by.
    #[must_use]
    pub fn of(site: &Site, path: &[Frame]) -> Option<Self> {
        let frame = path.get(site.frame_index)?;
        let callers = path[site.frame_index + 1..].iter();
        Some(Self {
            site: Self::is_meant(site).then(|| site.clone())?,
            module: frame.module.clone()?,
            address: frame.module_offset?,
            callers: callers
                .map(|caller| (caller.function.clone(), caller.line))
                .collect(),
        })
    }

    /// Whether a site's name is one of several that are given memory in turn.
    fn is_meant(site: &Site) -> bool {
        let has_several = site.name.as_deref().is_some_and(|name| name.contains('|'));
        let grammar = site.file.as_deref().and_then(Grammar::of);
        has_several && matches!(grammar, Some(Grammar::Fortran(_)))
    }

    fn statement(&self) -> Statement {
        // Which frame it is depends on what was called within.
        let site = Site {
            frame_index: 0,
            ..self.site.clone()
        };
        (site, self.module.clone(), self.callers.clone())
    }
}

/// Gives each its own variable's name where that can be told; the others keep theirs.
pub fn name_in_turn(sites: &mut [InTurn]) {
    let mut calls: HashMap<Statement, BTreeSet<u64>> = HashMap::new();
    for site in &*sites {
        calls
            .entry(site.statement())
            .or_default()
            .insert(site.address);
    }
    for one in sites {
        let statement = one.statement();
        let addresses = &calls[&statement];
        let names = one.site.name.clone().unwrap_or_default();
        let names: Vec<&str> = names.split('|').collect();
        if names.len() == addresses.len() {
            let place = addresses.range(..one.address).count();
            one.site.name = Some(names[place].to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(file: &str, name: &str, address: u64) -> InTurn {
        InTurn {
            site: Site {
                name: Some(name.to_owned()),
                file: Some(file.to_owned()),
                line: Some(6),
                ..Site::default()
            },
            module: "heat".to_owned(),
            address,
            callers: Vec::new(),
        }
    }

    fn named(mut sites: Vec<InTurn>) -> Vec<String> {
        name_in_turn(&mut sites);
        let names = sites.into_iter().map(|one| one.site.name);
        names.collect::<Option<_>>().unwrap_or_default()
    }

    #[test]
    fn calls_are_named_in_the_order_of_their_code() {
        let sites = [30, 10, 20, 10].map(|address| site("heat.f90", "a|b%x|c", address));
        assert_eq!(named(sites.to_vec()), ["c", "a", "b%x", "a"]);
    }

    #[test]
    fn where_one_is_missing_or_too_many_none_is_told() {
        let two = [10, 20].map(|address| site("heat.f90", "a|b|c", address));
        assert_eq!(named(two.to_vec()), ["a|b|c", "a|b|c"]);
        let four = [1, 2, 3, 4].map(|address| site("heat.f90", "a|b", address));
        assert_eq!(named(four.to_vec()), ["a|b"; 4]);
        // Of two copies of a procedure, each with one call that was seen, it is not known which.
        let mut copies = [1, 2].map(|address| site("heat.f90", "a|b", address));
        copies[1].callers = vec![(Some("main".to_owned()), Some(7))];
        assert_eq!(named(copies.to_vec()), ["a|b"; 2]);
        // Another module's is another statement.
        let mut other = [1, 2].map(|address| site("heat.f90", "a|b", address));
        other[1].module = "libheat.so".to_owned();
        assert_eq!(named(other.to_vec()), ["a|b"; 2]);
    }

    #[test]
    fn only_fortran_promises_an_order() {
        assert!(InTurn::is_meant(&site("src/heat.f90", "a|b", 1).site));
        assert!(InTurn::is_meant(&site("HEAT.F", "a|b", 1).site));
        assert!(!InTurn::is_meant(&site("heat.c", "a|b", 1).site));
        assert!(!InTurn::is_meant(&site("heat.f90", "a", 1).site));
    }
}
