//! The border to C: no panic crosses it, and errors go where the caller wants them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cleavedb::{Error, ErrorKind, Result};

use crate::handles::Handle;
use crate::slices::{LentOut, Malloced, OutPlace};

/// What a function returns that has nothing to return.
pub(crate) trait Nothing {
    fn nothing() -> Self;
}

impl Nothing for () {
    fn nothing() -> Self {}
}

impl Nothing for i32 {
    /// The answer of a function that has failed; 0 and 1 are others.
    fn nothing() -> Self {
        -1
    }
}

impl Nothing for u8 {
    fn nothing() -> Self {
        0
    }
}

impl Nothing for u64 {
    fn nothing() -> Self {
        0
    }
}

impl Nothing for usize {
    fn nothing() -> Self {
        0
    }
}

impl<T> Nothing for Handle<T> {
    fn nothing() -> Self {
        Self::null()
    }
}

impl Nothing for Malloced {
    fn nothing() -> Self {
        Self::null()
    }
}

impl Nothing for LentOut {
    fn nothing() -> Self {
        Self::null()
    }
}

/// Where a caller wants to have its errors.
pub(crate) trait ErrorPlace {
    fn put(&self, error: &Error);
}

impl ErrorPlace for OutPlace<Malloced> {
    /// As LevelDB does: the message in place of an earlier one.
    fn put(&self, error: &Error) {
        self.replace(Malloced::text(&error.to_string()));
    }
}

/// What `body` returns; nothing if it panics.
#[inline]
pub(crate) fn guard<T: Nothing>(body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| T::nothing())
}

/// What `body` returns; nothing if it fails or panics, of which the caller is told.
#[inline]
pub(crate) fn told<T: Nothing>(place: &impl ErrorPlace, body: impl FnOnce() -> Result<T>) -> T {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(done)) => return done,
        Ok(Err(error)) => error,
        Err(panic) => panicked(&*panic),
    };
    place.put(&error);
    T::nothing()
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let what = format!("a bug of the library: {}", said.unwrap_or("it panicked"));
    Error::new(ErrorKind::Other, what)
}

/// The value of a handle that must not be NULL.
#[inline]
pub(crate) fn needed<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, format!("the {name} is NULL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Told(std::cell::RefCell<String>);

    impl ErrorPlace for Told {
        fn put(&self, error: &Error) {
            *self.0.borrow_mut() = error.to_string();
        }
    }

    #[test]
    fn no_panic_crosses_the_border() {
        assert_eq!(guard::<i32>(|| panic!("boo")), -1);
        let place = Told(String::new().into());
        assert_eq!(told::<u8>(&place, || panic!("number {}", 7)), 0);
        assert_eq!(*place.0.borrow(), "other: a bug of the library: number 7");
    }
}
