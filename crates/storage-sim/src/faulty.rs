//! A storage that fails chosen calls.
//!
//! Every call of the trait, on the storage or on a file, has a number, counted from 0. A plan names
//! calls by number or by rule and says how they fail; a failed call does not reach the storage
//! below, except that a short one reaches it with fewer bytes. A failed sync behaves as Linux does:
//! over a [`Sim`], the data that it should have made durable is forgotten, and a later sync, which
//! succeeds, does not bring it back (`Sim::lose_sync`).

mod backups;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::Mutex;
use cleavedb_storage::{
    Access, File, FileKind, FileLayer, Lock, LockMode, Mapping, Mode, Name, RemoveMode, Storage,
    StorageLayer,
};
use rustix::io::Errno;

pub use self::backups::{FaultyBackups, Unsynced};
use crate::sim::Sim;

/// Calls that the trace remembers; older ones are forgotten.
pub const TRACE_LEN: usize = 4096;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the methods of the traits")]
pub enum Op {
    Open,
    Create,
    Rename,
    Remove,
    List,
    Foreign,
    SyncDir,
    Lock,
    FreeSpace,
    Map,
    ReadAt,
    WriteAt,
    Sync,
    Allocate,
    Truncate,
    Punch,
    Len,
}

impl Op {
    /// What a disk refuses that has become read-only.
    pub const CHANGING: [Self; 9] = {
        use Op::{Allocate, Create, Punch, Remove, Rename, Sync, SyncDir, Truncate, WriteAt};
        [Allocate, Create, Punch, Remove, Rename, Sync, SyncDir, Truncate, WriteAt]
    };
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// EIO: the device failed.
    Io,
    /// ENOSPC: the disk is full.
    NoSpace,
    /// EDQUOT: the user's share of the disk is full.
    Quota,
    /// EINTR: a signal came first. Callers retry it rightly, so a plan that fails many calls fails
    /// only every second one in this way.
    Interrupted,
    /// EMFILE: too many open files.
    TooManyFiles,
    /// Any other error, by its number.
    Errno(i32),
    /// A read or write of half the bytes; a window that grows by half of what was asked for, which
    /// is an error, too. Other calls succeed.
    Short,
    /// A write that returns 0; other calls succeed.
    Zero,
}

impl Fault {
    /// The faults of a sweep that fails every call in turn.
    pub const ALL: [Self; 7] = [
        Self::Io,
        Self::NoSpace,
        Self::Quota,
        Self::Interrupted,
        Self::TooManyFiles,
        Self::Short,
        Self::Zero,
    ];

    fn error(self) -> Option<io::Error> {
        let errno = match self {
            Self::Io => Errno::IO.raw_os_error(),
            Self::NoSpace => Errno::NOSPC.raw_os_error(),
            Self::Quota => Errno::DQUOT.raw_os_error(),
            Self::Interrupted => Errno::INTR.raw_os_error(),
            Self::TooManyFiles => Errno::MFILE.raw_os_error(),
            Self::Errno(errno) => errno,
            Self::Short | Self::Zero => return None,
        };
        Some(io::Error::from_raw_os_error(errno))
    }
}

/// Which calls a plan is about; a field that is `None` matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// What the call does.
    pub op: Option<Op>,
    /// What the file holds. Calls without a file never match a rule with a kind.
    pub kind: Option<FileKind>,
}

impl Rule {
    /// All calls of `op`.
    pub fn op(op: Op) -> Self {
        Self { op: Some(op), kind: None }
    }

    /// All calls on files of `kind`.
    pub fn kind(kind: FileKind) -> Self {
        Self { op: None, kind: Some(kind) }
    }

    /// All calls of `op` on files of `kind`.
    pub fn both(op: Op, kind: FileKind) -> Self {
        Self { op: Some(op), kind: Some(kind) }
    }

    fn matches(&self, op: Op, name: Option<&Name>) -> bool {
        self.op.is_none_or(|o| o == op)
            && self.kind.is_none_or(|k| name.is_some_and(|n| n.kind() == k))
    }
}

/// One call, as the trace shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The number of the call.
    pub number: u64,
    /// What it did.
    pub op: Op,
    /// The file, if it was about one.
    pub name: Option<Name>,
    /// Offset of a read or write; length of an allocation, truncation or mapping.
    pub at: u64,
    /// Bytes of a read or write.
    pub len: usize,
    /// How it was failed, if it was.
    pub fault: Option<Fault>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.number, self.op)?;
        if let Some(name) = &self.name {
            write!(f, " {name} at={} len={}", self.at, self.len)?;
        }
        self.fault.map_or(Ok(()), |fault| write!(f, " -> {fault:?}"))
    }
}

/// Which calls fail, and whether the plan ends with the first of them.
struct Plan {
    from: u64,
    rule: Rule,
    fault: Fault,
    sticky: bool,
}

#[derive(Default)]
struct State {
    calls: u64,
    plans: Vec<Plan>,
    trace: VecDeque<Call>,
    interrupted_last: bool,
}

impl State {
    /// Counts a call and decides its fate.
    fn enter(&mut self, op: Op, name: Option<&Name>, at: u64, len: usize) -> Option<Fault> {
        let number = self.calls;
        self.calls += 1;
        let interrupted_last = std::mem::take(&mut self.interrupted_last);
        let due = self.plans.iter().position(|plan| {
            let spared = plan.sticky && plan.fault == Fault::Interrupted && interrupted_last;
            number >= plan.from && plan.rule.matches(op, name) && !spared
        });
        let fault = due.map(|i| {
            if self.plans[i].sticky { self.plans[i].fault } else { self.plans.remove(i).fault }
        });
        self.interrupted_last = fault == Some(Fault::Interrupted);
        if self.trace.len() == TRACE_LEN {
            self.trace.pop_front();
        }
        self.trace.push_back(Call { number, op, name: name.copied(), at, len, fault });
        fault
    }
}

/// What storage and files share.
struct Shared {
    state: Mutex<State>,
    sim: Option<Sim>,
}

impl Shared {
    /// Counts a call; `Err` if it fails here, else a fault that shortens it, if any.
    fn enter(&self, op: Op, name: Option<&Name>, at: u64, len: usize) -> io::Result<Option<Fault>> {
        let fault = self.state.lock().enter(op, name, at, len);
        match fault.and_then(Fault::error) {
            Some(error) => Err(error),
            None => Ok(fault),
        }
    }
}

/// A storage that counts the calls on another one and fails those that a test chose.
pub struct Faulty {
    inner: Arc<dyn Storage>,
    shared: Arc<Shared>,
}

impl Faulty {
    /// Wraps `inner`; nothing fails until a plan is made.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, shared: Arc::new(Shared { state: Mutex::default(), sim: None }) }
    }

    /// Wraps a simulator and tells it of failed syncs.
    pub fn over(sim: &Sim) -> Self {
        let shared = Shared { state: Mutex::default(), sim: Some(sim.clone()) };
        Self { inner: Arc::new(sim.clone()), shared: Arc::new(shared) }
    }

    /// Wraps `inner` as well: its calls are counted, and fail, together with those here.
    pub fn beside(&self, inner: Arc<dyn Storage>) -> Self {
        Self { inner, shared: self.shared.clone() }
    }

    fn plan(&self, from: u64, rule: Rule, fault: Fault, sticky: bool) {
        self.shared.state.lock().plans.push(Plan { from, rule, fault, sticky });
    }

    /// Number of calls so far, which is the number of the next call.
    pub fn calls(&self) -> u64 {
        self.shared.state.lock().calls
    }

    /// Fails call `n`.
    pub fn fail_call(&self, n: u64, fault: Fault) {
        self.plan(n, Rule::default(), fault, false);
    }

    /// Fails call `n` and all after it.
    pub fn fail_from(&self, n: u64, fault: Fault) {
        self.plan(n, Rule::default(), fault, true);
    }

    /// Fails all calls that `rule` matches.
    pub fn fail_matching(&self, rule: Rule, fault: Fault) {
        self.plan(0, rule, fault, true);
    }

    /// Fails the next call that `rule` matches.
    pub fn fail_next(&self, rule: Rule, fault: Fault) {
        self.plan(0, rule, fault, false);
    }

    /// Drops all plans.
    pub fn heal(&self) {
        self.shared.state.lock().plans.clear();
    }

    /// The last [`TRACE_LEN`] calls, oldest first.
    pub fn trace(&self) -> Vec<Call> {
        self.shared.state.lock().trace.iter().copied().collect()
    }
}

impl StorageLayer for Faulty {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let op = if mode == Mode::CreateNew { Op::Create } else { Op::Open };
        self.shared.enter(op, Some(name), 0, 0)?;
        let inner = self.inner.open(name, mode, access)?;
        Ok(Arc::new(FaultyFile { inner, name: *name, shared: self.shared.clone() }))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        self.shared.enter(Op::Rename, Some(from), 0, 0)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        self.shared.enter(Op::Remove, Some(name), 0, 0)?;
        self.inner.remove(name, pace)
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        self.shared.enter(Op::List, None, 0, 0)?;
        self.inner.list()
    }

    fn foreign(&self) -> io::Result<Vec<String>> {
        self.shared.enter(Op::Foreign, None, 0, 0)?;
        self.inner.foreign()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.shared.enter(Op::SyncDir, None, 0, 0)?;
        self.inner.sync_dir()
    }

    fn lock(&self, mode: LockMode) -> io::Result<Lock> {
        self.shared.enter(Op::Lock, None, 0, 0)?;
        self.inner.lock(mode)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.shared.enter(Op::FreeSpace, None, 0, 0)?;
        self.inner.free_space()
    }
}

struct FaultyFile {
    inner: Arc<dyn File>,
    /// The name of the file when it was opened.
    name: Name,
    shared: Arc<Shared>,
}

impl FaultyFile {
    fn enter(&self, op: Op, at: u64, len: usize) -> io::Result<Option<Fault>> {
        self.shared.enter(op, Some(&self.name), at, len)
    }

    /// Half of `len`, in whole units of the file's alignment; all of it if it cannot be halved.
    fn shortened(&self, len: usize, fault: Option<Fault>) -> usize {
        let half = (len / 2).next_multiple_of(self.inner.alignment());
        if fault == Some(Fault::Short) && half > 0 { half.min(len) } else { len }
    }
}

impl FileLayer for FaultyFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let fault = self.enter(Op::ReadAt, offset, buf.len())?;
        let len = self.shortened(buf.len(), fault);
        self.inner.read_at(&mut buf[..len], offset)
    }

    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let fault = self.enter(Op::ReadAt, offset, buf.len())?;
        let len = self.shortened(buf.len(), fault);
        self.inner.read_resident(&mut buf[..len], offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let fault = self.enter(Op::WriteAt, offset, buf.len())?;
        if fault == Some(Fault::Zero) {
            return Ok(0);
        }
        self.inner.write_at(&buf[..self.shortened(buf.len(), fault)], offset)
    }

    fn sync(&self) -> io::Result<()> {
        let entered = self.enter(Op::Sync, 0, 0);
        if let Err(error) = entered {
            // An interrupted sync leaves its data dirty; a failed one marks it clean.
            if let (Some(sim), false) =
                (&self.shared.sim, error.kind() == io::ErrorKind::Interrupted)
            {
                sim.lose_sync(&self.name);
            }
            return Err(error);
        }
        self.inner.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.enter(Op::Allocate, len, 0)?;
        self.inner.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.enter(Op::Truncate, len, 0)?;
        self.inner.truncate(len)
    }

    fn map(&self, len: usize) -> io::Result<Option<Mapping>> {
        self.enter(Op::Map, len as u64, 0)?;
        self.inner.map(len)
    }

    fn extend_mapped(&self, len: u64) -> io::Result<()> {
        if self.enter(Op::Allocate, len, 0)? != Some(Fault::Short) {
            return self.inner.extend_mapped(len);
        }
        let half = self.inner.len()? + (len - self.inner.len()?) / 2;
        self.inner.extend_mapped(half.next_multiple_of(BLOCK as u64))?;
        Err(Errno::NOSPC.into())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.enter(Op::Punch, offset, len as usize)?;
        self.inner.punch(offset, len)
    }

    fn len(&self) -> io::Result<u64> {
        self.enter(Op::Len, 0, 0)?;
        self.inner.len()
    }
}

#[cfg(test)]
mod tests;
