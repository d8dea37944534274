//! Choices out of a seed, or written down: what is made of them is made anew from fewer of them, and so shrinks.

/// Choices in the order they were made. One that is not there is 0, which is the simplest everywhere.
#[derive(Clone, Debug)]
pub struct Tape {
    choices: Vec<u32>,
    at: usize,
    /// Where more choices come from.
    state: Option<u64>,
}

impl Tape {
    /// Choices that never end.
    pub fn random(seed: u64) -> Self {
        Self { choices: Vec::new(), at: 0, state: Some(seed) }
    }

    /// These choices.
    pub fn written(choices: Vec<u32>) -> Self {
        Self { choices, at: 0, state: None }
    }

    /// The choices that were made.
    pub fn made(&self) -> &[u32] {
        &self.choices[..self.at.min(self.choices.len())]
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        if self.at == self.choices.len()
            && let Some(state) = &mut self.state
        {
            self.choices.push(split_mix(state));
        }
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        choice as usize % bound
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

fn split_mix(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 32) as u32
}

/// Shorter or simpler tapes than `choices`: spans of them left out, then spans set to 0.
pub fn simpler(choices: &[u32]) -> Vec<Vec<u32>> {
    let mut tapes = Vec::new();
    let mut span = choices.len().next_power_of_two() / 2;
    while span > 0 {
        for from in (0..choices.len()).step_by(span) {
            let to = (from + span).min(choices.len());
            tapes.push([&choices[..from], &choices[to..]].concat());
            if choices[from..to].iter().any(|choice| *choice != 0) {
                let mut zeroed = choices.to_vec();
                zeroed[from..to].fill(0);
                tapes.push(zeroed);
            }
        }
        span /= 2;
    }
    tapes
}
