//! JSON's grammar, exactly as strict as `serde_json`: whitespace, strings, numbers, values that are skipped or copied.

use crate::error::{Fail, Refused};
use crate::simd::find_special;

/// How deep arrays and objects may nest; the deepest that `serde_json` takes. Deeper messages are bad.
pub const MAX_DEPTH: usize = 127;

/// A place in one message, which is UTF-8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The next byte; 0 at the end (which no token starts with).
    #[inline(always)]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes().get(self.at).copied().unwrap_or(0)
    }

    #[inline(always)]
    pub(crate) fn skip_space(&mut self) {
        if self.peek() <= b' ' {
            self.at = space_end(self.bytes(), self.at);
        }
    }

    /// Takes one byte of punctuation.
    #[inline(always)]
    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Refused> {
        if self.peek() != byte {
            return Err(self.fail(what));
        }
        self.at += 1;
        Ok(())
    }

    #[cold]
    pub(crate) fn fail(self, what: &'static str) -> Refused {
        Fail::syntax(self.at, if self.at >= self.text.len() { "the message ends too early" } else { what })
    }

    /// Takes `word`, one of `true`, `false`, `null`.
    #[inline(always)]
    pub(crate) fn word(&mut self, word: &'static str) -> Result<(), Refused> {
        if !self.bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.fail("this is no JSON value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Takes a string; `self.at` is at its quote. `scratch` takes it when it has escapes.
    #[inline(always)]
    pub(crate) fn string<'b>(&mut self, scratch: &'b mut String) -> Result<&'b str, Refused>
    where
        'a: 'b,
    {
        match self.plain_string() {
            Some((string, end)) => {
                self.at = end;
                Ok(string)
            }
            None => self.string_with_escapes(scratch),
        }
    }

    /// A string without escapes, and where it ends; `self.at` is at its quote.
    #[inline(always)]
    pub(crate) fn plain_string(self) -> Option<(&'a str, usize)> {
        let start = self.at + 1;
        let end = find_special(self.bytes(), start);
        if self.bytes().get(end) != Some(&b'"') {
            return None;
        }
        Some((&self.text[start..end], end + 1))
    }

    /// The same, escapes or bytes that must not be there included.
    #[cold]
    fn string_with_escapes<'b>(&mut self, scratch: &'b mut String) -> Result<&'b str, Refused> {
        scratch.clear();
        let mut start = self.at + 1;
        let mut end = find_special(self.bytes(), start);
        loop {
            self.at = end;
            match self.peek() {
                b'"' => break,
                b'\\' => {}
                _ => return Err(self.fail("a control character in a string must be escaped")),
            }
            scratch.push_str(&self.text[start..end]);
            self.at += 1;
            scratch.push(self.escape()?);
            start = self.at;
            end = find_special(self.bytes(), start);
        }
        scratch.push_str(&self.text[start..end]);
        self.at = end + 1;
        Ok(scratch)
    }

    /// The character of an escape; `self.at` is after its backslash.
    fn escape(&mut self) -> Result<char, Refused> {
        let character = match self.peek() {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.escaped_unit();
            }
            _ => return Err(self.fail("no such escape in a string")),
        };
        self.at += 1;
        Ok(character)
    }

    fn escaped_unit(&mut self) -> Result<char, Refused> {
        let first = self.four_hex_digits()?;
        if !(0xd800..0xdc00).contains(&first) {
            // A lone second half is no character.
            return char::from_u32(first).ok_or_else(|| self.fail("half of a surrogate pair in a string"));
        }
        if !self.bytes()[self.at..].starts_with(b"\\u") {
            return Err(self.fail("half of a surrogate pair in a string"));
        }
        self.at += 2;
        let second = self.four_hex_digits()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(self.fail("half of a surrogate pair in a string"));
        }
        let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        Ok(char::from_u32(code).expect("a pair is a character"))
    }

    fn four_hex_digits(&mut self) -> Result<u32, Refused> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = char::from(self.peek()).to_digit(16).ok_or_else(|| self.fail("\\u takes four hex digits"))?;
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Takes a number, whose text fits JSON's grammar; `self.at` is at its sign or first digit.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<&'a str, Refused> {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.peek() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.fail("a number needs a digit here")),
        }
        if self.peek().is_ascii_digit() {
            return Err(self.fail("a number must not start with 0"));
        }
        let mut large = false;
        if self.peek() == b'.' {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            let exponent = self.at;
            self.some_digits()?;
            large = self.at - exponent > 2;
        }
        let text = &self.text[start..self.at];
        if large || text.len() > 200 {
            self.check_range(text)?;
        }
        Ok(text)
    }

    /// Numbers that may pass a double's range are left to `serde_json`, whose verdict on them it is.
    #[cold]
    fn check_range(&self, text: &str) -> Result<(), Refused> {
        match serde_json::from_str::<f64>(text) {
            Ok(number) if number.is_finite() => Ok(()),
            _ => Err(self.fail("a number out of any range")),
        }
    }

    #[inline]
    fn digits(&mut self) {
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), Refused> {
        if !self.peek().is_ascii_digit() {
            return Err(self.fail("a number needs a digit here"));
        }
        self.digits();
        Ok(())
    }

    /// Takes any value, checked and dropped. `depth` is how many arrays and objects it lies in.
    pub(crate) fn skip_value(&mut self, depth: usize, scratch: &mut String) -> Result<(), Refused> {
        match self.peek() {
            b'"' => self.string(scratch).map(drop),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'{' => self.members(depth, |cursor| {
                cursor.string(scratch)?;
                cursor.colon()?;
                cursor.skip_value(depth + 1, scratch)
            }),
            b'[' => self.elements(depth, |cursor| cursor.skip_value(depth + 1, scratch)),
            _ => Err(self.fail("this is no JSON value")),
        }
    }

    /// Takes any value and appends its compact text to `out`: no space between tokens, numbers as they are, strings
    /// with no more escapes than they need, keys in their order.
    pub(crate) fn copy_value(&mut self, depth: usize, scratch: &mut String, out: &mut String) -> Result<(), Refused> {
        let start = self.at;
        match self.peek() {
            b'"' => self.copy_string(scratch, out),
            b'{' => {
                out.push('{');
                let mut first = true;
                self.members(depth, |cursor| {
                    if !std::mem::take(&mut first) {
                        out.push(',');
                    }
                    cursor.copy_string(scratch, out)?;
                    out.push(':');
                    cursor.colon()?;
                    cursor.copy_value(depth + 1, scratch, out)
                })?;
                out.push('}');
                Ok(())
            }
            b'[' => {
                out.push('[');
                let mut first = true;
                self.elements(depth, |cursor| {
                    if !std::mem::take(&mut first) {
                        out.push(',');
                    }
                    cursor.copy_value(depth + 1, scratch, out)
                })?;
                out.push(']');
                Ok(())
            }
            _ => {
                self.skip_value(depth, scratch)?;
                out.push_str(&self.text[start..self.at]);
                Ok(())
            }
        }
    }

    fn copy_string(&mut self, scratch: &mut String, out: &mut String) -> Result<(), Refused> {
        let start = self.at;
        let string = self.string(scratch)?;
        if string.len() + 2 == self.at - start {
            out.push_str(&self.text[start..self.at]); // an escape would have made it shorter
        } else {
            quote(string, out);
        }
        Ok(())
    }

    /// Takes a colon with the space around it.
    #[inline(always)]
    pub(crate) fn colon(&mut self) -> Result<(), Refused> {
        self.skip_space();
        self.expect(b':', "a colon is missing after a key")?;
        self.skip_space();
        Ok(())
    }

    /// Walks an object, whose brace `self.at` is at; `member` takes a key (at its quote), the colon and the value.
    #[inline]
    pub(crate) fn members(
        &mut self,
        depth: usize,
        mut member: impl FnMut(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        self.open(depth)?;
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != b'"' {
                return Err(self.fail("a key is missing in an object"));
            }
            member(self)?;
            self.skip_space();
            match self.peek() {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(self.fail("a comma or closing brace is missing")),
            }
            self.skip_space();
        }
        self.at += 1;
        Ok(())
    }

    /// Walks an array, whose bracket `self.at` is at; `element` takes one value.
    #[inline]
    pub(crate) fn elements(
        &mut self,
        depth: usize,
        mut element: impl FnMut(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        self.open(depth)?;
        if self.peek() == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            self.skip_space();
            match self.peek() {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(self.fail("a comma or closing bracket is missing")),
            }
            self.skip_space();
        }
        self.at += 1;
        Ok(())
    }

    /// Takes the brace or bracket of an object or array that lies in `depth` others.
    #[inline]
    pub(crate) fn open(&mut self, depth: usize) -> Result<(), Refused> {
        if depth >= MAX_DEPTH {
            return Err(self.fail("nested deeper than 127 arrays and objects"));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Nothing but space may be left.
    #[inline]
    pub(crate) fn end(&mut self) -> Result<(), Refused> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fail("there is more after the JSON value")) }
    }
}

/// Where the space from `at` on ends. Takes no cursor, so that those of the hot loop stay in registers.
fn space_end(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Appends `string` as a JSON string, escaped as little as JSON allows.
pub(crate) fn quote(string: &str, out: &mut String) {
    use std::fmt::Write as _;
    out.push('"');
    for character in string.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(character)).expect("a String takes all"),
            _ => out.push(character),
        }
    }
    out.push('"');
}
