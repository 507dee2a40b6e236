//! Device: when a request that is made now will be done.
//!
//! A request takes a channel, waits for its first byte, and then for the link, which all channels
//! share: latencies overlap, transfers do not. A device with a head first brings it to the place. A
//! place is a file and an offset; files lie anywhere, so only a request that follows the last one
//! in its file finds the head there, and one a little further on waits until its place passes by.

use std::time::Duration;

use super::profile::Profile;

/// The direction of a request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// A contiguous part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Totals of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTotals {
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Requests that found the head elsewhere.
    pub positionings: u64,
    /// Times that the device's own buffer was emptied.
    pub flushes: u64,
    /// Time in which the link, or a head, was busy.
    pub busy: Duration,
}

/// The queue of a device. Times are nanoseconds of one clock.
pub(super) struct Device {
    profile: Profile,
    /// When each channel is free.
    channels: Vec<u64>,
    /// When the link is free.
    link: u64,
    /// The file and the offset behind the last byte.
    head: Option<(u64, u64)>,
    totals: DeviceTotals,
}

/// Nanoseconds that `bytes` take at `rate` bytes a second.
fn transfer(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

impl Device {
    pub(super) fn new(profile: Profile) -> Self {
        let channels = vec![0; profile.channels.max(1)];
        Self { profile, channels, link: 0, head: None, totals: DeviceTotals::default() }
    }

    pub(super) fn totals(&self) -> DeviceTotals {
        self.totals
    }

    /// Takes a request at `now`; returns when it is done.
    pub(super) fn request(&mut self, now: u64, direction: Direction, extent: Extent) -> u64 {
        let (latency, rate) = match direction {
            Direction::Read => (self.profile.read_latency, self.profile.read_rate),
            Direction::Write => (self.profile.write_latency, self.profile.write_rate),
        };
        let positioning = self.position(extent, rate);
        let moved = transfer(extent.len, rate);
        let channel = self.channels.iter_mut().min().expect("a device has a channel");
        let first_byte = now.max(*channel) + positioning + nanos(latency);
        let done = first_byte.max(self.link) + moved;
        (*channel, self.link) = (done, done);
        let totals = &mut self.totals;
        totals.busy += Duration::from_nanos(positioning + moved);
        match direction {
            Direction::Read => {
                totals.reads += 1;
                totals.bytes_read += extent.len;
            }
            Direction::Write => {
                totals.writes += 1;
                totals.bytes_written += extent.len;
            }
        }
        done
    }

    /// Moves the head behind `extent`; returns what it takes to get to its beginning.
    fn position(&mut self, extent: Extent, rate: u64) -> u64 {
        let positioning = nanos(self.profile.positioning);
        let gap = match self.head {
            Some((file, at)) if file == extent.file => extent.offset.checked_sub(at),
            _ => None,
        };
        self.head = Some((extent.file, extent.offset + extent.len));
        if positioning == 0 || gap == Some(0) {
            return 0;
        }
        self.totals.positionings += 1;
        gap.map_or(positioning, |gap| transfer(gap, rate).min(positioning))
    }

    /// Empties the device's buffer, after all that was asked for until `now`.
    pub(super) fn flush(&mut self, now: u64) -> u64 {
        self.totals.flushes += 1;
        let done =
            self.channels.iter().copied().max().unwrap_or(now).max(now) + nanos(self.profile.flush);
        self.channels.fill(done);
        self.link = self.link.max(done);
        done
    }
}
