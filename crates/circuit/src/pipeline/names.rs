//! What names mean: each is defined once, above its use.

use std::collections::{BTreeMap, BTreeSet};

use super::error::Problem;
use super::nearest::did_you_mean;
use super::{Name, Origin, Pipeline, Sink, Source, Target, View};

/// Checks all names of a pipeline, and that no two sinks write to one place.
pub(super) fn check(pipeline: &Pipeline) -> Result<(), Problem> {
    unique(pipeline)?;
    for view in &pipeline.views {
        for read in &view.reads {
            readable(pipeline, view, read)?;
        }
    }
    for sink in pipeline.sinks_of_views() {
        written(pipeline, sink)?;
    }
    apart(pipeline)
}

fn unique(pipeline: &Pipeline) -> Result<(), Problem> {
    let mut all: Vec<(&Name, &str)> = pipeline.sources.iter().map(|source| (&source.name, "source")).collect();
    all.extend(pipeline.views.iter().map(|view| (&view.name, "view")));
    all.extend(pipeline.sinks.iter().map(|sink| (&sink.name, "sink")));
    all.sort_by_key(|(name, _)| name.place);
    let mut seen = BTreeMap::new();
    for (name, kind) in all {
        if let Some((first, place)) = seen.insert(name.text.as_str(), (kind, name.place)) {
            let message = format!("`{}` is taken by the {first} at {place}; give this {kind} another name", name.text);
            return Err(Problem::new(name.place, message));
        }
    }
    Ok(())
}

/// A view reads sources and views that stand above it.
fn readable(pipeline: &Pipeline, view: &View, read: &Name) -> Result<(), Problem> {
    let name = read.text.as_str();
    if let Some(other) = pipeline.view(name) {
        if other.name.text == view.name.text {
            let message = format!("view `{name}` reads itself; WITH RECURSIVE in its query may do that");
            return Err(Problem::new(read.place, message));
        }
        if other.name.place < view.name.place {
            return Ok(());
        }
        return Err(Problem::new(read.place, below(pipeline, view, other)));
    }
    if let Some(source) = pipeline.source(name) {
        if source.name.place < view.name.place {
            return Ok(());
        }
        let message = format!("source `{name}` is defined below, at {}; move it above this view", source.name.place);
        return Err(Problem::new(read.place, message));
    }
    if let Some(sink) = pipeline.sinks.iter().find(|sink| sink.name.text == name) {
        let message = if sink.from.text == sink.name.text {
            format!("`{name}` comes of the views, so none reads it; ask `lakeward query`")
        } else {
            format!("`{name}` is a sink; read what it writes, `{}`", sink.from.text)
        };
        return Err(Problem::new(read.place, message));
    }
    Err(unknown(pipeline, read))
}

/// Why a view can't read one that is defined below it.
fn below(pipeline: &Pipeline, view: &View, other: &View) -> String {
    let name = &other.name.text;
    if let Some(way) = way(pipeline, other, &view.name.text) {
        let circle = way.join(" reads ");
        return format!("views read each other in a circle: {} reads {circle}; WITH RECURSIVE may", view.name.text);
    }
    format!("view `{name}` is defined below, at {}; move it above this one", other.name.place)
}

/// The names from one view to another by what they read, both ends included.
fn way<'a>(pipeline: &'a Pipeline, from: &'a View, to: &str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut open = vec![vec![from.name.text.as_str()]];
    while let Some(path) = open.pop() {
        let last = *path.last()?;
        if last == to {
            return Some(path);
        }
        if !seen.insert(last) {
            continue;
        }
        let reads = pipeline.view(last).map_or(&[][..], |view| &view.reads);
        open.extend(reads.iter().map(|read| path.iter().copied().chain([read.text.as_str()]).collect()));
    }
    None
}

fn written(pipeline: &Pipeline, sink: &Sink) -> Result<(), Problem> {
    let from = &sink.from;
    let defined = match (pipeline.view(&from.text), pipeline.source(&from.text)) {
        (Some(view), _) => view.name.place,
        (None, Some(source)) => {
            columns_exist(source, sink)?;
            source.name.place
        }
        (None, None) => {
            let is_sink = pipeline.sinks.iter().any(|other| other.name.text == from.text);
            let sink_only = format!("`{}` is a sink; a sink writes a view or a source", from.text);
            return Err(if is_sink { Problem::new(from.place, sink_only) } else { unknown(pipeline, from) });
        }
    };
    if defined > sink.name.place {
        let message = format!("`{}` is defined below, at {defined}; move it above this sink", from.text);
        return Err(Problem::new(from.place, message));
    }
    Ok(())
}

/// A source's columns are known here; a view's the planner checks.
fn columns_exist(source: &Source, sink: &Sink) -> Result<(), Problem> {
    let (key, more): (_, &[Name]) = match &sink.target {
        Target::Delta(delta) => (&delta.key, &delta.partition_by),
        Target::Kafka(kafka) => (&kafka.key, &[]),
    };
    let names = source.columns.iter().map(|column| column.name.text.as_str());
    for name in key.iter().chain(more) {
        if !names.clone().any(|known| known == name.text) {
            let near = did_you_mean(&name.text, names);
            let message = format!("source `{}` has no column `{}`{near}", source.name.text, name.text);
            return Err(Problem::new(name.place, message));
        }
    }
    Ok(())
}

fn unknown(pipeline: &Pipeline, name: &Name) -> Problem {
    let sources = pipeline.sources.iter().map(|source| source.name.text.as_str());
    let known = sources.chain(pipeline.views.iter().map(|view| view.name.text.as_str()));
    let near = did_you_mean(&name.text, known);
    Problem::new(name.place, format!("there is no source or view `{}`{near}", name.text))
}

/// Each table and topic has one writer, and no topic is read and written.
fn apart(pipeline: &Pipeline) -> Result<(), Problem> {
    let mut seen = BTreeMap::new();
    for sink in &pipeline.sinks {
        let (where_to, shown, place) = match &sink.target {
            Target::Delta(delta) => ((table(delta.location.reveal()), None), &delta.location, delta.place),
            Target::Kafka(kafka) => ((kafka.brokers.reveal(), Some(kafka.topic.reveal())), &kafka.topic, kafka.place),
        };
        if let Some(first) = seen.insert(where_to, &sink.name.text) {
            return Err(Problem::new(
                place,
                format!("sink `{first}` writes to `{shown}` already; give it another place"),
            ));
        }
        let is_read = pipeline.sources.iter().any(|source| {
            let Origin::Kafka(kafka) = &source.from;
            where_to == (kafka.brokers.reveal(), Some(kafka.topic.reveal()))
        });
        if is_read {
            return Err(Problem::new(
                place,
                format!("topic `{shown}` is a source of this pipeline; it would never end"),
            ));
        }
    }
    Ok(())
}

/// Spellings of one folder that differ at their ends.
fn table(location: &str) -> &str {
    let whole = location.strip_prefix("./").unwrap_or(location);
    whole.trim_end_matches('/')
}
