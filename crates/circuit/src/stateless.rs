//! A view that keeps nothing, made of each change alone: no circuit, no step, no worker.
//!
//! The same operators as in a circuit ([`Linear`](crate::plan::Linear)), so the same rows. A row's weight is carried
//! along untouched, in rows that come out and in failures: whoever numbers rows by it learns which one is which.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::delta::{Delta, Part, loose_schema};
use crate::failure::{Failure, Failures};
use crate::plan::{Changes, Plan};

/// One view of a plan.
#[derive(Clone, Debug)]
pub struct Stateless {
    plan: Arc<Plan>,
    view: usize,
    /// The nodes below the view and itself, inputs before what reads them, each with its name for people.
    nodes: Vec<(usize, String)>,
    schema: SchemaRef,
}

/// What became of a change.
#[derive(Debug)]
pub struct Applied {
    /// The view's. The same row may stand in it several times.
    pub view: Delta,
    /// Rows that an expression failed for.
    pub failures: Vec<Failure>,
}

impl Stateless {
    /// View `view` of a plan.
    ///
    /// # Errors
    /// What it keeps, in words that fit behind "because".
    pub fn new(plan: &Arc<Plan>, view: usize) -> Result<Self, String> {
        let mut needed = BTreeSet::from([plan.views[view].node.0]);
        let mut nodes = Vec::new();
        while let Some(at) = needed.pop_last() {
            let node = &plan.nodes[at];
            let what = node.operator.describe();
            if node.operator.linear().is_none() {
                let keeps: Vec<String> = node.operator.state().into_iter().map(|state| state.what).collect();
                return Err(match keeps.as_slice() {
                    [] => format!("#{at} {what} has its rows in the first step of all"),
                    keeps => format!("#{at} {what} keeps {}", keeps.join(" and ")),
                });
            }
            if let Some(relation) = node.operator.relation()
                && let Changes::Keyed(_) = plan.relations[relation].changes
            {
                return Err(format!("source {} keeps the row of each key", plan.relations[relation].name));
            }
            needed.extend(node.inputs.iter().map(|input| input.0));
            nodes.push((at, format!("#{at} {}", what.split(' ').next().unwrap_or_default())));
        }
        // Inputs have lower numbers.
        nodes.reverse();
        let made = &plan.nodes[plan.views[view].node.0].schema;
        let names = plan.views[view].schema.fields().iter().map(|field| field.name().as_str());
        let schema = loose_schema(names.zip(made.fields().iter().map(|field| field.data_type())));
        Ok(Self { plan: Arc::clone(plan), view, nodes, schema })
    }

    /// Which of the plan's relations it reads.
    #[must_use]
    pub fn relations(&self) -> BTreeSet<usize> {
        self.nodes.iter().filter_map(|(at, _)| self.plan.nodes[*at].operator.relation()).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.plan.views[self.view].name
    }

    /// Its columns; every one may be null here.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of a relation, all of which a change of it has.
    #[must_use]
    pub fn columns(&self, relation: usize) -> &SchemaRef {
        &self.plan.relations[relation].schema
    }

    /// What a change of relation `relation` does to it.
    #[must_use]
    pub fn apply(&self, relation: usize, change: Part) -> Applied {
        let (failures, change, none) = (Failures::default(), Delta(vec![change]), Delta::default());
        let mut made: Vec<Delta> = Vec::with_capacity(self.nodes.len());
        for (at, name) in &self.nodes {
            let node = &self.plan.nodes[*at];
            let input = |input: usize| {
                let place = self.nodes.binary_search_by_key(&input, |(at, _)| *at);
                &made[place.expect("an input stands before what reads it")]
            };
            let inputs: Vec<&Delta> = match node.operator.relation() {
                Some(own) if own == relation => vec![&change],
                Some(_) => vec![&none],
                None => node.inputs.iter().map(|at| input(at.0)).collect(),
            };
            let operator = node.operator.linear().expect("looked at when this was made");
            made.push(operator.apply(&inputs, name, &failures));
        }
        let view = made.pop().unwrap_or_default().0.into_iter();
        let view = Delta(view.map(|part| part.with_columns(&self.schema, part.batch.columns().to_vec())).collect());
        Applied { view, failures: failures.take() }
    }
}
