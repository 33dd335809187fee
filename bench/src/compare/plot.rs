//! The results as pictures: for each operation a group of bars for each number of clients.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::operation::Operation;
use super::report::Results;

const SIZE: (u32, u32) = (900, 420);
const COLOURS: [RGBColor; 4] = [
    RGBColor(31, 95, 191),
    RGBColor(214, 110, 34),
    RGBColor(240, 178, 122),
    RGBColor(120, 120, 120),
];

/// Draws a file for each operation into a folder.
pub(super) fn draw(results: &Results, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for operation in Operation::ALL {
        let names = results.names().iter().filter(|(of, _, _)| *of == operation);
        let bars: Vec<(usize, &str, f64)> =
            names.map(|name| (name.1, name.2, results.summary(*name).rate)).collect();
        if !bars.is_empty() {
            let file = format!("compare-{}.svg", operation.name().replace([' ', ','], "-"));
            chart(operation, &bars, &folder.join(file))
                .map_err(|error| anyhow!("cannot draw {}: {error}", operation.name()))?;
        }
    }
    Ok(())
}

fn chart(
    operation: Operation,
    bars: &[(usize, &str, f64)],
    file: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut systems: Vec<&str> = Vec::new();
    let mut clients: Vec<usize> = Vec::new();
    for (number, system, _) in bars {
        if !systems.contains(system) {
            systems.push(system);
        }
        if !clients.contains(number) {
            clients.push(*number);
        }
    }
    let highest = bars.iter().map(|(_, _, rate)| *rate).fold(1.0, f64::max) * 1.1;
    let width = 1.0 / (f64::from(u32::try_from(systems.len())?) + 1.0);
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let right = f64::from(u32::try_from(clients.len())?);
    let caption = format!("{}, operations a second", operation.name());
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, 0.0..highest)?;
    let label = |at: &f64| {
        let group =
            clients.iter().zip(0_u32..).find(|(_, nth)| (f64::from(*nth) + 0.5 - at).abs() < 0.01);
        group.map_or(String::new(), |(clients, _)| format!("{clients} clients"))
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(clients.len() * 2 + 1)
        .x_label_formatter(&label)
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .draw()?;
    for (place, system) in systems.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let offset = f64::from(u32::try_from(place)?) * width + width / 2.0;
        let own = bars.iter().filter(|(_, name, _)| name == system);
        let rectangles = own.zip(0_u32..).map(|((_, _, rate), group)| {
            let left = f64::from(group) + offset;
            Rectangle::new([(left, 0.0), (left + width * 0.9, *rate)], colour.filled())
        });
        chart
            .draw_series(rectangles)?
            .label(*system)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}
