//! How much each operator keeps.

use std::collections::BTreeMap;

use dbsp::circuit::metadata::{MetaItem, STATE_RECORDS_COUNT};

use super::{Circuit, EngineError};

impl Circuit {
    /// Rows that each operator and each keyed source keeps, of all workers together. A row that is kept in two ways counts
    /// twice. The workers stand still meanwhile and look at each row in
    /// memory, so this is not for each step.
    ///
    /// # Errors
    /// When a worker failed.
    pub fn sizes(&mut self) -> Result<BTreeMap<String, u64>, EngineError> {
        let failed = |error: dbsp::Error| EngineError::new("count its rows", error);
        let profile = self.engine.retrieve_profile().map_err(failed)?;
        let ends = self.shared.ends.lock().expect("no worker panics while it holds this");
        let mut sizes = BTreeMap::new();
        for worker in &profile.worker_profiles {
            for (node, count) in worker.attribute_profile(&STATE_RECORDS_COUNT) {
                // The root has the sum of all.
                let (Some(first), MetaItem::Count(rows)) = (node.path().first(), count) else { continue };
                let owner = ends.iter().find(|(_, end)| first.id() <= *end);
                if let Some((name, _)) = owner {
                    *sizes.entry(name.clone()).or_default() += rows as u64;
                }
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array};

    use crate::circuit::{Circuit, Options};
    use crate::compile::compile;
    use crate::delta::{Part, batch, loose_schema};
    use crate::pipeline::Pipeline;

    const TEXT: &str = "
        CREATE SOURCE t (id BIGINT PRIMARY KEY, x DOUBLE) WITH (kafka = 'h:1', topic = 't');
        CREATE SOURCE u (k BIGINT) WITH (kafka = 'h:1', topic = 'u');
        CREATE VIEW counted AS SELECT k, COUNT(*) AS n FROM u GROUP BY k;
        CREATE VIEW both AS SELECT t.x, u.k FROM t JOIN u ON t.id = u.k;
        CREATE SINK a FROM counted WITH (delta = 'a');
        CREATE SINK b FROM both WITH (delta = 'b');";

    #[test]
    fn rows_are_counted_where_they_are_kept() {
        let pipeline = Pipeline::parse(TEXT, &|_| None).expect("a pipeline");
        let plan = compile(&pipeline).expect("a plan").plan;
        for workers in [1, 2] {
            let mut circuit = Circuit::start(&plan, &Options { workers, memory_mb: 64 }, None).expect("a circuit");
            assert!(circuit.sizes().expect("sizes").values().all(|rows| *rows == 0), "nothing came");
            let inserts = |at: usize, columns: Vec<ArrayRef>| {
                let fields = plan.relations[at].schema.fields();
                let schema = loose_schema(fields.iter().map(|field| (field.name().as_str(), field.data_type())));
                let rows = columns[0].len();
                Part::inserts(batch(&schema, columns, rows))
            };
            let ids = |ids: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(ids)) };
            let x: ArrayRef = Arc::new(Float64Array::from_value(0.5, 5));
            circuit.push(0, inserts(0, vec![ids(vec![1, 2, 3, 4, 5]), x]));
            circuit.push(1, inserts(1, vec![ids(vec![1, 1, 1, 2, 9, 9, 9])]));
            circuit.step().expect("a step");
            // By the join the rows of t and the keys of u; by the groups their sums, and what they came to.
            let kept = [("#4 Aggregate", 3 + 3), ("#7 Join", 5 + 3), ("Source t", 5)];
            let kept = kept.map(|(name, rows)| (name.to_owned(), rows));
            assert_eq!(circuit.sizes().expect("sizes"), BTreeMap::from(kept), "{workers} workers");
        }
    }
}
