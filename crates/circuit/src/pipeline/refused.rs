//! Statements that a pipeline file does not take, each with what to write instead.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::error::Problem;
use super::nearest::did_you_mean;

const CREATED: [&str; 4] = ["SOURCE", "VIEW", "SINK", "MATERIALIZED"];
const STARTS: [&str; 2] = ["CREATE", "SET"];

/// What follows `CREATE` and is none of ours.
pub(super) fn create(cursor: &Cursor) -> Problem {
    let Token::Word(word) = cursor.peek() else {
        return cursor.expected("SOURCE, VIEW or SINK");
    };
    let kind = word.value.to_ascii_uppercase();
    let instead = match kind.as_str() {
        "TABLE" | "EXTERNAL" | "STREAM" | "FOREIGN" => {
            "write CREATE SOURCE name (columns) WITH (kafka = .., topic = ..) for what comes in, and CREATE SINK name \
             FROM view WITH (..) for what goes out"
        }
        "OR" => "leave OR REPLACE out: the file is read as a whole",
        "TEMPORARY" | "TEMP" | "RECURSIVE" | "UNBOUNDED" => "leave the word out: CREATE VIEW name AS SELECT ..",
        "CONNECTION" | "SECRET" => {
            "write the connection's options into WITH (..) of each source and sink, with secrets as '${NAME}' from the \
             environment"
        }
        "INDEX" | "UNIQUE" => "leave it out: what a view needs is kept by its plan",
        "FUNCTION" | "AGGREGATE" => "use the functions that there are; functions of your own are not supported",
        "DATABASE" | "SCHEMA" | "CATALOG" => "leave it out: names have one part here",
        "TYPE" => "write the type at the column: STRUCT<a BIGINT, b TEXT>",
        _ => {
            let near = did_you_mean(&kind, CREATED);
            return Problem::new(cursor.place(), format!("expected SOURCE, VIEW or SINK here, found `{word}`{near}"));
        }
    };
    Problem::new(cursor.place(), format!("CREATE {kind} is no statement of a pipeline file; {instead}"))
}

/// A statement that starts with none of our words.
pub(super) fn other(cursor: &Cursor) -> Problem {
    let Token::Word(word) = cursor.peek() else {
        let instead = "a query is written as CREATE VIEW name AS SELECT ..";
        return Problem::new(cursor.place(), format!("{}; {instead}", cursor.expected("CREATE or SET").message));
    };
    let first = word.value.to_ascii_uppercase();
    let instead = match first.as_str() {
        "SELECT" | "WITH" | "FROM" | "VALUES" | "TABLE" => {
            "name the query, CREATE VIEW name AS SELECT .., and write it with CREATE SINK .. FROM name WITH (..)"
        }
        "INSERT" | "MERGE" | "COPY" | "EXECUTE" => {
            "write CREATE VIEW name AS SELECT .., and CREATE SINK .. FROM name WITH (..)"
        }
        "UPDATE" | "DELETE" | "TRUNCATE" => {
            "rows change when messages say so, see `changes` and PRIMARY KEY of a source"
        }
        "DROP" | "ALTER" | "RENAME" | "COMMENT" => "change the statement that makes it: the file is read as a whole",
        "EXPLAIN" | "DESCRIBE" | "SHOW" => "leave it out, and run `lakeward explain` on the file",
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" => "leave it out: each step is one transaction",
        "USE" | "RESET" => "leave it out: names have one part, settings are SET once",
        _ => {
            let near = did_you_mean(&first, STARTS);
            return Problem::new(cursor.place(), format!("expected CREATE or SET here, found `{word}`{near}"));
        }
    };
    Problem::new(cursor.place(), format!("{first} is no statement of a pipeline file; {instead}"))
}
