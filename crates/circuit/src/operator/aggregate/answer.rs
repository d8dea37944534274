//! How an aggregate's groups become rows.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_schema::SchemaRef;

use super::pieces::{self, piece_of};
use super::{Output, Piece};
use crate::accumulator::Accumulator;
use crate::codec::Codec;
use crate::delta::{Part, batch};
use crate::evaluate::kept;
use crate::failure::Failures;

/// What it takes to make the answer's rows.
pub(super) struct Answer {
    pub(super) operator: String,
    pub(super) failures: Failures,
    /// How many of the columns are the group's.
    pub(super) groups: usize,
    pub(super) group_codec: Arc<Codec>,
    pub(super) pieces: Vec<Arc<Piece>>,
    pub(super) outputs: Arc<Vec<Output>>,
    pub(super) schema: SchemaRef,
}

impl Answer {
    /// The row of no rows, `weight` times.
    pub(super) fn of_nothing(&self, weight: i64) -> Option<Part> {
        if weight == 0 { None } else { self.part(&[&[]], &[&[]], vec![weight]) }
    }

    /// A row for each group, of its key and what it comes to; groups with an answer that does not fit are noted and
    /// left out.
    pub(super) fn part(&self, keys: &[&[u8]], groups: &[&[u8]], weights: Vec<i64>) -> Option<Part> {
        if groups.is_empty() {
            return None;
        }
        let mut columns = self.group_codec.decode(keys.iter().copied());
        let weights = Int64Array::from(weights);
        let payloads = |piece: usize| -> Vec<&[u8]> {
            let lone = self.pieces.len() == 1;
            groups.iter().map(|whole| if lone { whole } else { piece_of(whole, piece) }).collect()
        };
        let totals: Vec<Vec<Accumulator>> = (0..self.pieces.len())
            .map(|piece| match self.pieces[piece].as_ref() {
                Piece::Sums { .. } => payloads(piece).into_iter().map(pieces::total).collect(),
                Piece::First { .. } => Vec::new(),
            })
            .collect();
        let mut misfits: Vec<(usize, String)> = Vec::new();
        for (output, field) in self.outputs.iter().zip(&self.schema.fields()[self.groups..]) {
            columns.push(match output {
                Output::Sum { piece, at } => {
                    let Piece::Sums { measures, .. } = self.pieces[*piece].as_ref() else {
                        unreachable!("a sum's piece")
                    };
                    let (column, misfit) = measures[*at].answers(&totals[*piece], *at);
                    let reason = || format!("{} does not fit {}", measures[*at].text, measures[*at].kind);
                    misfits.extend(misfit.into_iter().map(|group| (group, reason())));
                    column
                }
                Output::Extremum { piece } => {
                    let Piece::First { codec, .. } = self.pieces[*piece].as_ref() else {
                        unreachable!("a value's piece")
                    };
                    pieces::values(codec, field.data_type(), &payloads(*piece))
                }
                other => unreachable!("{other:?} is placed"),
            });
        }
        let part = Part { batch: batch(&self.schema, columns, groups.len()), weights };
        self.without(part, misfits)
    }

    fn without(&self, part: Part, mut misfits: Vec<(usize, String)>) -> Option<Part> {
        misfits.sort_by_key(|(group, _)| *group);
        misfits.dedup_by_key(|(group, _)| *group);
        let mut keep = vec![true; part.weights.len()];
        for (group, reason) in misfits {
            keep[group] = false;
            self.failures.note(&self.operator, reason, &part.batch, group, part.weights.value(group));
        }
        kept(&part, &keep.into())
    }
}
