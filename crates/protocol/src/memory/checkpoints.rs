//! Manifests and the states that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use super::circuit::Sums;
use super::{Fate, MemoryError, Operation};
use crate::ports::{Checkpoint, CheckpointStore, Put};
use crate::position::CommitId;

/// A store of checkpoints. A clone is the same store.
#[derive(Clone, Default)]
pub struct States(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    manifests: BTreeMap<u64, Checkpoint>,
    states: BTreeMap<CommitId, Sums>,
    /// A put whose request is still on its way.
    late: Option<Checkpoint>,
}

impl States {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// One process's hold on it.
    #[must_use]
    pub fn open(&self) -> MemoryCheckpoints {
        MemoryCheckpoints { store: self.clone(), fate: Box::new(|_| Fate::Well) }
    }

    pub(super) fn save(&self, id: CommitId, sums: Sums) {
        self.state().states.insert(id, sums);
    }

    pub(super) fn saved(&self, id: CommitId) -> Option<Sums> {
        self.state().states.get(&id).cloned()
    }

    /// The manifests, oldest first.
    #[must_use]
    pub fn manifests(&self) -> Vec<Checkpoint> {
        self.state().manifests.values().cloned().collect()
    }

    /// The states that lie in it, named by a manifest or not.
    #[must_use]
    pub fn saved_states(&self) -> BTreeSet<CommitId> {
        self.state().states.keys().copied().collect()
    }

    /// The newest manifest gets lost. False where there is no other.
    pub fn lose_manifest(&self) -> bool {
        let mut state = self.state();
        state.manifests.len() > 1 && state.manifests.pop_last().is_some()
    }

    /// The state of the newest manifest gets lost. False where there is no other manifest.
    pub fn lose_state(&self) -> bool {
        let mut state = self.state();
        let newest = state.manifests.values().next_back().map(|newest| newest.id);
        state.manifests.len() > 1 && newest.is_some_and(|newest| state.states.remove(&newest).is_some())
    }

    /// A state gets lost. False where it was not there.
    pub fn forget(&self, id: CommitId) -> bool {
        self.state().states.remove(&id).is_some()
    }

    /// A late put arrives. True when it was not too late.
    pub fn deliver_late(&self) -> bool {
        let mut state = self.state();
        state.late.take().is_some_and(|checkpoint| state.put(&checkpoint))
    }
}

impl State {
    fn put(&mut self, checkpoint: &Checkpoint) -> bool {
        let free = !self.manifests.contains_key(&checkpoint.number.0);
        if free {
            self.manifests.insert(checkpoint.number.0, checkpoint.clone());
        }
        free
    }
}

/// One process's hold on a store of checkpoints.
pub struct MemoryCheckpoints {
    store: States,
    fate: Box<dyn FnMut(Operation) -> Fate + Send>,
}

impl MemoryCheckpoints {
    /// Lets `fate` decide what becomes of each call.
    #[must_use]
    pub fn fated(self, fate: impl FnMut(Operation) -> Fate + Send + 'static) -> Self {
        Self { fate: Box::new(fate), ..self }
    }

    fn ask(&mut self, operation: Operation, doing: &'static str) -> Result<Fate, MemoryError> {
        match (self.fate)(operation) {
            Fate::Well => Ok(Fate::Well),
            fate if operation.puts() => Ok(fate),
            _ => Err(MemoryError::Outage(doing)),
        }
    }
}

impl CheckpointStore for MemoryCheckpoints {
    type Error = MemoryError;

    fn list(&mut self) -> Result<Vec<Checkpoint>, MemoryError> {
        self.ask(Operation::List, "list checkpoints")?;
        Ok(self.store.manifests())
    }

    fn put(&mut self, checkpoint: &Checkpoint) -> Result<Put, MemoryError> {
        let fate = self.ask(Operation::Save, "put a manifest")?;
        let mut state = self.store.state();
        match fate {
            Fate::Fails => return Err(MemoryError::Outage("put a manifest")),
            Fate::Conflict => return Ok(Put::Taken),
            Fate::Late => {
                state.late = Some(checkpoint.clone());
                return Err(MemoryError::Outage("put a manifest"));
            }
            Fate::Well | Fate::ReplyLost | Fate::SentTwice => {}
        }
        let landed = state.put(checkpoint);
        match fate {
            Fate::ReplyLost => Err(MemoryError::Outage("put a manifest")),
            Fate::Well if landed => Ok(Put::Done),
            _ => Ok(Put::Taken),
        }
    }

    fn remove(&mut self, checkpoints: &[Checkpoint]) -> Result<(), MemoryError> {
        self.ask(Operation::Remove, "remove checkpoints")?;
        let mut state = self.store.state();
        for old in checkpoints {
            if state.manifests.get(&old.number.0).is_some_and(|there| there.id == old.id) {
                state.manifests.remove(&old.number.0);
            }
            if state.manifests.values().all(|there| there.id != old.id) {
                state.states.remove(&old.id);
            }
        }
        Ok(())
    }
}
