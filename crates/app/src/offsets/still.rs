//! What stands for the topic and the stage where only frontiers move: partitions are given, nothing is read.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use lakeward_delta::{Batch, Layout};
use lakeward_protocol::ports::{Bounds, Fault, Input, InputLog, Stage, Verdict};
use lakeward_protocol::position::{Frontier, PartitionId};
use lakeward_protocol::records::Records;

/// An input that gives partitions, and has no record of them.
pub struct Given(pub Option<BTreeSet<PartitionId>>);

/// A stage that is given nothing.
pub struct Nothing;

/// Nothing goes wrong where nothing is done.
#[derive(Debug, thiserror::Error)]
#[error("nothing is done here")]
pub struct Never(Infallible);

impl Fault for Never {
    fn verdict(&self) -> Verdict {
        match self.0 {}
    }
}

impl InputLog for Given {
    type Error = Never;

    fn poll(&mut self, _: usize, _: Duration) -> Result<Option<Input>, Never> {
        Ok(self.0.take().map(Input::Gained))
    }

    fn start(&mut self, _: &Frontier) -> Result<(), Never> {
        Ok(())
    }

    fn release(&mut self, _: &BTreeSet<PartitionId>) -> Result<(), Never> {
        Ok(())
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<Bounds, Never> {
        unreachable!("where partition {partition} goes on is given, so its bounds are not asked")
    }

    fn announce(&mut self, _: &Frontier) {}

    fn recycle(&mut self, _: Records) {}
}

impl Stage for Nothing {
    type Batch = Batch;
    type Layout = Layout;
    type Error = Never;

    fn open(&mut self, _: &Layout) -> Result<(), Never> {
        Ok(())
    }

    fn push(&mut self, _: Records) -> Result<Option<Records>, Never> {
        unreachable!("P1: records where only frontiers move")
    }

    fn is_full(&self) -> bool {
        false
    }

    fn seal(&mut self) -> Result<Batch, Never> {
        Ok(Batch::default())
    }

    fn discard(&mut self) {}
}
