//! What an operator needs to add itself to a worker's circuit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::Array;
use arrow_buffer::NullBuffer;
use arrow_schema::Schema;
use dbsp::{OrdIndexedZSet, OrdZSet, RootCircuit, Stream};

use crate::codec::Codec;
use crate::delta::Delta;
use crate::failure::Failures;
use crate::refused::Refused;
use crate::row::Row;
use crate::sorted;

/// Changes of a relation, step by step.
pub type Deltas = Stream<RootCircuit, Delta>;
/// The same, as a Z-set of rows.
pub type Rows = Stream<RootCircuit, OrdZSet<Row>>;
/// The same, by key.
pub type Indexed = Stream<RootCircuit, OrdIndexedZSet<Row, Row>>;

/// Of what type the traces of a piece of state are: a checkpoint's bytes do not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// Whole rows, as [`Rows`].
    Rows,
    /// Rows by key, as [`Indexed`].
    Indexed,
    /// Groups with an accumulator for a weight, and what each comes to by key: a linear aggregate.
    Summed,
}

/// The kind of each piece of state by its name in a checkpoint; all workers write the same.
pub type Pieces = Arc<Mutex<BTreeMap<String, Kind>>>;

/// Where an operator stands while it is built.
#[allow(missing_debug_implementations, reason = "streams have none")]
pub struct Builder {
    /// The node's number in the plan.
    pub node: usize,
    /// Its name for people: `#3 Filter`.
    pub name: String,
    /// Where rows go that an expression fails for.
    pub failures: Failures,
    /// The relations from outside, in the plan's order.
    pub sources: Vec<Deltas>,
    /// One row without columns, in the first step of all.
    pub unit: Deltas,
    /// What the operators keep.
    pub pieces: Pieces,
}

impl Builder {
    /// The name under which a checkpoint keeps a piece of the node's state, which is of `kind`.
    #[must_use]
    pub fn id(&self, kind: Kind, piece: &str) -> Option<String> {
        let name = format!("n{}.{piece}", self.node);
        note(&self.pieces, &name, kind);
        Some(name)
    }
}

/// Notes that the circuit keeps a piece of this name.
///
/// # Panics
/// When it is noted with another kind.
pub fn note(pieces: &Pieces, name: &str, kind: Kind) {
    let mut pieces = pieces.lock().expect("no worker panics while it holds this");
    let known = *pieces.entry(name.to_owned()).or_insert(kind);
    assert_eq!(known, kind, "the piece {name} has one kind");
}

/// Columns that rows are found by, and columns that are kept of them.
#[derive(Debug)]
pub struct Index {
    keys: Vec<usize>,
    values: Vec<usize>,
    key_codec: Codec,
    value_codec: Codec,
    /// Leave out rows with a NULL in their key, which no key equals.
    no_null_keys: bool,
}

impl Index {
    /// By the columns at `keys` of `schema`; those at `values` are kept.
    ///
    /// # Errors
    /// When a column can't be compared.
    pub fn new(schema: &Schema, keys: Vec<usize>, values: Vec<usize>, no_null_keys: bool) -> Result<Self, Refused> {
        let kind = |at: &usize| schema.field(*at).data_type();
        let key_codec = Codec::new(keys.iter().map(kind))?;
        let value_codec = Codec::new(values.iter().map(kind))?;
        Ok(Self { keys, values, key_codec, value_codec, no_null_keys })
    }

    /// The change as a Z-set by key.
    fn indexed(&self, delta: &Delta) -> OrdIndexedZSet<Row, Row> {
        let parts = delta.0.iter().map(|part| {
            let keys = part.columns(&self.keys);
            let nulls = keys.iter().filter_map(|column| column.logical_nulls()).filter(|_| self.no_null_keys);
            let nulls: Vec<NullBuffer> = nulls.collect();
            let values = self.value_codec.encoded(&part.columns(&self.values));
            (self.key_codec.encoded(&keys), values, nulls, part.weights.values())
        });
        let parts: Vec<_> = parts.collect();
        let mut tuples = Vec::with_capacity(delta.rows());
        for (keys, values, nulls, weights) in &parts {
            for (row, weight) in weights.iter().enumerate() {
                if !nulls.iter().any(|nulls| nulls.is_null(row)) {
                    tuples.push((keys.row(row), values.row(row), *weight));
                }
            }
        }
        sorted::indexed(&tuples)
    }
}

/// Adds an index of `input` to the circuit; a checkpoint keeps its state, if an operator has any, under `piece`.
pub fn index(builder: &Builder, piece: &str, input: &Deltas, index: &Arc<Index>) -> Indexed {
    let index = Arc::clone(index);
    let stream = input.apply_named("Index", move |delta: &Delta| index.indexed(delta));
    stream.set_persistent_id(builder.id(Kind::Indexed, piece).as_deref())
}
