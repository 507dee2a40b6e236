//! What `{:?}` prints of handles: enough to tell one from another, and nothing that takes a lock.
//!
//! A program that keeps a handle in a type of its own can so derive `Debug` for it, and
//! `Db::open(..).unwrap_err()` compiles.

/// Implements `Debug` for a handle: `Type, |handle| { fact: expression of handle }`.
macro_rules! debug {
    ($type:ty, |$handle:pat_param| { $($fact:ident: $value:expr),* }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $handle = self;
                let name = stringify!($type).trim_end_matches("<'_>");
                f.debug_struct(name)$(.field(stringify!($fact), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug;
