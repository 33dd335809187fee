//! `GeoJSON` figures on the WGS-84 ellipsoid. Distances and areas are geodesic; containment and
//! intersection treat edges as straight in longitude and latitude, which differs from geodesics
//! only by a sliver for edges of ordinary length. Figures do not cross the 180th meridian.

use geo::{
    Coord, Distance, Geodesic, GeodesicArea, Geometry, Intersects, Line, LineString, MultiPolygon,
    Point, Polygon, Relate, Winding,
};
use orrery_types::{Object, Value, limits};

use super::{Function, Host};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ST_AREA", 1, area),
    Function::new("ST_DISTANCE", 2, |a, _| Some(distance(&shape(a, 0)?, &shape(a, 1)?).into())),
    Function::new("ST_INTERSECTS", 2, |a, _| Some(intersects(&shape(a, 0)?, &shape(a, 1)?).into())),
    Function::new("ST_ISVALID", 1, |a, _| {
        a[0].as_object()?;
        Some(read(&a[0]).is_ok().into())
    }),
    Function::new("ST_ISVALIDDETAILED", 1, is_valid_detailed),
    Function::new("ST_WITHIN", 2, |a, _| Some(within(&shape(a, 0)?, &shape(a, 1)?).into())),
];

/// The surface of the Earth in square metres.
const EARTH_M2: f64 = 510_065_621_724_088.4;

/// A figure, or everything but it: a polygon whose outer ring runs clockwise means the rest of
/// the Earth.
struct Shape {
    figure: Geometry<f64>,
    complement: bool,
}

fn shape(arguments: &[Value], at: usize) -> Option<Shape> {
    read(arguments.get(at)?).ok()
}

fn read(value: &Value) -> Result<Shape, &'static str> {
    let coordinates = value.get("coordinates");
    let plain = |figure| Ok(Shape { figure, complement: false });
    match value.get("type").as_str() {
        Some("Point") => plain(Geometry::Point(Point(position(coordinates)?))),
        Some("LineString") => {
            let line = positions(coordinates)?;
            if line.0.len() < 2 {
                return Err("A LineString must have at least two positions.");
            }
            plain(Geometry::LineString(line))
        }
        Some("Polygon") => {
            let (figure, complement) = polygon(coordinates)?;
            Ok(Shape { figure: Geometry::Polygon(figure), complement })
        }
        Some("MultiPolygon") => {
            let parts = coordinates.as_array().ok_or("The coordinates must be an array.")?;
            let parts: Result<Vec<_>, _> =
                parts.iter().map(|part| polygon(part).map(|(figure, _)| figure)).collect();
            plain(Geometry::MultiPolygon(MultiPolygon(parts?)))
        }
        _ => Err("The type must be Point, LineString, Polygon or MultiPolygon."),
    }
}

fn position(value: &Value) -> Result<Coord<f64>, &'static str> {
    let numbers = value.as_array().filter(|a| (2..=3).contains(&a.len()));
    let coordinate = |at: usize| Some(numbers?.get(at)?.as_number()?.as_f64());
    let (Some(x), Some(y)) = (coordinate(0), coordinate(1)) else {
        return Err("A position must be an array of a longitude and a latitude.");
    };
    if !(-90.0..=90.0).contains(&y) {
        return Err("Latitude values must be between -90 and 90 degrees.");
    }
    if !(-180.0..=180.0).contains(&x) {
        return Err("Longitude values must be between -180 and 180 degrees.");
    }
    Ok(Coord { x, y })
}

fn positions(value: &Value) -> Result<LineString<f64>, &'static str> {
    let list = value.as_array().ok_or("The coordinates must be an array of positions.")?;
    if list.len() > limits::POLYGON_POINTS_MAX {
        return Err("A figure must not have more than 4096 points.");
    }
    list.iter().map(position).collect::<Result<Vec<_>, _>>().map(LineString)
}

/// A polygon turned counter-clockwise, and whether it ran the other way.
fn polygon(value: &Value) -> Result<(Polygon<f64>, bool), &'static str> {
    let rings = value.as_array().ok_or("The coordinates must be an array of rings.")?;
    let mut rings = rings.iter().map(ring).collect::<Result<Vec<_>, _>>()?.into_iter();
    let mut outer = rings.next().ok_or("A polygon must have a ring.")?;
    let complement = outer.is_cw();
    outer.make_ccw_winding();
    let inner = rings.map(|mut ring| {
        ring.make_cw_winding();
        ring
    });
    Ok((Polygon::new(outer, inner.collect()), complement))
}

fn ring(value: &Value) -> Result<LineString<f64>, &'static str> {
    let ring = positions(value)?;
    if ring.0.len() < 4 {
        return Err("A ring must have at least four positions.");
    }
    if !ring.is_closed() {
        return Err("The first and the last position of a ring must be the same.");
    }
    Ok(ring)
}

fn is_valid_detailed(arguments: &[Value], _: &Host) -> Option<Value> {
    arguments[0].as_object()?;
    let mut answer = Object::new();
    match read(&arguments[0]) {
        Ok(_) => answer.set("valid", true.into()),
        Err(reason) => {
            answer.set("valid", false.into());
            answer.set("reason", reason.into());
        }
    }
    Some(Value::object(answer))
}

fn area(arguments: &[Value], _: &Host) -> Option<Value> {
    let shape = shape(arguments, 0)?;
    let inside = match &shape.figure {
        Geometry::Polygon(polygon) => polygon.geodesic_area_unsigned(),
        Geometry::MultiPolygon(polygons) => {
            polygons.iter().map(GeodesicArea::geodesic_area_unsigned).sum()
        }
        _ => 0.0,
    };
    Some(if shape.complement { EARTH_M2 - inside } else { inside }.into())
}

fn within(a: &Shape, b: &Shape) -> bool {
    match (a.complement, b.complement) {
        (false, false) => a.figure.relate(&b.figure).is_within(),
        (false, true) => !a.figure.intersects(&b.figure),
        (true, true) => b.figure.relate(&a.figure).is_within(),
        (true, false) => false,
    }
}

fn intersects(a: &Shape, b: &Shape) -> bool {
    match (a.complement, b.complement) {
        (false, false) => a.figure.intersects(&b.figure),
        (true, false) => !b.figure.relate(&a.figure).is_coveredby(),
        (false, true) => !a.figure.relate(&b.figure).is_coveredby(),
        (true, true) => true,
    }
}

/// Metres between the nearest points. The nearest pair is looked for in a plane around each
/// vertex, then measured on the ellipsoid.
fn distance(a: &Shape, b: &Shape) -> f64 {
    if let (Geometry::Point(p), Geometry::Point(q)) = (&a.figure, &b.figure) {
        return Geodesic.distance(*p, *q);
    }
    if intersects(a, b) {
        return 0.0;
    }
    let (a_lines, b_lines) = (edges(&a.figure), edges(&b.figure));
    let mut best = (f64::INFINITY, 0.0);
    for (from, to) in [(&a_lines, &b_lines), (&b_lines, &a_lines)] {
        for vertex in from.iter().flat_map(|line| [line.start, line.end]) {
            for line in to {
                let (apart, nearest) = nearest_on(vertex, *line);
                if apart < best.0 {
                    best = (apart, Geodesic.distance(Point(vertex), Point(nearest)));
                }
            }
        }
    }
    best.1
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

/// The point of an edge nearest to a position, and their distance in degrees of latitude.
fn nearest_on(from: Coord<f64>, line: Line<f64>) -> (f64, Coord<f64>) {
    let shrink = from.y.to_radians().cos();
    let flat = |c: Coord<f64>| ((c.x - from.x) * shrink, c.y - from.y);
    let ((ax, ay), (bx, by)) = (flat(line.start), flat(line.end));
    let (dx, dy) = (bx - ax, by - ay);
    let squared = dx * dx + dy * dy;
    let along = if squared == 0.0 { 0.0 } else { -(ax * dx + ay * dy) / squared };
    let along = along.clamp(0.0, 1.0);
    let (x, y) = (ax + along * dx, ay + along * dy);
    let nearest = line.start + (line.end - line.start) * along;
    (x.hypot(y), nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(text: &str) -> Shape {
        read(&Value::parse(text.as_bytes()).unwrap()).unwrap()
    }

    const SQUARE: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1],[0,0]]]}"#;
    const REST: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[0,1],[1,1],[1,0],[0,0]]]}"#;
    const INSIDE: &str = r#"{"type":"Point","coordinates":[0.5,0.5]}"#;
    const OUTSIDE: &str = r#"{"type":"Point","coordinates":[2,0.5]}"#;

    #[test]
    fn a_clockwise_ring_is_the_rest_of_the_earth() {
        let check = |a: &str, b: &str, expected: bool| {
            assert_eq!(within(&shape_of(a), &shape_of(b)), expected, "{a} in {b}");
        };
        check(INSIDE, SQUARE, true);
        check(OUTSIDE, SQUARE, false);
        check(INSIDE, REST, false);
        check(OUTSIDE, REST, true);
        assert!(intersects(&shape_of(OUTSIDE), &shape_of(REST)));
        assert!(!intersects(&shape_of(INSIDE), &shape_of(REST)));
    }

    #[test]
    fn distance_is_to_the_nearest_edge_and_zero_inside() {
        let far = distance(&shape_of(OUTSIDE), &shape_of(SQUARE));
        assert!((far - 111_315.0).abs() < 20.0, "{far}");
        assert!(distance(&shape_of(INSIDE), &shape_of(SQUARE)).abs() < 1e-9);
    }

    #[test]
    fn malformed_figures_are_refused() {
        for text in [
            "{}",
            r#"{"type":"Point","coordinates":[1]}"#,
            r#"{"type":"Point","coordinates":[1,91]}"#,
            r#"{"type":"Point","coordinates":"x"}"#,
            r#"{"type":"LineString","coordinates":[[1,1]]}"#,
            r#"{"type":"Polygon","coordinates":[]}"#,
            r#"{"type":"Polygon","coordinates":[[[0,0],[1,1],[0,0]]]}"#,
            r#"{"type":"Circle","coordinates":[]}"#,
        ] {
            assert!(read(&Value::parse(text.as_bytes()).unwrap()).is_err(), "{text}");
        }
    }
}
