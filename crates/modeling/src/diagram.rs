//! The model as a picture: types as boxes with their paths, solid lines for declared relations,
//! dashed ones for inferred ones with their match rate, red for findings. As Mermaid text, and as SVG
//! without any program to draw it.

use std::fmt::Write as _;

use crate::advisor::Report;
use crate::document::Model;

/// A box.
#[derive(Clone, Debug)]
struct TypeBox {
    name: String,
    container: String,
    /// Path and what is known of its type; the last says whether there is a finding about it.
    rows: Vec<(String, String, bool)>,
    /// Whether a finding is about the type as a whole.
    marked: bool,
}

/// A line from one box to another.
#[derive(Clone, Debug)]
struct Line {
    from: String,
    to: String,
    label: String,
    declared: bool,
    marked: bool,
}

/// A picture that can be written in several ways.
#[derive(Clone, Debug, Default)]
pub struct Diagram {
    boxes: Vec<TypeBox>,
    lines: Vec<Line>,
}

/// Rows of one box that are drawn; what comes later is summed up in one.
const ROWS_MAX: usize = 14;

impl Diagram {
    /// Of what is declared, what was inferred, or both.
    pub fn new(model: Option<&Model>, report: Option<&Report>) -> Self {
        let mut diagram = Self::default();
        if let Some(model) = model {
            diagram.declared(model);
        }
        if let Some(report) = report {
            diagram.inferred(report);
        }
        diagram
    }

    fn type_box(&mut self, name: &str, container: &str) -> &mut TypeBox {
        let at = self.boxes.iter().position(|b| b.name == name).unwrap_or_else(|| {
            let (name, container) = (name.to_owned(), container.to_owned());
            self.boxes.push(TypeBox { name, container, rows: vec![], marked: false });
            self.boxes.len() - 1
        });
        &mut self.boxes[at]
    }

    fn row(&mut self, name: &str, path: &str, kind: &str) {
        let Some(found) = self.boxes.iter_mut().find(|b| b.name == name) else { return };
        if !found.rows.iter().any(|(known, ..)| known == path) {
            found.rows.push((path.to_owned(), kind.to_owned(), false));
        }
    }

    fn declared(&mut self, model: &Model) {
        for item_type in &model.types {
            self.type_box(&item_type.name, &item_type.container);
            let properties = item_type.schema.as_ref().map(|schema| schema.get("properties"));
            for (name, schema) in
                properties.and_then(|p| p.as_object()).iter().flat_map(|o| o.iter())
            {
                let kind = schema.get("type").as_str().unwrap_or("any");
                self.row(&item_type.name, &format!("/{name}"), kind);
            }
        }
        for relation in &model.relations {
            self.row(&relation.from, &relation.path.to_string(), "reference");
            for (name, _) in &relation.copies {
                self.row(&relation.from, &relation.path.sibling(name).to_string(), "copy");
            }
            if let Some(store) =
                relation.inverse.as_ref().and_then(|inverse| inverse.store.as_ref())
            {
                self.row(&relation.to, &store.to_string(), "inverse");
            }
            self.lines.push(Line {
                from: relation.from.to_string(),
                to: relation.to.to_string(),
                label: relation.name.to_string(),
                declared: true,
                marked: false,
            });
        }
        for aggregate in &model.aggregates {
            self.row(&aggregate.on, &aggregate.path.to_string(), "aggregate");
        }
        for bucket in &model.buckets {
            self.row(&bucket.on, &bucket.array.to_string(), "buckets");
        }
    }

    fn inferred(&mut self, report: &Report) {
        for item_type in &report.types {
            self.type_box(&item_type.name, &item_type.container);
            for (path, kind) in &item_type.paths {
                self.row(&item_type.name, path, kind);
            }
        }
        for link in report.links.iter().filter(|link| !link.declared) {
            let marked = report
                .findings
                .iter()
                .any(|f| f.item_type == link.from && f.path == link.path && f.rule != "M07");
            self.lines.push(Line {
                from: link.from.to_string(),
                to: link.to.to_string(),
                label: format!("{} {:.0} %", link.path, link.rate * 100.0),
                declared: false,
                marked,
            });
        }
        for finding in &report.findings {
            let Some(found) = self.boxes.iter_mut().find(|b| *b.name == *finding.item_type) else {
                continue;
            };
            if finding.path.is_empty() {
                found.marked = true;
            } else if let Some(row) =
                found.rows.iter_mut().find(|(path, ..)| **path == *finding.path)
            {
                row.2 = true;
            } else {
                found.rows.push((finding.path.to_string(), finding.rule.to_owned(), true));
            }
        }
    }

    /// As Mermaid class diagram.
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("classDiagram\n");
        for (index, item_type) in self.boxes.iter().enumerate() {
            let _ = writeln!(text, "  class T{index}[\"{}\"] {{", plain(&item_type.name));
            let _ = writeln!(text, "    <<{}>>", plain(&item_type.container));
            for (path, kind, marked) in item_type.rows.iter().take(ROWS_MAX) {
                let mark = if *marked { " ⚠" } else { "" };
                let _ = writeln!(text, "    {} {}{mark}", plain(kind), plain(path));
            }
            if item_type.rows.len() > ROWS_MAX {
                let _ = writeln!(text, "    and {} more", item_type.rows.len() - ROWS_MAX);
            }
            text.push_str("  }\n");
        }
        let number = |name: &str| self.boxes.iter().position(|b| b.name == name);
        for line in &self.lines {
            let (Some(from), Some(to)) = (number(&line.from), number(&line.to)) else { continue };
            let arrow = if line.declared { "-->" } else { "..>" };
            let _ = writeln!(text, "  T{from} {arrow} T{to} : {}", plain(&line.label));
        }
        let marked = |b: &&TypeBox| b.marked || b.rows.iter().any(|(.., marked)| *marked);
        if self.boxes.iter().any(|b| marked(&b)) {
            text.push_str("  classDef finding stroke:#c00,stroke-width:2px\n");
        }
        for (index, _) in self.boxes.iter().enumerate().filter(|(_, b)| marked(b)) {
            let _ = writeln!(text, "  cssClass \"T{index}\" finding");
        }
        text
    }

    /// As SVG.
    pub fn to_svg(&self) -> String {
        let layout = self.layout();
        let width = layout.iter().map(|b| b.0 + BOX_WIDTH).max().unwrap_or(0) + MARGIN;
        let height = layout.iter().map(|b| b.1 + b.2).max().unwrap_or(0) + MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"10\" refY=\"5\" markerWidth=\"8\" \
             markerHeight=\"8\" orient=\"auto-start-reverse\"><path d=\"M0 0L10 5L0 10z\" \
             fill=\"#555\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        for line in &self.lines {
            self.svg_line(line, &layout, &mut svg);
        }
        for (item_type, place) in self.boxes.iter().zip(&layout) {
            svg_box(item_type, *place, &mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Place and height of each box: rows of a few, each row as high as its highest box.
    fn layout(&self) -> Vec<(usize, usize, usize)> {
        let columns = (1..=self.boxes.len()).find(|n| n * n >= self.boxes.len()).unwrap_or(1);
        let (mut places, mut top) = (Vec::new(), MARGIN);
        for row in self.boxes.chunks(columns) {
            let heights = row.iter().map(|b| {
                let rows = b.rows.len().min(ROWS_MAX) + usize::from(b.rows.len() > ROWS_MAX);
                HEAD_HEIGHT + rows * ROW_HEIGHT + 8
            });
            let heights: Vec<usize> = heights.collect();
            for (column, height) in heights.iter().enumerate() {
                places.push((MARGIN + column * (BOX_WIDTH + GAP), top, *height));
            }
            top += heights.iter().max().copied().unwrap_or(0) + GAP;
        }
        places
    }

    fn svg_line(&self, line: &Line, layout: &[(usize, usize, usize)], svg: &mut String) {
        let place = |name: &str| {
            let at = self.boxes.iter().position(|b| b.name == name)?;
            layout.get(at)
        };
        let (Some(from), Some(to)) = (place(&line.from), place(&line.to)) else { return };
        let color = if line.marked { "#c00" } else { "#555" };
        let dash = if line.declared { "" } else { " stroke-dasharray=\"6 4\"" };
        let start = (from.0 + BOX_WIDTH, from.1 + HEAD_HEIGHT / 2);
        let path = if from == to {
            let (x, y) = start;
            format!("M{x} {y}c60 0 60 60 0 60")
        } else if from.0 < to.0 {
            let end = (to.0, to.1 + HEAD_HEIGHT / 2);
            let middle = usize::midpoint(start.0, end.0);
            format!(
                "M{} {}C{middle} {} {middle} {} {} {}",
                start.0, start.1, start.1, end.1, end.0, end.1
            )
        } else {
            // From the side to the top or bottom, so that the line does not cross its own box.
            let (x, down) = (to.0 + BOX_WIDTH / 2, from.1 < to.1);
            let y = if down { to.1 } else { to.1 + to.2 };
            let (sx, sy) = (from.0 + BOX_WIDTH / 2, if down { from.1 + from.2 } else { from.1 });
            let middle = usize::midpoint(sy, y);
            format!("M{sx} {sy}C{sx} {middle} {x} {middle} {x} {y}")
        };
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\"{dash} marker-end=\"url(#arrow)\"/>"
        );
        let (lx, ly) = (
            usize::midpoint(from.0, to.0) + BOX_WIDTH / 2,
            usize::midpoint(from.1, to.1) + HEAD_HEIGHT / 2 - 5,
        );
        let _ = writeln!(
            svg,
            "<text x=\"{lx}\" y=\"{ly}\" text-anchor=\"middle\" fill=\"{color}\" stroke=\"#fff\" \
             stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
            escaped(&line.label)
        );
    }
}

const BOX_WIDTH: usize = 230;
const HEAD_HEIGHT: usize = 40;
const ROW_HEIGHT: usize = 17;
const GAP: usize = 90;
const MARGIN: usize = 30;

fn svg_box(item_type: &TypeBox, (x, y, height): (usize, usize, usize), svg: &mut String) {
    let edge = if item_type.marked { "#c00" } else { "#333" };
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{height}\" rx=\"5\" fill=\"#f7f9fc\" \
         stroke=\"{edge}\"/>\n<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{}\" y=\"{}\" fill=\"#777\">in {}</text>",
        x + 10,
        y + 16,
        escaped(&item_type.name),
        x + 10,
        y + 32,
        escaped(&item_type.container)
    );
    for (index, (path, kind, marked)) in item_type.rows.iter().take(ROWS_MAX).enumerate() {
        let color = if *marked { "#c00" } else { "#222" };
        let line = y + HEAD_HEIGHT + 12 + index * ROW_HEIGHT;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{line}\" fill=\"{color}\">{} <tspan fill=\"#888\">{}</tspan></text>",
            x + 10,
            escaped(path),
            escaped(kind)
        );
    }
    if item_type.rows.len() > ROWS_MAX {
        let line = y + HEAD_HEIGHT + 12 + ROWS_MAX * ROW_HEIGHT;
        let more = item_type.rows.len() - ROWS_MAX;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{line}\" fill=\"#888\">and {more} more</text>",
            x + 10
        );
    }
}

/// What Mermaid would read as its own signs is left out.
fn plain(text: &str) -> String {
    text.chars().map(|c| if "{}[]<>\"();:#`\n\r".contains(c) { '_' } else { c }).collect()
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use orrery_types::Value;

    use super::*;
    use crate::advisor::Advisor;

    fn diagram() -> Diagram {
        let model = r#"{"version":1,"types":{"book":{"container":"library"},
            "author":{"container":"library"}},
            "relations":[{"name":"author","from":"book","path":"/authors/*/id","to":"author",
            "copies":{"name":"t.name"},"inverse":{"name":"written","store":"/books"}}]}"#;
        let model = Model::parse(&Value::parse(model.as_bytes()).expect("json")).expect("a model");
        let mut advisor = Advisor::default();
        for n in 0..50 {
            let author = format!(
                r#"{{"id":"a{n}","type":"author","name":"N<{n}>","agentId":"g{}"}}"#,
                n % 3
            );
            advisor.add("library", author.as_bytes()).expect("an item");
            let agent = format!(
                r#"{{"id":"g{n}","type":"agent","n":{}}}"#,
                if n % 2 == 0 { "1" } else { "\"1\"" }
            );
            advisor.add("library", agent.as_bytes()).expect("an item");
        }
        Diagram::new(Some(&model), Some(&advisor.finish(Some(&model))))
    }

    #[test]
    fn declared_lines_are_solid_and_inferred_ones_dashed() {
        let text = diagram().to_mermaid();
        assert!(text.contains("T0 --> T1 : author"), "{text}");
        assert!(text.contains("T1 ..> T2 : /agentId 100 %"), "{text}");
        assert!(text.contains("copy /authors/*/name"), "{text}");
        assert!(text.contains("cssClass \"T2\" finding"), "{text}");
    }

    #[test]
    fn the_picture_is_well_formed_whatever_the_names() {
        let svg = diagram().to_svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.contains("stroke-dasharray") && svg.contains("fill=\"#c00\">/n"), "{svg}");
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
