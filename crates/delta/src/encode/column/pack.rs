//! Parquet's two packings of whole numbers: `RLE`, which mixes runs with bit-packed groups, and
//! `DELTA_BINARY_PACKED`, which packs the distances between neighbours.

/// Values of a bit-packed group.
const GROUP: usize = 8;

/// Groups under one header at most, so that the header is one byte, as every reader expects it.
const MOST_GROUPS: usize = 63;

/// Values of a block of deltas.
const BLOCK: usize = 128;

/// Values of a block that share a width.
const MINIBLOCK: usize = 32;

/// Bits that the number takes.
pub(super) fn width(most: u64) -> u32 {
    64 - most.leading_zeros()
}

/// Packs values of at most `width` bits as runs where eight or more are equal, and in groups of eight elsewhere.
pub(super) fn put_runs<T: Copy + PartialEq + Into<u64>>(values: &[T], width: u32, out: &mut Vec<u8>) {
    let (mut from, mut at) = (0, 0);
    while let Some(&first) = values.get(at) {
        let run = values[at..].iter().take_while(|&&value| value == first).count();
        if run >= GROUP || at + run == values.len() {
            put_groups(&values[from..at], width, out);
            put_run(first, run, width, out);
            at += run;
            from = at;
        } else {
            at = (at + GROUP).min(values.len());
        }
    }
    put_groups(&values[from..], width, out);
}

/// One value, `times` over.
pub(super) fn put_run<T: Into<u64>>(value: T, times: usize, width: u32, out: &mut Vec<u8>) {
    put_varint((times as u64) << 1, out);
    out.extend_from_slice(&value.into().to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Packs values by their distances. `narrow`: the column's type has 32 bits, and distances wrap there.
pub(super) fn put_deltas<T: Copy + Into<i64>>(values: &[T], narrow: bool, out: &mut Vec<u8>) {
    put_varint(BLOCK as u64, out);
    put_varint((BLOCK / MINIBLOCK) as u64, out);
    put_varint(values.len() as u64, out);
    put_zigzag(values.first().map_or(0, |&value| value.into()), out);
    let mut deltas = [0_i64; BLOCK];
    let later = values.get(1..).unwrap_or_default();
    for (befores, afters) in values.chunks(BLOCK).zip(later.chunks(BLOCK)) {
        let deltas = &mut deltas[..afters.len()];
        for ((delta, &before), &after) in deltas.iter_mut().zip(befores).zip(afters) {
            let distance = after.into().wrapping_sub(before.into());
            *delta = if narrow { i64::from(distance as i32) } else { distance };
        }
        put_block(deltas, out);
    }
}

fn put_block(deltas: &[i64], out: &mut Vec<u8>) {
    let least = deltas.iter().min().copied().unwrap_or_default();
    put_zigzag(least, out);
    let widths = out.len();
    out.extend_from_slice(&[0; BLOCK / MINIBLOCK]);
    for (n, miniblock) in deltas.chunks(MINIBLOCK).enumerate() {
        let above = |delta: &i64| delta.wrapping_sub(least) as u64;
        let width = width(miniblock.iter().fold(0, |bits, delta| bits | above(delta)));
        out[widths + n] = width as u8;
        let end = out.len() + MINIBLOCK / 8 * width as usize;
        pack(miniblock.iter().map(above), width, out);
        out.resize(end, 0);
    }
}

fn put_groups<T: Copy + Into<u64>>(values: &[T], width: u32, out: &mut Vec<u8>) {
    for values in values.chunks(MOST_GROUPS * GROUP) {
        let groups = values.len().div_ceil(GROUP);
        put_varint((groups as u64) << 1 | 1, out);
        let end = out.len() + groups * width as usize;
        pack(values.iter().map(|&value| value.into()), width, out);
        out.resize(end, 0);
    }
}

/// Values one after another, each `width` bits, the lowest first.
fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut word, mut bits) = (0_u64, 0);
    for value in values {
        word |= value << bits;
        bits += width;
        if bits >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            bits -= u64::BITS;
            word = value.checked_shr(width - bits).unwrap_or(0);
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint((value << 1 ^ value >> 63) as u64, out);
}
