//! The library is to be initialized before all others, which may err in their constructors: without this the loader begins
//! with those that nothing else was preloaded before.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
}
