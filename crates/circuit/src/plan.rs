//! A pipeline's views as a graph of incremental operators. Names what is to be built, and builds nothing.
//!
//! [`Planner`] takes one view after another, each as DataFusion's logical plan, and asks the registry in
//! [`crate::operator`] for the operator of each node. A view that another one reads is a node like any, so its state
//! is kept once. Equal subtrees are one node.

use std::collections::HashMap;
use std::fmt::Write as _;

use arrow_schema::{DataType, SchemaRef};
use datafusion::logical_expr::LogicalPlan;

use crate::builder::{Builder, Deltas};
use crate::delta::{Delta, loose_schema};
use crate::expr::Expression;
use crate::failure::Failures;
use crate::operator;
use crate::operator::project::Project;
use crate::refused::Refused;

/// A node's place in its plan: inputs stand before what reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// Places of columns, ascending.
pub type Columns = Vec<usize>;

/// One operator of a circuit: what it does to changes of its inputs so that its output is, after each step, the answer
/// over all that came in.
pub trait Operator: std::fmt::Debug + Send + Sync {
    /// What it is and all that its answer depends on, on one line: part of the plan's fingerprint.
    fn describe(&self) -> String;

    /// What it keeps from step to step.
    fn state(&self) -> Vec<State> {
        Vec::new()
    }

    /// The relation from outside that it is: its place among the plan's.
    fn relation(&self) -> Option<usize> {
        None
    }

    /// Whether its output only grows, given for each input whether that one does: rows come and none ever goes.
    fn only_grows(&self, _inputs: &[bool]) -> bool {
        false
    }

    /// What it does to each change alone, where that is all that it does: then it keeps nothing, and knows no steps.
    fn linear(&self) -> Option<&dyn Linear> {
        None
    }

    /// Sets of columns that no two rows of its output have alike, NULLs being alike, given the same for each input. Those
    /// that are known: where there is none, nothing is.
    fn unique(&self, _inputs: &[&[Columns]]) -> Vec<Columns> {
        Vec::new()
    }

    /// Adds it to a worker's circuit.
    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas;
}

/// An operator whose output's change depends on its inputs' changes alone, row by row. See [`crate::stateless`].
pub trait Linear {
    /// The change of its output. A row keeps its weight, whatever that is; one that an expression fails for is noted
    /// under `name`. A relation from outside has its own change for its input.
    fn apply(&self, inputs: &[&Delta], name: &str, failures: &Failures) -> Delta;
}

/// Something that an operator keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What is kept, as "every row of the left side".
    pub what: String,
    /// What keeps it from growing for ever; `None` where nothing does.
    pub bound: Option<String>,
}

impl State {
    /// State that grows with the input, with no end.
    #[must_use]
    pub fn unbounded(what: impl Into<String>) -> Self {
        Self { what: what.into(), bound: None }
    }

    /// State that stays as small as `bound` says.
    #[must_use]
    pub fn bounded(what: impl Into<String>, bound: impl Into<String>) -> Self {
        Self { what: what.into(), bound: Some(bound.into()) }
    }
}

/// An operator in its place.
#[derive(Debug)]
pub struct Node {
    /// What is done.
    pub operator: Box<dyn Operator>,
    /// Whose output goes in, in the operator's order.
    pub inputs: Vec<NodeId>,
    /// The columns that come out. Every column may be null here; names may repeat.
    pub schema: SchemaRef,
}

impl Node {
    /// Whether its output only grows, given that of all nodes before it.
    fn grows(&self, before: &[bool]) -> bool {
        let inputs: Vec<bool> = self.inputs.iter().map(|input| before[input.0]).collect();
        self.operator.only_grows(&inputs)
    }
}

/// How the rows of a source change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Rows come, and none ever goes.
    Grows,
    /// Rows come, and go by an equal row with a weight below zero.
    Bag,
    /// A row replaces the one of the same key: the places of the key's columns.
    Keyed(Vec<usize>),
}

/// A relation that comes from outside.
#[derive(Clone, Debug)]
pub struct Relation {
    /// As queries name it.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// How it changes.
    pub changes: Changes,
}

/// All of a pipeline's operators.
#[derive(Debug, Default)]
pub struct Plan {
    /// What comes in, in the order of a circuit's inputs.
    pub relations: Vec<Relation>,
    /// Inputs before what reads them.
    pub nodes: Vec<Node>,
    /// Each view by name, in the order of a circuit's outputs.
    pub views: Vec<View>,
}

/// A view of a plan.
#[derive(Debug)]
pub struct View {
    /// As the pipeline names it.
    pub name: String,
    /// Whose output it is.
    pub node: NodeId,
    /// Its columns, as its query declares them.
    pub schema: SchemaRef,
}

impl Plan {
    /// For each node, whether its output only grows.
    #[must_use]
    pub fn growing(&self) -> Vec<bool> {
        let mut growing: Vec<bool> = Vec::with_capacity(self.nodes.len());
        self.nodes.iter().for_each(|node| growing.push(node.grows(&growing)));
        growing
    }

    /// Whether these columns are known to name one row of a node's output.
    #[must_use]
    pub fn names_rows(&self, node: NodeId, columns: &[usize]) -> bool {
        let mut unique: Vec<Vec<Columns>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let inputs: Vec<&[Columns]> = node.inputs.iter().map(|input| unique[input.0].as_slice()).collect();
            unique.push(node.operator.unique(&inputs));
        }
        unique[node.0].iter().any(|set| set.iter().all(|at| columns.contains(at)))
    }

    /// Without the nodes that no view needs; sources stay.
    fn pruned(mut self) -> Self {
        let mut needed = vec![false; self.nodes.len()];
        self.views.iter().for_each(|view| needed[view.node.0] = true);
        for at in (0..self.nodes.len()).rev() {
            if needed[at] {
                self.nodes[at].inputs.iter().for_each(|input| needed[input.0] = true);
            }
        }
        let mut places = Vec::with_capacity(needed.len());
        let mut kept = 0;
        for needed in &needed {
            places.push(NodeId(kept));
            kept += usize::from(*needed);
        }
        let nodes = std::mem::take(&mut self.nodes).into_iter().zip(needed);
        self.nodes = nodes.filter_map(|(node, needed)| needed.then_some(node)).collect();
        for node in &mut self.nodes {
            node.inputs.iter_mut().for_each(|input| *input = places[input.0]);
        }
        self.views.iter_mut().for_each(|view| view.node = places[view.node.0]);
        self
    }

    /// The plan as text: a line for each node with its number, its inputs and all that its answer depends on. Two
    /// plans with the same text keep the same state.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for relation in &self.relations {
            let columns = columns(&relation.schema);
            let _ = writeln!(text, "source {} ({columns}) {:?}", relation.name, relation.changes);
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let inputs: Vec<String> = node.inputs.iter().map(|input| format!("#{}", input.0)).collect();
            let columns = columns(&node.schema);
            let _ = writeln!(text, "#{at} {} <- [{}] ({columns})", node.operator.describe(), inputs.join(", "));
        }
        for view in &self.views {
            let _ = writeln!(text, "view {} = #{}", view.name, view.node.0);
        }
        text
    }
}

fn columns(schema: &SchemaRef) -> String {
    let columns = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    columns.collect::<Vec<_>>().join(", ")
}

/// Makes a plan, one view at a time.
#[derive(Debug, Default)]
pub struct Planner {
    plan: Plan,
    /// Of each node, whether its output only grows.
    growing: Vec<bool>,
    known: HashMap<LogicalPlan, NodeId>,
    /// Relations and views by name.
    named: HashMap<String, NodeId>,
    unit: Option<NodeId>,
}

impl Planner {
    /// Adds a relation that comes from outside.
    pub fn source(&mut self, relation: Relation) {
        let (at, name) = (self.plan.relations.len(), relation.name.clone());
        let schema =
            loose_schema(relation.schema.fields().iter().map(|field| (field.name().as_str(), field.data_type())));
        let only_grows = relation.changes == Changes::Grows;
        let key = if let Changes::Keyed(key) = &relation.changes { Some(key.clone()) } else { None };
        self.plan.relations.push(relation);
        let floats = schema.fields().iter().any(|field| operator::scan::has_floats(field.data_type()));
        let node = self.add(operator::scan::Source { at, name: name.clone(), only_grows, key, floats }, vec![], schema);
        self.named.insert(name, node);
    }

    /// Adds a view.
    ///
    /// # Errors
    /// When the plan holds what no operator is for; then nothing of the view is kept but nodes that nobody reads.
    pub fn view(&mut self, name: &str, query: &LogicalPlan) -> Result<(), Refused> {
        let node = self.lower(query).map_err(|refused| refused.within(name))?;
        let schema = SchemaRef::new(query.schema().as_arrow().clone());
        self.named.insert(name.to_owned(), node);
        self.plan.views.push(View { name: name.to_owned(), node, schema });
        Ok(())
    }

    /// The plan of all that was added.
    #[must_use]
    pub fn finish(self) -> Plan {
        self.plan
    }

    /// The plan of what `outputs` need, sources or views by name, in their order: a view for each, with columns of the
    /// types that `fitted` turns theirs into.
    ///
    /// # Errors
    /// Which output has a column of a type that does not fit, by its place in the list.
    ///
    /// # Panics
    /// When one of them was not added.
    pub fn finish_for(
        mut self,
        outputs: &[&str],
        fitted: impl Fn(&DataType) -> Result<DataType, String>,
    ) -> Result<Plan, (usize, Refused)> {
        self.plan.views.clear();
        for (at, name) in outputs.iter().enumerate() {
            let node = self.named(name).expect("an output that was added");
            let (node, schema) = self.fitted(node, &fitted).map_err(|refused| (at, refused))?;
            self.plan.views.push(View { name: (*name).to_owned(), node, schema });
        }
        Ok(self.plan.pruned())
    }

    /// The same rows with columns of other types.
    fn fitted(
        &mut self,
        node: NodeId,
        fitted: impl Fn(&DataType) -> Result<DataType, String>,
    ) -> Result<(NodeId, SchemaRef), Refused> {
        let schema = self.schema(node).clone();
        let mut columns = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let kind =
                fitted(field.data_type()).map_err(|why| Refused::new(format!("column {}: {why}", field.name())))?;
            columns.push(if kind == *field.data_type() {
                Expression::column(at, field)
            } else {
                Expression::converted(at, &schema, &kind)?
            });
        }
        let names = schema.fields().iter().zip(&columns);
        let out = loose_schema(names.map(|(field, column)| (field.name().as_str(), column.kind())));
        if out == schema {
            return Ok((node, schema));
        }
        Ok((self.add(Project::new(columns, out.clone()), vec![node], out.clone()), out))
    }

    /// The node whose output is the answer to `query`.
    ///
    /// # Errors
    /// When the plan holds what no operator is for.
    pub fn lower(&mut self, query: &LogicalPlan) -> Result<NodeId, Refused> {
        if let Some(known) = self.known.get(query) {
            return Ok(*known);
        }
        let lowered = operator::REGISTRY.iter().find_map(|lower| lower(query, self));
        let node = lowered.unwrap_or_else(|| Err(operator::unsupported(query)))?;
        self.known.insert(query.clone(), node);
        Ok(node)
    }

    /// Adds a node.
    pub fn add(&mut self, operator: impl Operator + 'static, inputs: Vec<NodeId>, schema: SchemaRef) -> NodeId {
        let node = Node { operator: Box::new(operator), inputs, schema };
        self.growing.push(node.grows(&self.growing));
        self.plan.nodes.push(node);
        NodeId(self.plan.nodes.len() - 1)
    }

    /// Whether a node's output only grows: an operator over it may forget what only a row's going would bring back.
    #[must_use]
    pub fn grows(&self, node: NodeId) -> bool {
        self.growing[node.0]
    }

    /// The columns of a node's output.
    #[must_use]
    pub fn schema(&self, node: NodeId) -> &SchemaRef {
        &self.plan.nodes[node.0].schema
    }

    /// The relation or view of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<NodeId> {
        self.named.get(name).copied()
    }

    /// A relation without columns that holds one row, always.
    pub fn unit(&mut self) -> NodeId {
        if let Some(unit) = self.unit {
            return unit;
        }
        let unit = self.add(operator::unit::Unit, vec![], loose_schema([]));
        self.unit = Some(unit);
        unit
    }
}
