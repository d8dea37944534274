//! Breadth-first search over a world, and the way back from every state to the goal.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A world small enough to try everything.
pub trait World: Clone + Hash {
    type Move: Copy + fmt::Debug;
    /// What stands for no move, at the start.
    const BEGIN: Self::Move;
    /// Whether it takes from the budget; a run without these ends at a goal.
    fn is_fault(step: Self::Move) -> bool;
    /// Everything that was to happen has happened.
    fn is_goal(&self) -> bool;
    /// Everything that can happen now.
    fn moves(&self, moves: &mut Vec<Self::Move>);
    /// The world after a move, or the promise that it breaks.
    fn after(&self, step: Self::Move) -> Result<Self, String>;
}

/// What there was to see.
pub struct Explored {
    pub states: usize,
    pub moves: usize,
    pub depth: u32,
}

/// How a promise was broken.
pub struct History<M> {
    pub broken: String,
    pub moves: Vec<M>,
}

impl<M: fmt::Debug> fmt::Display for History<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.broken)?;
        self.moves.iter().enumerate().try_for_each(|(n, step)| writeln!(f, "{n:>3} {step:?}"))
    }
}

/// More states than this are a mistake in the scene.
const MOST_STATES: usize = 2_000_000;

/// The graph so far: how each state was reached, and who follows whom without a fault.
struct Graph<M> {
    index: HashMap<u128, u32, BuildAsIs>,
    parents: Vec<(u32, M)>,
    depths: Vec<u32>,
    goals: Vec<u32>,
    edges: Vec<(u32, u32)>,
}

/// Visits every state that can follow.
pub fn explore<W: World>(name: &str, start: W) -> Result<Explored, History<W::Move>> {
    let mut graph = Graph {
        index: HashMap::default(),
        parents: vec![(0, W::BEGIN)],
        depths: vec![0],
        goals: Vec::new(),
        edges: Vec::new(),
    };
    graph.index.insert(fingerprint(&start), 0);
    let mut frontier = vec![(0_u32, start)];
    let mut moves = 0;
    let mut options = Vec::new();
    while !frontier.is_empty() {
        let mut following = Vec::new();
        for (from, world) in frontier {
            if world.is_goal() {
                graph.goals.push(from);
            }
            options.clear();
            world.moves(&mut options);
            for &step in &options {
                moves += 1;
                let after = world.after(step).map_err(|broken| graph.history(from, Some(step), broken))?;
                let to = graph.enter(fingerprint(&after), from, step, || following.push(after));
                if !W::is_fault(step) {
                    graph.edges.push((from, to));
                }
            }
        }
        let first = graph.parents.len() - following.len();
        frontier = (first..).map(|n| u32::try_from(n).expect("few states")).zip(following).collect();
        assert!(graph.parents.len() < MOST_STATES, "{name}: more than {MOST_STATES} states");
    }
    graph.all_lead_to_a_goal()?;
    let depth = graph.depths.iter().copied().max().unwrap_or(0);
    Ok(Explored { states: graph.parents.len(), moves, depth })
}

impl<M: Copy> Graph<M> {
    fn enter(&mut self, fingerprint: u128, from: u32, step: M, first: impl FnOnce()) -> u32 {
        let next = u32::try_from(self.parents.len()).expect("few states");
        let to = *self.index.entry(fingerprint).or_insert(next);
        if to == next {
            self.parents.push((from, step));
            self.depths.push(self.depths[from as usize] + 1);
            first();
        }
        to
    }

    fn history(&self, mut at: u32, last: Option<M>, broken: String) -> History<M> {
        let mut moves: Vec<M> = last.into_iter().collect();
        while at != 0 {
            let (parent, step) = self.parents[at as usize];
            moves.push(step);
            at = parent;
        }
        moves.reverse();
        History { broken, moves }
    }

    /// No state is stuck: without further faults, everything can still be committed.
    fn all_lead_to_a_goal(&self) -> Result<(), History<M>> {
        let mut first = vec![0_u32; self.parents.len() + 1];
        self.edges.iter().for_each(|(_, to)| first[*to as usize + 1] += 1);
        (1..first.len()).for_each(|n| first[n] += first[n - 1]);
        let mut sources = vec![0_u32; self.edges.len()];
        let mut fill = first.clone();
        for (from, to) in &self.edges {
            sources[fill[*to as usize] as usize] = *from;
            fill[*to as usize] += 1;
        }
        let mut leads = vec![false; self.parents.len()];
        let mut todo = self.goals.clone();
        while let Some(at) = todo.pop() {
            if !std::mem::replace(&mut leads[at as usize], true) {
                todo.extend(&sources[first[at as usize] as usize..first[at as usize + 1] as usize]);
            }
        }
        match leads.iter().position(|leads| !leads) {
            None => Ok(()),
            Some(stuck) => {
                let stuck = u32::try_from(stuck).expect("few states");
                Err(self.history(stuck, None, "P1: stuck, this state never leads to everything committed".into()))
            }
        }
    }
}

fn fingerprint(world: &impl Hash) -> u128 {
    let mut hasher = Wide { lanes: [0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344] };
    world.hash(&mut hasher);
    (u128::from(hasher.lanes[0]) << 64) | u128::from(hasher.finish())
}

/// Two multiply-and-fold lanes: states are told apart by 128 bits.
struct Wide {
    lanes: [u64; 2],
}

impl Wide {
    fn mix(&mut self, word: u64) {
        let fold = |lane: u64, key: u64| {
            let wide = u128::from(lane ^ word) * u128::from(key);
            (wide as u64) ^ (wide >> 64) as u64
        };
        let [a, b] = self.lanes;
        self.lanes = [fold(a.rotate_left(23), 0x9E37_79B9_7F4A_7C15), fold(b.rotate_left(41), 0xD6E8_FEB8_6659_FD93)];
    }
}

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        self.lanes[1]
    }

    fn write(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64 + 1);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n) | 0x100);
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n) | 1 << 33);
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n ^ 0xA5A5);
    }

    fn write_i64(&mut self, n: i64) {
        self.mix(n as u64 ^ 0x5A5A);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64 ^ 0xC3C3);
    }

    fn write_isize(&mut self, n: isize) {
        self.mix(n as u64 ^ 0x3C3C);
    }
}

/// Fingerprints are hashes already.
#[derive(Clone, Default)]
struct BuildAsIs;

impl std::hash::BuildHasher for BuildAsIs {
    type Hasher = AsIs;

    fn build_hasher(&self) -> AsIs {
        AsIs(0)
    }
}

struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are looked up");
    }

    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64 ^ (n >> 64) as u64;
    }
}
