//! The shape of a message that the usual way has taken. What has no simple shape has none.

use crate::apply::{Placed, Way};
use crate::block::{Sink, takes_kafka};
use crate::column::{Column, Data, Struct};
use crate::compiled::Compiled;
use crate::error::{Fail, Refused};
use crate::key::{Keys, NONE, Target};
use crate::scan::Cursor;
use crate::shape::{Literal, MAX_VALUES, Make, ROWS, Segment, Shape, Slot, Step, Tail, Take};
use crate::transform::{Epoch, Metadata};

/// Learns the shape of `message`, of which the usual way made a row. `None` when shapes can't do what is asked.
pub(crate) fn learn(message: &str, root: &Struct, placed: &[Placed], captures: usize) -> Option<Shape> {
    let mut learner = Learner {
        message,
        from: 0,
        segments: Vec::new(),
        steps: Vec::new(),
        drops: Vec::new(),
        seen: vec![Seen::Missing; captures],
        path: Vec::new(),
        scratch: String::new(),
    };
    let mut cursor = Cursor::new(message);
    cursor.skip_space();
    let mut sinks = learner.object(&mut cursor, root, 0).ok()?;
    cursor.end().ok()?;
    for placed in placed {
        learner.transform(placed, root, &mut sinks)?;
    }
    close(&mut sinks, root)?;
    let stamped = placed.iter().any(|placed| matches!(placed.way, Way::Kafka(Metadata::Timestamp)));
    Some(Shape {
        tail: Tail::new(&message.as_bytes()[learner.from..]),
        segments: learner.segments,
        steps: learner.steps,
        drops: learner.drops,
        sinks,
        stamped,
        rows: 0,
    })
}

/// Whether shapes can do what these transforms ask, for messages that suit.
pub(crate) fn can_learn(placed: &[Placed]) -> bool {
    placed.iter().all(|placed| !matches!(placed.way, Way::Message { compiled: None, .. }))
}

/// What lies where a transform looks.
#[derive(Clone, Copy)]
enum Seen {
    Missing,
    Text(Slot),
    Integer(Slot),
    Other,
}

struct Learner<'a> {
    message: &'a str,
    /// Where the literal starts that the next value ends.
    from: usize,
    segments: Vec<Segment>,
    steps: Vec<Step>,
    drops: Vec<(Vec<usize>, Target)>,
    /// By capture.
    seen: Vec<Seen>,
    /// Field indices to the struct being read.
    path: Vec<usize>,
    scratch: String,
}

/// Not to be learnt.
fn refuse<T>() -> Result<T, Refused> {
    Err(Fail::unsure())
}

impl<'a> Learner<'a> {
    fn object(&mut self, cursor: &mut Cursor<'a>, parts: &Struct, depth: usize) -> Result<Vec<Sink>, Refused> {
        let mut sinks = missing(parts);
        cursor.members(depth, |cursor| {
            let found = parts.keys.find(cursor.string(&mut self.scratch)?);
            cursor.colon()?;
            match found.target {
                Target::Field(index) => {
                    let index = index as usize;
                    if !matches!(sinks[index], Sink::Missing) {
                        return refuse();
                    }
                    self.path.push(index);
                    sinks[index] = self.field(cursor, &parts.fields[index], found.capture, depth + 1)?;
                    self.path.pop();
                }
                Target::Ghost(index) => {
                    self.ghost(cursor, &parts.keys.ghosts[index as usize], found.capture, depth + 1)?;
                }
                unknown => {
                    self.drops.push((self.path.clone(), unknown));
                    self.value(cursor, Take::Skip { depth: depth + 1 }, false, NONE)?;
                }
            }
            Ok(())
        })?;
        Ok(sinks)
    }

    /// A field's value: where its column will get it from.
    fn field(&mut self, cursor: &mut Cursor<'a>, column: &Column, capture: u32, depth: usize) -> Result<Sink, Refused> {
        fn within<T: Into<i64>>(min: T, max: T) -> Take {
            Take::Integer { min: min.into(), max: max.into() }
        }
        let take = match (&column.data, cursor.peek()) {
            (Data::Struct(parts), b'{') => {
                self.note(capture, Seen::Other)?;
                return Ok(Sink::Parts(self.object(cursor, parts, depth)?));
            }
            (Data::Timestamp(_), b'"') => return self.time(cursor, Make::Timestamp, column.nullable, capture),
            (Data::Date(_), b'"') => return self.time(cursor, Make::Date, column.nullable, capture),
            (Data::String(_), b'"' | b'n') => Take::Text,
            (Data::Boolean(_), b't' | b'f' | b'n') => Take::Boolean,
            (Data::Long(_), b'-' | b'0'..=b'9' | b'n') => within(i64::MIN, i64::MAX),
            (Data::Int(_), b'-' | b'0'..=b'9' | b'n') => within(i32::MIN, i32::MAX),
            (Data::Short(_), b'-' | b'0'..=b'9' | b'n') => within(i16::MIN, i16::MAX),
            (Data::Byte(_), b'-' | b'0'..=b'9' | b'n') => within(i8::MIN, i8::MAX),
            (Data::Double(_), b'-' | b'0'..=b'9' | b'n') => Take::Double,
            (Data::Float(_), b'-' | b'0'..=b'9' | b'n') => Take::Float,
            (Data::Timestamp(_), b'-' | b'0'..=b'9') => within(i64::MIN, i64::MAX),
            (Data::Date(_), b'-' | b'0'..=b'9') => within(i32::MIN, i32::MAX),
            (_, b'n') => {
                // A part of the literal: what else may come there is not known.
                self.note(capture, Seen::Other)?;
                cursor.word("null")?;
                return Ok(Sink::Null);
            }
            _ => return refuse(),
        };
        self.value(cursor, take, column.nullable, capture).map(Sink::Slots)
    }

    /// A time as text.
    fn time(&mut self, cursor: &mut Cursor<'a>, make: Make, nullable: bool, capture: u32) -> Result<Sink, Refused> {
        let from = self.value(cursor, Take::Text, nullable, capture)?;
        Ok(Sink::Slots(self.step(make, from, nullable)))
    }

    /// An object that is no column, or another value that transforms may look at.
    fn ghost(&mut self, cursor: &mut Cursor<'a>, keys: &Keys, capture: u32, depth: usize) -> Result<(), Refused> {
        match cursor.peek() {
            b'{' => {
                self.note(capture, Seen::Other)?;
                cursor.members(depth, |cursor| {
                    let found = keys.find(cursor.string(&mut self.scratch)?);
                    cursor.colon()?;
                    match found.target {
                        Target::Ghost(index) => {
                            self.ghost(cursor, &keys.ghosts[index as usize], found.capture, depth + 1)
                        }
                        _ => self.value(cursor, Take::Skip { depth: depth + 1 }, false, found.capture).map(drop),
                    }
                })
            }
            b'"' => self.value(cursor, Take::Text, false, capture).map(drop),
            b'-' | b'0'..=b'9' => {
                self.value(cursor, Take::Integer { min: i64::MIN, max: i64::MAX }, false, capture).map(drop)
            }
            _ => self.value(cursor, Take::Skip { depth }, false, capture).map(drop),
        }
    }

    /// Ends a literal with a value.
    fn value(&mut self, cursor: &mut Cursor<'a>, take: Take, nullable: bool, capture: u32) -> Result<Slot, Refused> {
        if self.segments.len() == MAX_VALUES {
            return refuse();
        }
        let slot = Slot::Value(self.segments.len());
        self.note(
            capture,
            match take {
                Take::Text => Seen::Text(slot),
                Take::Integer { .. } => Seen::Integer(slot),
                _ => Seen::Other,
            },
        )?;
        let literal = Literal::new(&self.message.as_bytes()[self.from..cursor.at]);
        self.segments.push(Segment { literal, take, nullable, slots: [0; ROWS] });
        // It was taken once already, depth and all.
        cursor.skip_value(0, &mut self.scratch)?;
        self.from = cursor.at;
        Ok(slot)
    }

    /// Notes what lies where a transform looks; two of the same name are beyond a shape.
    fn note(&mut self, capture: u32, seen: Seen) -> Result<(), Refused> {
        match self.seen.get_mut(capture as usize) {
            Some(place @ Seen::Missing) => *place = seen,
            Some(_) => return refuse(),
            None => {}
        }
        Ok(())
    }

    fn step(&mut self, make: Make, from: Slot, nullable: bool) -> Slot {
        self.steps.push(Step { make, from, nullable, slots: [0; ROWS] });
        Slot::Made(self.steps.len() - 1)
    }

    /// Has a transform's column filled by it. `None` when that is beyond a shape.
    fn transform(&mut self, placed: &Placed, root: &Struct, sinks: &mut Vec<Sink>) -> Option<()> {
        let source = match &placed.way {
            Way::Kafka(_) => Seen::Other,
            Way::Message { compiled, .. } => match self.derive(compiled.as_ref()?)? {
                Seen::Missing => return Some(()),
                source => source,
            },
        };
        let (mut parts, mut sinks) = (root, sinks);
        for &index in placed.parent() {
            let Data::Struct(inner) = &parts.fields[index].data else { return None };
            if matches!(sinks[index], Sink::Missing) {
                sinks[index] = Sink::Parts(missing(inner));
            }
            let Sink::Parts(deeper) = &mut sinks[index] else { return None };
            (parts, sinks) = (inner, deeper);
        }
        let (column, sink) = (&parts.fields[placed.field()], &mut sinks[placed.field()]);
        // A message's own value that is replaced has to be looked at by the usual way.
        if !matches!(sink, Sink::Missing) {
            return None;
        }
        *sink = match (&placed.way, source, &column.data) {
            (Way::Kafka(metadata), ..) if takes_kafka(column, *metadata) => Sink::Kafka(*metadata),
            (_, Seen::Text(slot), Data::String(_)) => Sink::Slots(self.step(Make::Same, slot, false)),
            (_, Seen::Text(slot), Data::Timestamp(_)) => Sink::Slots(self.step(Make::Timestamp, slot, false)),
            (_, Seen::Text(slot), Data::Date(_)) => Sink::Slots(self.step(Make::Date, slot, false)),
            (_, Seen::Integer(slot), Data::Long(_) | Data::Timestamp(_)) => {
                Sink::Slots(self.step(Make::Same, slot, false))
            }
            _ => return None,
        };
        Some(())
    }

    /// What an expression makes of the message. `None` when that is beyond a shape.
    fn derive(&mut self, compiled: &Compiled) -> Option<Seen> {
        match compiled {
            Compiled::Path(capture) => Some(self.seen[*capture as usize]).filter(|seen| !matches!(seen, Seen::Other)),
            Compiled::Substr { text, skip, take } => match self.derive(text)? {
                Seen::Text(slot) => {
                    Some(Seen::Text(self.step(Make::Substring { skip: *skip, take: *take }, slot, false)))
                }
                _ => None,
            },
            Compiled::Epoch(Epoch::MillisToMicros, number) => match self.derive(number)? {
                Seen::Integer(slot) => Some(Seen::Integer(self.step(Make::MillisToMicros, slot, false))),
                _ => None,
            },
            Compiled::Epoch(..) => None,
        }
    }
}

/// What no value was found for is null. `None` where it must not be.
fn close(sinks: &mut [Sink], parts: &Struct) -> Option<()> {
    for (sink, column) in sinks.iter_mut().zip(&parts.fields) {
        match (&mut *sink, &column.data) {
            (Sink::Missing | Sink::Null, _) if !column.nullable => return None,
            (Sink::Missing, _) => *sink = Sink::Null,
            (Sink::Parts(sinks), Data::Struct(parts)) => close(sinks, parts)?,
            _ => {}
        }
    }
    Some(())
}

fn missing(parts: &Struct) -> Vec<Sink> {
    parts.fields.iter().map(|_| Sink::Missing).collect()
}
