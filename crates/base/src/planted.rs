//! Mistakes that a test build can make on purpose: they prove that a test can fail.
//!
//! Each hazard of the design is one [`Bug`]. The code asks [`planted`] at the place where it could
//! go wrong. That is a constant `false`, and costs nothing, unless the feature
//! `test-planted-bugs` is on. A test then plants one bug for its own thread and must see a failure.

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The run of new pointers that a collection writes is placed above the next flush.
    RunAboveNextFlush,
    /// A collection of a range leaves what went through the log's window there.
    WindowKept,
    /// A collection of a range leaves the edits of the manifest that name keys.
    OldEditsKept,
    /// A collection of a range overlooks records that hold no value.
    DeadMarksOverlooked,
    /// A collection of a range overlooks tables that have something dead on their last level.
    DirtyTablesKept,
    /// A collection of a range overlooks snapshots that see what was deleted.
    OldReadersOverlooked,
    /// A database does not leave file numbers to the copy that is to take its place.
    MigrationNumbersUnreserved,
    /// A copy goes on that is one of an older state of the database.
    MigrationOfAnotherState,
    /// A destroyed database loses its data before its manifest.
    DataBeforeManifest,
    /// The run of a collection leaves out tombstones.
    RunWithoutTombstones,
    /// The run of a collection leaves out the versions that it does not move.
    RunWithoutRepeats,
    /// The run of a collection claims to own the records that it only repeats.
    RunOwnsRepeats,
    /// Small tables are packed by another measure than tables end by, and what was packed without
    /// gain is packed again.
    PacksWithoutGain,
    /// A compaction drops tombstones though deeper levels may hold their keys.
    TombstoneDroppedEarly,
    /// A merge within level 0 drops tombstones although older runs hold their keys.
    BucketForgetsOlderRuns,
    /// A table leaves level 0 although an older one with its keys has to stay.
    YoungerLeavesFirst,
    /// The newest full MemTable is flushed first.
    NewestMemTableFirst,
    /// A flush moves the replay head to the end of the log.
    HeadTooFar,
    /// A caller is told that operations survive a loss of power, and no sync was made.
    ToldWithoutSync,
    /// A flush does not sync the long values that its run points to.
    LongValueUnsynced,
    /// A long value goes to a log file whose front was flushed without a sync.
    LongBehindUnsynced,
    /// A flush does not sync the part of a log file behind a long value, which other values use.
    LogBehindLongUnsynced,
    /// A MemTable ends behind the padding of a sync.
    HeadBehindPadding,
    /// Level 0 is ordered by greatest sequence number.
    Level0BySeq,
    /// A victim is removed although the log records that killed its values were not synced.
    CollectionWithoutLogSync,
    /// A collection forgets the live snapshots.
    CollectionWithoutSnapshots,
    /// Recovery does not copy the part of the log that only the window holds to the log file.
    WindowTailForgotten,
    /// Replay searches the window only as far as if the log had been drained up to its head.
    WindowBehindTheFile,
    /// The drain skips log that a flush has released while readers may still need it.
    NeedlessUnderReaders,
    /// At the open of a closed database, files that no edit names are not taken as proof of lost
    /// edits.
    FollowersIgnored,
    /// A log file counts as free although a drain may still write to it.
    FreeUnderTheDrain,
    /// Replay does not check whether a log file continues the one before it.
    ReplayPastGap,
    /// Replay applies a part of a batch.
    HalfBatch,
    /// A torn batch also discards the mark before it.
    TornBatchTakesMark,
    /// The log continues in a file behind the rest of a torn batch.
    ResumedBehindTorn,
    /// The rest of a torn batch is taken for a write whose edits are lost.
    TornTakenForLost,
    /// Replay accepts a record whose payload does not match its checksum.
    TornRecordReplayed,
    /// A reader takes the gap that a sync leaves for the end of the log.
    MarkIgnored,
    /// Marks and headers claim that padding was a record.
    PaddingClaimed,
    /// Replay decides by the current options how a value is kept, not by the record.
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
    /// A volume's stamp file, which says how old it is, is written after the edit that makes it so
    /// old.
    VolumeStampedLate,
    /// A failed job leaves its output on the disk.
    FailedJobLeavesFiles,
    /// A group splits although a running flush still uses it unsplit.
    SplitUnderFlush,
    /// A victim's file is removed before the edit that drops it.
    UnlinkBeforeEdit,
    /// A write is acknowledged before its sync.
    AckBeforeSync,
    /// A flush also releases the log that it has not made obsolete.
    ForgetsTheHead,
    /// A flush leaves values in a log that it does not sync, and its run points there.
    PointsIntoTheLog,
    /// A flush does not write a group tombstone to a group for a delete or an inline value of a key
    /// in it.
    StubForgotten,
    /// The filter of a group does not hold the keys that a flush adds, and answers for them.
    GroupFilterForgets,
    /// A collection of a group drops the group tombstones that still hide older records.
    StubDroppedEarly,
    /// A value goes to the cold log although its group has an older record of the key.
    TagAboveOlder,
    /// The filter of an extent does not hold the keys of its tags.
    TagNotInFilter,
    /// The edit that adds a segment of the cold log does not count its live bytes.
    ColdNotBorn,
    /// A segment of survivors is not synced before the edit that adds it.
    SegmentNotSynced,
    /// A group that splits puts all records into one half.
    SplitIntoWrongHalf,
    /// A flush divides a range of keys that already has records.
    DividedWithRecords,
    /// An extent of a range names its first key as its last.
    FirstKeyAsLast,
    /// An extent is punched as soon as it is dropped, although readers may still use it.
    PunchUnderReaders,
    /// An extent is punched before the edit that drops it.
    PunchBeforeEdit,
    /// Files grow beyond the space limit.
    LimitIgnored,
    /// Below the space limit, writers leave jobs no room.
    NothingKeptForJobs,
    /// A failed sync is tried again, and the second answer is believed.
    SyncRetried,
    /// An entry is linked into a MemTable without ordering its content before the link.
    LinkedUnordered,
    /// An entry is linked by a plain store, as if there were no concurrent inserts.
    LinkedWithoutExchange,
    /// A commit becomes visible as soon as it is complete, although earlier ones are not.
    PublishedOutOfOrder,
    /// What is visible is published without ordering entries and records before it.
    VisibleUnordered,
    /// A publisher does not wait for a thread that falls asleep while commits are published.
    SleeperMissed,
    /// The drain thread looks for work before it announces that it will sleep.
    RestsUnannounced,
    /// The log counts as filled without ordering the bytes before it.
    FilledUnordered,
    /// The floor of the window rises while readers use positions above it.
    FloorUnderReaders,
    /// A session goes on with a log file that the manifest has sealed, without an edit.
    ResumedWithoutEdit,
    /// A close says that the log is durable before it is.
    ClosedBeforeSync,
    /// A copy of a database continues as if it were the original.
    CopyUnnoticed,
    /// The window grows while it alone holds the end of the log.
    GrowsUndrained,
    /// Log bytes count as drained before their file is listed for the next sync.
    DrainedBeforeListed,
    /// A snapshot reads the visible sequence number before it takes the lock of the list.
    SnapshotOutsideLock,
    /// A file is removed as soon as it is dropped, although readers may still use it.
    BuriedUnderReaders,
    /// A flush removes its MemTable from the read state before it adds its run.
    MemTableBeforeItsRun,
    /// A change of the read state overwrites a concurrent one.
    PictureOverwritten,
    /// A read loads the visible sequence number before it loads the read state.
    VisibleBeforePicture,
    /// A flush does not wait for the commits that still insert.
    FlushBeforeInserts,
    /// A compaction does not claim the tables that it reads.
    InputsUnclaimed,
    /// Runs that a flush writes during a collection may leave level 0.
    RunsSinkPastACollection,
    /// A job drops the file that a collection is reading.
    VictimRemovedByOthers,
    /// A collection of a short file is done for a gain of one byte.
    ByteIsWorthIt,
    /// The output of a collection is collected again although nothing in it can have died.
    CollectsInVain,
    /// A compaction that met a damaged block is retried for ever.
    DamagedBlockTriedAgain,
    /// Runs pile up in level 0 above damaged tables.
    DamageFillsLevel0,
    /// A failed job keeps the jobs after it from running.
    FailureEndsTheLook,
    /// Fruitless looks of a waiting thread add up although other jobs end between them.
    LooksAddUp,
    /// A caller waits for as long as a job of another kind fails and is retried.
    WaitsForRetriesOfOthers,
    /// A log file is ended, and the replay head moved on, before a commit is in its MemTable.
    LogEndsUnderWriters,
    /// A settle ends when one look finds no work, although a job has ended since.
    SettleOverlooksJobs,
    /// Tombstones do not cause compactions.
    TombstonesStay,
    /// A commit does not notice that a key that it has read was written since.
    ConflictOverlooked,
    /// A commit does not notice that a key of a range that it has read was written since.
    PhantomOverlooked,
    /// A transaction commits although a range was deleted since that has keys it has read.
    RangeDeleteOverlooked,
    /// A read finds a version that a range tombstone deletes.
    RangeDeleteUnread,
    /// A compaction applies a range tombstone that a loss of power may take back.
    RangeDeleteNotDurable,
    /// A range tombstone is forgotten while tables have versions that it covers.
    TombstoneForgottenEarly,
    /// A hash group takes a record for alive whose range tombstone is forgotten.
    ForgottenRecordRevived,
    /// A search begins at the first key of an earlier one, in front of which a key was written.
    FrontOverlooksWrites,
    /// The id of a keyspace is given out again while something of the dropped one is left.
    KeyspaceIdReused,
    /// A checkpoint copies the log without what only the window has.
    CheckpointWithoutDrain,
    /// A backup takes a file of the previous one for the database's because of its name and length.
    BackupTrustsNames,
    /// A file is copied without a sync before `current` makes it a part of a database.
    CopyUnsynced,
    /// A close drops a log file that tables still point into.
    CloseForgetsALog,
    /// Space that the reserve has lent is not taken back.
    ReserveNotRefilled,
    /// A collection of a part of a group drops group tombstones that hide records of the rest.
    StubForgetsTheRest,
    /// Writers are stopped for garbage that no collection can reclaim.
    GarbageOfNobodyCounts,
    /// A key becomes hot without a marker in the index.
    HotWithoutMarker,
    /// A hot record that a snapshot sees is dropped when its key is updated.
    HotNotPinned,
    /// A key that is no longer hot leaves no stub, so that an older record of it comes back.
    HotStubForgotten,
    /// A collection writes an old version of a hot key to a younger place than its marker.
    MarkerBelowCollected,
    /// A key that was read often becomes hot with an old version, although it has a newer one.
    PromoteOverNewer,
    /// A load heats the keys that it writes.
    LoadHeats,
    /// A flush that finds the hot store too long ends promotions until the next flush.
    PromotionsFrozen,
    /// A short value that is demoted from the hot store comes back to the index empty.
    ShortDemotedEmpty,
    /// An open takes the record of a hot key that it meets first, not the newest one.
    OlderHotRevived,
    /// An open that cannot read a hot segment trusts records of older ones.
    OlderThanDamagedTrusted,
    /// A key whose hot record is lost is overwritten without a stub.
    LostHotWithoutStub,
    /// A newer version of a key elsewhere leaves its old hot record in the hot index.
    OverwrittenStaysHot,
    /// An overflow entry of the hot index is removed together with those chained behind it.
    ChainBroken,
    /// A shard of the hot index that grows copies its buckets only, without overflow entries.
    RehashLosesEntries,
    /// The greatest heat of a hot key is never halved.
    HeatNeverDecays,
    /// The record cache finds a record by its key, whatever its version.
    CachedWithoutSeq,
    /// Databases that share the memory of their caches find each other's blocks and records.
    CachedWithoutDatabase,
    /// A handle that only reads takes no lock.
    ReaderTakesNoLock,
    /// A reader beside a writer points to records that only the window has.
    WindowPointedTo,
    /// A reader beside a writer takes the end that it finds in the log for that of the writer.
    ShortTailBelieved,
    /// A reader beside a writer keeps its MemTable when the writer has flushed and removed what the
    /// entries point to.
    FlushedTailKept,
    /// A reader beside a writer reports what the writer has removed as damage.
    RemovedTakenForDamage,
    /// A copy of what a writer goes on to change is believed without a second look at its manifest.
    RemovedFilesCopied,
    /// A check beside a writer reports what it finds, although the writer has gone on.
    CheckedOnce,
    /// The recovery of a handle that only reads removes files on the disk.
    ReaderRemovesBelow,
    /// A read returns a value that has expired.
    ExpiredIsRead,
    /// A value that has expired leaves no tombstone, so that older ones come back.
    ExpiredHidesNothing,
    /// A value that has expired leaves although a snapshot began before.
    ExpiredUnderSnapshot,
    /// A collection of a hash group takes a record for alive that has expired and left the index.
    ExpiredRecordRevived,
    /// A job takes an operand for a value, and drops what it changes.
    OperandHidesOlder,
    /// A compaction combines an operand that a collection has repeated, and its original stays.
    RepeatCombined,
    /// A hot record at the beginning of a segment is taken for one of the segment before.
    RecordOfNextSegment,
    /// What is left of a value that has expired stays, and a check takes it for damage.
    LeftOverIsDamage,
    /// A job combines operands between which a snapshot reads.
    OperandsCombinedAcross,
    /// A collection drops or replaces a value, as a filter says, and the index keeps its old entry.
    FilteredEntryForgotten,
    /// A dictionary is used, and not stored.
    DictionaryNotStored,
    /// A dictionary gets the number of one that an earlier session has stored.
    DictionaryNumberReused,
    /// A dictionary goes with its keyspace although changes that are kept name it.
    ToldDictionaryDropped,
    /// A keyspace that is dropped leaves its dictionaries.
    DictionaryKeptByDrop,
    /// The file of a blob is not named by an edit.
    BlobNotNamed,
    /// A flush that writes groups takes a blob for a value of the log.
    BlobTakenForValue,
    /// A blob that only a MemTable names is dropped as dead.
    BlobReleasedEarly,
    /// A blob that replaces a value of a hash group leaves no group tombstone.
    LoneWithoutStub,
    /// A hash group does not learn of an operand above one of its values.
    StubOfMergeForgotten,
    /// A collection takes a short value that an operand has taken up for one that was deleted.
    TakenUpIsGone,
    /// A bulk load is published although MemTables have older versions of its keys.
    LoadUnderMemTables,
    /// A bulk load gets the last sequence number in use at its beginning.
    LoadNumberedEarly,
    /// The names of a bulk load's files are not durable before an edit names them.
    LoadUnsynced,
    /// A bulk load is published before its files are written.
    LoadNotAwaited,
    /// Values of a bulk load that stay in the index leave no group tombstones.
    LoadWithoutStubs,
    /// Groups are divided while a bulk load writes to them.
    DividedUnderLoad,
    /// A bulk load leaves keys of its own in the hot store.
    LoadLeavesHot,
    /// Tables of a bulk load go to deep levels below the run that a collection will write.
    LoadBelowWriteBack,
    /// A log file with changes that are kept is removed.
    ChangesRemoved,
    /// A flush makes operations durable, and not the log with their changes.
    ChangesUnsynced,
    /// Changes are read from a log file with a hole, from before they were kept.
    ChangesBehindHole,
    /// A collection of a range overlooks a collection of values that puts expired ones back.
    CollectionOverlooked,
    /// A collection of a range leaves what was deleted in the log that is kept for changes.
    ChangesCollected,
    /// Changes do not tell of a bulk load.
    LoadNotTold,
    /// A reader that asks for durable changes gets some that a loss of power may take.
    ChangesAhead,
    /// A reader of another process's changes believes a log that ends too early in the window.
    ShortChangesBelieved,
    /// A reader of another process's changes does not notice that what it has told was lost.
    ChangesOfLostSession,
}

/// Whether `bug` is planted: always false in a build for users.
#[cfg(not(feature = "test-planted-bugs"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "test-planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants `bug`, or none, for this thread.
#[cfg(feature = "test-planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether `bug` is planted for this thread.
#[cfg(feature = "test-planted-bugs")]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Fails unless `check` passes without the bug and panics with `bug` planted in this thread.
#[cfg(feature = "test-planted-bugs")]
pub fn must_notice(bug: Bug, check: impl Fn()) {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    check();
    plant(Some(bug));
    let outcome = catch_unwind(AssertUnwindSafe(&check));
    plant(None);
    assert!(outcome.is_err(), "no check notices {bug:?}");
}
