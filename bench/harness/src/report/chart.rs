//! Charts as SVG, drawn by `plotters`.
//!
//! A series is drawn in a colour that no eye sees: the page's style sheet gives it one of its own,
//! for light and for dark, and its dashes. So one drawing serves both, and a series is told by its
//! mark and its dashes as well as by its colour.

use std::error::Error;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, Circle, Color, DrawingArea, IntoDrawingArea, IntoFont,
    IntoLogRange, IntoTextStyle, LabelAreaPosition, LineSeries, PathElement, Polygon, RGBColor,
    Rectangle, SVGBackend, Text, TextStyle, TriangleMarker,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width of every chart; the page scales it.
const WIDTH: u32 = 480;
/// Height of a chart of lines.
const HEIGHT: u32 = 300;
/// Height of a bar.
const BAR: u32 = 17;
/// Between the bars of two engines.
const GAP: u32 = 12;
/// Size of letters, of which `plotters` makes a font of four fifths: readable when a phone's width
/// shrinks the chart.
const LETTERS: u32 = 19;
/// Width of a letter, roughly.
const LETTER: u32 = 9;
/// Most points of a line; more are thinned out.
const POINTS_MAX: usize = 120;
/// Marks on a line of many points.
const MARKS: usize = 6;
/// The grid; the style sheet knows it.
const GRID: RGBColor = RGBColor(3, 0, 0);

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What a shape belongs to; the style sheet gives each its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// An engine, by its number.
    Engine(usize),
    /// A class of bytes, by its number.
    Class(usize),
    /// What engines are held against: live bytes.
    Reference,
    /// What an engine means to stay within, by the engine's number.
    Budget(usize),
}

impl Paint {
    fn colour(self) -> RGBColor {
        match self {
            Self::Engine(number) => RGBColor(1, 0, number as u8),
            Self::Class(number) => RGBColor(2, 0, number as u8),
            Self::Reference => RGBColor(4, 0, 0),
            Self::Budget(number) => RGBColor(5, 0, number as u8),
        }
    }
}

/// One bar, perhaps of several parts.
#[derive(Clone, Debug)]
pub struct Strip {
    /// The parts from left to right.
    pub parts: Vec<(Paint, f64)>,
    /// Drawn paler than others.
    pub pale: bool,
    /// The extremes of repetitions, drawn as a whisker.
    pub extremes: Option<(f64, f64)>,
    /// What stands at its end.
    pub text: String,
}

impl Strip {
    fn end(&self) -> f64 {
        let sum = self.parts.iter().map(|(_, value)| value).sum::<f64>();
        self.extremes.map_or(sum, |(_, most)| most.max(sum))
    }
}

/// A label and its bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What stands before them.
    pub label: String,
    /// The bars, from the top.
    pub strips: Vec<Strip>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it belongs to.
    pub paint: Paint,
    /// The points of the series, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// The axes of a chart of lines.
pub struct Axes<'a> {
    /// What a place on the horizontal axis is called.
    pub x: &'a dyn Fn(f64) -> String,
    /// What a place on the vertical axis is called.
    pub y: &'a dyn Fn(f64) -> String,
    /// Under the horizontal axis.
    pub x_title: &'a str,
    /// Whether the vertical axis is logarithmic; otherwise it begins at 0.
    pub logarithmic: bool,
}

/// What stands at `x` of an axis whose whole numbers have `names`.
pub fn named<S: AsRef<str>>(names: &[S], x: f64) -> String {
    let near = x > -0.5 && (x - x.round()).abs() < 0.01;
    let name = names.get(x.round() as usize).filter(|_| near);
    name.map_or(String::new(), |name| name.as_ref().to_owned())
}

/// Horizontal bars, with their values at their ends.
pub fn bars(rows: &[Bars]) -> String {
    let strips: usize = rows.iter().map(|row| row.strips.len()).sum();
    let height = strips as u32 * BAR + rows.len() as u32 * GAP + GAP;
    drawing(height, |root| draw_bars(root, rows))
}

/// Lines over two axes.
pub fn lines(series: &[Series], axes: &Axes<'_>) -> String {
    drawing(HEIGHT, |root| draw_lines(root, series, axes))
}

/// Drawings of lines, one below the other.
pub fn stacked(svgs: &[String]) -> String {
    let height = HEIGHT * svgs.len() as u32;
    let size = format!(r#"width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}""#);
    let mut all = format!(r#"<svg {size} xmlns="http://www.w3.org/2000/svg">"#);
    for (at, svg) in (0..).zip(svgs) {
        all += &svg.replacen("<svg ", &format!(r#"<svg y="{}" "#, at * HEIGHT), 1);
    }
    all + "</svg>\n"
}

/// A drawing of one engine that stands by itself, without the style sheet of a page.
pub fn alone(svg: &str) -> String {
    const PAPER: &str = r##"><rect width="100%" height="100%" fill="#FFFFFF"/>"##;
    const COLOURS: [(&str, &str); 4] = [
        ("#010000", "#2F6FB0"),
        ("#030000", "#888888"),
        ("#040000", "#AAAAAA"),
        ("#050000", "#C0504D"),
    ];
    let coloured = |svg: String, (from, to)| svg.replace(from, to);
    COLOURS.into_iter().fold(svg.to_owned(), coloured).replacen('>', PAPER, 1)
}

/// The sign of an engine in a legend.
pub fn sign(paint: Paint) -> String {
    sized(36, 16, |root| {
        root.draw(&PathElement::new(vec![(0, 8), (36, 8)], paint.colour().stroke_width(3)))?;
        mark(root, paint, (18, 8))
    })
}

fn drawing(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    sized(WIDTH, height, draw)
}

fn sized(width: u32, height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        draw(&root).and_then(|()| Ok(root.present()?))
    };
    match drawn {
        Ok(()) => svg,
        Err(error) => format!("<svg><title>cannot be drawn: {error}</title></svg>"),
    }
}

fn letters(pos: Pos) -> TextStyle<'static> {
    ("sans-serif", LETTERS).into_font().color(&BLACK).pos(pos)
}

fn draw_bars(root: &Area<'_>, rows: &[Bars]) -> Drawn {
    const BEFORE: Pos = Pos { h_pos: HPos::Right, v_pos: VPos::Center };
    const BEHIND: Pos = Pos { h_pos: HPos::Left, v_pos: VPos::Center };
    let strips = || rows.iter().flat_map(|row| &row.strips);
    let length = |text: &str| text.chars().count() as u32 * LETTER;
    let before = rows.iter().map(|row| length(&row.label)).max().unwrap_or(0) + 10;
    let behind = strips().map(|strip| length(&strip.text)).max().unwrap_or(0) + 12;
    let most = strips().map(Strip::end).fold(f64::MIN_POSITIVE, f64::max);
    let (_, height) = root.dim_in_pixel();
    let chart = ChartBuilder::on(root)
        .set_label_area_size(LabelAreaPosition::Left, before)
        .margin_right(behind)
        .build_cartesian_2d(0.0..most, 0.0..f64::from(height))?;
    let at = |value: f64| chart.backend_coord(&(value, 0.0)).0;
    let mut top = GAP as i32;
    let axis = vec![(at(0.0), 2), (at(0.0), height as i32 - 2)];
    root.draw(&PathElement::new(axis, GRID.stroke_width(1)))?;
    for row in rows {
        let middle = top + (row.strips.len() as u32 * BAR) as i32 / 2;
        root.draw(&Text::new(row.label.clone(), (at(0.0) - 6, middle), letters(BEFORE)))?;
        for strip in &row.strips {
            draw_strip(root, strip, top, &at)?;
            let end = (at(strip.end()) + 6, top + BAR as i32 / 2);
            root.draw(&Text::new(strip.text.clone(), end, letters(BEHIND)))?;
            top += BAR as i32;
        }
        top += GAP as i32;
    }
    Ok(())
}

fn draw_strip(root: &Area<'_>, strip: &Strip, top: i32, at: &dyn Fn(f64) -> i32) -> Drawn {
    let (upper, lower) = (top + 1, top + BAR as i32 - 1);
    let mut from = 0.0;
    for (paint, value) in &strip.parts {
        let opacity = if strip.pale { 0.5 } else { 1.0 };
        let area = [(at(from), upper), (at(from + value), lower)];
        root.draw(&Rectangle::new(area, paint.colour().mix(opacity).filled()))?;
        from += value;
    }
    if let Some((least, most)) = strip.extremes {
        let middle = i32::midpoint(upper, lower);
        let whisker = vec![(at(least), middle), (at(most), middle)];
        root.draw(&PathElement::new(whisker, BLACK.stroke_width(2)))?;
        for end in [least, most] {
            let stop = vec![(at(end), middle - 4), (at(end), middle + 4)];
            root.draw(&PathElement::new(stop, BLACK.stroke_width(2)))?;
        }
    }
    Ok(())
}

fn draw_lines(root: &Area<'_>, series: &[Series], axes: &Axes<'_>) -> Drawn {
    let points = || series.iter().flat_map(|series| &series.points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let least = points().map(|point| point.1).fold(f64::MAX, f64::min);
    let (right, upper) = (most(|point| point.0), most(|point| point.1));
    let labels = if axes.logarithmic {
        vec![(axes.y)(upper), (axes.y)(least)]
    } else {
        (0..5).map(|fifth| (axes.y)(upper * f64::from(fifth) / 5.0)).collect()
    };
    let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) as u32;
    let mut builder = ChartBuilder::on(root);
    builder
        .set_label_area_size(LabelAreaPosition::Left, (widest + 2) * LETTER)
        .set_label_area_size(LabelAreaPosition::Bottom, 48)
        .margin_top(10)
        .margin_right(22);
    if axes.logarithmic {
        // Whole decades, so that each line of the grid is a power of ten.
        let decade = |value: f64| 10f64.powf(value.max(1e-3).log10());
        let from = 10f64.powf(decade(least).log10().floor());
        let to = 10f64.powf(decade(upper).log10().ceil()).max(from * 10.0);
        let chart = builder.build_cartesian_2d(-0.1..right + 0.1, (from..to).log_scale())?;
        draw_series(root, chart, series, axes)
    } else {
        let chart = builder.build_cartesian_2d(0.0..right, 0.0..upper * 1.05)?;
        draw_series(root, chart, series, axes)
    }
}

fn draw_series<'a, X, Y>(
    root: &Area<'a>,
    mut chart: ChartContext<'_, SVGBackend<'a>, Cartesian2d<X, Y>>,
    series: &[Series],
    axes: &Axes<'_>,
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .bold_line_style(GRID.stroke_width(1))
        .light_line_style(GRID.mix(0.0))
        .axis_style(GRID.stroke_width(1))
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|x| (axes.x)(*x))
        .y_label_formatter(&|y| (axes.y)(*y))
        .x_desc(axes.x_title)
        .axis_desc_style(("sans-serif", LETTERS).into_font().color(&BLACK))
        .label_style(("sans-serif", LETTERS).into_text_style(root))
        .draw()?;
    for line in series {
        let points = thinned(&line.points);
        let style = line.paint.colour().stroke_width(2);
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        let every = points.len().div_ceil(MARKS).max(1);
        for point in points.iter().skip(every / 2).step_by(every) {
            mark(root, line.paint, chart.backend_coord(point))?;
        }
    }
    Ok(())
}

/// At most [`POINTS_MAX`] of the points, the last among them.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.last().filter(|_| !(points.len() - 1).is_multiple_of(every));
    points.iter().step_by(every).chain(last).copied().collect()
}

/// The mark of a series: a shape as well as a colour.
fn mark(root: &Area<'_>, paint: Paint, at: (i32, i32)) -> Drawn {
    const SIZE: i32 = 5;
    let style = paint.colour().filled();
    let (x, y) = at;
    match paint {
        Paint::Engine(number) => match number % 5 {
            0 => root.draw(&Circle::new(at, SIZE, style))?,
            1 => root.draw(&TriangleMarker::new(at, SIZE + 2, style))?,
            2 => root.draw(&Rectangle::new([(x - 4, y - 4), (x + 5, y + 5)], style))?,
            3 => {
                let far = SIZE + 2;
                let corners = vec![(x - far, y), (x, y - far), (x + far, y), (x, y + far)];
                root.draw(&Polygon::new(corners, style))?;
            }
            _ => {
                for (from, to) in [((-SIZE, -SIZE), (SIZE, SIZE)), ((-SIZE, SIZE), (SIZE, -SIZE))] {
                    let stroke = vec![(x + from.0, y + from.1), (x + to.0, y + to.1)];
                    let style = paint.colour().stroke_width(3);
                    root.draw(&PathElement::new(stroke, style))?;
                }
            }
        },
        Paint::Class(_) | Paint::Reference | Paint::Budget(_) => {}
    }
    Ok(())
}
