//! Mistakes that a test build can make on purpose: a test that cannot fail proves nothing.
//!
//! Each hazard of the design is one [`Bug`]. The code asks [`planted`] where it would go wrong;
//! that is a constant `false`, and costs nothing, unless the feature `planted-bugs` is on. A test
//! then plants one bug for its own thread and must see a failure.

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The run of new pointers that a collection writes lies above the next flush.
    RunAboveNextFlush,
    /// That run leaves out tombstones.
    RunWithoutTombstones,
    /// That run leaves out the versions that it does not move.
    RunWithoutRepeats,
    /// That run claims to own the records that it only repeats.
    RunOwnsRepeats,
    /// A compaction drops tombstones though older places may hold their keys.
    TombstoneDroppedEarly,
    /// A merge within level 0 drops tombstones although older runs hold their keys.
    BucketForgetsOlderRuns,
    /// A table leaves level 0 although an older one with its keys has to stay.
    YoungerLeavesFirst,
    /// The newest full MemTable is flushed first.
    NewestMemTableFirst,
    /// A flush moves the replay head to the end of the log.
    HeadTooFar,
    /// A flush does not sync the long values that its run points to.
    LongValueUnsynced,
    /// A long value goes to a log file whose front a flush has covered without a sync.
    LongBehindUnsynced,
    /// A flush does not sync the part of a log file behind a long value, in which others live.
    LogBehindLongUnsynced,
    /// A MemTable ends behind the padding of a sync.
    HeadBehindPadding,
    /// Level 0 is ordered by greatest sequence number.
    Level0BySeq,
    /// A victim goes although the log that killed its records was not synced.
    CollectionWithoutLogSync,
    /// A collection forgets the live snapshots.
    CollectionWithoutSnapshots,
    /// Recovery does not copy to the log file what only the window holds of it.
    WindowTailForgotten,
    /// Replay looks into the window no farther than if the log had been drained up to its head.
    WindowBehindTheFile,
    /// What a flush has made needless is passed by while readers may still want it.
    NeedlessUnderReaders,
    /// Files that no edit has named prove nothing at the open of a closed database.
    FollowersIgnored,
    /// A log file counts as free although its drain has not looked whether it is.
    FreeUnderTheDrain,
    /// Replay does not ask whether a log file continues the one before it.
    ReplayPastGap,
    /// Replay takes part of a batch.
    HalfBatch,
    /// A batch that is torn takes the mark before it with it.
    TornBatchTakesMark,
    /// The log goes on in a file behind the rest of a torn batch.
    ResumedBehindTorn,
    /// What is left of a torn batch passes for a write whose edits are lost.
    TornTakenForLost,
    /// Replay believes a record whose payload does not match its checksum.
    TornRecordReplayed,
    /// A reader takes the gap that a sync leaves for the end of the log.
    MarkIgnored,
    /// Marks and headers claim that padding was a record.
    PaddingClaimed,
    /// Replay decides by the options of the day how a value is kept.
    OptionsDecideReplay,
    /// Sequence numbers begin again after an open.
    SeqRestarts,
    /// Checksums do not tie a record to its file and offset.
    ChecksumWithoutPlace,
    /// Checksums do not cover the key.
    ChecksumWithoutKey,
    /// A damaged value reads as an absent key.
    CorruptIsAbsent,
    /// Directory entries are not synced before an edit names the files.
    NoDirectorySync,
    /// The directory of a volume is not synced before an edit names the files in it.
    VolumeNotSynced,
    /// A volume's file that says how old it is is written behind the edit that makes it so old.
    VolumeStampedLate,
    /// A job that failed leaves what it had written on the disk.
    FailedJobLeavesFiles,
    /// A group splits although a flush has begun that knows it whole.
    SplitUnderFlush,
    /// A victim's file goes before the edit that drops it.
    UnlinkBeforeEdit,
    /// A write is acknowledged before its sync.
    AckBeforeSync,
    /// A flush takes for forgotten also the log that it has not made needless.
    ForgetsTheHead,
    /// A flush leaves values in a log that it does not sync, and the run points there.
    PointsIntoTheLog,
    /// A flush does not tell a group of a delete or an inline value of a key that it holds.
    StubForgotten,
    /// A collection of a group drops the group tombstones that still hide older records.
    StubDroppedEarly,
    /// A value leaves for the cold log although its group has an older record of the key.
    TagAboveOlder,
    /// The filter of an extent does not hold the keys of its tags.
    TagNotInFilter,
    /// The edit that adds a segment of the cold log does not count what lives in it.
    ColdNotBorn,
    /// A segment of survivors is not synced before the edit that adds it.
    SegmentNotSynced,
    /// A group that splits puts all records into one half.
    SplitIntoWrongHalf,
    /// A flush divides a range of keys that has records already.
    DividedWithRecords,
    /// An extent of a range names its first key as its last.
    FirstKeyAsLast,
    /// An extent is given back as soon as it is dropped, whoever still reads it.
    PunchUnderReaders,
    /// An extent is given back before the edit that drops it.
    PunchBeforeEdit,
    /// A value that a collection has moved is looked for where its soft pointer says.
    StalePointerBelieved,
    /// A value whose soft pointer is out of date reads as an absent key.
    StaleIsAbsent,
    /// Extents of survivors get no map though pointers are soft.
    MapForgotten,
    /// What dies behind a soft pointer that is out of date is not counted.
    StaleDeathForgotten,
    /// Files grow beyond the space limit.
    LimitIgnored,
    /// Writers leave jobs no room below the space limit.
    NothingKeptForJobs,
    /// A failed sync is tried again, and the second answer is believed.
    SyncRetried,
    /// An entry is linked into a MemTable without ordering what it holds before the link.
    LinkedUnordered,
    /// An entry is linked by a store, as if nobody else inserted.
    LinkedWithoutExchange,
    /// A commit becomes visible as soon as it is complete, whatever is not before it.
    PublishedOutOfOrder,
    /// What is visible is published without ordering entries and records before it.
    VisibleUnordered,
    /// Who falls asleep while commits are published is not waited for.
    SleeperMissed,
    /// Who drains looks for work before it leaves word that it will sleep.
    RestsUnannounced,
    /// The log counts as filled without ordering the bytes before it.
    FilledUnordered,
    /// The floor of the window rises under those who read above it.
    FloorUnderReaders,
    /// A session goes on with a log file that the manifest has sealed, without an edit.
    ResumedWithoutEdit,
    /// A close says that the log is durable before it is.
    ClosedBeforeSync,
    /// A copy of a database goes on as if it were the original.
    CopyUnnoticed,
    /// The window grows while it alone holds the end of the log.
    GrowsUndrained,
    /// The log counts as drained before a sync could know the file.
    DrainedBeforeListed,
    /// A snapshot asks what is visible before it takes the lock of the list.
    SnapshotOutsideLock,
    /// A file goes as soon as it is dropped, whoever still reads it.
    BuriedUnderReaders,
    /// A flush takes its MemTable out of the read state before it puts its run in.
    MemTableBeforeItsRun,
    /// A change of the read state overwrites another that was made meanwhile.
    PictureOverwritten,
    /// A read asks what is visible before it takes the read state.
    VisibleBeforePicture,
    /// A flush does not wait for the commits that still insert.
    FlushBeforeInserts,
    /// A compaction does not say which tables it reads.
    InputsUnclaimed,
    /// Runs that a flush writes during a collection may leave level 0.
    RunsSinkPastACollection,
    /// A job drops the file that a collection reads.
    VictimDroppedByOthers,
    /// A byte that a collection may win of a short file is worth it.
    ByteIsWorthIt,
    /// What a collection has written is collected again although nothing can have died in it.
    CollectsInVain,
    /// A compaction that met a damaged block is tried again and again.
    DamagedBlockTriedAgain,
    /// Runs pile up in level 0 above damaged tables.
    DamageFillsLevel0,
    /// A job that fails keeps those that would come after it from running.
    FailureEndsTheLook,
    /// Looks of who waits add up although jobs of others end between them.
    LooksAddUp,
    /// A log file is ended, and the replay head moved on, under a commit not yet in its MemTable.
    LogEndsUnderWriters,
    /// A settle ends at a look that found nothing, although a job has ended since.
    SettleOverlooksJobs,
    /// Tombstones are no reason to compact.
    TombstonesStay,
    /// A close drops all log files in use since tables point into the last one not at all.
    CloseForgetsALog,
    /// What the reserve has lent is not taken back.
    ReserveNotRefilled,
    /// A collection of a part of a group drops what hides records of the rest.
    StubForgetsTheRest,
    /// Writers are stopped for garbage that nobody may collect.
    GarbageOfNobodyCounts,
}

/// Whether `bug` is planted: always false in a build for users.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants `bug`, or none, for this thread.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether `bug` is planted for this thread.
#[cfg(feature = "planted-bugs")]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Fails unless `check` passes as it is and panics with `bug` planted for this thread.
#[cfg(feature = "planted-bugs")]
pub fn must_notice(bug: Bug, check: impl Fn()) {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    check();
    plant(Some(bug));
    let outcome = catch_unwind(AssertUnwindSafe(&check));
    plant(None);
    assert!(outcome.is_err(), "nothing notices {bug:?}");
}
