//! What ends a script that takes too long.

use std::cell::{Cell, RefCell};
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
    /// More memory was needed than scripts have.
    Greedy,
    /// What runs its commands has ended it.
    ByHost,
}

/// Looks after the scripts of a state.
pub(super) struct ScriptWatch {
    until: Cell<Option<Instant>>,
    is_killed: RefCell<Box<dyn Fn() -> bool>>,
    ended: Cell<Option<Ended>>,
    /// Whether a script has changed what the next one would find.
    is_spent: Cell<bool>,
    /// Bytes of texts that wait for functions of the script that make the rest of them.
    pub(super) unfinished: Cell<usize>,
}

impl ScriptWatch {
    /// For a state in which no script has run.
    pub(super) fn new(lua: &Lua) -> mlua::Result<Rc<Self>> {
        let watch = Rc::new(Self {
            until: Cell::new(None),
            is_killed: RefCell::new(Box::new(|| false)),
            ended: Cell::new(None),
            is_spent: Cell::new(false),
            unfinished: Cell::new(0),
        });
        let looking = watch.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(triggers, move |lua, _| looking.look(lua).map(|()| VmState::Continue))?;
        Ok(watch)
    }

    /// Ends what runs from now on at a time, or when `is_killed` says so.
    pub(super) fn begin(&self, until: Option<Instant>, is_killed: Box<dyn Fn() -> bool>) {
        self.until.set(until);
        *self.is_killed.borrow_mut() = is_killed;
    }

    /// Notes that the script has changed what the next one would find.
    pub(super) fn spend(&self) {
        self.is_spent.set(true);
    }

    /// Whether the next script finds what the first one has found.
    pub(super) fn is_as_new(&self) -> bool {
        !self.is_spent.get() && self.ended.get().is_none()
    }

    /// Fails if the script is to end.
    pub(super) fn look(&self, lua: &Lua) -> mlua::Result<()> {
        let is_late = || self.until.get().is_some_and(|until| Instant::now() >= until);
        match self.ended.get() {
            Some(why) => Err(self.end(lua, why)),
            None if (self.is_killed.borrow())() => Err(self.end(lua, Ended::Killed)),
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
