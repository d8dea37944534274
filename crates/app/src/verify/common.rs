//! The one moment that all tables of a pipeline can show: the greatest frontier that is a version in each.
//!
//! The first sink's commits are the record of the steps (P7): a step's commit of another sink stands before
//! the first sink's next one. So at a frontier of the first sink that has a later one behind it, whatever
//! changed in the others stands, and one that lags has not changed: its newest version not beyond the
//! frontier is right. At its newest frontier a sink that lags may have its commit still to come; and one that
//! never said where it stands may be new, and behind by all that there is: then the moment is the beginning.

use std::collections::BTreeMap;

use lakeward_kafka::Sink;
use lakeward_protocol::ports::Exit;

use super::chain::{Chain, Chains};
use crate::failure::Failure;
use crate::pipeline::{Place, Way};
use crate::session::Session;

/// Next offsets, by the `txn`'s app id.
pub type Stood = BTreeMap<String, i64>;

/// Where a sink stood in each of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Versions that moved it, and where to; ascending.
    moves: Vec<(u64, Stood)>,
    /// The oldest version that there is.
    first: u64,
    /// The newest.
    head: u64,
}

/// The moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Where all stand.
    pub frontier: Stood,
    /// Of each sink, in the pipeline's order.
    pub versions: Vec<u64>,
}

impl Trail {
    /// Of a table's chains, those whose app ids begin so.
    #[must_use]
    pub fn of(chains: &Chains, prefix: &str) -> Self {
        let mut by_version: BTreeMap<u64, Stood> = BTreeMap::new();
        for (txn, chain) in chains.chains.iter().filter(|(txn, _)| txn.starts_with(prefix)) {
            for (version, to) in &chain.ends {
                by_version.entry(*version).or_default().insert(txn.clone(), *to);
            }
        }
        let mut stood = Stood::new();
        let moves = by_version.into_iter().map(|(version, moved)| {
            stood.extend(moved);
            (version, stood.clone())
        });
        Self { moves: moves.collect(), first: chains.first, head: chains.version }
    }

    /// Where it stands.
    #[must_use]
    pub fn newest(&self) -> Stood {
        self.moves.last().map(|(_, stood)| stood.clone()).unwrap_or_default()
    }

    /// Its newest version that is not beyond a frontier.
    fn within(&self, frontier: &Stood) -> Option<u64> {
        let is_within = |stood: &Stood| stood.iter().all(|(txn, to)| frontier.get(txn).is_some_and(|end| to <= end));
        let beyond = self.moves.iter().rposition(|(_, stood)| is_within(stood)).map_or(0, |at| at + 1);
        match self.moves.get(beyond) {
            None => Some(self.head),
            Some((version, _)) => version.checked_sub(1).filter(|version| *version >= self.first),
        }
    }

    fn has(&self, frontier: &Stood) -> bool {
        frontier.is_empty() || self.moves.iter().any(|(_, stood)| stood == frontier)
    }
}

/// The moment of a pipeline's tables; `None` when a log does not go back to it, or where there is none: by
/// partition each table goes on by itself, and they have one where they happen to stand level.
#[must_use]
pub fn of_pipeline(way: &Way, trails: &[Trail]) -> Option<Common> {
    let Way::ByPartition(_) = way else { return common(trails) };
    let frontier = trails.first()?.newest();
    let level = trails.iter().all(|trail| trail.newest() == frontier);
    level.then(|| Common { frontier, versions: trails.iter().map(|trail| trail.head).collect() })
}

/// The greatest common frontier; `None` when a log does not go back to it. The first trail is the first
/// sink's, and was read before the others.
#[must_use]
fn common(trails: &[Trail]) -> Option<Common> {
    let (journal, others) = trails.split_first()?;
    let mut steps: Vec<Stood> = vec![Stood::new()];
    steps.extend(journal.moves.iter().map(|(_, stood)| stood.clone()));
    steps.dedup();
    let newest = steps.last()?;
    let frontier = if others.iter().all(|trail| trail.has(newest)) {
        newest
    } else if others.iter().any(|trail| trail.moves.is_empty()) {
        &steps[0]
    } else {
        &steps[steps.len() - 2]
    };
    let versions = trails.iter().map(|trail| trail.within(frontier)).collect::<Option<Vec<u64>>>()?;
    Some(Common { frontier: frontier.clone(), versions })
}

/// What a sink says of itself: a table all that its log holds, a topic its newest frontier alone.
///
/// # Errors
/// When it can't be read.
pub fn follow(place: &Place, prefix: &str, session: &Session) -> Result<Chains, Failure> {
    let config = match place {
        Place::Table(location) => return super::follow(location, session),
        Place::Topic(config) => config,
    };
    let state = Sink::look(config).map_err(|error| Failure::port(&error))?;
    let mut chains = Chains { first: state.version, version: state.version, ..Chains::default() };
    for (source, partition, next) in state.frontier {
        let ends = vec![(state.version, next.get())];
        let chain = Chain { partition, to: next.get(), ends, ..Chain::default() };
        chains.chains.insert(format!("{prefix}{source}-{partition}"), chain);
    }
    Ok(chains)
}

/// Reads the logs of a pipeline's tables and finds their moment; `None` by partition, where there is none.
///
/// # Errors
/// When a log can't be read, or does not go back far enough.
pub fn of_tables(way: &Way, locations: &[String], prefix: &str, session: &Session) -> Result<Option<Common>, Failure> {
    let mut trails = Vec::new();
    for location in locations {
        trails.push(Trail::of(&super::follow(location, session)?, prefix));
    }
    match (of_pipeline(way, &trails), way) {
        (None, Way::ByStep(_)) => Err(Failure::new(
            Exit::TryAgain,
            "the tables' logs do not go back to a frontier that all of them have; try again after the next checkpoint",
        )),
        (common, _) => Ok(common),
    }
}

/// A frontier as people read it: `bid-0 1,234  bid-1 17`.
fn text(frontier: &Stood, prefix: &str) -> String {
    if frontier.is_empty() {
        return "the beginning".to_owned();
    }
    let short = |txn: &str| txn.strip_prefix(prefix).unwrap_or(txn).to_owned();
    let each = frontier.iter().map(|(txn, to)| format!("{} {}", short(txn), crate::report::grouped(to)));
    each.collect::<Vec<_>>().join("  ")
}

/// The moment for people, with the version of each sink that shows it.
#[must_use]
pub fn described<'a>(way: &Way, common: Option<&Common>, sinks: impl Iterator<Item = &'a str>, prefix: &str) -> String {
    let Some(common) = common else {
        let why = match way {
            Way::ByPartition(_) => "each table goes on by itself",
            Way::ByStep(_) => "the logs do not go back to one",
        };
        return format!("no common frontier: {why}\n");
    };
    let versions = sinks.zip(&common.versions).map(|(name, version)| format!("{name} version {version}"));
    let versions = versions.collect::<Vec<_>>().join(", ");
    format!("common frontier: {}\n  as {versions}\n", text(&common.frontier, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stood(bid: i64, auction: i64) -> Stood {
        [("p-bid-0".to_owned(), bid), ("p-auction-0".to_owned(), auction)]
            .into_iter()
            .filter(|(_, to)| *to > 0)
            .collect()
    }

    /// A table that is made in version 0; the versions that move it.
    fn trail(head: u64, moves: &[(u64, i64, i64)]) -> Trail {
        let moves = moves.iter().map(|(version, bid, auction)| (*version, stood(*bid, *auction))).collect();
        Trail { moves, first: 0, head }
    }

    #[test]
    fn the_greatest_frontier_that_all_can_show() {
        let journal = || trail(3, &[(1, 5, 0), (2, 9, 0), (3, 9, 4)]);
        #[rustfmt::skip] // columns: name, the other sink, frontier, versions
        let cases = [
            ("the same steps",                      trail(3, &[(1, 5, 0), (2, 9, 0), (3, 9, 4)]), (9, 4), [3, 3]),
            ("the last step is to come, perhaps",   trail(2, &[(1, 5, 0), (2, 9, 0)]),            (9, 0), [2, 2]),
            ("it lags: nothing changed since",      trail(1, &[(1, 5, 0)]),                       (9, 0), [2, 1]),
            ("it never said where it stands",       trail(0, &[]),                                (0, 0), [0, 0]),
            ("others wrote to it since",            trail(7, &[(1, 5, 0)]),                       (9, 0), [2, 7]),
            ("it missed steps, and is level again", trail(2, &[(1, 5, 0), (2, 9, 4)]),            (9, 4), [3, 2]),
            ("it went on after the first was read", trail(4, &[(1, 5, 0), (3, 9, 4), (4, 11, 4)]), (9, 4), [3, 3]),
            ("and stepped over our newest",         trail(4, &[(1, 5, 0), (4, 11, 4)]),           (9, 0), [2, 3]),
        ];
        for (name, other, (bid, auction), versions) in cases {
            let expected = Common { frontier: stood(bid, auction), versions: versions.to_vec() };
            assert_eq!(common(&[journal(), other]), Some(expected), "{name}");
        }
        let alone = common(&[journal()]);
        assert_eq!(alone, Some(Common { frontier: stood(9, 4), versions: vec![3] }));
        let empty = common(&[trail(0, &[]), trail(0, &[])]);
        assert_eq!(empty, Some(Common { frontier: Stood::new(), versions: vec![0, 0] }));
    }

    #[test]
    fn a_log_that_does_not_go_back_is_said_so() {
        let cut = Trail { first: 6, ..trail(7, &[(6, 11, 4), (7, 12, 4)]) };
        assert_eq!(common(&[trail(2, &[(1, 5, 0), (2, 9, 0)]), cut]), None);
    }
}
