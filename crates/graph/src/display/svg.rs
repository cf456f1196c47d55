//! A graph as a drawing: one band a layer, in each band rows by depth, what a tensor reads above it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{compute_text, shape_text};
use crate::ir::*;

const BOX_WIDTH: usize = 190;
/// How many characters of the drawing's font fit into a box: one is 7 wide at most.
const BOX_CHARACTERS: usize = (BOX_WIDTH - 12) / 7;
const BOX_HEIGHT: usize = 34;
const GAP_ACROSS: usize = 14;
const GAP_DOWN: usize = 30;
const MARGIN: usize = 24;
const HEADING: usize = 26;
/// A row holds no more boxes than this: a wider level takes several rows.
const MOST_ACROSS: usize = 8;

/// Draws a graph as an SVG document. A tensor named in `labels` (such as the family of its site) gets that label's
/// colour, listed in a legend; every box tells its whole definition as a tooltip. Loops' bodies are not drawn inside.
pub fn draw_svg(graph: &Graph, labels: &BTreeMap<NodeId, String>) -> String {
    let layout = Layout::of(graph);
    let legend = legend(labels);
    let legend_height = if legend.is_empty() { 0 } else { 28 };
    let (width, height) = (layout.width + 2 * MARGIN, layout.height + 2 * MARGIN + legend_height);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, monospace\" font-size=\"11\">"
    );
    let _ = writeln!(out, "<title>{}</title>", escaped(graph.name()));
    let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>");
    for (place, (label, colour)) in legend.iter().enumerate() {
        let x = MARGIN + place * 150;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"12\" width=\"14\" height=\"14\" rx=\"3\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"23\">{}</text>",
            x + 20,
            escaped(label)
        );
    }
    let _ = writeln!(out, "<g transform=\"translate({MARGIN},{})\">", MARGIN + legend_height);
    for band in &layout.bands {
        let _ = writeln!(
            out,
            "<rect x=\"-12\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#f6f7f9\" stroke=\"#d9dde3\"/>\
             <text x=\"0\" y=\"{}\" font-weight=\"bold\" fill=\"#5b6472\">{}</text>",
            band.top,
            layout.width + 24,
            band.height,
            band.top + 17,
            escaped(&band.name)
        );
    }
    edges(graph, &layout, &mut out);
    for index in 0..graph.nodes().len() {
        draw_box(graph, NodeId(index as u32), &layout, labels, &legend, &mut out);
    }
    out += "</g>\n</svg>\n";
    out
}

struct Band {
    name: String,
    top: usize,
    height: usize,
}

struct Layout {
    /// The upper left corner of each node's box.
    corners: Vec<(usize, usize)>,
    bands: Vec<Band>,
    width: usize,
    height: usize,
}

/// The layer that a node's name says it belongs to.
fn layer_of(node: &Node) -> Option<&str> {
    let first = node.origin.name.split('/').next()?;
    let number = first.strip_prefix("layers.")?;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    (digits > 0).then(|| &first[.."layers.".len() + digits])
}

fn reads(graph: &Graph, id: NodeId) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut rows = Vec::new();
    graph.node(id).kind.for_each_read(&mut |read| found.push(read), &mut |history| rows.push(history));
    found.extend(rows.into_iter().map(|history| graph.histories()[history.index()].row));
    found.sort_unstable();
    found.dedup();
    found
}

impl Layout {
    fn of(graph: &Graph) -> Layout {
        let count = graph.nodes().len();
        let reads: Vec<Vec<NodeId>> = (0..count).map(|index| reads(graph, NodeId(index as u32))).collect();
        // Bands in the order of the text: what comes before any layer, the layers, what depends on a layer.
        let mut names: Vec<String> = vec![graph.name().to_string()];
        let mut band = vec![0usize; count];
        let mut after = vec![false; count];
        for (index, node) in graph.nodes().iter().enumerate() {
            after[index] = reads[index].iter().any(|read| after[read.index()] || band[read.index()] > 0);
            if let Some(layer) = layer_of(node) {
                let known = names.iter().skip(1).position(|name| name == layer);
                band[index] = known.map_or_else(
                    || {
                        names.push(layer.to_string());
                        names.len() - 1
                    },
                    |place| place + 1,
                );
            }
        }
        let last = names.len();
        names.push("after the layers".into());
        for index in 0..count {
            if band[index] == 0 && after[index] {
                band[index] = last;
            }
        }
        let mut level = vec![0usize; count];
        for index in 0..count {
            let above = reads[index].iter().filter(|read| band[read.index()] == band[index]);
            level[index] = above.map(|read| level[read.index()] + 1).max().unwrap_or(0);
        }
        // A source stands just above its first reader, not in one crowd at the top.
        let mut first_reader: Vec<Option<usize>> = vec![None; count];
        for index in 0..count {
            for read in &reads[index] {
                if band[read.index()] == band[index] {
                    let first = &mut first_reader[read.index()];
                    *first = Some(first.map_or(level[index], |known| known.min(level[index])));
                }
            }
        }
        for index in 0..count {
            if let (true, Some(first)) = (reads[index].is_empty(), first_reader[index]) {
                level[index] = first.saturating_sub(1);
            }
        }
        Layout::place(names, &band, &level)
    }

    fn place(names: Vec<String>, band: &[usize], level: &[usize]) -> Layout {
        let mut rows: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for index in 0..band.len() {
            rows.entry((band[index], level[index])).or_default().push(index);
        }
        let widest = rows.values().map(|row| row.len().min(MOST_ACROSS)).max().unwrap_or(1);
        let width = widest * (BOX_WIDTH + GAP_ACROSS);
        let mut corners = vec![(0, 0); band.len()];
        let mut bands: Vec<Band> = Vec::new();
        let mut y = 0;
        let mut current = None;
        for ((band, _), row) in rows {
            if current != Some(band) {
                if let Some(last) = bands.last_mut() {
                    last.height = y - last.top;
                    y += 12;
                }
                bands.push(Band { name: names[band].clone(), top: y, height: 0 });
                y += HEADING;
                current = Some(band);
            }
            for part in row.chunks(MOST_ACROSS) {
                let left = (width - part.len() * (BOX_WIDTH + GAP_ACROSS)) / 2;
                for (place, &index) in part.iter().enumerate() {
                    corners[index] = (left + place * (BOX_WIDTH + GAP_ACROSS), y);
                }
                y += BOX_HEIGHT + GAP_DOWN;
            }
        }
        if let Some(last) = bands.last_mut() {
            last.height = y - last.top;
        }
        Layout { corners, bands, width, height: y }
    }
}

fn edges(graph: &Graph, layout: &Layout, out: &mut String) {
    *out += "<g fill=\"none\" stroke=\"#9aa3b2\" stroke-width=\"1\" stroke-opacity=\"0.55\">\n";
    for index in 0..graph.nodes().len() {
        let (to_x, to_y) = layout.corners[index];
        for read in reads(graph, NodeId(index as u32)) {
            let (from_x, from_y) = layout.corners[read.index()];
            let (x0, y0) = (from_x + BOX_WIDTH / 2, from_y + BOX_HEIGHT);
            let (x1, y1) = (to_x + BOX_WIDTH / 2, to_y);
            let bend = (y1.abs_diff(y0) / 2).min(60);
            let _ = writeln!(
                out,
                "<path d=\"M{x0} {y0} C{x0} {} {x1} {} {x1} {y1}\"/>",
                y0 + bend,
                y1.saturating_sub(bend)
            );
        }
    }
    *out += "</g>\n";
}

fn draw_box(
    graph: &Graph,
    id: NodeId,
    layout: &Layout,
    labels: &BTreeMap<NodeId, String>,
    legend: &[(String, String)],
    out: &mut String,
) {
    let node = graph.node(id);
    let (x, y) = layout.corners[id.index()];
    let label = labels.get(&id);
    let labelled = label.and_then(|label| legend.iter().find(|(known, _)| known == label));
    let plain = match &node.kind {
        NodeKind::Input(_) => "#dbeafe",
        NodeKind::Param(_) | NodeKind::Constant(_) => "#e9ebef",
        NodeKind::State(_) => "#fef0c7",
        _ => "#ffffff",
    };
    let fill = labelled.map_or(plain, |(_, colour)| colour.as_str());
    let name = layer_of(node).map_or(node.origin.name.as_str(), |layer| {
        node.origin.name[layer.len()..].trim_start_matches(['/', '.'])
    });
    let text = match &node.kind {
        NodeKind::Compute(compute) => compute_text(graph, compute),
        NodeKind::Param(param) => format!("param {}", graph.params()[param.index()].name),
        NodeKind::Input(input) => format!("input {}", graph.inputs()[input.index()].name),
        NodeKind::State(state) => format!("state {}", graph.states()[state.index()].key),
        NodeKind::Constant(_) => "constant".into(),
        NodeKind::Top { operand, k, .. } => format!("top[{k}]({operand})"),
        NodeKind::Scan(scan) => format!("scan of {} turns", scan.trips),
        NodeKind::ScanResult { scan, result } => format!("result {result} of {scan}"),
    };
    let shape = shape_text(graph, id);
    let heading = label.map_or(String::new(), |label| format!("[{label}] "));
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"5\" \
         fill=\"{fill}\" stroke=\"#7b8494\"/><text x=\"{}\" y=\"{}\">{}</text>\
         <text x=\"{}\" y=\"{}\" fill=\"#5b6472\">{}</text></g>",
        escaped(&format!("{heading}{id} {}\n{shape} = {text}", node.origin.name)),
        x + 6,
        y + 14,
        escaped(&format!("{id} {}", ending(name, BOX_CHARACTERS - 1 - id.to_string().len()))),
        x + 6,
        y + 28,
        escaped(&format!("{shape} {}", operation(node)))
    );
}

/// The last `most` characters of a name.
fn ending(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        name.to_string()
    } else {
        ['…'].into_iter().chain(name.chars().skip(count - most + 1)).collect()
    }
}

/// What a tensor does, in a word.
fn operation(node: &Node) -> &'static str {
    match &node.kind {
        NodeKind::Input(_) => "input",
        NodeKind::Param(_) => "param",
        NodeKind::Constant(_) => "constant",
        NodeKind::State(_) => "state",
        NodeKind::Top { .. } => "top",
        NodeKind::Scan(_) => "scan",
        NodeKind::ScanResult { .. } => "result",
        NodeKind::Compute(Compute { fold: Some(fold), .. }) => match fold.kind {
            FoldKind::Sum => "sum",
            FoldKind::Product => "product",
            FoldKind::Max => "max",
            FoldKind::Min => "min",
            FoldKind::Any => "any",
            FoldKind::All => "all",
            FoldKind::ArgMax => "argmax",
            FoldKind::Ordered { .. } => "fold",
        },
        NodeKind::Compute(_) => "",
    }
}

/// A colour for each label, evenly around the wheel in the labels' order.
fn legend(labels: &BTreeMap<NodeId, String>) -> Vec<(String, String)> {
    let mut names: Vec<&String> = labels.values().collect();
    names.sort_unstable();
    names.dedup();
    let count = names.len().max(1);
    let colour = |place: usize| format!("hsl({}, 70%, 82%)", place * 360 / count);
    names.into_iter().enumerate().map(|(place, name)| (name.clone(), colour(place))).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
