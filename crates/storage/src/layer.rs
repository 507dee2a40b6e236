//! Layers: storages that lie on another one and change some of its calls.
//!
//! A layer implements the calls that it changes; each of the others goes to what lies below. One
//! list of calls makes both the trait and that of its layers, so a new call is forwarded by every
//! layer, and no call can have a default, which a layer that forgets it would answer with.
//!
//! A file that imports both traits cannot call a layer's methods by name, as two traits have each:
//! it takes the layer as `dyn Storage` or `dyn File`.

/// Makes a trait of the calls that are listed, the trait of its layers, in which each call goes to
/// what lies below, and the first trait for everything that has the second.
macro_rules! layered {
    (
        $(#[$about:meta])* trait $below:ident;
        $(#[$about_layer:meta])* layer $layer:ident;
        $($(#[$doc:meta])* fn $call:ident(&self $(, $arg:ident: $type:ty)*) $(-> $answer:ty)?;)+
    ) => {
        $(#[$about])*
        pub trait $below: Send + Sync + 'static {
            $($(#[$doc])* fn $call(&self $(, $arg: $type)*) $(-> $answer)?;)+
        }

        $(#[$about_layer])*
        pub trait $layer: Send + Sync + 'static {
            /// What lies below.
            fn inner(&self) -> &dyn $below;
            $(
                $(#[$doc])*
                fn $call(&self $(, $arg: $type)*) $(-> $answer)? {
                    self.inner().$call($($arg),*)
                }
            )+
        }

        impl<L: $layer> $below for L {
            $(
                fn $call(&self $(, $arg: $type)*) $(-> $answer)? {
                    $layer::$call(self $(, $arg)*)
                }
            )+
        }
    };
}

pub(crate) use layered;
