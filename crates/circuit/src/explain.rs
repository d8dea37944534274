//! A plan for people: as a tree, and as a picture.

use std::fmt::Write as _;

use crate::plan::{NodeId, Plan};

/// The plan of each view as a tree: the view's operators above what they read, with what they keep.
#[must_use]
pub fn tree(plan: &Plan) -> String {
    let mut text = String::new();
    let mut shown = vec![false; plan.nodes.len()];
    for view in &plan.views {
        let _ = writeln!(text, "view {}", view.name);
        branch(plan, view.node, "", true, &mut shown, &mut text);
    }
    text
}

fn branch(plan: &Plan, id: NodeId, indent: &str, last: bool, shown: &mut [bool], text: &mut String) {
    let node = &plan.nodes[id.0];
    let (mark, more) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    if std::mem::replace(&mut shown[id.0], true) && !node.inputs.is_empty() {
        let _ = writeln!(text, "{indent}{mark}#{} as above", id.0);
        return;
    }
    let _ = writeln!(text, "{indent}{mark}#{} {}", id.0, node.operator.describe());
    let indent = format!("{indent}{more}");
    let stem = if node.inputs.is_empty() { "  " } else { "│ " };
    for state in node.operator.state() {
        let bound =
            state.bound.as_deref().map_or("grows with the input".to_owned(), |bound| format!("bounded: {bound}"));
        let _ = writeln!(text, "{indent}{stem}  keeps {} ({bound})", state.what);
    }
    for (at, input) in node.inputs.iter().enumerate() {
        branch(plan, *input, &indent, at + 1 == node.inputs.len(), shown, text);
    }
}

/// The plan as Graphviz takes it.
#[must_use]
pub fn dot(plan: &Plan) -> String {
    let mut text = String::from("digraph pipeline {\n  rankdir=BT;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (at, node) in plan.nodes.iter().enumerate() {
        let label = quoted(&lines(&label(plan, at), "\\n"));
        let style = if node.operator.state().is_empty() { "" } else { ", style=filled, fillcolor=\"#fff2cc\"" };
        let _ = writeln!(text, "  n{at} [label=\"{label}\"{style}];");
        for input in &node.inputs {
            let _ = writeln!(text, "  n{} -> n{at};", input.0);
        }
    }
    for (at, view) in plan.views.iter().enumerate() {
        let _ =
            writeln!(text, "  v{at} [label=\"{}\", shape=ellipse];\n  n{} -> v{at};", quoted(&view.name), view.node.0);
    }
    text.push_str("}\n");
    text
}

/// The plan as Mermaid takes it, and so the pages of most forges.
#[must_use]
pub fn mermaid(plan: &Plan) -> String {
    let mut text = String::from("flowchart BT\n");
    for (at, node) in plan.nodes.iter().enumerate() {
        let label = lines(&label(plan, at), "<br/>").replace('"', "#quot;");
        let _ = writeln!(text, "  n{at}[\"{label}\"]");
        for input in &node.inputs {
            let _ = writeln!(text, "  n{} --> n{at}", input.0);
        }
        if !node.operator.state().is_empty() {
            let _ = writeln!(text, "  style n{at} fill:#fff2cc");
        }
    }
    for (at, view) in plan.views.iter().enumerate() {
        let _ = writeln!(text, "  v{at}([\"{}\"])\n  n{} --> v{at}", view.name.replace('"', "#quot;"), view.node.0);
    }
    text
}

/// Widths in pixels of a picture's parts.
const BOX_WIDTH: usize = 300;
const BOX_HEIGHT: usize = 64;
const GAP: usize = 40;
/// Letters in a line of a box.
const LINE_LETTERS: usize = 44;

/// The plan as a picture: inputs below what reads them, stateful operators in colour.
#[must_use]
pub fn svg(plan: &Plan) -> String {
    let depths = depths(plan);
    let height = depths.iter().copied().max().unwrap_or(0) + 2;
    let mut across = vec![0usize; height];
    let mut place = |depth: usize| {
        across[depth] += 1;
        (GAP + (across[depth] - 1) * (BOX_WIDTH + GAP), GAP + (height - 1 - depth) * (BOX_HEIGHT + GAP))
    };
    let nodes: Vec<(usize, usize)> = depths.iter().map(|depth| place(*depth)).collect();
    let views: Vec<(usize, usize)> = plan.views.iter().map(|view| place(depths[view.node.0] + 1)).collect();
    let width = across.iter().copied().max().unwrap_or(0) * (BOX_WIDTH + GAP) + GAP;
    let total = height * (BOX_HEIGHT + GAP) + GAP;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{total}\" font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    let mut line = |from: (usize, usize), to: (usize, usize)| {
        let (x1, y1, x2, y2) = (from.0 + BOX_WIDTH / 2, from.1, to.0 + BOX_WIDTH / 2, to.1 + BOX_HEIGHT);
        let _ = writeln!(text, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#666\"/>");
    };
    for (at, node) in plan.nodes.iter().enumerate() {
        node.inputs.iter().for_each(|input| line(nodes[input.0], nodes[at]));
    }
    plan.views.iter().zip(&views).for_each(|(view, at)| line(nodes[view.node.0], *at));
    for (at, node) in plan.nodes.iter().enumerate() {
        let fill = if node.operator.state().is_empty() { "#ffffff" } else { "#fff2cc" };
        boxed(&mut text, nodes[at], fill, 4, &label(plan, at));
    }
    for (view, at) in plan.views.iter().zip(&views) {
        boxed(&mut text, *at, "#e1f0e1", 30, &format!("view {}", view.name));
    }
    text.push_str("</svg>\n");
    text
}

fn boxed(text: &mut String, (x, y): (usize, usize), fill: &str, round: usize, label: &str) {
    let _ = writeln!(
        text,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"{round}\" fill=\"{fill}\" stroke=\"#333\"/>"
    );
    for (at, line) in lines(label, "\n").lines().take(3).enumerate() {
        let (x, y) = (x + 10, y + 20 + at * 16);
        let escaped = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\">{escaped}</text>");
    }
}

/// How many operators lie between each node and the furthest source.
fn depths(plan: &Plan) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(plan.nodes.len());
    for node in &plan.nodes {
        depths.push(node.inputs.iter().map(|input| depths[input.0] + 1).max().unwrap_or(0));
    }
    depths
}

fn label(plan: &Plan, at: usize) -> String {
    format!("#{at} {}", plan.nodes[at].operator.describe())
}

/// Text in lines of a bearable length, cut after the third.
fn lines(text: &str, separator: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("a line");
        if !line.is_empty() && line.chars().count() + word.chars().count() >= LINE_LETTERS {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    if lines.len() > 3 {
        lines.truncate(3);
        lines[2].push_str(" ...");
    }
    lines.join(separator)
}

fn quoted(text: &str) -> String {
    text.replace('"', "\\\"")
}
