//! What ends a script that takes too long.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use mlua::{HookTriggers, Lua, VmState};

/// Instructions between two looks at the clock.
const INSTRUCTIONS: u32 = 200;

/// Why a script has no end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time that scripts have is over.
    Late,
    /// `SCRIPT KILL` has ended it.
    Killed,
    /// What runs its commands has ended it.
    ByHost,
}

/// Looks after a script that runs.
pub(super) struct ScriptWatch {
    until: Option<Instant>,
    is_killed: Box<dyn Fn() -> bool>,
    ended: Cell<Option<Ended>>,
}

impl ScriptWatch {
    /// For a script that is to end at a time, or when `is_killed` says so.
    pub(super) fn new(until: Option<Instant>, is_killed: Box<dyn Fn() -> bool>) -> Rc<Self> {
        Rc::new(Self { until, is_killed, ended: Cell::new(None) })
    }

    /// Ends what runs in a state from now on when it is to end.
    pub(super) fn begin(self: &Rc<Self>, lua: &Lua) -> mlua::Result<()> {
        let looking = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(triggers, move |lua, _| looking.look(lua).map(|()| VmState::Continue))
    }

    /// Fails if the script is to end.
    pub(super) fn look(&self, lua: &Lua) -> mlua::Result<()> {
        let is_late = || self.until.is_some_and(|until| Instant::now() >= until);
        match self.ended.get() {
            Some(why) => Err(self.end(lua, why)),
            None if (self.is_killed)() => Err(self.end(lua, Ended::Killed)),
            None if is_late() => Err(self.end(lua, Ended::Late)),
            None => Ok(()),
        }
    }

    /// Ends the script: the error that does it comes again at each instruction, so that a script
    /// which catches it gets no further.
    pub(super) fn end(&self, lua: &Lua, why: Ended) -> mlua::Error {
        self.ended.set(Some(why));
        let error = || mlua::Error::runtime("the script is to end");
        let each = HookTriggers::new().every_nth_instruction(1);
        lua.set_global_hook(each, move |_, _| Err(error())).err().unwrap_or_else(error)
    }

    /// Why the script has ended, if it has not done so itself.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended.get()
    }
}
