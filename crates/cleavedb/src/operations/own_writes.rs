//! Own writes: what a thread commits while it runs the body of a transaction. A body that writes,
//! past its transaction, what this has read would meet a conflict at each try, for ever.

use std::cell::RefCell;

use cleavedb_base::SeqNo;

/// The first and the last sequence number of a commit, and the database that it went to, as the
/// address of a part of it.
type OwnCommit = (usize, SeqNo, SeqNo);

thread_local! {
    /// Commits since the outermost body began; none while no body runs.
    static COMMITS: RefCell<Option<Vec<OwnCommit>>> = const { RefCell::new(None) };
}

/// The commits of this thread are noted as long as it is held.
pub(crate) struct Body {
    is_outermost: bool,
}

impl Body {
    /// A body begins.
    pub(crate) fn begin() -> Self {
        COMMITS.with_borrow_mut(|commits| {
            let is_outermost = commits.is_none();
            commits.get_or_insert_default();
            Self { is_outermost }
        })
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.is_outermost {
            COMMITS.set(None);
        }
    }
}

/// Notes a commit, if a body runs.
pub(crate) fn note(commit: OwnCommit) {
    COMMITS.with_borrow_mut(|commits| {
        let Some(commits) = commits else { return };
        match commits.last_mut() {
            Some(last) if last.0 == commit.0 && last.2 + 1 == commit.1 => last.2 = commit.2,
            _ => commits.push(commit),
        }
    });
}

/// Whether the body that runs has made the write `seq` of this database.
pub(crate) fn has(database: usize, seq: SeqNo) -> bool {
    COMMITS.with_borrow(|commits| {
        let of = |(of, first, last): &OwnCommit| *of == database && (*first..=*last).contains(&seq);
        commits.as_ref().is_some_and(|commits| commits.iter().any(of))
    })
}
