//! What stands for `broken.rs` in everything that ships: nothing.

use super::{StepAction, StepCore, StepEvent, StepReason};
use crate::core::Why;
use crate::core::commit::Commit;
use crate::ports::{Checkpoint, Head};
use crate::position::{Frontier, SinkId};

/// No fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bent;

impl StepCore {
    #[inline]
    pub(super) fn bend_next(&self, action: StepAction) -> StepAction {
        action
    }

    #[inline]
    pub(super) fn bend_event(&mut self, event: StepEvent) -> Option<StepEvent> {
        Some(event)
    }

    #[inline]
    pub(super) fn bend_state(&mut self) {}

    #[inline]
    pub(super) fn bend_boundary<'a>(&self, boundary: Option<&'a Frontier>) -> Option<&'a Frontier> {
        boundary
    }

    #[inline]
    pub(super) fn bend_load(&self, turn: SinkId) -> SinkId {
        turn
    }

    #[inline]
    pub(super) fn bend_judge(
        &self,
        found: Result<Option<Checkpoint>, StepReason>,
    ) -> Result<Option<Checkpoint>, StepReason> {
        found
    }

    #[inline]
    pub(super) fn bend_compare(&mut self, compared: Result<(), Why>, _: &mut Commit, _: &Head) -> Result<(), Why> {
        compared
    }

    #[inline]
    pub(super) fn bend_assert(&self, holds: bool, what: &str) {
        assert!(holds, "{what}");
    }
}
