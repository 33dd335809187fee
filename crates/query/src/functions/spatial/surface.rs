//! What figures lie on: the Earth, or a plane.

use geo::{Area, Coord, Distance, Geodesic, GeodesicArea, Point, Polygon};

/// How positions are checked and measured.
pub(super) trait Surface {
    /// The area of all of it.
    const WHOLE: f64;

    /// What is said of a position that is none.
    const POSITION: &str;

    /// Why a position is not on it.
    fn refusal(position: Coord<f64>) -> Option<&'static str>;

    /// The area within a polygon.
    fn area(polygon: &Polygon<f64>) -> f64;

    /// How much shorter a unit across is than one along, near a position.
    fn shrink(near: Coord<f64>) -> f64;

    /// The distance of two positions.
    fn apart(a: Coord<f64>, b: Coord<f64>) -> f64;
}

/// The WGS-84 ellipsoid; positions are degrees of longitude and latitude, lengths metres.
pub(super) struct Earth;

impl Surface for Earth {
    const WHOLE: f64 = 510_065_621_724_088.4;
    const POSITION: &str = "A position must be an array of a longitude and a latitude.";

    fn refusal(position: Coord<f64>) -> Option<&'static str> {
        if !(-90.0..=90.0).contains(&position.y) {
            return Some("Latitude values must be between -90 and 90 degrees.");
        }
        if !(-180.0..=180.0).contains(&position.x) {
            return Some("Longitude values must be between -180 and 180 degrees.");
        }
        None
    }

    fn area(polygon: &Polygon<f64>) -> f64 {
        polygon.geodesic_area_unsigned()
    }

    fn shrink(near: Coord<f64>) -> f64 {
        near.y.to_radians().cos()
    }

    fn apart(a: Coord<f64>, b: Coord<f64>) -> f64 {
        Geodesic.distance(Point(a), Point(b))
    }
}

/// A Euclidean plane without end.
pub(super) struct Plane;

impl Surface for Plane {
    const WHOLE: f64 = f64::INFINITY;
    const POSITION: &str = "A position must be an array of two numbers.";

    fn refusal(position: Coord<f64>) -> Option<&'static str> {
        let finite = position.x.is_finite() && position.y.is_finite();
        (!finite).then_some("The coordinates of a position must be finite numbers.")
    }

    fn area(polygon: &Polygon<f64>) -> f64 {
        polygon.unsigned_area()
    }

    fn shrink(_: Coord<f64>) -> f64 {
        1.0
    }

    fn apart(a: Coord<f64>, b: Coord<f64>) -> f64 {
        (a.x - b.x).hypot(a.y - b.y)
    }
}
