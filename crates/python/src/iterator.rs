//! Iterators over ranges: they fetch several items each time that they release the interpreter.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cleavedb::{Error, Item, Range};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::buffer::value;
use crate::errors::raise;
use crate::source::OpenDatabase;

/// Least and most items of one fetch.
const ITEMS: RangeInclusive<usize> = 4..=64;

/// Most bytes of one fetch.
const BYTES_MAX: usize = 256 << 10;

/// What an iterator returns of each item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The key and the value.
    Item,
    /// The key; no value is read.
    Key,
    /// The value.
    Value,
}

/// An iterator over a range of keys, as of the moment when it was made.
#[pyclass(module = "cleavedb", frozen, name = "Items")]
pub struct PyItems {
    session: Arc<OpenDatabase>,
    part: Part,
    walk: Mutex<Walk>,
}

struct Walk {
    range: Range,
    reverse: bool,
    fetched: VecDeque<Item>,
    /// What ended the range, for the step behind the last item.
    failed: Option<Error>,
    /// Items that were fetched. The next fetch is a quarter of them: what a caller does not take of
    /// it costs little beside what was taken.
    passed: usize,
}

impl Walk {
    fn fetch(&mut self) {
        let mut bytes = 0;
        let items = (self.passed / 4).clamp(*ITEMS.start(), *ITEMS.end());
        while self.failed.is_none() && self.fetched.len() < items && bytes < BYTES_MAX {
            match if self.reverse { self.range.next_back() } else { self.range.next() } {
                None => break,
                Some(Err(error)) => self.failed = Some(error),
                Some(Ok(item)) => {
                    bytes += item.key.len() + item.value.len();
                    self.fetched.push_back(item);
                }
            }
        }
        self.passed += self.fetched.len();
    }

    fn step(&mut self) -> cleavedb::Result<Option<Item>> {
        if self.fetched.is_empty() {
            self.fetch();
        }
        match self.fetched.pop_front() {
            None => self.failed.take().map_or(Ok(None), Err),
            item => Ok(item),
        }
    }
}

impl PyItems {
    pub(crate) fn new(session: Arc<OpenDatabase>, range: Range, part: Part, reverse: bool) -> Self {
        let range = if part == Part::Key { range.keys_only() } else { range };
        let fetched = VecDeque::new();
        let walk = Walk { range, reverse, fetched, failed: None, passed: 0 };
        Self { session, part, walk: Mutex::new(walk) }
    }

    fn step(&self, py: Python<'_>) -> PyResult<Option<Item>> {
        self.session.check_open()?;
        // A thread that holds the interpreter must not wait for one that will want it.
        if let Some(item) = self.walk.try_lock().and_then(|mut walk| walk.fetched.pop_front()) {
            return Ok(Some(item));
        }
        py.detach(|| self.walk.lock().step()).map_err(raise)
    }
}

#[pymethods]
impl PyItems {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(item) = self.step(py)? else { return Ok(None) };
        Ok(Some(match self.part {
            Part::Key => value(py, &item.key).into_any(),
            Part::Value => value(py, &item.value).into_any(),
            Part::Item => {
                (value(py, &item.key), value(py, &item.value)).into_pyobject(py)?.into_any()
            }
        }))
    }
}
