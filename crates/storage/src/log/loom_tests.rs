//! The watermarks of the window under every schedule of a few threads: a reader of the log gets the
//! bytes that were stored for their position, and no store overlaps another access.

use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::sync::checker::model;
use cleavedb_base::sync::checker::thread::{self, yield_now};

use super::buffer::{LogBuffer, ReservedSlot};
use super::rest::Rest;
use crate::window::Window;

/// Length of a range of one owner: the unit that loom tells apart.
const LEN: usize = 64;

/// A buffer over a window of one block.
fn buffer() -> Arc<LogBuffer> {
    let buffer = LogBuffer::idle(0);
    buffer.begin(Window::in_the_process(BLOCK, BLOCK).unwrap(), 0);
    Arc::new(buffer)
}

/// Stores `byte` throughout the range at `at`.
fn store(buffer: &LogBuffer, at: u64, byte: u8) {
    // SAFETY: every test gives each range to one caller, above `written_upto`, with room for it.
    unsafe { ReservedSlot::new(buffer, at, at + LEN as u64) }.push(&[byte; LEN]);
}

fn filled_is_stored() {
    let buffer = buffer();
    let writer = {
        let buffer = buffer.clone();
        thread::spawn(move || {
            for i in 0..2 {
                store(&buffer, i * LEN as u64, 1 + i as u8);
                buffer.set_written_upto((i + 1) * LEN as u64);
            }
        })
    };
    for i in 0..2 {
        while buffer.written_upto() <= i * LEN as u64 {
            yield_now();
        }
        let mut out = [0; LEN];
        assert_eq!(buffer.read_tail(i * LEN as u64, &mut out), 0, "nothing is in a file yet");
        assert_eq!(out, [1 + i as u8; LEN]);
    }
    writer.join().unwrap();
}

/// A reader of position 0, a drain that writes it to the file, and a commit one window later, which
/// uses the same memory.
fn memory_is_used_again() {
    let buffer = buffer();
    store(&buffer, 0, 1);
    buffer.set_written_upto(LEN as u64);
    let file = Arc::new(Mutex::new([0; LEN]));
    let drain = {
        let (buffer, file) = (buffer.clone(), file.clone());
        thread::spawn(move || {
            file.lock().copy_from_slice(buffer.piece(0, LEN));
            buffer.raise_floor(LEN as u64);
        })
    };
    let commit = {
        let buffer = buffer.clone();
        thread::spawn(move || {
            let at = buffer.len();
            while at + LEN as u64 > buffer.drained_upto() + buffer.len() {
                yield_now();
            }
            store(&buffer, at, 2);
        })
    };
    let mut out = [0; LEN];
    let in_file = buffer.read_tail(0, &mut out);
    out[..in_file].copy_from_slice(&file.lock()[..in_file]);
    assert_eq!(out, [1; LEN], "{in_file} bytes were read from the file");
    drain.join().unwrap();
    commit.join().unwrap();
}

/// The drain thread falls asleep while a writer fills the log up to where there is work, and again
/// while the log is closed.
fn nobody_sleeps_for_ever() {
    let (buffer, rest, closed) =
        (buffer(), Arc::new(Rest::default()), Arc::new(AtomicBool::new(false)));
    let drain = {
        let (buffer, rest, closed) = (buffer.clone(), rest.clone(), closed.clone());
        thread::spawn(move || {
            // A writer that was about to end one sleep may end the next.
            while buffer.written_upto() < LEN as u64 {
                rest.sleep(LEN as u64, || buffer.filled_at_last() >= LEN as u64);
            }
            while !closed.load(Ordering::Acquire) {
                rest.sleep(2 * LEN as u64, || closed.load(Ordering::Acquire));
            }
        })
    };
    buffer.set_written_upto(LEN as u64);
    rest.written_upto(LEN as u64);
    closed.store(true, Ordering::Release);
    rest.wake();
    drain.join().unwrap();
}

#[test]
fn who_drains_is_woken_by_work_and_by_the_end() {
    model(nobody_sleeps_for_ever);
}

#[test]
fn what_is_filled_can_be_read() {
    model(filled_is_stored);
}

#[test]
fn memory_is_used_again_only_when_nobody_reads_it() {
    model(memory_is_used_again);
}

#[cfg(feature = "test-planted-bugs")]
mod planted {
    use cleavedb_base::planted::{Bug, must_notice};

    use super::{filled_is_stored, memory_is_used_again, model, nobody_sleeps_for_ever};

    #[test]
    fn a_sleeper_that_leaves_word_too_late() {
        must_notice(Bug::RestsUnannounced, || model(nobody_sleeps_for_ever));
    }

    #[test]
    fn a_filled_mark_without_order() {
        must_notice(Bug::FilledUnordered, || model(filled_is_stored));
    }

    #[test]
    fn a_floor_that_rises_under_its_readers() {
        must_notice(Bug::FloorUnderReaders, || model(memory_is_used_again));
    }
}
