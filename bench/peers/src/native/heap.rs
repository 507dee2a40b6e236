//! The heap of the process.

unsafe extern "C" {
    /// glibc: gives memory that was freed back to the system; returns whether there was some.
    #[cfg(target_env = "gnu")]
    safe fn malloc_trim(pad: usize) -> core::ffi::c_int;
}

/// Gives what was freed back to the system, where the C library can.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    malloc_trim(0);
}
