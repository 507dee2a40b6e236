//! A call that only tests of other crates need.

use cleavedb_base::Result;

use super::Db;
use crate::background::maintenance;
use crate::open::session;

impl Db {
    /// Collects values by what is known to be dead, as jobs do: for tests of what meets such a
    /// collection. [`Db::collect`] finds out first what is dead, and waits for compactions.
    #[doc(hidden)]
    pub fn collect_as_jobs_do(&self) -> Result<()> {
        self.default.open_engine()?;
        let engine = self.default.inner.writable()?;
        maintenance::flush_all(engine)?;
        session::end_log_file(engine)?;
        maintenance::collect_while(engine, &|| true)
    }
}
