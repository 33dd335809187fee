//! Figures read from `GeoJSON`, and why they cannot be.

use geo::{Coord, Geometry, LineString, MultiPolygon, Point, Polygon, Winding};
use orrery_types::{Value, limits};

use super::surface::Surface;

/// A figure, or everything but it: a polygon whose outer ring runs clockwise means the rest of
/// its surface.
pub(super) struct Shape {
    pub(super) figure: Geometry<f64>,
    pub(super) complement: bool,
}

impl Shape {
    /// The figure, or why it is none.
    pub(super) fn read<S: Surface>(value: &Value) -> Result<Self, &'static str> {
        let coordinates = value.get("coordinates");
        let plain = |figure| Ok(Self { figure, complement: false });
        match value.get("type").as_str() {
            Some("Point") => plain(Geometry::Point(Point(position::<S>(coordinates)?))),
            Some("LineString") => {
                let line = positions::<S>(coordinates)?;
                if line.0.len() < 2 {
                    return Err("A LineString must have at least two positions.");
                }
                plain(Geometry::LineString(line))
            }
            Some("Polygon") => {
                let (figure, complement) = polygon::<S>(coordinates)?;
                Ok(Self { figure: Geometry::Polygon(figure), complement })
            }
            Some("MultiPolygon") => {
                let parts = coordinates.as_array().ok_or("The coordinates must be an array.")?;
                let parts: Result<Vec<_>, _> =
                    parts.iter().map(|part| polygon::<S>(part).map(|(figure, _)| figure)).collect();
                plain(Geometry::MultiPolygon(MultiPolygon(parts?)))
            }
            _ => Err("The type must be Point, LineString, Polygon or MultiPolygon."),
        }
    }
}

fn position<S: Surface>(value: &Value) -> Result<Coord<f64>, &'static str> {
    let numbers = value.as_array().filter(|a| (2..=3).contains(&a.len()));
    let coordinate = |at: usize| Some(numbers?.get(at)?.as_number()?.as_f64());
    let (Some(x), Some(y)) = (coordinate(0), coordinate(1)) else {
        return Err(S::POSITION);
    };
    let position = Coord { x, y };
    S::refusal(position).map_or(Ok(position), Err)
}

fn positions<S: Surface>(value: &Value) -> Result<LineString<f64>, &'static str> {
    let list = value.as_array().ok_or("The coordinates must be an array of positions.")?;
    if list.len() > limits::POLYGON_POINTS_MAX {
        return Err("A figure must not have more than 4096 points.");
    }
    list.iter().map(position::<S>).collect::<Result<Vec<_>, _>>().map(LineString)
}

/// A polygon turned counter-clockwise, and whether it ran the other way.
fn polygon<S: Surface>(value: &Value) -> Result<(Polygon<f64>, bool), &'static str> {
    let rings = value.as_array().ok_or("The coordinates must be an array of rings.")?;
    let mut rings = rings.iter().map(ring::<S>).collect::<Result<Vec<_>, _>>()?.into_iter();
    let mut outer = rings.next().ok_or("A polygon must have a ring.")?;
    let complement = outer.is_cw();
    outer.make_ccw_winding();
    let inner = rings.map(|mut ring| {
        ring.make_cw_winding();
        ring
    });
    Ok((Polygon::new(outer, inner.collect()), complement))
}

fn ring<S: Surface>(value: &Value) -> Result<LineString<f64>, &'static str> {
    let ring = positions::<S>(value)?;
    if ring.0.len() < 4 {
        return Err("A ring must have at least four positions.");
    }
    if !ring.is_closed() {
        return Err("The first and the last position of a ring must be the same.");
    }
    Ok(ring)
}
