//! Which field a key names, quickly: the messages of a topic mostly have the same keys in the same order.
//!
//! Each object of the schema has [`Keys`]: a slot for each field, and for unknown names as they are met. A slot knows
//! which one followed it last time, so a key is mostly compared with one literal, `"name":`, and never looked up.

use std::fmt;

use ahash::AHashMap;

/// Index of a slot. `NONE` is "nothing follows".
pub(crate) type SlotId = u32;
pub(crate) const NONE: SlotId = u32::MAX;

/// Unknown names remembered for each object; further ones are looked up and counted together.
const UNKNOWN_NAMES: usize = 64;

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The field of that index.
    Field(u32),
    /// Not a column, but a transform looks into it: the ghost of that index.
    Ghost(u32),
    /// Dropped; the index counts it.
    Unknown(u32),
    /// Dropped, one too many to count by name.
    Untold,
}

#[derive(Debug)]
struct Slot {
    literal: Literal,
    target: Target,
    /// Where a transform wants to see the value, or `NONE`.
    capture: u32,
    next: SlotId,
}

/// The keys of one object of the schema.
#[derive(Debug)]
pub(crate) struct Keys {
    slots: Vec<Slot>,
    by_name: AHashMap<Box<str>, SlotId>,
    first: SlotId,
    /// Objects that are no column, but hold a transform's source.
    pub(crate) ghosts: Vec<Keys>,
    /// Names and counts of what was dropped; `None` where names are not told (inside ghosts).
    unknown: Vec<(Box<str>, u64)>,
    untold: u64,
}

/// A slot that a key was found to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) target: Target,
    pub(crate) capture: u32,
}

impl Keys {
    /// Keys of a struct with fields of these names, which differ.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut keys = Self {
            slots: Vec::new(),
            by_name: AHashMap::new(),
            first: NONE,
            ghosts: Vec::new(),
            unknown: Vec::new(),
            untold: 0,
        };
        for (index, name) in names.enumerate() {
            keys.add(name, Target::Field(u32::try_from(index).expect("few fields")));
        }
        if !keys.slots.is_empty() {
            keys.first = 0;
        }
        for at in 1..keys.slots.len() {
            keys.slots[at - 1].next = u32::try_from(at).expect("few fields");
        }
        keys
    }

    fn add(&mut self, name: &str, target: Target) -> SlotId {
        let slot = u32::try_from(self.slots.len()).expect("few slots");
        self.slots.push(Slot { literal: Literal::new(name), target, capture: NONE, next: NONE });
        self.by_name.insert(name.into(), slot);
        slot
    }

    /// The slot named `name`, made a ghost if nothing has that name yet.
    pub(crate) fn slot_or_ghost(&mut self, name: &str) -> SlotId {
        if let Some(&slot) = self.by_name.get(name) {
            return slot;
        }
        let ghost = u32::try_from(self.ghosts.len()).expect("few ghosts");
        self.ghosts.push(Self::new(std::iter::empty()));
        self.add(name, Target::Ghost(ghost))
    }

    /// Every name known, and what it stands for.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, Target)> {
        self.by_name.iter().map(|(name, &slot)| (&**name, self.target(slot)))
    }

    pub(crate) fn target(&self, slot: SlotId) -> Target {
        self.slots[slot as usize].target
    }

    /// The capture of a slot, given to it with `next` when it has none yet.
    pub(crate) fn capture(&mut self, slot: SlotId, next: &mut u32) -> u32 {
        let capture = &mut self.slots[slot as usize].capture;
        if *capture == NONE {
            *capture = *next;
            *next += 1;
        }
        *capture
    }

    /// The field that is called `name`.
    pub(crate) fn field(&self, name: &str) -> Option<usize> {
        match self.by_name.get(name).map(|&slot| self.target(slot)) {
            Some(Target::Field(index)) => Some(index as usize),
            _ => None,
        }
    }

    /// Tries the slot that followed `after` last time (`NONE`: at the object's start) at `at`, where a key's quote is.
    /// The slot, the length up to and with the colon, and what the key stands for.
    #[inline(always)]
    pub(crate) fn predict(&self, after: SlotId, bytes: &[u8], at: usize) -> Option<(SlotId, usize, Found)> {
        let id = if after == NONE { self.first } else { self.slots[after as usize].next };
        let slot = self.slots.get(id as usize)?;
        let found = Found { target: slot.target, capture: slot.capture };
        slot.literal.lies(bytes, at).then_some((id, slot.literal.text.len(), found))
    }

    /// Looks a key up, and remembers that it followed `after`. `None` is a name that is not told apart any more.
    pub(crate) fn look_up(&mut self, after: SlotId, name: &str) -> SlotId {
        let slot = match self.by_name.get(name) {
            Some(&slot) => slot,
            None if self.unknown.len() < UNKNOWN_NAMES => {
                let count = u32::try_from(self.unknown.len()).expect("few names");
                self.unknown.push((name.into(), 0));
                self.add(name, Target::Unknown(count))
            }
            None => return NONE,
        };
        if after == NONE {
            self.first = slot;
        } else {
            self.slots[after as usize].next = slot;
        }
        slot
    }

    #[inline(always)]
    pub(crate) fn found(&self, slot: SlotId) -> Found {
        match self.slots.get(slot as usize) {
            Some(slot) => Found { target: slot.target, capture: slot.capture },
            None => Found { target: Target::Untold, capture: NONE },
        }
    }

    /// What a key of that name stands for, without learning from it.
    pub(crate) fn find(&self, name: &str) -> Found {
        self.found(self.by_name.get(name).copied().unwrap_or(NONE))
    }

    /// Counts a dropped field.
    #[inline]
    pub(crate) fn drop_one(&mut self, target: Target) {
        self.drop_some(target, 1);
    }

    /// Counts a field dropped from so many messages.
    #[inline]
    pub(crate) fn drop_some(&mut self, target: Target, messages: u64) {
        match target {
            Target::Unknown(at) => self.unknown[at as usize].1 += messages,
            _ => self.untold += messages,
        }
    }

    /// Takes the counts of dropped fields: names with counts, and those without a name.
    pub(crate) fn take_unknown(&mut self) -> (Vec<(&str, u64)>, u64) {
        let told = self.unknown.iter_mut().map(|entry| (&*entry.0, std::mem::take(&mut entry.1)));
        (told.filter(|(_, count)| *count > 0).collect(), std::mem::take(&mut self.untold))
    }
}

/// The text `"name":` of a key without escapes.
struct Literal {
    /// Empty for a name that JSON must escape, and that is looked up each time.
    text: Box<[u8]>,
    /// Its first 16 bytes, zeros behind a shorter one, and ones where they count.
    head: u128,
    mask: u128,
    /// Not empty, and no longer than that.
    short: bool,
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl Literal {
    fn new(name: &str) -> Self {
        let plain = name.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
        let text = if plain { format!("\"{name}\":").into_bytes() } else { Vec::new() };
        let (mut head, mut mask) = ([0; 16], [0; 16]);
        for (at, byte) in text.iter().take(16).enumerate() {
            (head[at], mask[at]) = (*byte, 0xff);
        }
        let short = (1..=16).contains(&text.len());
        Self { text: text.into(), head: u128::from_le_bytes(head), mask: u128::from_le_bytes(mask), short }
    }

    /// Whether the text lies in `bytes` at `at`.
    #[inline(always)]
    fn lies(&self, bytes: &[u8], at: usize) -> bool {
        // One load compares a short text without a call.
        let Some(bytes) = bytes.get(at..) else { return false };
        if let Some(head) = bytes.first_chunk::<16>()
            && self.short
        {
            return u128::from_le_bytes(*head) & self.mask == self.head;
        }
        !self.text.is_empty() && bytes.starts_with(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicts_only_the_very_key() {
        for name in ["", "a", "ab", "id", "name", "session_id", "a name of more than sixteen bytes", "ñ", "a.b"] {
            let keys = Keys::new([name].into_iter());
            let text = format!("\"{name}\":1");
            let predict = |bytes: &[u8]| keys.predict(NONE, bytes, 0).map(|(slot, length, _)| (slot, length));
            for padding in ["", "                    "] {
                assert_eq!(predict(format!("{text}{padding}").as_bytes()), Some((0, text.len() - 1)), "{name}");
            }
            for at in 0..text.len() - 1 {
                let mut other = text.clone().into_bytes();
                other[at] ^= 1;
                assert_eq!(predict(&other), None, "{name} {at}");
                other.extend_from_slice(b"                    ");
                assert_eq!(predict(&other), None, "{name} {at}");
                assert_eq!(predict(&text.as_bytes()[..at]), None, "{name} cut at {at}");
            }
        }
        let keys = Keys::new(["a\"b", "a\\b", "\n"].into_iter());
        for text in ["\"a\"b\":", "\"a\\b\":", "\"\n\":"] {
            let bytes = format!("{text}                    ");
            assert!(keys.predict(NONE, bytes.as_bytes(), 0).is_none(), "a key that must be escaped");
        }
    }

    #[test]
    fn unknown_names_are_bounded() {
        let mut keys = Keys::new(["id"].into_iter());
        for n in 0..1000 {
            let slot = keys.look_up(NONE, &format!("x{n}"));
            let target = keys.found(slot).target;
            keys.drop_one(target);
        }
        let (told, untold) = keys.take_unknown();
        assert_eq!((told.len(), untold), (UNKNOWN_NAMES, 1000 - UNKNOWN_NAMES as u64));
    }
}
