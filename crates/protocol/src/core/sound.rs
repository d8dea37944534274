//! What stands for `broken.rs` in everything that ships: nothing.

use super::commit::Commit;
use super::reason::Why;
use super::words::{Action, Event};
use super::{Core, Head};

/// No fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bent;

impl Core {
    #[inline]
    pub(super) fn bend_next(&self, action: Action) -> Action {
        action
    }

    #[inline]
    pub(super) fn bend_event(&mut self, event: Event) -> Option<Event> {
        Some(event)
    }

    #[inline]
    pub(super) fn bend_state(&mut self) {}

    #[inline]
    pub(super) fn bend_compare(&mut self, compared: Result<(), Why>, _: &mut Commit, _: &Head) -> Result<(), Why> {
        compared
    }
}
