//! Gives the shared library the name under which programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Changes only when a function is removed, or takes other arguments.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcleavedb.so.0");
}
