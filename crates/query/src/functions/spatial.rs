//! `GeoJSON` figures, on the Earth or in a plane as the container has it. `shape` reads them,
//! `surface` is what they lie on, `distance` measures between them.
//!
//! On the Earth distances and areas are geodesic on the WGS-84 ellipsoid; containment and
//! intersection treat edges as straight in longitude and latitude, which differs from geodesics
//! only by a sliver for edges of ordinary length. Figures do not cross the 180th meridian. In a
//! plane everything is Euclidean, in the units of the coordinates.

mod distance;
mod shape;
mod surface;

use geo::{Geometry, Intersects, Relate};
use orrery_types::{Object, Value};

use super::{Function, Host};
use crate::facts::Geospatial;
use distance::distance;
use shape::Shape;
use surface::{Earth, Plane, Surface};

pub(super) const FUNCTIONS: &[Function] = &functions::<Earth>();

const PLANAR: &[Function] = &functions::<Plane>();

const fn functions<S: Surface>() -> [Function; 6] {
    [
        Function::new("ST_AREA", 1, area::<S>),
        Function::new("ST_DISTANCE", 2, |a, _| {
            let (a, b) = pair::<S>(a)?;
            Some(distance::<S>(&a, &b).into())
        }),
        Function::new("ST_INTERSECTS", 2, |a, _| {
            let (a, b) = pair::<S>(a)?;
            Some(intersects(&a, &b).into())
        }),
        Function::new("ST_ISVALID", 1, |a, _| {
            a[0].as_object()?;
            Some(Shape::read::<S>(&a[0]).is_ok().into())
        }),
        Function::new("ST_ISVALIDDETAILED", 1, is_valid_detailed::<S>),
        Function::new("ST_WITHIN", 2, |a, _| {
            let (a, b) = pair::<S>(a)?;
            Some(within(&a, &b).into())
        }),
    ]
}

/// The form of a function that fits a container: a spatial one has two.
pub(crate) fn fitting(function: &'static Function, geospatial: Geospatial) -> &'static Function {
    let planar = || PLANAR.iter().find(|planar| planar.name == function.name);
    match geospatial {
        Geospatial::Geography => function,
        Geospatial::Geometry => planar().unwrap_or(function),
    }
}

fn pair<S: Surface>(arguments: &[Value]) -> Option<(Shape, Shape)> {
    let read = |at: usize| Shape::read::<S>(arguments.get(at)?).ok();
    Some((read(0)?, read(1)?))
}

fn is_valid_detailed<S: Surface>(arguments: &[Value], _: &Host) -> Option<Value> {
    arguments[0].as_object()?;
    let mut answer = Object::new();
    match Shape::read::<S>(&arguments[0]) {
        Ok(_) => answer.set("valid", true.into()),
        Err(reason) => {
            answer.set("valid", false.into());
            answer.set("reason", reason.into());
        }
    }
    Some(Value::object(answer))
}

fn area<S: Surface>(arguments: &[Value], _: &Host) -> Option<Value> {
    let shape = Shape::read::<S>(&arguments[0]).ok()?;
    let inside = match &shape.figure {
        Geometry::Polygon(polygon) => S::area(polygon),
        Geometry::MultiPolygon(polygons) => polygons.iter().map(S::area).sum(),
        _ => 0.0,
    };
    Some(if shape.complement { S::WHOLE - inside } else { inside }.into())
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

#[cfg(test)]
mod tests;
