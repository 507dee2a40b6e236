//! Device profiles: the figures of a device, and where they come from.
//!
//! A profile is the device of a paper, or a common one, not the fastest of its kind: what is
//! reproduced on it is comparable with what the paper measured.

use std::time::Duration;

/// What a device can do. Rates are in bytes per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// Time to bring a head to a place that does not follow the last one, rotation included; zero
    /// for devices without moving parts.
    pub positioning: Duration,
    /// Time from a read request to its first byte, beside positioning.
    pub read_latency: Duration,
    /// Time from a write request to the device's buffer, beside positioning.
    pub write_latency: Duration,
    /// Time in which the device empties its own buffer, for a sync.
    pub flush: Duration,
    /// Rate of one long read.
    pub read_rate: u64,
    /// Rate of one long write.
    pub write_rate: u64,
    /// Requests that wait for their first byte side by side. Transfers share the link.
    pub channels: usize,
}

impl Profile {
    /// A hard disk of 7200 rpm: WiscKey (section 2.3) reckons with 10 ms for a random access, seek
    /// and half a rotation (4.2 ms) together, and 100 MB/s. A flush waits for a whole rotation
    /// (8.3 ms).
    pub const HDD: Self = Self {
        name: "hdd",
        positioning: Duration::from_micros(10_000),
        read_latency: Duration::ZERO,
        write_latency: Duration::ZERO,
        flush: Duration::from_micros(8_333),
        read_rate: 100_000_000,
        write_rate: 100_000_000,
        channels: 1,
    };

    /// The Samsung 840 EVO of WiscKey: 500 MB/s and 400 MB/s in sequence (section 4). One thread
    /// reaches half of that with random reads of 256 KiB, 32 threads all of it above 16 KiB
    /// (section 2.3, figure 3): a latency of 524 us, 32 at a time. Latencies of write and flush are
    /// assumptions; the paper gives none.
    pub const SATA: Self = Self {
        name: "sata",
        positioning: Duration::ZERO,
        read_latency: Duration::from_micros(524),
        write_latency: Duration::from_micros(60),
        flush: Duration::from_micros(500),
        read_rate: 500_000_000,
        write_rate: 400_000_000,
        channels: 32,
    };

    /// A virtual NVMe disk, as it was measured when the engine was designed: 18,000 random reads of
    /// 4 KiB a second at depth 1, 58,000 to 80,000 at depth 8 to 32, 1.1 to 1.5 GB/s and 1.6 to
    /// 2.6 GB/s in sequence, 0.1 ms for a sync. The latency of a write is an assumption.
    pub const NVME: Self = Self {
        name: "nvme",
        positioning: Duration::ZERO,
        read_latency: Duration::from_micros(52),
        write_latency: Duration::from_micros(20),
        flush: Duration::from_micros(100),
        read_rate: 1_300_000_000,
        write_rate: 2_000_000_000,
        channels: 4,
    };

    /// All profiles.
    pub const ALL: [Self; 3] = [Self::HDD, Self::SATA, Self::NVME];

    /// The profile of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}
