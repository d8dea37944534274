//! One statement's tokens, read from left to right over DataFusion's parser.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer, Word};

use super::error::{self, Place, Problem};
use super::{MAX_NESTING, Name};

/// DataFusion's.
const DIALECT: GenericDialect = GenericDialect {};

/// Cuts a file into statements at `;`. Comments and blanks between them make none.
pub(super) fn statements(text: &str) -> Result<Vec<Cursor>, Problem> {
    let tokens = Tokenizer::new(&DIALECT, text).tokenize_with_location()?;
    let parts = tokens.split(|token| token.token == Token::SemiColon);
    Ok(parts.filter_map(Cursor::new).collect())
}

/// Reads one statement.
pub(super) struct Cursor {
    parser: Parser<'static>,
    /// What the parser holds.
    tokens: Vec<TokenWithSpan>,
    start: Place,
    end: Place,
}

impl Cursor {
    /// `None` where there is nothing but comments and blanks.
    fn new(tokens: &[TokenWithSpan]) -> Option<Self> {
        let is_blank = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
        let first = tokens.iter().find(|token| !is_blank(token))?;
        let last = tokens.iter().rfind(|token| !is_blank(token))?;
        let parser =
            Parser::new(&DIALECT).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens.to_vec());
        let end = Place::of(Span::new(last.span.end, last.span.end));
        Some(Self { parser, tokens: tokens.to_vec(), start: Place::of(first.span), end })
    }

    /// The first token of the statement.
    pub fn start(&self) -> Place {
        self.start
    }

    /// Just behind the last token of the statement.
    pub fn end(&self) -> Place {
        self.end
    }

    pub fn peek(&self) -> Token {
        self.parser.peek_token().token
    }

    pub fn peek_second(&self) -> Token {
        self.parser.peek_nth_token(1).token
    }

    /// Tokens from here on, without blanks, and where they are; ends with the statement.
    pub fn ahead(&self) -> impl Iterator<Item = (Token, Place)> {
        let mut at = self.parser.index();
        std::iter::from_fn(move || {
            loop {
                let TokenWithSpan { token, span } = self.tokens.get(at)?;
                at += 1;
                if !matches!(token, Token::Whitespace(_) | Token::EOF) {
                    return Some((token.clone(), Place::of(*span)));
                }
            }
        })
    }

    /// Where the next token is.
    pub fn place(&self) -> Place {
        let next = self.parser.peek_token();
        if next.token == Token::EOF { self.end } else { Place::of(next.span) }
    }

    pub fn next(&mut self) -> Token {
        self.parser.next_token().token
    }

    /// Takes an unquoted word, whatever its case.
    pub fn word(&mut self, word: &str) -> bool {
        let found = is_word(&self.peek(), word);
        if found {
            self.next();
        }
        found
    }

    /// Takes several words or none.
    pub fn words(&mut self, words: &[&str]) -> bool {
        let found = words.iter().zip(0..).all(|(word, n)| is_word(&self.parser.peek_nth_token(n).token, word));
        if found {
            words.iter().for_each(|_| drop(self.next()));
        }
        found
    }

    pub fn takes(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    pub fn expect_word(&mut self, word: &str) -> Result<(), Problem> {
        if self.word(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    pub fn expect(&mut self, token: &Token) -> Result<(), Problem> {
        if self.takes(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    /// A name of one word.
    pub fn name(&mut self, what: &str) -> Result<Name, Problem> {
        let place = self.place();
        let Token::Word(word) = self.peek() else { return Err(self.expected(what)) };
        self.next();
        if word.value.is_empty() {
            return Err(Problem::new(place, "a name has at least one letter"));
        }
        if self.peek() == Token::Period {
            return Err(Problem::new(self.place(), "names have one part here: no schema, no catalog before a dot"));
        }
        Ok(Name { text: normal(word), place })
    }

    /// Hands the tokens to the parser for a part of SQL.
    pub fn sql<T>(&mut self, part: impl FnOnce(&mut Parser<'static>) -> Result<T, ParserError>) -> Result<T, Problem> {
        part(&mut self.parser).map_err(|error| error::of_parser(&error, self.end))
    }

    /// Nothing may be left of the statement.
    pub fn finish(&self) -> Result<(), Problem> {
        match self.peek() {
            Token::EOF => Ok(()),
            Token::Word(word) if is_start(&word.value) => {
                Err(Problem::new(self.place(), format!("a `;` is missing before {}", word.value)))
            }
            Token::Word(word) if word.value.eq_ignore_ascii_case("FORMAT") => {
                Err(Problem::new(self.place(), "the format is an option: WITH (.., format = 'json')"))
            }
            _ => Err(self.expected("`;`, the end of the statement,")),
        }
    }

    pub fn expected(&self, what: &str) -> Problem {
        let found = match self.peek() {
            Token::EOF => "the end of the statement".to_owned(),
            token => format!("`{token}`"),
        };
        Problem::new(self.place(), format!("expected {what} here, found {found}"))
    }
}

fn is_start(word: &str) -> bool {
    ["CREATE", "SET", "SELECT", "INSERT", "DROP"].iter().any(|start| word.eq_ignore_ascii_case(start))
}

/// Whether a token is this word, not quoted.
pub(super) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Lower case unless quoted, as DataFusion does it.
fn normal(word: Word) -> String {
    if word.quote_style.is_some() { word.value } else { word.value.to_ascii_lowercase() }
}
