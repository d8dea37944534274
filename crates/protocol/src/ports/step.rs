//! What running by step asks for besides: a circuit with state, and a store of its checkpoints.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Fault, Put};
use crate::position::{CheckpointNumber, CommitId, Frontier, SinkId};
use crate::records::Records;

/// A manifest: what makes a circuit's saved state count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    /// Where it lies in the store; put if absent.
    pub number: CheckpointNumber,
    /// The name under which the circuit saved its state. Never reused.
    pub id: CommitId,
    /// The state is the one over exactly the input below it.
    pub frontier: Frontier,
    /// Where the pipeline began, for ever. A partition that it does not name was added to its topic
    /// later, and began at 0.
    pub begun: Frontier,
    /// What the circuit wants to be told at [`Circuit::restore`] (fingerprint of the plan, workers,
    /// layout, ...); opaque here. `None`: the empty circuit, and no state was saved.
    pub state: Option<Vec<u8>>,
}

/// How a restore ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Restored {
    /// The circuit is what it was at the checkpoint.
    Done,
    /// Its saved state, or a part of it, is not there any more. The circuit is to be restored to another.
    Missing,
}

/// What turns input into the changes of each sink, and remembers. Every implementation passes
/// `contract::circuit`.
///
/// The circuit promises P6: its state, and the sum of its changes from one frontier to another,
/// depend on the input between them alone, never on how it was cut into pushes and steps, nor on
/// how the partitions were interleaved. A bad record harms no other: it is a row of the sink for
/// dead letters, where the pipeline has one.
///
/// The caller promises: `restore` comes before anything else, and again after any error of `push` or
/// `step`; records of a partition form a chain from the restored frontier; every sink is open
/// before a step wants it.
pub trait Circuit {
    /// What one commit to a sink takes.
    type Batch;
    /// What a sink's data must be written for.
    type Layout;
    /// What goes wrong here.
    type Error: Fault;

    /// Makes itself ready to write for a sink's layout; holds no changes of it. Outlives `restore`.
    ///
    /// # Errors
    /// The layout is one that we can't write for.
    fn open(&mut self, sink: SinkId, layout: &Self::Layout) -> Result<(), Self::Error>;

    /// Becomes the circuit of a checkpoint, or the empty one, and forgets everything else: what was
    /// pushed, what was stepped, what it holds for sinks, a save that is under way.
    ///
    /// # Errors
    /// The state was saved by another plan, or with other workers: a person has to decide. Or it can't
    /// be read for now: call it again.
    fn restore(&mut self, from: &Checkpoint) -> Result<Restored, Self::Error>;

    /// Gets what these records need from outside (the schemas that they name, say), before they are pushed. What is
    /// pushed already may be stepped, and committed, as long as it can't.
    ///
    /// # Errors
    /// It can't be had now, or ever. Nothing was taken in: ask again with the same records, or not at all.
    fn look_up(&mut self, records: &Records) -> Result<(), Self::Error> {
        let _ = records;
        Ok(())
    }

    /// Takes records in, for the next step; returns an arena to recycle, where it has one.
    ///
    /// # Errors
    /// What was pushed since the last step is in doubt.
    fn push(&mut self, records: Records) -> Result<Option<Records>, Self::Error>;

    /// Should a step be taken before its time, to keep within memory?
    fn is_full(&self) -> bool;

    /// Takes in all that was pushed, as one transaction. The changes of `wanted` sinks are added to
    /// what is held for them, those of the others are forgotten. Returns the sinks of which anything
    /// is held; changes that cancel out are none.
    ///
    /// # Errors
    /// The state is in doubt.
    fn step(&mut self, wanted: &BTreeSet<SinkId>) -> Result<BTreeSet<SinkId>, Self::Error>;

    /// Closes what is held for a sink into a batch, durable enough that a commit may name it. `None`
    /// where nothing is held.
    ///
    /// # Errors
    /// Nothing is sealed and everything is still held: retry.
    fn seal(&mut self, sink: SinkId) -> Result<Option<Self::Batch>, Self::Error>;

    /// Begins to save the state as it is now under `id`; later steps leave what is saved as it is. Called
    /// between steps, with nothing pushed and nothing held, and no other save under way.
    ///
    /// # Errors
    /// Nothing is begun; the circuit is what it was: retry, under the same name.
    fn prepare(&mut self, id: CommitId) -> Result<(), Self::Error>;

    /// Waits up to so long for the save that is under way. Once the state is durable: what its manifest
    /// has to keep. It does not count before a manifest names it.
    ///
    /// # Errors
    /// It is not saved, and not under way any more; the circuit is what it was. Begin anew, under
    /// another name.
    fn finish(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// Where manifests lie. Every implementation passes `contract::checkpoints`.
///
/// The store promises: `put` is atomic, durable and if absent; what was put is listed until it is
/// removed, by every process; `list` names only what it can read in full.
///
/// The caller promises: the state of a manifest is saved before it is put; the newest is never
/// removed, nor the only one that is listed.
pub trait CheckpointStore {
    /// What goes wrong here.
    type Error: Fault;

    /// The readable manifests, oldest first.
    ///
    /// # Errors
    /// Unknown as yet.
    fn list(&mut self) -> Result<Vec<Checkpoint>, Self::Error>;

    /// Puts a manifest at its number, if that is free.
    ///
    /// # Errors
    /// The outcome is unknown: it may be there.
    fn put(&mut self, checkpoint: &Checkpoint) -> Result<Put, Self::Error>;

    /// Removes manifests, each before the state that it names; state that another manifest names
    /// stays. Idempotent. States that no manifest names (a process ended before it put one) may go
    /// as well, once they are old enough that nobody can be about to name them.
    ///
    /// # Errors
    /// Some may be removed, some not.
    fn remove(&mut self, checkpoints: &[Checkpoint]) -> Result<(), Self::Error>;
}
