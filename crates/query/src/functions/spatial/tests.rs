//! Figures on the Earth and in a plane, compared with what is known of them.

use super::*;

fn value(text: &str) -> Value {
    Value::parse(text.as_bytes()).unwrap()
}

fn on<S: Surface>(text: &str) -> Shape {
    Shape::read::<S>(&value(text)).unwrap()
}

const SQUARE: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1],[0,0]]]}"#;
const REST: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[0,1],[1,1],[1,0],[0,0]]]}"#;
const INSIDE: &str = r#"{"type":"Point","coordinates":[0.5,0.5]}"#;
const OUTSIDE: &str = r#"{"type":"Point","coordinates":[2,0.5]}"#;

fn check_rest<S: Surface>() {
    let check = |a: &str, b: &str, expected: bool| {
        assert_eq!(within(&on::<S>(a), &on::<S>(b)), expected, "{a} in {b}");
    };
    check(INSIDE, SQUARE, true);
    check(OUTSIDE, SQUARE, false);
    check(INSIDE, REST, false);
    check(OUTSIDE, REST, true);
    assert!(intersects(&on::<S>(OUTSIDE), &on::<S>(REST)));
    assert!(!intersects(&on::<S>(INSIDE), &on::<S>(REST)));
}

#[test]
fn a_clockwise_ring_is_the_rest_of_the_surface() {
    check_rest::<Earth>();
    check_rest::<Plane>();
    let host = Host::new(0, 1);
    let area_of_rest = |f: fn(&[Value], &Host) -> Option<Value>| f(&[value(REST)], &host);
    let on_earth = area_of_rest(area::<Earth>).unwrap().as_number().unwrap().as_f64();
    assert!(on_earth > 5.1e14 && on_earth < Earth::WHOLE, "{on_earth}");
    assert_eq!(area_of_rest(area::<Plane>), Some(f64::INFINITY.into()));
}

#[test]
fn distance_is_to_the_nearest_edge_and_zero_inside() {
    let far = distance::<Earth>(&on::<Earth>(OUTSIDE), &on::<Earth>(SQUARE));
    assert!((far - 111_315.0).abs() < 20.0, "{far}");
    assert!(distance::<Earth>(&on::<Earth>(INSIDE), &on::<Earth>(SQUARE)).abs() < 1e-9);
}

#[test]
fn distance_in_a_plane_is_in_the_units_of_the_coordinates() {
    let check = |a: &str, b: &str, expected: f64| {
        for (a, b) in [(a, b), (b, a)] {
            let got = distance::<Plane>(&on::<Plane>(a), &on::<Plane>(b));
            assert!((got - expected).abs() <= expected * 1e-12, "{a} to {b}: {got}");
        }
    };
    let point = |x: f64, y: f64| format!(r#"{{"type":"Point","coordinates":[{x:?},{y:?}]}}"#);
    check(&point(300.0, 0.0), &point(0.0, 400.0), 500.0);
    check(OUTSIDE, SQUARE, 1.0);
    check(INSIDE, SQUARE, 0.0);
    check(INSIDE, REST, 0.5);
    check(&point(4.0, 5.0), SQUARE, 5.0);
    let line = r#"{"type":"LineString","coordinates":[[-1e200,3e200],[1e200,3e200]]}"#;
    check(&point(0.0, 1e200), line, 2e200);
    let small = r#"{"type":"LineString","coordinates":[[-1e-200,3e-200],[1e-200,3e-200]]}"#;
    check(&point(0.0, 1e-200), small, 2e-200);
}

#[test]
fn coordinates_of_very_different_sizes_are_answered() {
    // Products of larger ones are infinite, which the geometry does not expect.
    let sizes = [0.0, 1.0, -1e-3, 1e9, -1e50, 1e100, 1e-100];
    let mut figures = vec![value(SQUARE), value(REST)];
    for x in sizes {
        for y in sizes {
            figures.push(value(&format!(r#"{{"type":"Point","coordinates":[{x:e},{y:e}]}}"#)));
            figures.push(value(&format!(
                r#"{{"type":"Polygon","coordinates":[[[0,0],[{x:e},1],[{y:e},{x:e}],[0,0]]]}}"#
            )));
        }
    }
    let host = Host::new(0, 1);
    for a in &figures {
        for b in &figures {
            for function in PLANAR {
                let arguments = [a.clone(), b.clone()];
                let given = &arguments[..function.arguments_min];
                assert!((function.call)(given, &host).is_some(), "{function:?} {given:?}");
            }
        }
    }
}

#[test]
fn malformed_figures_are_refused() {
    for text in [
        "{}",
        r#"{"type":"Point","coordinates":[1]}"#,
        r#"{"type":"Point","coordinates":"x"}"#,
        r#"{"type":"LineString","coordinates":[[1,1]]}"#,
        r#"{"type":"Polygon","coordinates":[]}"#,
        r#"{"type":"Polygon","coordinates":[[[0,0],[1,1],[0,0]]]}"#,
        r#"{"type":"Circle","coordinates":[]}"#,
    ] {
        assert!(Shape::read::<Earth>(&value(text)).is_err(), "{text}");
        assert!(Shape::read::<Plane>(&value(text)).is_err(), "{text}");
    }
    let high = value(r#"{"type":"Point","coordinates":[1,91]}"#);
    assert!(Shape::read::<Earth>(&high).is_err());
    assert!(Shape::read::<Plane>(&high).is_ok());
}
