//! `WITH (name = value, ..)`: options by name, each taken once and checked for its kind.

use std::ops::RangeInclusive;

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::error::{Place, Problem};
use super::nearest::nearest;
use super::text::Text;
use super::{KafkaSetting, Name};

/// The environment, by name.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Settings of librdkafka are options that begin with this.
const KAFKA_SETTING: &str = "kafka.";

/// Parts of a setting's name that make its value a secret, in whatever way it came.
const SECRET_WORDS: [&str; 6] = ["password", "secret", "token", "jaas", ".key", ".pem"];

/// What other engines call it.
#[rustfmt::skip] // columns: theirs, ours
const ELSEWHERE: [(&str, &str); 19] = [
    ("bootstrap.servers",            "kafka"),
    ("bootstrap_servers",            "kafka"),
    ("properties.bootstrap.server",  "kafka"),
    ("properties.bootstrap.servers", "kafka"),
    ("brokers",                      "kafka"),
    ("scan.startup.mode",            "start"),
    ("auto_offset_reset",            "start"),
    ("type",                         "mode"),
    ("primary_key",                  "key"),
    ("location",                     "delta"),
    ("path",                         "delta"),
    ("uri",                          "delta"),
    ("table",                        "delta"),
    ("value.format",                 "format"),
    ("partitions",                   "partition_by"),
    ("schema.registry",              "registry"),
    ("schema.registry.url",          "registry"),
    ("schema_registry",              "registry"),
    ("confluent_schema_registry",    "registry"),
];

/// One option as it was given.
pub(super) struct Given {
    pub name: String,
    pub place: Place,
    pub value: Text,
    pub value_place: Place,
    /// Whether the value was written in quotes.
    is_text: bool,
}

/// The options of one statement.
pub(super) struct Options {
    given: Vec<Given>,
    /// What the options are of, as in "source `bid`".
    owner: String,
    /// Where an option could be added.
    end: Place,
}

impl Options {
    /// Reads `WITH (..)`; where there is none, no options.
    pub fn read(cursor: &mut Cursor, owner: String, environment: Environment) -> Result<Self, Problem> {
        let mut options = Self { given: Vec::new(), owner, end: cursor.end() };
        if !cursor.word("WITH") {
            return Ok(options);
        }
        cursor.expect(&Token::LParen)?;
        while cursor.peek() != Token::RParen {
            options.add(Given::read(cursor, environment)?)?;
            if !cursor.takes(&Token::Comma) && cursor.peek() != Token::RParen {
                return Err(cursor.expected("`,` or `)` after an option"));
            }
        }
        options.end = cursor.place();
        cursor.expect(&Token::RParen)?;
        Ok(options)
    }

    /// No options yet, for statements that give one at a time.
    pub fn none(owner: &str) -> Self {
        Self { given: Vec::new(), owner: owner.to_owned(), end: Place::default() }
    }

    pub fn add(&mut self, given: Given) -> Result<(), Problem> {
        if let Some(first) = self.given.iter().find(|first| first.name == given.name) {
            let message = format!("`{}` was given before, at {}", given.name, first.place);
            return Err(Problem::new(given.place, message));
        }
        self.given.push(given);
        Ok(())
    }

    /// Refuses what is not among `known`. `takes_kafka` says whether `kafka.NAME` is.
    pub fn only(&self, known: &[&str], takes_kafka: bool) -> Result<(), Problem> {
        for given in &self.given {
            let is_setting = takes_kafka && given.name.starts_with(KAFKA_SETTING);
            if !is_setting && !known.contains(&given.name.as_str()) {
                return Err(unknown(given, &self.owner, known));
            }
        }
        Ok(())
    }

    pub fn place_of(&self, name: &str) -> Option<Place> {
        self.given.iter().find(|given| given.name == name).map(|given| given.place)
    }

    fn take(&mut self, name: &str) -> Option<Given> {
        let at = self.given.iter().position(|given| given.name == name)?;
        Some(self.given.swap_remove(at))
    }

    /// A text in quotes, not empty.
    pub fn text(&mut self, name: &str) -> Result<Option<Given>, Problem> {
        let Some(given) = self.take(name) else { return Ok(None) };
        if !given.is_text {
            return Err(given.refuse(&format!("a text in quotes, as in {name} = '{}'", given.value)));
        }
        if given.value.reveal().trim().is_empty() {
            return Err(Problem::new(given.value_place, format!("`{name}` is empty; {}", ways_out(&given))));
        }
        Ok(Some(given))
    }

    /// As [`Options::text`], and missing is a fault. `example` is a value to write.
    pub fn required(&mut self, name: &str, example: &str) -> Result<Given, Problem> {
        self.text(name)?.ok_or_else(|| self.lacks(&format!("`{name}`; add {name} = '{example}'")))
    }

    pub fn lacks(&self, what: &str) -> Problem {
        Problem::new(self.end, format!("{} lacks {what} in WITH (..)", self.owner))
    }

    /// One of some words.
    pub fn one_of<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<(T, Place)>, Problem> {
        let Some(given) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| given.value.reveal().eq_ignore_ascii_case(word));
        if let Some((_, value)) = found {
            return Ok(Some((*value, given.value_place)));
        }
        let names: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        Err(given.refuse(&names.join(" or ")))
    }

    /// `true` or `false`, which is what it is without the option.
    pub fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        let Some(given) = self.take(name) else { return Ok(false) };
        match given.value.reveal().to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(given.refuse("true or false")),
        }
    }

    /// A whole number. The unit is the last word of the name.
    pub fn number(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let Some(given) = self.take(name) else { return Ok(None) };
        if let Some(number) = given.value.reveal().parse().ok().filter(|number| range.contains(number)) {
            return Ok(Some(number));
        }
        let unit = match name.rsplit('_').next() {
            Some("ms") => " of milliseconds",
            Some("mb") => " of MiB",
            _ => "",
        };
        Err(given.refuse(&format!("a whole number{unit} from {} to {}", range.start(), range.end())))
    }

    /// A text that later faults may show, so none of the environment's.
    pub fn plain_text(&mut self, name: &str) -> Result<Option<Given>, Problem> {
        let given = self.text(name)?;
        match given {
            Some(given) if given.value.is_secret() => {
                Err(Problem::new(given.value_place, format!("`{name}` can't come from the environment; write it here")))
            }
            _ => Ok(given),
        }
    }

    /// Several words in one plain text, parted by commas, none twice. Empty where the option is missing.
    pub fn list(&mut self, name: &str) -> Result<Vec<Name>, Problem> {
        let Some(given) = self.plain_text(name)? else { return Ok(Vec::new()) };
        let mut names: Vec<Name> = Vec::new();
        for part in given.value.reveal().split(',').map(str::trim) {
            let is_twice = names.iter().any(|name| name.text == part);
            if part.is_empty() || is_twice {
                return Err(given.refuse("names parted by commas, none empty and none twice, as in 'a, b'"));
            }
            names.push(Name { text: part.to_owned(), place: given.value_place });
        }
        Ok(names)
    }

    /// All `kafka.NAME`, in the order of the file.
    pub fn kafka_settings(&mut self) -> Result<Vec<KafkaSetting>, Problem> {
        let (mut settings, rest): (Vec<_>, _) =
            self.given.drain(..).partition(|given| given.name.starts_with(KAFKA_SETTING));
        self.given = rest;
        settings.sort_by_key(|given| given.place);
        settings.into_iter().map(kafka_setting).collect()
    }
}

impl Given {
    /// Reads `name = value`.
    fn read(cursor: &mut Cursor, environment: Environment) -> Result<Self, Problem> {
        let (name, place) = option_name(cursor)?;
        cursor.expect(&Token::Eq)?;
        Self::read_value(name, place, cursor, environment)
    }

    /// Reads the value of the option called `name`.
    pub fn read_value(
        name: String,
        place: Place,
        cursor: &mut Cursor,
        environment: Environment,
    ) -> Result<Self, Problem> {
        let value_place = cursor.place();
        let (raw, is_text) = match cursor.peek() {
            Token::SingleQuotedString(text) => (text, true),
            Token::Number(number, _) => (number, false),
            Token::Word(word) if matches!(word.value.to_ascii_lowercase().as_str(), "true" | "false") => {
                (word.value.to_ascii_lowercase(), false)
            }
            Token::Word(word) => {
                let message = format!("values are written in single quotes: {name} = '{}'", word.value);
                return Err(Problem::new(value_place, message));
            }
            _ => return Err(cursor.expected("a value: 'text' or a number")),
        };
        cursor.next();
        let value = Text::filled(&raw, environment).map_err(|message| Problem::new(value_place, message))?;
        Ok(Self { name, place, value, value_place, is_text })
    }

    pub fn refuse(&self, allowed: &str) -> Problem {
        Problem::new(self.value_place, format!("`{}` can't be `{}`; it is {allowed}", self.name, self.value))
    }
}

/// Words with dots between them, or all of it in quotes. The case does not matter.
fn option_name(cursor: &mut Cursor) -> Result<(String, Place), Problem> {
    let mut place = cursor.place();
    if let Token::SingleQuotedString(name) = cursor.peek() {
        cursor.next();
        return Ok((name.to_ascii_lowercase(), place));
    }
    let mut name = String::new();
    loop {
        let Token::Word(word) = cursor.peek() else { return Err(cursor.expected("an option's name")) };
        cursor.next();
        name.push_str(&word.value.to_ascii_lowercase());
        if !cursor.takes(&Token::Period) {
            break;
        }
        name.push('.');
    }
    place.width = name.chars().count();
    Ok((name, place))
}

fn unknown(given: &Given, owner: &str, known: &[&str]) -> Problem {
    let name = given.name.as_str();
    if name == "connector" {
        let ways: Vec<&str> = known.iter().copied().filter(|name| ["kafka", "delta"].contains(name)).collect();
        let message = format!("leave `connector` out: the option `{}` says it already", ways.join("` or `"));
        return Problem::new(given.place, message);
    }
    let theirs = ELSEWHERE.iter().find(|(theirs, ours)| *theirs == name && known.contains(ours));
    let near = theirs.map(|(_, ours)| *ours).or_else(|| nearest(name, known.iter().copied()));
    let rest = match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; known are {}", known.join(", ")),
    };
    Problem::new(given.place, format!("{owner} has no option `{name}`{rest}"))
}

fn ways_out(given: &Given) -> &'static str {
    if given.value.is_secret() { "the environment gave nothing" } else { "leave the option out, or give it a value" }
}

fn kafka_setting(given: Given) -> Result<KafkaSetting, Problem> {
    let name = given.name[KAFKA_SETTING.len()..].to_owned();
    let ours = match name.as_str() {
        "" => return Err(Problem::new(given.place, "`kafka.` needs the name of a librdkafka setting behind the dot")),
        "bootstrap.servers" | "metadata.broker.list" => Some("kafka = 'host:port'"),
        "auto.offset.reset" => Some("start = 'earliest' or 'latest'"),
        _ => None,
    };
    if let Some(ours) = ours {
        return Err(Problem::new(given.place, format!("`{}` is set by {ours}", given.name)));
    }
    let is_secret = SECRET_WORDS.iter().any(|word| name.contains(word));
    let value = if is_secret { given.value.hidden() } else { given.value };
    Ok(KafkaSetting { name, value, place: given.place })
}
