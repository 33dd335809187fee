//! The distance of two figures.

use geo::{Coord, Geometry, Line, LineString, Polygon};

use super::intersects;
use super::shape::Shape;
use super::surface::Surface;

/// How far apart the nearest points are. The nearest pair is looked for in a plane around each
/// vertex, then measured on the surface.
pub(super) fn distance<S: Surface>(a: &Shape, b: &Shape) -> f64 {
    if let (Geometry::Point(p), Geometry::Point(q)) = (&a.figure, &b.figure) {
        return S::apart(p.0, q.0);
    }
    if intersects(a, b) {
        return 0.0;
    }
    let (a_lines, b_lines) = (edges(&a.figure), edges(&b.figure));
    let mut best: Option<(f64, f64)> = None;
    for (from, to) in [(&a_lines, &b_lines), (&b_lines, &a_lines)] {
        for vertex in from.iter().flat_map(|line| [line.start, line.end]) {
            for line in to {
                let (apart, nearest) = nearest_on::<S>(vertex, *line);
                if best.is_none_or(|(least, _)| apart.total_cmp(&least).is_lt()) {
                    best = Some((apart, S::apart(vertex, nearest)));
                }
            }
        }
    }
    best.map_or(0.0, |(_, apart)| apart)
}

fn edges(figure: &Geometry<f64>) -> Vec<Line<f64>> {
    match figure {
        Geometry::Point(p) => vec![Line::new(p.0, p.0)],
        Geometry::LineString(line) => line.lines().collect(),
        Geometry::Polygon(polygon) => rings_of(polygon),
        Geometry::MultiPolygon(polygons) => polygons.iter().flat_map(rings_of).collect(),
        _ => Vec::new(),
    }
}

fn rings_of(polygon: &Polygon<f64>) -> Vec<Line<f64>> {
    let inner = polygon.interiors().iter().flat_map(LineString::lines);
    polygon.exterior().lines().chain(inner).collect()
}

/// The point of an edge nearest to a position, and their distance in units along.
fn nearest_on<S: Surface>(from: Coord<f64>, line: Line<f64>) -> (f64, Coord<f64>) {
    let shrink = S::shrink(from);
    let flat = |c: Coord<f64>| ((c.x - from.x) * shrink, c.y - from.y);
    let ((ax, ay), (bx, by)) = (flat(line.start), flat(line.end));
    let (dx, dy) = (bx - ax, by - ay);
    let squared = dx * dx + dy * dy;
    let along = if squared.is_normal() {
        -(ax * dx + ay * dy) / squared
    } else {
        // The square is too large or too small for a double; the length need not be.
        let length = dx.hypot(dy);
        let unit = |n: f64| if length == 0.0 { 0.0 } else { n / length };
        -(unit(ax) * unit(dx) + unit(ay) * unit(dy))
    };
    let along = along.clamp(0.0, 1.0);
    let (x, y) = (ax + along * dx, ay + along * dy);
    let nearest = line.start + (line.end - line.start) * along;
    (x.hypot(y), nearest)
}
