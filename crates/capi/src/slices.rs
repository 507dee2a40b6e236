//! Memory that C lends for a call, and memory that it is given to free.
//!
//! The fields of these types are private, and no function here makes one that borrows: each comes
//! as an argument from a caller in C, which promises what its header asks for.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cleavedb::{Error, ErrorKind, Result};

/// Bytes or text that C lends for the time of a call, or NULL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Chars(*const c_char);

impl Chars {
    /// The `len` bytes. NULL is empty, and fails if it is to have a length.
    #[inline]
    pub(crate) fn bytes(&self, len: usize) -> Result<&[u8]> {
        if self.0.is_null() || len > isize::MAX as usize {
            return if len == 0 { Ok(&[]) } else { Err(no_bytes(self.0.is_null(), len)) };
        }
        // SAFETY: the pointer is not NULL, the caller lends `len` bytes behind it for the call, and
        // no slice may be longer than was checked.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), len) })
    }

    /// The `len` bytes, or nothing for NULL without a length.
    pub(crate) fn some_bytes(&self, len: usize) -> Result<Option<&[u8]>> {
        if self.0.is_null() && len == 0 { Ok(None) } else { self.bytes(len).map(Some) }
    }

    /// The text up to its NUL, or nothing for NULL.
    pub(crate) fn text(&self) -> Option<&CStr> {
        // SAFETY: the pointer is not NULL, and the caller lends text that ends in a NUL.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// The text, which must be UTF-8; nothing for NULL.
    pub(crate) fn utf8(&self) -> Result<Option<&str>> {
        let bad = |_| Error::new(ErrorKind::InvalidArgument, "a text is not UTF-8");
        self.text().map(|text| text.to_str().map_err(bad)).transpose()
    }

    /// The text as a path.
    pub(crate) fn path(&self) -> Result<&Path> {
        let none = || Error::new(ErrorKind::InvalidArgument, "the path is NULL; give a directory");
        let text = self.text().ok_or_else(none)?;
        Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
    }
}

#[cold]
fn no_bytes(is_null: bool, len: usize) -> Error {
    let what = match is_null {
        true => format!("a pointer is NULL, but its length is {len}; only length 0 may be NULL"),
        false => format!("a length is {len}, which no memory has; was it negative?"),
    };
    Error::new(ErrorKind::InvalidArgument, what)
}

/// An array that C lends for the time of a call, or NULL.
#[repr(transparent)]
pub(crate) struct Array<T>(*const T);

impl<T> Array<T> {
    /// The `len` elements of it. NULL is empty, and fails if it is to have a length.
    pub(crate) fn elements(&self, len: usize) -> Result<&[T]> {
        if self.0.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
            return if len == 0 { Ok(&[]) } else { Err(no_bytes(self.0.is_null(), len)) };
        }
        // SAFETY: the pointer is not NULL, the caller lends `len` elements behind it for the call,
        // and no slice may be longer than was checked.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

/// A place of C for a result, or NULL if it does not want it.
#[repr(transparent)]
pub(crate) struct OutPlace<T>(*mut T);

impl<T> OutPlace<T> {
    /// Stores `value`. What was there is overwritten, and not freed.
    #[inline]
    pub(crate) fn set(&self, value: T) {
        self.set_at(0, value);
    }

    /// Stores `value` in the element `at` of an array.
    pub(crate) fn set_at(&self, at: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: the pointer is not NULL, and the caller has room for every element that it
            // asks for.
            unsafe { self.0.add(at).write(value) }
        }
    }
}

impl OutPlace<c_char> {
    /// Copies `bytes` to a buffer with room for `len`: as many as there is room for.
    pub(crate) fn fill(&self, bytes: &[u8], len: usize) {
        if !self.0.is_null() {
            let copied = bytes.len().min(len);
            // SAFETY: the pointer is not NULL, the caller has room for `len` bytes, and its buffer
            // is not a part of ours.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), copied) }
        }
    }
}

impl OutPlace<Malloced> {
    /// Stores `value` and frees what was there.
    pub(crate) fn replace(&self, value: Malloced) {
        if self.0.is_null() {
            return value.free();
        }
        // SAFETY: the pointer is not NULL, and the caller keeps NULL or an earlier message there.
        let before = unsafe { self.0.replace(value) };
        before.free();
    }
}

/// Memory from `malloc` that C frees, or NULL.
#[repr(transparent)]
pub(crate) struct Malloced(*mut c_char);

impl Malloced {
    /// No memory.
    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// A copy of these bytes; NULL if there is no memory for it. Not NULL for no bytes.
    #[inline]
    pub(crate) fn copy(bytes: &[u8]) -> Self {
        Self::with_end(bytes, &[])
    }

    /// A copy of these bytes, which must be memory that can be had.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Result<Self> {
        let copy = Self::copy(bytes);
        if copy.0.is_null() {
            let what = format!("there is no memory for a copy of {} bytes", bytes.len());
            return Err(Error::new(ErrorKind::Other, what));
        }
        Ok(copy)
    }

    /// A copy of the text with a NUL behind it.
    pub(crate) fn text(text: &str) -> Self {
        Self::with_end(text.as_bytes(), &[0])
    }

    #[inline]
    fn with_end(bytes: &[u8], end: &[u8]) -> Self {
        let len = bytes.len() + end.len();
        // SAFETY: any length may be asked for; some implementations return NULL for 0.
        let memory: *mut u8 = unsafe { libc::malloc(len.max(1)) }.cast();
        if !memory.is_null() {
            // SAFETY: the new memory has room for both, and overlaps nothing.
            unsafe {
                memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                memory.add(bytes.len()).copy_from_nonoverlapping(end.as_ptr(), end.len());
            }
        }
        Self(memory.cast())
    }

    /// Frees the memory.
    pub(crate) fn free(self) {
        // SAFETY: the pointer is NULL, or is from `malloc` and was not freed: its owner gave it up.
        unsafe { libc::free(self.0.cast()) }
    }
}

/// Bytes that C may read as long as their owner keeps them; its header says for how long.
#[repr(transparent)]
pub(crate) struct LentOut(*const c_char);

impl LentOut {
    /// Lends `bytes`.
    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self(bytes.as_ptr().cast())
    }

    /// No bytes.
    pub(crate) fn null() -> Self {
        Self(std::ptr::null())
    }
}
