//! Several inputs as one: the sources of a pipeline, polled in turn.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::ports::{Bounds, Input, InputLog};
use crate::position::{Frontier, PartitionId, SourceId};
use crate::records::Records;

/// The sources of a pipeline by step, each opened alone, in the order in which it names them.
/// A partition of it says of which one it is ([`PartitionId::of`]).
pub struct Sources<I> {
    inputs: Vec<I>,
    /// Who is asked first.
    turn: usize,
    /// Whose an arena is does not matter: they are handed out in turn.
    recycled: usize,
}

impl<I: InputLog> Sources<I> {
    /// # Panics
    /// Without an input, or with more than 255.
    #[must_use]
    pub fn new(inputs: Vec<I>) -> Self {
        assert!(!inputs.is_empty() && inputs.len() <= usize::from(u8::MAX), "a pipeline has 1 to 255 sources");
        Self { inputs, turn: 0, recycled: 0 }
    }

    /// What is said of `source`'s own partitions, of those of the pipeline.
    fn relabel(source: usize, said: Input) -> Input {
        let whole = |p: PartitionId| outer(source, p);
        let all = |set: BTreeSet<PartitionId>| set.into_iter().map(whole).collect();
        match said {
            Input::Gained(partitions) => Input::Gained(all(partitions)),
            Input::Losing(partitions) => Input::Losing(all(partitions)),
            Input::Lost(partitions) => Input::Lost(all(partitions)),
            Input::Records(mut records) => {
                records.relabel(whole(records.partition()));
                Input::Records(records)
            }
            Input::Reached { partition, end } => Input::Reached { partition: whole(partition), end },
            Input::Gone { partition, at, oldest, end } => Input::Gone { partition: whole(partition), at, oldest, end },
        }
    }
}

/// The pipeline's name of a source's partition.
fn outer(source: usize, partition: PartitionId) -> PartitionId {
    PartitionId::of(SourceId(u8::try_from(source).expect("up to 255 sources")), partition.number())
}

/// The source's own name of it.
fn inner(partition: PartitionId) -> PartitionId {
    PartitionId::of(SourceId(0), partition.number())
}

fn is_of(source: usize, partition: PartitionId) -> bool {
    usize::from(partition.source().0) == source
}

fn part(source: usize, frontier: &Frontier) -> Frontier {
    let own = frontier.iter().filter(|(p, _)| is_of(source, **p));
    own.map(|(p, at)| (inner(*p), *at)).collect()
}

impl<I: InputLog> InputLog for Sources<I> {
    type Error = I::Error;

    fn poll(&mut self, most: usize, wait: Duration) -> Result<Option<Input>, I::Error> {
        let count = self.inputs.len();
        for n in 0..count {
            let source = (self.turn + n) % count;
            // Only the last one may wait: the others are asked what they have.
            let wait = if n + 1 == count { wait } else { Duration::ZERO };
            if let Some(said) = self.inputs[source].poll(most, wait)? {
                self.turn = (source + 1) % count;
                return Ok(Some(Self::relabel(source, said)));
            }
        }
        self.turn = (self.turn + 1) % count;
        Ok(None)
    }

    fn start(&mut self, at: &Frontier) -> Result<(), I::Error> {
        for (source, input) in self.inputs.iter_mut().enumerate() {
            let own = part(source, at);
            if !own.is_empty() {
                input.start(&own)?;
            }
        }
        Ok(())
    }

    fn release(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<(), I::Error> {
        for (source, input) in self.inputs.iter_mut().enumerate() {
            let own: BTreeSet<_> = partitions.iter().filter(|p| is_of(source, **p)).map(|p| inner(*p)).collect();
            if !own.is_empty() {
                input.release(&own)?;
            }
        }
        Ok(())
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<Bounds, I::Error> {
        self.inputs[usize::from(partition.source().0)].bounds(inner(partition))
    }

    fn announce(&mut self, frontier: &Frontier) {
        for (source, input) in self.inputs.iter_mut().enumerate() {
            input.announce(&part(source, frontier));
        }
    }

    fn recycle(&mut self, records: Records) {
        let count = self.inputs.len();
        self.recycled = (self.recycled + 1) % count;
        self.inputs[self.recycled].recycle(records);
    }

    fn trim(&mut self, below: &Frontier) -> Result<(), I::Error> {
        for (source, input) in self.inputs.iter_mut().enumerate() {
            let own = part(source, below);
            if !own.is_empty() {
                input.trim(&own)?;
            }
        }
        Ok(())
    }
}
