//! Plain memory that atomics publish: what a checker needs to see a race on it.
//!
//! Raw bytes are invisible to a checker. A [`Plain`] stands for some of them: the code says where
//! it writes and where it reads them, and loom fails if a read is not ordered after the write in
//! every execution that the memory model allows. Without loom it has no size and does nothing.

/// Bytes of a [`PlainRange`] that count as one piece: tests keep ranges of different owners at
/// least this far apart.
#[cfg(feature = "test-loom")]
const PIECE: usize = 64;

/// Stands for memory without a lock or an atomic of its own.
#[cfg(feature = "test-loom")]
#[derive(Default)]
pub struct Plain(loom::cell::UnsafeCell<()>);

#[cfg(feature = "test-loom")]
impl Plain {
    /// The memory is written here.
    #[track_caller]
    pub fn written(&self) {
        self.0.with_mut(|_| ());
    }

    /// The memory is read here.
    #[track_caller]
    pub fn read(&self) {
        self.0.with(|_| ());
    }
}

/// Stands for memory without a lock or an atomic of its own.
#[cfg(not(feature = "test-loom"))]
#[derive(Default)]
pub struct Plain(());

#[cfg(not(feature = "test-loom"))]
impl Plain {
    /// The memory is written here.
    #[inline(always)]
    pub fn written(&self) {}

    /// The memory is read here.
    #[inline(always)]
    pub fn read(&self) {}
}

/// Stands for a range of such memory, whose parts have different owners.
#[cfg(feature = "test-loom")]
pub struct PlainRange(Box<[Plain]>);

#[cfg(feature = "test-loom")]
impl PlainRange {
    /// Stands for `len` bytes.
    pub fn new(len: usize) -> Self {
        Self((0..len.div_ceil(PIECE)).map(|_| Plain::default()).collect())
    }

    fn pieces(&self, at: usize, len: usize) -> &[Plain] {
        &self.0[at / PIECE..(at + len).div_ceil(PIECE)]
    }

    /// `len` bytes at `at` are written here.
    #[track_caller]
    pub fn written(&self, at: usize, len: usize) {
        self.pieces(at, len).iter().for_each(Plain::written);
    }

    /// `len` bytes at `at` are read here.
    #[track_caller]
    pub fn read(&self, at: usize, len: usize) {
        self.pieces(at, len).iter().for_each(Plain::read);
    }
}

/// Stands for a range of such memory, whose parts have different owners.
#[cfg(not(feature = "test-loom"))]
pub struct PlainRange;

#[cfg(not(feature = "test-loom"))]
impl PlainRange {
    /// Stands for `len` bytes.
    #[inline(always)]
    pub fn new(_len: usize) -> Self {
        Self
    }

    /// `len` bytes at `at` are written here.
    #[inline(always)]
    pub fn written(&self, _at: usize, _len: usize) {}

    /// `len` bytes at `at` are read here.
    #[inline(always)]
    pub fn read(&self, _at: usize, _len: usize) {}
}
