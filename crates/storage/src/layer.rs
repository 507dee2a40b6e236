//! Layers: storages that lie on another one and change some of its calls.
//!
//! A layer implements [`StorageLayer`] and [`FileLayer`] with the calls that it changes; each of
//! the others goes to what lies below. That is written here once for all layers, so that none
//! forgets a call: one that is new in a trait does not compile before it stands in the list below.
//! A file that imports such a trait and the one below it cannot call a layer's methods by name: it
//! takes the layer as a `dyn Storage` or `dyn File`.

use std::io;
use std::sync::Arc;

use crate::api::{Access, File, Lock, Mode, RemoveMode, Storage};
use crate::mapping::Mapping;
use crate::name::Name;

/// Makes the trait of a layer, whose calls go to what lies below, and the trait below for each
/// layer.
macro_rules! layer {
    ($(#[$about:meta])* $layer:ident over $below:ident {
        $(fn $call:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*
    }) => {
        $(#[$about])*
        pub trait $layer: Send + Sync + 'static {
            /// What lies below.
            fn inner(&self) -> &dyn $below;
            $(
                #[doc = concat!("See [`", stringify!($below), "::", stringify!($call), "`].")]
                fn $call(&self, $($argument: $type),*) $(-> $answer)? {
                    self.inner().$call($($argument),*)
                }
            )*
        }

        impl<L: $layer> $below for L {
            $(
                fn $call(&self, $($argument: $type),*) $(-> $answer)? {
                    $layer::$call(self, $($argument),*)
                }
            )*
        }
    };
}

layer! {
    /// A storage that lies on another one: it is a [`Storage`].
    StorageLayer over Storage {
        fn open(name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>>;
        fn rename(from: &Name, to: &Name) -> io::Result<()>;
        fn remove(name: &Name, pace: RemoveMode) -> io::Result<()>;
        fn list() -> io::Result<Vec<(Name, u64)>>;
        fn foreign() -> io::Result<Vec<String>>;
        fn sync_dir() -> io::Result<()>;
        fn lock() -> io::Result<Lock>;
        fn free_space() -> io::Result<u64>;
        fn boot_id() -> u64;
        fn directory_id() -> u64;
    }
}

layer! {
    /// A file that lies on another one: it is a [`File`].
    FileLayer over File {
        fn read_at(buf: &mut [u8], offset: u64) -> io::Result<usize>;
        fn write_at(buf: &[u8], offset: u64) -> io::Result<usize>;
        fn sync() -> io::Result<()>;
        fn allocate(len: u64) -> io::Result<()>;
        fn truncate(len: u64) -> io::Result<()>;
        fn punch(offset: u64, len: u64) -> io::Result<()>;
        fn len() -> io::Result<u64>;
        fn space() -> io::Result<u64>;
        fn is_copied() -> io::Result<bool>;
        fn map(len: usize) -> io::Result<Option<Mapping>>;
        fn extend_mapped(len: u64) -> io::Result<()>;
        fn alignment() -> usize;
        fn will_need(offset: u64, len: usize);
        fn is_in_memory(offset: u64) -> bool;
        fn wont_need(offset: u64, len: usize);
    }
}
