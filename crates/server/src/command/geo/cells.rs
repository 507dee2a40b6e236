//! Places on the earth as numbers, whose bits are those of the longitude and the latitude in turn,
//! and distances between them, to the last bit as Redis reckons both.

use std::ops::Range;

/// Halvings of both coordinates in the score of a member.
const STEPS: u32 = 26;

/// Longitudes and latitudes that a place may have, in degrees: near the poles there are none.
const LONGITUDES: DegreeSpan = DegreeSpan { least: -180.0, greatest: 180.0 };
const LATITUDES: DegreeSpan = DegreeSpan { least: -85.051_128_78, greatest: 85.051_128_78 };

/// The latitudes of texts, which have the poles.
const ALL_LATITUDES: DegreeSpan = DegreeSpan { least: -90.0, greatest: 90.0 };

/// Metres of the radius of the earth, as it is for distances.
const RADIUS: f64 = 6_372_797.560_856;

/// Metres from which on a search has all cells.
const FARTHEST: f64 = 20_037_726.37;

/// Bits of latitudes, and of longitudes.
const LOW_BITS: u64 = 0x5555_5555_5555_5555;
const HIGH_BITS: u64 = !LOW_BITS;

/// A range of degrees.
#[derive(Clone, Copy, Debug)]
struct DegreeSpan {
    least: f64,
    greatest: f64,
}

impl DegreeSpan {
    fn has(self, degrees: f64) -> bool {
        (self.least..=self.greatest).contains(&degrees)
    }

    fn size(self) -> f64 {
        self.greatest - self.least
    }

    /// The part that a coordinate lies in, of all parts of `steps` halvings.
    fn part_of(self, degrees: f64, steps: u32) -> u32 {
        ((degrees - self.least) / self.size() * f64::from(1 << steps)) as u32
    }

    /// The range of a part.
    fn part(self, part: u32, steps: u32) -> Self {
        let begin = |part: u32| self.least + f64::from(part) / f64::from(1 << steps) * self.size();
        Self { least: begin(part), greatest: begin(part.wrapping_add(1)) }
    }

    fn middle(self, of: Self) -> f64 {
        ((self.least + self.greatest) / 2.0).clamp(of.least, of.greatest)
    }
}

/// A place, in degrees.
#[derive(Clone, Copy, Debug, Default)]
pub struct EarthPlace {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

impl EarthPlace {
    /// The place of two coordinates, if there is one.
    pub fn of(longitude: f64, latitude: f64) -> Option<Self> {
        let is_one = LONGITUDES.has(longitude) && LATITUDES.has(latitude);
        is_one.then_some(Self { longitude, latitude })
    }

    /// The place that a score stands for.
    pub fn of_score(score: f64) -> Self {
        let (longitudes, latitudes) = Cell { bits: bits_of(score), steps: STEPS }.spans();
        Self { longitude: longitudes.middle(LONGITUDES), latitude: latitudes.middle(LATITUDES) }
    }

    /// The score that stands for it.
    pub fn score(self) -> f64 {
        self.cell(STEPS).bits as f64
    }

    /// The text that other programs have for it, but for its last letter, which stands for nothing.
    pub fn text(self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let latitude = ALL_LATITUDES.part_of(self.latitude, STEPS);
        let bits = interleaved(latitude, LONGITUDES.part_of(self.longitude, STEPS));
        let letter = |at: u32| LETTERS[(bits >> (2 * STEPS - 5 * at) & 31) as usize].into();
        (1..=10).map(letter).chain(['0']).collect()
    }

    /// Metres to another one.
    pub fn distance(self, other: Self) -> f64 {
        let east = half_sine(self.longitude, other.longitude);
        if east == 0.0 {
            return self.distance_north(other);
        }
        let north = half_sine(self.latitude, other.latitude);
        let [one, other] = [self, other].map(|place| radians(place.latitude).cos());
        2.0 * RADIUS * (north * north + one * other * east * east).sqrt().asin()
    }

    /// Metres that another one lies farther to the north or the south.
    pub fn distance_north(self, other: Self) -> f64 {
        RADIUS * (radians(other.latitude) - radians(self.latitude)).abs()
    }

    fn cell(self, steps: u32) -> Cell {
        let latitude = LATITUDES.part_of(self.latitude, steps);
        let bits = interleaved(latitude, LONGITUDES.part_of(self.longitude, steps));
        Cell { bits, steps }
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

/// The sine of half an angle between two coordinates.
fn half_sine(one: f64, other: f64) -> f64 {
    ((radians(other) - radians(one)) / 2.0).sin()
}

/// A score as an integer, as x86 has it of those that are none.
fn bits_of(score: f64) -> u64 {
    let half = (1_u64 << 63) as f64;
    match score {
        _ if score < -half => 1 << 63,
        _ if score < half => (score as i64).cast_unsigned(),
        _ if score < 2.0 * half => score as u64,
        _ => 0,
    }
}

fn interleaved(low: u32, high: u32) -> u64 {
    let spread = |number: u32| {
        let steps = [(16, 0x0000_ffff_0000_ffff), (8, 0x00ff_00ff_00ff_00ff)];
        let steps =
            steps.into_iter().chain([(4, 0x0f0f_0f0f_0f0f_0f0f), (2, 0x3333_3333_3333_3333)]);
        let number = steps.fold(u64::from(number), |it, (by, mask)| (it | it << by) & mask);
        (number | number << 1) & LOW_BITS
    };
    spread(low) | spread(high) << 1
}

/// The low bits of an interleaved number.
fn separated(bits: u64) -> u32 {
    let steps = [(1, 0x3333_3333_3333_3333), (2, 0x0f0f_0f0f_0f0f_0f0f)];
    let steps = steps.into_iter().chain([(4, 0x00ff_00ff_00ff_00ff), (8, 0x0000_ffff_0000_ffff)]);
    let number = steps.fold(bits & LOW_BITS, |it, (by, mask)| (it | it >> by) & mask);
    (number | number >> 16) as u32
}

/// A part of the earth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    bits: u64,
    steps: u32,
}

impl Cell {
    /// The scores of its places: from the first one up to the second one, without that.
    pub fn scores(self) -> Range<f64> {
        let first = |bits: u64| (bits << (2 * (STEPS - self.steps))) as f64;
        first(self.bits)..first(self.bits + 1)
    }

    fn spans(self) -> (DegreeSpan, DegreeSpan) {
        let longitudes = LONGITUDES.part(separated(self.bits >> 1), self.steps);
        (longitudes, LATITUDES.part(separated(self.bits), self.steps))
    }

    /// The cell beside it, by steps to the east and to the north, of which each is at most one.
    /// Behind the last one comes the first.
    fn beside(self, east: i8, north: i8) -> Self {
        let unused = 64 - 2 * self.steps;
        let moved = |bits: u64, others: u64, by: i8| {
            let one = (others >> unused).wrapping_add(1);
            let moved = match by {
                0 => return bits,
                1.. => bits.wrapping_add(one),
                _ => (bits | others >> unused).wrapping_sub(one),
            };
            moved & !others >> unused
        };
        let longitude = moved(self.bits & HIGH_BITS, LOW_BITS, east);
        Self { bits: longitude | moved(self.bits & LOW_BITS, HIGH_BITS, north), ..self }
    }
}

/// What is searched, around a place.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A circle with a radius.
    Circle(f64),
    /// A box with a width and a height.
    Box(f64, f64),
}

/// An area that is searched.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// The middle.
    pub center: EarthPlace,
    /// How large it is, in units.
    pub shape: Shape,
    /// Metres of a unit.
    pub unit: f64,
}

impl Area {
    /// Metres from its middle to a place, if that lies in it.
    pub fn distance(&self, place: EarthPlace) -> Option<f64> {
        let is_in = match self.shape {
            Shape::Circle(radius) => self.center.distance(place) <= radius * self.unit,
            Shape::Box(width, height) => {
                let aside = EarthPlace { longitude: self.center.longitude, ..place };
                place.distance_north(self.center) <= height * self.unit / 2.0
                    && place.distance(aside) <= width * self.unit / 2.0
            }
        };
        is_in.then(|| self.center.distance(place))
    }

    /// The cells that it lies in, in the order in which they are searched: its middle, and those
    /// beside that which it needs.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        let (longitudes, latitudes) = self.spans();
        let mut steps = self.steps();
        let mut middle = self.center.cell(steps);
        let is_wide = |east, north| {
            let (beside_east, beside_north) = middle.beside(east, north).spans();
            match (east, north) {
                (0, 1) => beside_north.greatest < latitudes.greatest,
                (0, _) => beside_north.least > latitudes.least,
                (1, _) => beside_east.greatest < longitudes.greatest,
                _ => beside_east.least > longitudes.least,
            }
        };
        let is_too_wide =
            [(0, 1), (0, -1), (1, 0), (-1, 0)].into_iter().any(|(e, n)| is_wide(e, n));
        if steps > 1 && is_too_wide {
            steps -= 1;
            middle = self.center.cell(steps);
        }
        let (own_longitudes, own_latitudes) = middle.spans();
        let is_needed = move |east: i8, north: i8| {
            let needs = |by: i8, own: DegreeSpan, all: DegreeSpan| match by {
                0 => true,
                1.. => own.greatest <= all.greatest || all.greatest.is_nan(),
                _ => own.least >= all.least || all.least.is_nan(),
            };
            let is_far = needs(east, own_longitudes, longitudes);
            steps < 2 || is_far && needs(north, own_latitudes, latitudes)
        };
        let beside = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let beside = beside.into_iter().filter(move |(east, north)| is_needed(*east, *north));
        let beside = beside.map(move |(east, north)| middle.beside(east, north));
        // Where cells are large, two of these are one.
        let mut last = None;
        let is_new = move |cell: &Cell| last.replace(*cell) != Some(*cell);
        std::iter::once(middle).chain(beside.filter(is_new))
    }

    /// The longitudes and the latitudes that it has.
    fn spans(&self) -> (DegreeSpan, DegreeSpan) {
        let EarthPlace { longitude, latitude } = self.center;
        let (width, height) = match self.shape {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let north = degrees(self.unit * height / RADIUS);
        // The nearer pole is where it has more of them.
        let narrowest = if latitude < 0.0 { latitude - north } else { latitude + north };
        let east = degrees(self.unit * width / RADIUS / radians(narrowest).cos());
        let longitudes = DegreeSpan { least: longitude - east, greatest: longitude + east };
        (longitudes, DegreeSpan { least: latitude - north, greatest: latitude + north })
    }

    /// Halvings of cells that are about as large as it.
    fn steps(&self) -> u32 {
        let mut metres = self.unit
            * match self.shape {
                Shape::Circle(radius) => radius,
                Shape::Box(width, height) => {
                    let [width, height] = [width / 2.0, height / 2.0];
                    (width * width + height * height).sqrt()
                }
            };
        if metres == 0.0 {
            return STEPS;
        }
        let mut steps = -1_i32;
        while metres < FARTHEST {
            metres *= 2.0;
            steps += 1;
        }
        // Cells are narrow near the poles.
        let north = self.center.latitude.abs();
        steps -= i32::from(north > 66.0) + i32::from(north > 80.0);
        steps.clamp(1, STEPS as i32).cast_unsigned()
    }
}
