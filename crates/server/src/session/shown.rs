//! Calls as those are shown them who have asked for it by `MONITOR`.

use super::ClientSession;
use super::calls::{InnerCall, without_secrets};
use crate::command::table::{CommandRow, flag};
use crate::shared::ServerShared;

impl ClientSession {
    /// Shows a call to those that have asked for it; not one of an administrator.
    pub(super) fn show(
        &self,
        shared: &ServerShared,
        from: &str,
        command: &CommandRow,
        args: &[&[u8]],
    ) {
        if !shared.monitors.is_empty() && !command.is(flag::SKIP_MONITOR | flag::ADMIN) {
            let args = without_secrets(command, args);
            shared.monitors.show(self.database, from, &args);
        }
    }

    /// Counts and shows the commands of a transaction, or of a script, for which `from` is `lua`.
    pub(super) fn end_inner(&self, shared: &ServerShared, from: &str, inner: &[InnerCall<'_>]) {
        inner.iter().for_each(|call| self.show(shared, from, call.command, call.args));
        self.calls.add_inner(&shared.observer, &self.client, inner);
    }
}
