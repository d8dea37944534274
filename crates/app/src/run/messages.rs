//! A step's change of a view as messages of a topic.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lakeward_circuit::compile::SinkPlan;
use lakeward_circuit::pipeline::Mode;
use lakeward_decode::encode::{Rows, check_schema};
use lakeward_delta::view::{CHANGE_COLUMN, STEP_COLUMN};
use lakeward_kafka::Messages;

/// Why a change is none that the topic can take.
#[derive(Debug, thiserror::Error)]
#[error("sink {sink}: {what}")]
pub struct MessageError {
    sink: String,
    what: String,
}

/// Writes one sink's messages.
pub struct MessageWriter {
    sink: String,
    mode: Mode,
    key: Vec<usize>,
    /// Of the values.
    columns: SchemaRef,
}

impl MessageWriter {
    /// For a sink's columns.
    ///
    /// # Errors
    /// Columns that messages don't have, and a changelog of a view that has a column of ours.
    pub fn new(sink: &SinkPlan) -> Result<Self, MessageError> {
        let view = &sink.schema;
        let wrong = |what: String| MessageError { sink: sink.name.clone(), what };
        check_schema(view).map_err(wrong)?;
        let columns = if sink.mode == Mode::Changelog { changelog(view).map_err(wrong)? } else { Arc::clone(view) };
        Ok(Self { sink: sink.name.clone(), mode: sink.mode, key: sink.key.clone(), columns })
    }

    /// What takes a topic's readers from before a step to after it. Deletes come before inserts; in mode upsert each
    /// key has one message.
    ///
    /// # Errors
    /// Rows that the mode or the key does not allow, with the key.
    pub fn messages(
        &self,
        inserts: &[RecordBatch],
        deletes: &[RecordBatch],
        step: i64,
    ) -> Result<Messages, MessageError> {
        let mut messages = Messages::default();
        match self.mode {
            Mode::Append => {
                if let Some(batch) = deletes.iter().find(|batch| batch.num_rows() > 0) {
                    let row = self.texts(batch, None)?.swap_remove(0);
                    return Err(self.wrong(format!(
                        "the row {} goes, and a topic in mode append has it for ever; a view whose rows change needs \
                         mode upsert or changelog",
                        String::from_utf8_lossy(&row)
                    )));
                }
                self.push(inserts, &mut messages)?;
            }
            Mode::Changelog => {
                self.push(&changed(deletes, "delete", step, &self.columns), &mut messages)?;
                self.push(&changed(inserts, "insert", step, &self.columns), &mut messages)?;
            }
            Mode::Upsert => {
                let stays: HashSet<Vec<u8>> = self.keys(inserts)?.into_iter().collect();
                for key in self.keys(deletes)?.iter().filter(|key| !stays.contains(*key)) {
                    messages.push(Some(&|out| out.extend_from_slice(key)), None);
                }
                self.push(inserts, &mut messages)?;
            }
        }
        Ok(messages)
    }

    fn rows<'a>(&self, batch: &'a RecordBatch, places: Option<&[usize]>) -> Result<Rows<'a>, MessageError> {
        Rows::of(batch, places).map_err(|what| self.wrong(what))
    }

    fn wrong(&self, what: String) -> MessageError {
        MessageError { sink: self.sink.clone(), what }
    }

    fn texts(&self, batch: &RecordBatch, places: Option<&[usize]>) -> Result<Vec<Vec<u8>>, MessageError> {
        let rows = self.rows(batch, places)?;
        let text = |row| {
            let mut text = Vec::new();
            rows.write(row, &mut text);
            text
        };
        Ok((0..batch.num_rows()).map(text).collect())
    }

    /// The keys of rows, each of which is there once.
    fn keys(&self, batches: &[RecordBatch]) -> Result<Vec<Vec<u8>>, MessageError> {
        let mut keys = Vec::new();
        for batch in batches {
            keys.extend(self.texts(batch, Some(&self.key))?);
        }
        let mut seen = HashSet::new();
        match keys.iter().find(|key| !seen.insert(*key)) {
            None => Ok(keys),
            Some(twice) => Err(self.wrong(format!(
                "two rows of the key {} in one step: it does not name the view's rows, and one of them would hide the \
                 other; choose columns that do, or mode = 'changelog'",
                String::from_utf8_lossy(twice)
            ))),
        }
    }

    fn push(&self, batches: &[RecordBatch], messages: &mut Messages) -> Result<(), MessageError> {
        for batch in batches {
            let (keys, values) = (self.rows(batch, Some(&self.key))?, self.rows(batch, None)?);
            for row in 0..batch.num_rows() {
                let key = |out: &mut Vec<u8>| keys.write(row, out);
                let key: Option<&dyn Fn(&mut Vec<u8>)> = if self.key.is_empty() { None } else { Some(&key) };
                messages.push(key, Some(&|out| values.write(row, out)));
            }
        }
        Ok(())
    }
}

/// A view's columns and what became of a row in which step, as in a changelog's table.
fn changelog(view: &Schema) -> Result<SchemaRef, String> {
    let ours = [Field::new(CHANGE_COLUMN, DataType::Utf8, false), Field::new(STEP_COLUMN, DataType::Int64, false)];
    let is_taken = |our: &&Field| view.fields().iter().any(|column| column.name() == our.name());
    if let Some(our) = ours.iter().find(is_taken) {
        return Err(format!(
            "a changelog has a field {} beside the view's columns; give the view's another name with AS",
            our.name()
        ));
    }
    let fields = view.fields().iter().map(|field| field.as_ref().clone()).chain(ours);
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

fn changed(batches: &[RecordBatch], change: &str, step: i64, columns: &SchemaRef) -> Vec<RecordBatch> {
    let with = |batch: &RecordBatch| {
        let rows = batch.num_rows();
        let ours: [ArrayRef; 2] = [
            Arc::new(StringArray::from_iter_values(std::iter::repeat_n(change, rows))),
            Arc::new(Int64Array::from_value(step, rows)),
        ];
        lakeward_circuit::delta::batch(columns, batch.columns().iter().cloned().chain(ours).collect(), rows)
    };
    batches.iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the view.
    type Pairs = &'static [(i64, &'static str)];

    fn rows(rows: &[(i64, &str)]) -> Vec<RecordBatch> {
        let ids: ArrayRef = Arc::new(rows.iter().map(|(id, _)| *id).collect::<Int64Array>());
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, name)| name)));
        vec![RecordBatch::try_new(view(), vec![ids, names]).unwrap()]
    }

    fn view() -> SchemaRef {
        let column = |name, kind| Field::new(name, kind, true);
        Arc::new(Schema::new(vec![column("id", DataType::Int64), column("name", DataType::Utf8)]))
    }

    fn sink(mode: Mode, key: &[usize], schema: SchemaRef) -> SinkPlan {
        SinkPlan { name: "s".to_owned(), schema, mode, key: key.to_vec(), partition_by: vec![] }
    }

    /// Keys and values, as `key=value`.
    fn written(
        mode: Mode,
        key: &[usize],
        inserts: &[(i64, &str)],
        deletes: &[(i64, &str)],
    ) -> Result<Vec<String>, String> {
        let writer = MessageWriter::new(&sink(mode, key, view())).map_err(|error| error.to_string())?;
        let messages = writer.messages(&rows(inserts), &rows(deletes), 7).map_err(|error| error.to_string())?;
        let text = |part: Option<&[u8]>| part.map_or("none", |part| std::str::from_utf8(part).unwrap()).to_owned();
        Ok(messages.iter().map(|message| format!("{}={}", text(message.key), text(message.value))).collect())
    }

    #[test]
    fn each_mode() {
        use Mode::{Append, Changelog, Upsert};
        const TWO: Pairs = &[(1, "a"), (2, "b")];
        #[rustfmt::skip] // mode, key, inserts, deletes, messages
        let cases: [(Mode, &[usize], Pairs, Pairs, &[&str]); 6] = [
            (Append, &[], TWO, &[], &[r#"none={"id":1,"name":"a"}"#, r#"none={"id":2,"name":"b"}"#]),
            (Append, &[1, 0], &[(1, "a")], &[], &[r#"{"name":"a","id":1}={"id":1,"name":"a"}"#]),
            (Upsert, &[0], TWO, &[], &[r#"{"id":1}={"id":1,"name":"a"}"#, r#"{"id":2}={"id":2,"name":"b"}"#]),
            (Upsert, &[0], &[(1, "c")], TWO, &[r#"{"id":2}=none"#, r#"{"id":1}={"id":1,"name":"c"}"#]),
            (Changelog, &[], &[(1, "c")], &[(1, "a")], &[
                r#"none={"id":1,"name":"a","_op":"delete","_step":7}"#, r#"none={"id":1,"name":"c","_op":"insert","_step":7}"#]),
            (Changelog, &[0], &[(1, "c"), (1, "c")], &[], &[
                r#"{"id":1}={"id":1,"name":"c","_op":"insert","_step":7}"#, r#"{"id":1}={"id":1,"name":"c","_op":"insert","_step":7}"#]),
        ];
        for (mode, key, inserts, deletes, expected) in cases {
            let expected = Ok(expected.iter().map(|text| (*text).to_owned()).collect());
            assert_eq!(written(mode, key, inserts, deletes), expected, "{mode:?} {inserts:?} {deletes:?}");
        }
    }

    #[test]
    fn what_a_topic_can_not_take_is_refused() {
        const TWO: Pairs = &[(1, "a"), (1, "b")];
        #[rustfmt::skip] // mode, inserts, deletes, what is said
        let cases: [(Mode, Pairs, Pairs, &str); 3] = [
            (Mode::Append, &[], TWO, r#"the row {"id":1,"name":"a"} goes"#),
            (Mode::Upsert, TWO, &[], r#"two rows of the key {"id":1} in one step"#),
            (Mode::Upsert, &[], TWO, r#"two rows of the key {"id":1} in one step"#),
        ];
        for (mode, inserts, deletes, part) in cases {
            let error = written(mode, &[0], inserts, deletes).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let ours = Arc::new(Schema::new(vec![Field::new("_op", DataType::Utf8, true)]));
        let error = MessageWriter::new(&sink(Mode::Changelog, &[], Arc::clone(&ours))).err().expect("refused");
        assert!(error.to_string().contains("sink s: a changelog has a field _op"), "{error}");
        assert!(MessageWriter::new(&sink(Mode::Append, &[], ours)).is_ok());
    }
}
