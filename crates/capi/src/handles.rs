//! Handles: what C holds a pointer to, and gives back once.
//!
//! A handle as an argument is NULL, or what [`Handle::new`] has made for C and C has not given
//! back: the headers ask for that. Also here is the macro that names functions for C.

use std::ffi::c_void;

/// A pointer of C to a value of ours, or NULL.
#[repr(transparent)]
pub(crate) struct Handle<T>(*mut T);

impl<T> Handle<T> {
    /// A handle for C, which gives it back to be freed.
    pub(crate) fn new(value: T) -> Self {
        Self(Box::into_raw(Box::new(value)))
    }

    /// No handle.
    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The value; nothing for NULL. Threads may share it.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T>
    where
        T: Send + Sync,
    {
        // SAFETY: the pointer is NULL or a live handle, and while a call has it, no other frees it
        // or changes it: the header asks for that.
        unsafe { self.0.as_ref() }
    }

    /// The value, to be changed; nothing for NULL. No other thread uses it.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T>
    where
        T: Send,
    {
        // SAFETY: the pointer is NULL or a live handle that no other call has at the same time: the
        // header asks for that.
        unsafe { self.0.as_mut() }
    }

    /// The value, of which C has no handle any more; nothing for NULL.
    pub(crate) fn take(self) -> Option<Box<T>>
    where
        T: Send,
    {
        // SAFETY: a live handle is from `Box::into_raw`, and C gives it back once.
        (!self.0.is_null()).then(|| unsafe { Box::from_raw(self.0) })
    }
}

// SAFETY: a handle gives threads no more than its value does, and the methods ask for that.
unsafe impl<T: Send> Send for Handle<T> {}

/// What a caller in C wants its callbacks to be given.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct CallerState(pub(crate) *mut c_void);

// SAFETY: nothing here looks behind the pointer, and the headers say which callbacks are called
// from other threads: none.
unsafe impl Send for CallerState {}
// SAFETY: as above.
unsafe impl Sync for CallerState {}

/// Defines functions of the headers. The body of one that returns `Result` in place of its type has
/// `; out: TYPE` behind its arguments, where the error goes.
macro_rules! export {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(; $out:ident: $error:ty)?)
        $(-> $returned:ty)? $body:block)*) => { $(
        export!(@one $name, ($($argument: $type),*), ($($out: $error)?), ($($returned)?), $body);
    )* };
    (@one $name:ident, ($($argument:ident: $type:ty),*), (), ($($returned:ty)?), $body:block) => {
        // SAFETY: no other function has a name with this prefix.
        #[unsafe(no_mangle)]
        #[allow(unused_mut)]
        extern "C" fn $name($(mut $argument: $type),*) $(-> $returned)? {
            $crate::border::guard(move || $body)
        }
    };
    (@one $name:ident, ($($argument:ident: $type:ty),*), ($out:ident: $error:ty),
        ($($returned:ty)?), $body:block) => {
        // SAFETY: no other function has a name with this prefix.
        #[unsafe(no_mangle)]
        #[allow(unused_mut)]
        extern "C" fn $name($(mut $argument: $type,)* $out: $error) $(-> $returned)? {
            $crate::border::told(&$out, move || $body)
        }
    };
}
pub(crate) use export;
