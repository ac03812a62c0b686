//! Which variable of a statement is which: `allocate (a(n), b(n))` of Fortran asks for memory twice on one line, and its debug information
//! gives all calls the same column, that of its end.
//!
//! It asks in turn, and compilers leave the calls in that order (gfortran 12 from `-O0` to `-O3`: what leaves the way in between is an error's). So
//! where as many calls were seen as there are variables, each is that of its place.

use super::Site;
use super::syntax::Grammar;
use std::collections::{BTreeMap, BTreeSet};

/// Which statement it is: names, file, line and function, and the module that holds its code.
type Statement = (
    Option<String>,
    Option<String>,
    Option<u32>,
    Option<String>,
    String,
);

/// A site with a name for several, and its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTurn {
    /// Its name is that of one variable once it is told which.
    pub site: Site,
    /// The file that holds the code of the call.
    pub module: String,
    /// Where the call returns to in it.
    pub address: u64,
}

impl InTurn {
    /// Whether a site's name is one of several that are given memory in turn.
    #[must_use]
    pub fn is_meant(site: &Site) -> bool {
        let has_several = site.name.as_deref().is_some_and(|name| name.contains('|'));
        let grammar = site.file.as_deref().and_then(Grammar::of);
        has_several && matches!(grammar, Some(Grammar::Fortran(_)))
    }

    fn statement(&self) -> Statement {
        let site = &self.site;
        (
            site.name.clone(),
            site.file.clone(),
            site.line,
            site.function.clone(),
            self.module.clone(),
        )
    }
}

/// Gives each its own variable's name where that can be told; the others keep theirs.
pub fn name_in_turn(sites: &mut [InTurn]) {
    let mut calls: BTreeMap<Statement, BTreeSet<u64>> = BTreeMap::new();
    for site in &*sites {
        calls
            .entry(site.statement())
            .or_default()
            .insert(site.address);
    }
    for one in sites {
        let addresses = &calls[&one.statement()];
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
