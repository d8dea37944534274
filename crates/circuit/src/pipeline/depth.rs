//! Bounds the depth of a query's tree before it is made.
//!
//! The parser counts nested expressions and queries. It does not count what it reads in a loop, `a + b + ..`, though
//! each link makes the tree deeper, nor types in types; what descends or drops such a tree would overflow the stack.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, is_word};
use super::error::Problem;
use super::{MAX_CHAIN, MAX_NESTING};

/// Checks what is left of the statement.
pub(super) fn check(cursor: &Cursor) -> Result<(), Problem> {
    let mut depth = Depth { outer: Vec::new(), level: Level::default() };
    let mut before = Token::EOF;
    for (token, place) in cursor.ahead() {
        if is_word(&token, "INTERVAL") && is_word(&before, "INTERVAL") {
            return Err(Problem::new(place, "INTERVAL stands twice: write INTERVAL '5 seconds'"));
        }
        depth.add(&token, &before);
        // Each of the parser's levels is at least one bracket.
        if depth.outer.len() > 2 * MAX_NESTING {
            let message = format!("brackets are nested more than {} deep; {MOVE}", 2 * MAX_NESTING);
            return Err(Problem::new(place, message));
        }
        if depth.level.links > MAX_CHAIN {
            let message = format!("more than {MAX_CHAIN} operators in a chain; write IN (a, b, ..) for ORs, or {MOVE}");
            return Err(Problem::new(place, message));
        }
        before = token;
    }
    Ok(())
}

const MOVE: &str = "move a part into a view of its own";

/// An upper bound of the tree's depth at a token.
struct Depth {
    /// The levels around, outermost first.
    outer: Vec<Level>,
    level: Level,
}

/// What stands between two brackets.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Links around this level, with its UNIONs.
    base: usize,
    /// Those, and the operators since the last comma or clause.
    links: usize,
    /// Whether `<` opened it.
    is_angle: bool,
}

impl Depth {
    fn add(&mut self, token: &Token, before: &Token) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => self.open(false),
            Token::Lt if opens_type(before) => self.open(true),
            Token::Gt if self.level.is_angle => self.close(),
            Token::ShiftRight if self.level.is_angle => {
                self.close();
                if self.level.is_angle {
                    self.close();
                }
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                while self.level.is_angle {
                    self.close();
                }
                self.close();
            }
            Token::Comma => self.level.links = self.level.base,
            Token::Word(_) if is_one_of(token, &SET_WORDS) => {
                self.level.base += 1;
                self.level.links = self.level.base;
            }
            Token::Word(_) if is_one_of(token, &CLAUSE_WORDS) => self.level.links = self.level.base,
            _ if is_link(token) => self.level.links += 1,
            _ => {}
        }
    }

    fn open(&mut self, is_angle: bool) {
        self.outer.push(self.level);
        let links = self.level.links;
        self.level = Level { base: links, links, is_angle };
    }

    /// One bracket too many is the parser's to refuse.
    fn close(&mut self) {
        self.level = self.outer.pop().unwrap_or_default();
    }
}

const SET_WORDS: [&str; 4] = ["UNION", "EXCEPT", "INTERSECT", "MINUS"];

/// Words that begin another expression, which is beside the one before and not below it.
const CLAUSE_WORDS: [&str; 14] = [
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "ON", "WHEN", "THEN", "ELSE", "WINDOW",
    "QUALIFY",
];

/// Whether a token may set the expression before it one level deeper: all but names and values.
fn is_link(token: &Token) -> bool {
    match token {
        Token::Word(_) => is_one_of(token, &LINK_WORDS),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::Period | Token::RParen | Token::RBracket => false,
        _ => true,
    }
}

const LINK_WORDS: [&str; 22] = [
    "AND", "OR", "XOR", "NOT", "IS", "IN", "LIKE", "ILIKE", "SIMILAR", "RLIKE", "REGEXP", "BETWEEN", "DIV", "MOD",
    "AT", "COLLATE", "OPERATOR", "OVERLAPS", "ISNULL", "NOTNULL", "INTERVAL", "MEMBER",
];

fn opens_type(before: &Token) -> bool {
    is_one_of(before, &["ARRAY", "STRUCT", "MAP"])
}

fn is_one_of(token: &Token, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}
